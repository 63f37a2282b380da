"""Constants folded into a kernel's syntax tree, and the one spelling of a tree that digests are made of.

What folds is what Triton decides at compile time as well: `if`, `and`, `or`, `not`, comparisons and integer arithmetic
over constexpr arguments whose value is known. Everything else stays as it is, so that a tree that folds too little
makes a digest that changes too often, never one that misses a change.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from txtdb.model.values import Value

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.Not: operator.not_, ast.USub: operator.neg}

# Fields of syntax nodes that some Python versions have and others do not, or that say nothing of what runs.
_SILENT = frozenset({"ctx", "type_comment", "type_params", "kind", "returns"})
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def folded(function: ast.FunctionDef, known: Mapping[str, Value]) -> list[ast.stmt]:
    """The body of a function with the values of some arguments put in, and what they rule out left out.

    An argument that the function assigns to is not put in. The function itself is not changed.
    """
    rebound = _rebound(function)
    folder = _Folder({name: value for name, value in known.items() if name not in rebound})
    return folder.block(function.body)


def local_names(function: ast.FunctionDef) -> frozenset[str]:
    """Arguments and assigned names: these hide what the module calls by the same name."""
    return frozenset(_rebound(function) | {argument.arg for argument in arguments(function)})


@lru_cache(maxsize=1024)
def _rebound(function: ast.FunctionDef) -> frozenset[str]:
    """Names that the function assigns to, and arguments of functions inside it."""
    own = set(map(id, arguments(function)))
    names: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and not _is_load(node):
            names.add(node.id)
        elif isinstance(node, ast.arg) and id(node) not in own:
            names.add(node.arg)
    return frozenset(names)


def arguments(function: ast.FunctionDef) -> list[ast.arg]:
    """All named arguments in order."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def spelled(node: object, replace: Callable[[ast.AST], str | None]) -> str:
    """One spelling of a tree, the same in every Python version; positions, docstrings and contexts are left out.

    `replace` gives the text that stands for a node, or None for its own spelling.
    """
    if isinstance(node, ast.AST):
        given = replace(node)
        return _spelled_node(node, replace) if given is None else given
    if isinstance(node, list):
        return f"[{' '.join(spelled(item, replace) for item in node if not _is_idle(item))}]"
    return f"{type(node).__name__}:{node!r}"


def _spelled_node(node: ast.AST, replace: Callable[[ast.AST], str | None]) -> str:
    fields = ((name, getattr(node, name, None)) for name in node._fields if name not in _SILENT)
    texts = (
        f"{name}={spelled(value, replace)}"
        for name, value in fields
        if (value is not None and value != []) or (name == "value" and isinstance(node, ast.Constant))
    )
    return f"({type(node).__name__} {' '.join(texts)})"


def _is_idle(node: object) -> bool:
    """Whether a statement does nothing: `pass`, or a docstring."""
    docstring = (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return docstring or isinstance(node, ast.Pass)


def _is_load(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


class _Folder(ast.NodeVisitor):
    """Builds new trees; those that it visits are not changed."""

    def __init__(self, known: Mapping[str, Value]) -> None:
        self._known = known

    def generic_visit(self, node: ast.AST) -> ast.AST:
        fields = node.__dict__
        return type(node)(**{name: self._rebuilt(fields[name]) for name in node._fields if name in fields})

    def _rebuilt(self, value: object) -> object:
        if isinstance(value, ast.AST):
            return self.visit(value)
        if isinstance(value, list):
            return list(self._flat(value))
        return value

    def _flat(self, items: list[Any]) -> Iterator[Any]:
        for item in items:
            result = self._rebuilt(item)
            yield from result if isinstance(result, list) else [result]

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Statements, folded, up to the one that leaves the block."""
        kept: list[ast.stmt] = []
        for statement in self._flat(statements):
            kept.append(statement)
            if isinstance(statement, _ENDS):
                break
        return kept

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if _is_load(node) and node.id in self._known:
            return ast.Constant(self._known[node.id])
        return node

    def visit_If(self, node: ast.If) -> ast.If | list[ast.stmt]:
        test = self.visit(node.test)
        if isinstance(test, ast.Constant):
            return self.block(node.body if test.value else node.orelse)
        return ast.If(test, self.block(node.body), self.block(node.orelse))

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        test = self.visit(node.test)
        if isinstance(test, ast.Constant):
            return self._visited(node.body if test.value else node.orelse)
        return ast.IfExp(test, self._visited(node.body), self._visited(node.orelse))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        left = [self._visited(value) for value in node.values]
        decisive = isinstance(node.op, ast.Or)
        while len(left) > 1 and isinstance(left[0], ast.Constant):
            if bool(left[0].value) is decisive:
                return left[0]
            left.pop(0)
        return left[0] if len(left) == 1 else ast.BoolOp(node.op, left)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        operand = self._visited(node.operand)
        apply = _UNARY.get(type(node.op))
        if isinstance(operand, ast.Constant) and apply and _is_number(operand):
            return ast.Constant(apply(operand.value))
        return ast.UnaryOp(node.op, operand)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        left, right = self._visited(node.left), self._visited(node.right)
        apply = _BINARY.get(type(node.op))
        if apply and _is_int(left) and _is_int(right) and not (_divides(node.op) and not _value(right)):
            return ast.Constant(apply(_value(left), _value(right)))
        return ast.BinOp(left, node.op, right)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        left, right = self._visited(node.left), [self._visited(item) for item in node.comparators]
        apply = _COMPARE.get(type(node.ops[0]))
        if len(right) == 1 and apply and _comparable(left, right[0]):
            return ast.Constant(apply(_value(left), _value(right[0])))
        return ast.Compare(left, node.ops, right)

    def _visited(self, node: ast.expr) -> ast.expr:
        result = self.visit(node)
        assert isinstance(result, ast.expr)
        return result


def _value(node: ast.expr) -> Any:
    assert isinstance(node, ast.Constant)
    return node.value


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float)


def _is_int(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool | int)


def _comparable(left: ast.expr, right: ast.expr) -> bool:
    numbers = _is_number(left) and _is_number(right)
    return numbers or (isinstance(left, ast.Constant) and isinstance(right, ast.Constant) and _both_text(left, right))


def _both_text(left: ast.Constant, right: ast.Constant) -> bool:
    return isinstance(left.value, str) and isinstance(right.value, str)


def _divides(op: ast.operator) -> bool:
    return isinstance(op, ast.FloorDiv | ast.Mod)
