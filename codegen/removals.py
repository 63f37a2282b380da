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
    made = {(unit.arch, unit.iface) for unit in generated.units}
    gone = {(arch, iface) for arch, _, iface in (name.partition("/") for name in old.units)} - made
    there = gone & set(database.places())
    archs = {arch for arch, _ in there if options.archs and arch not in options.archs}
    yield from _left_out("arch", archs)
    yield from _left_out("iface", {iface for arch, iface in there if arch not in archs})
    if gone - there:
        names = ", ".join(sorted("/".join(place) for place in gone - there))
        yield f"removed: the files of {names}, for which the database has no tables any more"
    langs = {path.partition("/")[0] for path in old.files if "/" in path}
    yield from _left_out("lang", langs - {_MANIFEST, *options.langs})


def _left_out(option: str, names: Collection[str]) -> Iterator[str]:
    if names:
        yield f"removed: the files of {', '.join(sorted(names))}, which --{option} leaves out; {_KEEP}"
