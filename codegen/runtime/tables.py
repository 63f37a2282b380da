"""Generated dispatch tables (the folder `python` that `txtdb codegen` writes), asked for one arch."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from codegen.runtime.faults import LaunchFault, NoKernel, Unsupported

# The axes of all interfaces, in the order of the sizes of a problem.
AXES = ("Max_seqlen_q", "Max_seqlen_k")

Values = Mapping[str, Any]
Sizes = tuple[int, int]


@dataclass(frozen=True)
class Table:
    """One interface. `arguments` are those that its lookup takes, `keys` those that its image names are made of."""

    module: Any
    arguments: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def has_images(self) -> bool:
        """Whether it is a kernel; an operator has none."""
        return hasattr(self.module, "image_name")


class Tables:
    """All interfaces of an arch. `arch` is as the tables call it."""

    def __init__(self, package: Any, arch: str) -> None:
        """Raises LaunchFault for an unknown arch."""
        try:
            self.arch = str(package.find_arch(arch))
        except package.LookupFault as error:
            raise LaunchFault("unknown-arch", package.__name__, str(error)) from error
        self._tables = {iface: _table(import_module(f"{package.__name__}.{iface}")) for iface in package.IFACES}

    @property
    def digests(self) -> dict[str, str]:
        """Kernel interfaces that have a table of the arch → the digest of it."""
        own = {name: table.module for name, table in self._tables.items() if table.has_images}
        return {name: module.inputs_digest(self.arch) for name, module in own.items() if self.arch in module.ARCHS}

    def answer(self, iface: str, functional: Values, sizes: Sizes) -> Any:
        """What the table says: a config, or the reason why there is none (`no kernel`, `unsupported`) as a text."""
        table = self._tables.get(iface)
        if table is None:
            return "unsupported"
        given = {**functional, AXES[0]: sizes[0], AXES[1]: sizes[1]}
        try:
            found = table.module.lookup(self.arch, **{name: given[name] for name in table.arguments if name in given})
        except table.module.LookupFault:
            return "unsupported"  # a data type that the schema does not list
        return str(found.value) if isinstance(found, table.module.Absent) else found

    def config(self, iface: str, functional: Values, sizes: Sizes) -> Any:
        """The config for a problem. Raises NoKernel or Unsupported where there is none."""
        found = self.answer(iface, functional, sizes)
        if not isinstance(found, str):
            return found
        spelled = " ".join(f"{name}={value}" for name, value in functional.items())
        problem = f"{spelled} at {sizes[0]} x {sizes[1]}"
        if found == "unsupported":
            hint = "take another implementation, or add it to the schema and tune it"
            raise Unsupported("unsupported", f"{self.arch}/{iface}", f"the tables do not support {problem}", hint)
        hint = "tune the cell, generate the tables and build the pack again"
        raise NoKernel("no-kernel", f"{self.arch}/{iface}", f"the table has no config for {problem}", hint)

    def image_name(self, iface: str, config: Any, functional: Values) -> str:
        """The name of the image for a problem and a config that a lookup gave."""
        table = self._tables[iface]
        return str(table.module.image_name(config, **{name: functional[name] for name in table.keys}))


def _table(module: Any) -> Table:
    arguments = tuple(signature(module.lookup).parameters)[1:]
    keys = tuple(signature(module.image_name).parameters)[1:] if hasattr(module, "image_name") else ()
    return Table(module, arguments, keys)


def load_tables(folder: Path) -> ModuleType:
    """The package in a folder, wherever it lies. Raises LaunchFault where there is none."""
    file = folder / "__init__.py"
    if not file.is_file():
        hint = "give the folder `python` that `txtdb codegen` wrote"
        raise LaunchFault("no-tables", folder.as_posix(), "there are no generated tables", hint)
    name = f"txtdb_tables_{sha256(str(folder.resolve()).encode()).hexdigest()[:16]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=[str(folder)])
        assert spec is not None and spec.loader is not None, "the file ends in .py"
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]
