"""The kernels' Python sources, read without importing them: arguments, and digests of what a functional compiles.

A digest covers the kernel and every function, class and constant of the kernels package that it reaches, as syntax
trees in which the known constants are folded (see `folding`). Comments, docstrings and layout play no part, nor do
functions that are not reached, nor branches that the constants rule out. Which Python and which Triton are installed
plays no part either.

What a name of a module means is read, not run. Where that cannot be told (a star import of the package; a function or
an import of the package below an `if` or `try`), reading raises SyntaxError: a digest that missed a change would let a
stale image pass.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path

from codegen.aot.folding import arguments, folded, local_names, spelled
from txtdb.model.values import Value

PACKAGE = "codegen.kernels"
FOLDER = Path(__file__).parents[1] / "kernels"
DIGEST_DIGITS = 16

Known = tuple[tuple[str, Value], ...]
# A function with what is known of its arguments. The types tell True and 1 apart, which are equal.
_Place = tuple[str, str, tuple[tuple[str, str, Value], ...]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel's place and its arguments in order; `constants` are those that are fixed when it is compiled, and
    `defaults` the values of those that need not be given.
    """

    module: str
    name: str
    arguments: tuple[str, ...]
    constants: frozenset[str]
    defaults: Known


@dataclass(frozen=True, slots=True)
class _Definition:
    """What a name means at the top of a module: nodes of a module of the package, or a name from elsewhere."""

    module: str
    name: str
    nodes: tuple[ast.AST, ...] = ()

    @property
    def function(self) -> ast.FunctionDef | None:
        node = self.nodes[0] if len(self.nodes) == 1 else None
        return node if isinstance(node, ast.FunctionDef) else None


@dataclass(frozen=True)
class _Module:
    definitions: dict[str, list[ast.AST]]
    imports: dict[str, tuple[str, str]]


@dataclass
class Sources:
    """The kernels of one folder. Raises OSError and SyntaxError for files that cannot be read."""

    folder: Path = FOLDER
    package: str = PACKAGE
    _digests: dict[_Place, str] = field(default_factory=dict, repr=False)

    @cached_property
    def _texts(self) -> dict[Path, str]:
        return {path: path.read_text(encoding="utf-8") for path in sorted(self.folder.rglob("*.py"))}

    @cached_property
    def content(self) -> str:
        """The digest of all files as they were read: what a compiler imports must be the same."""
        texts = ((path.relative_to(self.folder).as_posix(), text) for path, text in self._texts.items())
        return sha256(repr(list(texts)).encode()).hexdigest()

    @cached_property
    def _modules(self) -> dict[str, _Module]:
        return {self._module_name(path): self._module(path, text) for path, text in self._texts.items()}

    def _module(self, path: Path, text: str) -> _Module:
        name, module = self._module_name(path), _Module({}, {})
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        reader = _Reader(module, path.name, package, self.package)
        for node in ast.parse(text, path.name).body:
            reader.read(node)
        return module

    def _module_name(self, path: Path) -> str:
        parts = path.relative_to(self.folder).with_suffix("").parts
        return ".".join([self.package, *(part for part in parts if part != "__init__")])

    @cached_property
    def kernels(self) -> dict[str, Kernel]:
        """Every function that is compiled by Triton, by name."""
        found = {}
        for module, content in self._modules.items():
            for name, nodes in content.definitions.items():
                for node in nodes:
                    if isinstance(node, ast.FunctionDef) and any(map(_is_jit, node.decorator_list)):
                        found[name] = _kernel(module, node)
        return found

    def digest(self, kernel: Kernel, given: Mapping[str, Value]) -> str:
        """Hex digits for what a kernel compiles where constants have the given values; other names are ignored."""
        known = {name: value for name, value in given.items() if name in kernel.constants}
        return self._function_digest(self._lookup(kernel.module, kernel.name), known)

    def whole(self, kernel: Kernel) -> str:
        """The digest of a kernel with all that it calls, where no constant is known: `sha256:…`, as evidence has it."""
        return f"sha256:{sha256(self.digest(kernel, {}).encode()).hexdigest()}"

    def _function_digest(self, definition: _Definition, known: Mapping[str, Value]) -> str:
        typed = tuple((name, type(value).__name__, value) for name, value in sorted(known.items()))
        place = definition.module, definition.name, typed
        if place not in self._digests:
            self._digests[place] = f"recursion {definition.name}"
            self._digests[place] = _digest(self._function_text(definition, known))
        return self._digests[place]

    def _function_text(self, definition: _Definition, known: Mapping[str, Value]) -> str:
        function = definition.function
        assert function is not None
        scope = _Scope(self, definition.module, local_names(function))
        left = [
            f"{argument.arg}:{scope.text(argument.annotation)}"
            for argument in arguments(function)
            if argument.arg not in known
        ]
        defaults = [*function.args.defaults, *function.args.kw_defaults]
        parts = [*left, scope.text(defaults), scope.text(function.decorator_list), scope.text(folded(function, known))]
        return "\n".join(parts)

    def _lookup(self, module: str, name: str) -> _Definition:
        """What a name means in a module, followed through imports inside the package."""
        content = self._modules.get(module)
        if content is None:
            return _Definition(module, name)
        if name in content.definitions:
            return _Definition(module, name, tuple(content.definitions[name]))
        if name in content.imports:
            origin, original = content.imports[name]
            inside = f"{origin}.{original}" if f"{origin}.{original}" in self._modules else origin
            return _Definition(inside, "") if inside != origin else self._lookup(origin, original)
        return _Definition("", name)

    def _meaning(self, module: str, node: ast.AST) -> _Definition | None:
        """What a name, or a name of an imported module (`tiles.load_tile`), means in a module."""
        if isinstance(node, ast.Name):
            return self._lookup(module, node.id)
        if isinstance(node, ast.Attribute):
            owner = self._owner(module, node.value)
            return self._lookup(owner, node.attr) if owner else None
        return None

    def _owner(self, module: str, node: ast.AST) -> str | None:
        """The module of the package that a name, or names with dots between them, stand for in a module."""
        found = self._lookup(module, ast.unparse(node)) if isinstance(node, ast.Name | ast.Attribute) else None
        if found and not found.name and found.module in self._modules:
            return found.module
        above = self._owner(module, node.value) if isinstance(node, ast.Attribute) else None
        inside = f"{above}.{node.attr}" if isinstance(node, ast.Attribute) else ""
        return inside if inside in self._modules else None


@dataclass(frozen=True)
class _Scope:
    """Spells trees of one module; names that the package defines are replaced by what they mean."""

    sources: Sources
    module: str
    hidden: frozenset[str] = frozenset()
    around: frozenset[tuple[str, str]] = frozenset()  # what is being spelled out: definitions may name each other

    def text(self, node: object) -> str:
        return spelled(node, self._replacement)

    def _replacement(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Call):
            return self._call(node)
        definition = self._definition(node)
        if definition is None or not definition.nodes:
            outside = definition is not None and definition.module
            return f"(import {definition.module} {definition.name})" if outside and definition else None
        if definition.function:
            return f"(function {self.sources._function_digest(definition, {})})"
        place = definition.module, definition.name
        if place in self.around:
            return None
        inner = _Scope(self.sources, definition.module, around=self.around | {place})
        return "(defined " + " ".join(inner.text(item) for item in definition.nodes) + ")"

    def _definition(self, node: ast.AST) -> _Definition | None:
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in self.hidden:
            return None
        return self.sources._meaning(self.module, node)

    def _call(self, node: ast.Call) -> str | None:
        """A call of a function of the package: its digest with the constants that the call hands over."""
        definition = self._definition(node.func)
        function = definition.function if definition else None
        bound = _bound(function, node) if function else None
        if definition is None or function is None or bound is None:
            return None
        constant = {argument.arg for argument in arguments(function) if _is_constexpr(argument)}
        plain = {name: _plain(value) for name, value in bound.items() if name in constant}
        known = {name: value for name, value in plain.items() if value is not None}
        rest = " ".join(f"{name}={self.text(value)}" for name, value in bound.items() if name not in known)
        return f"(call {self.sources._function_digest(definition, known)} {rest})"


@cache
def sources() -> Sources:
    """The kernels of this package."""
    return Sources()


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the statements of a module into its definitions and imports."""

    module: _Module
    file: str
    package: str  # of the module
    root: str  # the package whose names are followed

    def read(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self._define(node.name, node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if node.value is not None:
                self._define(node.target.id, node.value)
        elif isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
            for target in node.targets:
                assert isinstance(target, ast.Name)
                self._define(target.id, node.value)
        elif isinstance(node, ast.ImportFrom):
            self._import_from(node)
        elif isinstance(node, ast.Import):
            for item in node.names:
                self._import(item)
        else:
            self._whole(node)

    def _define(self, name: str, node: ast.AST) -> None:
        self.module.definitions.setdefault(name, []).append(node)

    def _import_from(self, node: ast.ImportFrom) -> None:
        origin = _origin(node, self.package)
        if self._is_own(origin) and node.names[0].name == "*":
            raise self._unreadable(node, "names of the package are imported one by one")
        self.module.imports.update({name.asname or name.name: (origin, name.name) for name in node.names})

    def _import(self, item: ast.alias) -> None:
        """`import a.b` makes `a` and `a.b` known, `import a.b as c` only `c`."""
        origin, _, last = item.name.rpartition(".")
        self.module.imports[item.asname or item.name] = origin, last
        while origin and not item.asname:
            name, (origin, _, last) = origin, origin.rpartition(".")
            self.module.imports.setdefault(name, (origin, last))

    def _whole(self, node: ast.stmt) -> None:
        """A statement that sets names in another way: each of them means all of it."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
                self._define(part.id, node)
            if isinstance(part, ast.FunctionDef | ast.ClassDef) or self._is_import_of_own(part):
                raise self._unreadable(part, "what kernels use is defined and imported at the top of a module")

    def _is_import_of_own(self, node: ast.AST) -> bool:
        if isinstance(node, ast.ImportFrom):
            return self._is_own(_origin(node, self.package))
        return isinstance(node, ast.Import) and any(self._is_own(item.name) for item in node.names)

    def _is_own(self, module: str) -> bool:
        return f"{module}.".startswith(f"{self.root}.")

    def _unreadable(self, node: ast.AST, message: str) -> SyntaxError:
        return SyntaxError(message, (self.file, getattr(node, "lineno", None), None, None))


def _origin(node: ast.ImportFrom, package: str) -> str:
    """The module that `from … import` names, with leading dots resolved."""
    parts = package.split(".")
    base = parts[: len(parts) - (node.level - 1)] if node.level else []
    return ".".join([*base, *([node.module] if node.module else [])])


def _kernel(module: str, node: ast.FunctionDef) -> Kernel:
    given = arguments(node)
    names = tuple(argument.arg for argument in given)
    constants = frozenset(argument.arg for argument in given if _is_constexpr(argument))
    defaults = {name: value for name, item in _defaults(node).items() if (value := _plain(item)) is not None}
    return Kernel(module, node.name, names, constants, tuple(defaults.items()))


def _defaults(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """Argument name → its default."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    own = function.args.defaults
    keywords = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    found = dict(zip(names[len(names) - len(own) :], own, strict=True))
    return found | {argument.arg: value for argument, value in keywords if value is not None}


def _plain(node: ast.expr) -> Value | None:
    """The value that a literal of one of the value types writes."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, bool | int | str) else None


def _is_constexpr(argument: ast.arg) -> bool:
    return argument.annotation is not None and ast.unparse(argument.annotation).endswith("constexpr")


def _is_jit(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(target).rpartition(".")[2] == "jit"


def _bound(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr] | None:
    """Argument name → expression of a call, defaults included; None where the call does not show it."""
    if any(isinstance(item, ast.Starred) for item in call.args) or any(item.arg is None for item in call.keywords):
        return None
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    given = dict(zip(names, call.args, strict=False))
    given.update({item.arg: item.value for item in call.keywords if item.arg})
    return {**{name: value for name, value in _defaults(function).items() if name not in given}, **given}
