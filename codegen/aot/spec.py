"""Everything that determines one compiled image, and the key under which it is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from codegen.aot.abi import DTYPE_KEY, DTYPES, Interface, interface
from codegen.aot.sources import Kernel, Sources
from codegen.aot.target import FIXED_OPTIONS, OPTIONS, Target
from txtdb.model.schema import Schema
from txtdb.model.values import Value

# Raised whenever the same spec is compiled in another way.
FORMAT = 1

Pairs = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Spec:
    """What the compiler is given. `source` is the digest of the kernel with the functional's constants folded."""

    module: str
    kernel: str
    source: str
    arguments: tuple[str, ...]
    interface: Interface
    constants: Pairs
    options: Pairs
    target: Target

    def json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    def key(self, compiler: str) -> str:
        """The digest of this spec under a compiler."""
        content = json.dumps({"format": FORMAT, "compiler": compiler, "spec": self.json()}, sort_keys=True)
        return sha256(content.encode()).hexdigest()


def kernel_of(schema: Schema, sources: Sources) -> Kernel | None:
    """The kernel that a schema is about; None where there is none, or one of this name that has other keys."""
    kernel = sources.kernels.get(schema.iface)
    fits = kernel is not None and kernel.constants | {DTYPE_KEY} >= set(schema.key_names)
    return kernel if fits else None


def make_spec(
    sources: Sources, iface: str, keys: Mapping[str, Value], config: Mapping[str, Value], target: Target
) -> Spec | str:
    """The spec of a kernel for key values (fixed and derived ones included) and a config, or why there is none."""
    kernel = sources.kernels.get(iface)
    if kernel is None:
        names = ", ".join(name for name in sorted(sources.kernels) if _launches(sources.kernels[name]))
        return f"there is no kernel `{iface}` in {sources.package}, whose kernels alone are compiled; there are {names}"
    given = {**dict(kernel.defaults), **keys, **config}
    reason = _misfit(kernel, given, config)
    own = interface(kernel, str(given.get(DTYPE_KEY)))
    if reason or isinstance(own, str):
        return f"kernel {iface}: {reason or own}"
    constants = {name: given[name] for name in kernel.arguments if name in kernel.constants}
    known = OPTIONS[target.backend]
    options = {**FIXED_OPTIONS, **{name: value for name, value in config.items() if name in known}}
    return Spec(
        module=kernel.module,
        kernel=kernel.name,
        source=sources.digest(kernel, keys),
        arguments=kernel.arguments,
        interface=own,
        constants=tuple(constants.items()),
        options=tuple(sorted(options.items())),
        target=target,
    )


def _launches(kernel: Kernel) -> bool:
    """Whether images can be made of a kernel; the others are called by these."""
    return isinstance(interface(kernel, DTYPES[0]), Interface)


def _misfit(kernel: Kernel, given: Mapping[str, Value], config: Mapping[str, Value]) -> str:
    """Why values do not fit a kernel; empty where they do."""
    missing = sorted(kernel.constants - given.keys())
    if missing:
        return f"nothing gives a value to {', '.join(missing)}"
    options = frozenset().union(*OPTIONS.values())
    unknown = [name for name in given if name not in kernel.constants and name != DTYPE_KEY]
    useless = [name for name in unknown if name not in config or name not in options]
    return f"it has no constant, and the compiler no option, `{useless[0]}`" if useless else ""
