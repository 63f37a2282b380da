"""Which images the tables of a checked database ask for, and what their resource files know of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from codegen.aot.resources import RULE, Block, ResourceFile, read_resources
from codegen.aot.sources import Sources
from codegen.aot.spec import kernel_of
from codegen.aot.target import target_of
from codegen.names import binary_values
from txtdb.check.context import Context, Place
from txtdb.check.finding import CellRef
from txtdb.faults import Fault, Span
from txtdb.layers.listing import RESOURCES_SUFFIX, Listing
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.archs import keeps_resources
from txtdb.model.schema import ArchSchema, Schema
from txtdb.model.table import Cells, ConfigValues
from txtdb.model.values import Functional, Value, functional_rank, print_values


@dataclass(frozen=True, eq=False)
class Use:
    """One image that a table asks for. `config` holds the fields that change the binary.

    `mask` marks its cells on the grid of `bins`, and has no axes for an interface without them.
    """

    schema: Schema
    functional: Functional
    config: ConfigValues
    bins: tuple[tuple[int, ...], ...]
    mask: npt.NDArray[np.bool_]

    @cached_property
    def functional_text(self) -> str:
        """As resource files spell it."""
        return print_values(self.functional)

    @cached_property
    def config_text(self) -> str:
        """As resource files spell it."""
        return print_values(self.config)

    def cells(self) -> tuple[CellRef, ...]:
        """Its cells, in grid order."""
        keys = tuple(zip(self.schema.key_names, self.functional, strict=True))
        places = np.argwhere(self.mask).tolist()
        return tuple(CellRef(keys, tuple(own[p] for own, p in zip(self.bins, at, strict=True))) for at in places)


@dataclass
class Images:
    """The images of all tables that can be judged."""

    context: Context
    kernels: Sources
    faults: list[tuple[Place, Fault]] = field(default_factory=list)

    @cached_property
    def files(self) -> dict[Place, list[ResourceFile]]:
        """The resource files of each place, those of the highest root first; what is wrong with any is in `faults`."""
        found: dict[Place, list[ResourceFile]] = {}
        for listing in reversed(self.context.database.listings):
            for place in sorted(listing.resources):
                content, faults = _read(listing, place)
                self.faults += [(place, fault) for fault in faults]
                if content:
                    found.setdefault(place, []).append(content)
        return found

    @cached_property
    def archs(self) -> frozenset[str]:
        """Archs whose images are on record: those with a resource file, and those that inherit from them."""
        own = {arch for listing in self.context.database.listings for arch, _ in listing.resources}
        heirs = (heirs for (base, _), heirs in self.context.heirs.items() if base in own)
        return frozenset(own.union(*heirs)) & self.context.database.archs.keys()

    @cached_property
    def _keeps(self) -> bool:
        """Whether the database keeps resource files: it has one, or says so."""
        root = self.context.database.listings[0]
        return bool(root.resources) or (root.archs_file is not None and _says_so(root.archs_file))

    def _is_wanted(self, arch: str, schema: Schema) -> bool:
        """Whether a kernel has to be on record on an arch: where it is, where others are, and where it can be compiled.

        Those of other packages are compiled elsewhere, and nothing here could put them on record.
        """
        if any((arch, schema.iface) in listing.resources for listing in self.context.database.listings):
            return True
        if not kernel_of(schema, self.kernels):
            return False
        return arch in self.archs or (self._keeps and target_of(self.context.database.archs[arch]) is not None)

    @cached_property
    def uses(self) -> dict[Place, list[Use]]:
        """For each kernel interface that has to be on record: the images that its lookups can ask for, in order."""
        database = self.context.database
        kernels = [schema for _, schema in sorted(database.schemas.items()) if schema.kind != "operator"]
        places = [(arch, schema) for schema in kernels for arch in sorted(database.archs)]
        return {
            (arch, schema.iface): list(self._uses(arch_schema))
            for arch, schema in places
            if (arch_schema := schema.for_arch(arch)) and self._is_wanted(arch, schema)
        }

    def blocks(self, place: Place, functional: str) -> Iterator[tuple[ResourceFile, Block]]:
        """The blocks of a functional, those of the highest root first."""
        return ((file, file.blocks[functional]) for file in self.files.get(place, ()) if functional in file.blocks)

    def file_name(self, place: Place) -> str:
        """The resource file of a place as spans carry it: the one that is there, or where it would lie."""
        files = self.files.get(place)
        arch, iface = place
        return files[0].file if files else f"{self.context.database.listings[0].label}/{arch}/{iface}{RESOURCES_SUFFIX}"

    def _uses(self, arch_schema: ArchSchema) -> Iterator[Use]:
        schema = arch_schema.schema
        functionals = sorted(arch_schema.supported, key=functional_rank)
        if schema.kind == "fixed":
            assert schema.fixed_config is not None, "the schema reader has seen to it"
            config = binary_values(schema, schema.fixed_config)
            yield from (Use(schema, functional, config, (), np.array(True)) for functional in functionals)
            return
        view = self.context.view((arch_schema.section.arch, schema.iface))
        for functional in functionals if view else ():
            assert view is not None
            yield from _table_uses(view.table, functional)


def _table_uses(table: ResolvedTable, functional: Functional) -> Iterator[Use]:
    grid: Cells = table.effective(functional)
    numbers: dict[tuple[Value, ...], list[int]] = {}
    for number in np.unique(grid).tolist():
        if number >= 0:
            numbers.setdefault(binary_values(table.schema, table.pool[number]), []).append(number)
    for config, same in numbers.items():
        mask = grid == same[0] if len(same) == 1 else np.isin(grid, same)
        yield Use(table.schema, functional, config, table.bins, mask)


def _says_so(archs_file: Path) -> bool:
    try:
        return keeps_resources(archs_file.read_bytes())
    except OSError:
        return False  # a finding already


def _read(listing: Listing, place: Place) -> tuple[ResourceFile | None, list[Fault]]:
    path = listing.resources[place]
    shown = listing.shown(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        return None, [Fault(RULE, Span(shown), f"the file cannot be read: {error.strerror}", "change its permissions")]
    content, faults = read_resources(data, shown)
    if content and (content.arch, content.iface) != place:
        message = f"the file lies under {place[0]} {place[1]} and says {content.arch} {content.iface}"
        return None, [*faults, Fault(RULE, Span(shown, 1, 1, 1, 1), message, "move the file, or correct its header")]
    return content, faults
