"""An override that changes nothing is a mistake that nobody would see in the output: it is a fault."""

from __future__ import annotations

from collections.abc import Iterator

from txtdb.faults import Fault, Span
from txtdb.layers.database import Database
from txtdb.layers.listing import LayerFile, Listing
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.table import FileTable, functional_text

RULE = "override-without-effect"


def overlay_faults(database: Database) -> list[Fault]:
    """Files of overlays that no table uses, and overlays without any layer."""
    return [fault for listing in database.listings[1:] for fault in _overlay_faults(database, listing)]


def block_faults(resolved: ResolvedTable) -> list[Fault]:
    """Blocks of the arch's own patches and overlays whose functional does not exist: no lookup would ever see them."""
    faults = []
    for layer in resolved.layers:
        is_override = layer.kind == "patch" or (layer.kind == "table" and layer.root > 0)
        if not is_override or layer.arch != resolved.arch or not isinstance(layer.table, FileTable):
            continue
        for number, functional in enumerate(layer.table.functionals):
            if not resolved.arch_schema.supports(functional):
                text = functional_text(resolved.schema, functional)
                message = f"matches nothing: {resolved.iface} has no {text} on {resolved.arch}"
                faults.append(Fault(RULE, layer.table.block_span(number), message, "correct its values, or remove it"))
    return faults


def _overlay_faults(database: Database, listing: Listing) -> Iterator[Fault]:
    files = list(listing.layer_files())
    if not files and not listing.pins:
        yield Fault(RULE, Span(listing.label), "the overlay holds no tables, patches or pins", "name its folder")
    yield from _unread_faults(database, listing)
    for path in listing.strays:
        yield Fault(RULE, Span(listing.shown(path)), "no layer uses this file", "remove it, or correct its name")
    for file in files:
        if not _is_used(database, file):
            message = f"there is no {file.iface} on {file.arch}"
            yield Fault(RULE, Span(file.display), message, "correct the name of the file or its folder")
    for arch, path in listing.pins.items():
        if arch not in database.archs:
            yield Fault(RULE, Span(listing.shown(path)), f"there is no arch {arch}", "correct the name of the folder")


def _unread_faults(database: Database, listing: Listing) -> Iterator[Fault]:
    """Arch facts and schemas of an overlay are not read: they must say what those of the database say."""
    own = database.listings[0]
    pairs = [(path, own.schemas.get(iface)) for iface, path in listing.schemas.items()]
    pairs += [(listing.archs_file, own.archs_file)] if listing.archs_file else []
    for path, model in pairs:
        if model is None or path.read_bytes() != model.read_bytes():
            message = "not read: schemas and arch facts are those of the database, and this file differs"
            yield Fault(RULE, Span(listing.shown(path)), message, "change the file of the database, or remove this one")


def _is_used(database: Database, file: LayerFile) -> bool:
    schema = database.schemas.get(file.iface)
    tuned = schema is not None and schema.kind != "fixed" and schema.for_arch(file.arch) is not None
    return tuned and file.arch in database.archs
