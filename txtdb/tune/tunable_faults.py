"""What is wrong with the code of a tunable, told with its place: nobody reads a traceback of the tuner for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from traceback import walk_tb
from typing import Any

from txtdb.faults import Fault, Span

# What the extra `tune` brings.
_OWN_NEEDS = ("torch", "triton", "scipy", "pynvml")
# Members of a tunable that are values; the others are called.
VALUES = ("iface", "asks", "restored", "zeroed")


class TunableFault(Exception):
    """The code that a package offers as a tunable cannot be used. `span` is its place, as far as that is known."""

    def __init__(self, message: str, span: Span, hint: str = "") -> None:
        super().__init__(message)
        self.span, self.hint = span, hint

    def fault(self) -> Fault:
        """The same as a value."""
        return Fault("tunable", self.span, str(self), self.hint)


def lacks_own_need(error: ImportError) -> bool:
    """Whether an import failed because something is missing that txtdb's extras would bring."""
    name = (error.name or "").partition(".")[0]
    return name in _OWN_NEEDS and find_spec(name) is None


def asked(tunable: Any, member: str, *given: Any) -> Any:
    """A value of a tunable, or what a method gives. Raises TunableFault for whatever it raises."""
    with _told(tunable, member):
        found = getattr(tunable, member)
        return found if member in VALUES else found(*given)


def asked_items(tunable: Any, member: str, kind: type, what: str, *given: Any) -> list[Any]:
    """The same of a member that gives several things of a kind, by a generator too; `what` names them."""
    found = asked(tunable, member, *given)
    if isinstance(found, str | Mapping) or not hasattr(found, "__iter__"):
        raise wrong_value(tunable, member, found, what)
    with _told(tunable, member):
        items = list(found)
    for item in items:
        if not isinstance(item, kind):
            raise wrong_value(tunable, member, item, f"only {what}")
    return items


@contextmanager
def _told(tunable: Any, member: str) -> Iterator[None]:
    try:
        yield
    except (Exception, SystemExit) as error:  # it is code of others
        place = _frame(error, _package(type(tunable).__module__)) or _defined(tunable, member)
        raise TunableFault(f"{_called(tunable, member)} raised {raised(error)}", place) from error


def wrong_value(tunable: Any, member: str, found: object, wanted: str) -> TunableFault:
    """The fault of a member that gives something else than what is wanted."""
    text = f"{_called(tunable, member)} gave {_short(found)}, not {wanted}"
    return TunableFault(text, _defined(tunable, member), "see docs/tunables.md")


def unusable(tunable: Any, member: str, message: str) -> TunableFault:
    """The fault of a member that gives what cannot be used."""
    return TunableFault(f"{_called(tunable, member)} {message}", _defined(tunable, member), "see docs/tunables.md")


def not_loaded(iface: str, value: str, error: BaseException) -> TunableFault:
    """The fault of an entry point whose module cannot be imported, or whose function raises."""
    module = value.partition(":")[0].strip()
    text = f"the tunable of {iface} (entry point {iface} = {value}) cannot be loaded: {raised(error)}"
    span = _frame(error, _package(module)) or Span(value)
    hint = f"mend {module}, or install what it needs" if isinstance(error, ImportError) else ""
    return TunableFault(text, span, hint)


def raised(error: BaseException) -> str:
    """`ZeroDivisionError: division by zero`, in one line."""
    return f"{type(error).__name__}: {_line_of(str, error)}".removesuffix(": ")


def lines_passed(error: BaseException) -> list[tuple[str, int]]:
    """Module and line of all code that an error passed, the innermost last."""
    return [(frame.f_globals.get("__name__", ""), line) for frame, line in walk_tb(error.__traceback__)]


def _called(tunable: Any, member: str) -> str:
    iface = _line_of(lambda own: str(own.iface), tunable)
    return f"the tunable of {iface}: {member}{'' if member in VALUES else '(…)'}"


def _short(value: object, length: int = 80) -> str:
    text = _line_of(repr, value)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _line_of(spell: Callable[[Any], str], value: Any) -> str:
    """A value in one line, or its type: how it is spelled is code of others as well."""
    try:
        return " ".join(spell(value).split())
    except Exception:
        return type(value).__name__


def _package(module: str) -> str:
    return module.strip().partition(".")[0]


def _frame(error: BaseException, package: str) -> Span | None:
    """The innermost line of a package that an error passed; for what is no Python, the line that says so."""
    if isinstance(error, SyntaxError) and error.filename:
        return _line(error.filename, error.lineno or 0)
    frames = [(frame.f_globals.get("__name__", ""), frame, line) for frame, line in walk_tb(error.__traceback__)]
    own = [(frame.f_code.co_filename, line) for name, frame, line in frames if _package(name) == package]
    return _line(*own[-1]) if own else None


def _defined(tunable: Any, member: str) -> Span:
    """Where a member is written; where that is not known, its class."""
    kind = type(tunable)
    found = inspect.unwrap(getattr(kind, member, None) or kind)
    found = found.fget if isinstance(found, property) else found
    code = getattr(found, "__code__", None)
    return _line(code.co_filename, code.co_firstlineno) if code else Span(f"{kind.__module__}:{kind.__qualname__}")


def _line(file: str, line: int) -> Span:
    return Span(file, line, 1, line, 1) if line else Span(file)
