"""Why a run takes generated files away: what an earlier one was asked for and this one is not."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from codegen.generate import Generated, Options
from codegen.index import Index
from txtdb.layers.database import Database

_MANIFEST = "manifest"
_KEEP = "to keep them, give each choice its own --out"


def removal_lines(old: Index | None, generated: Generated, options: Options, database: Database) -> Iterator[str]:
    """A line for each option that leaves out what is removed, and for what the database has no longer."""
    if old is None:
        return
    before = [name.partition("/")[::2] for name in old.units]
    archs = {arch for arch, _ in before} - {unit.arch for unit in generated.units}
    ifaces = {iface for _, iface in before} - {unit.iface for unit in generated.units}
    yield from _lines("arch", archs, options.archs, database.archs)
    yield from _lines("iface", ifaces, options.ifaces, database.schemas)
    langs = {path.partition("/")[0] for path in old.files if "/" in path} - {_MANIFEST, *options.langs}
    yield from _lines("lang", langs, options.langs, langs)


def _lines(option: str, gone: Collection[str], chosen: Collection[str], known: Collection[str]) -> Iterator[str]:
    left_out = sorted(name for name in gone if chosen and name in known)
    dropped = sorted(set(gone) - set(left_out))
    if left_out:
        yield f"removed: the files of {', '.join(left_out)}, which --{option} leaves out; {_KEEP}"
    if dropped:
        yield f"removed: the files of {', '.join(dropped)}, for which the database has no tables any more"
