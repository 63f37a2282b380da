"""What `txtdb codegen` tells: faults, tables, files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from codegen.generate import Generated
from codegen.output import Written
from txtdb.cli.common import fault_json, print_faults, print_json
from txtdb.model.schema import Schema


def print_report(
    generated: Generated,
    outcome: Written | None,
    schemas: Mapping[str, Schema],
    check: bool,
    style: str,
    notes: Iterable[str] = (),
) -> None:
    """Print the report. `outcome` is None where faults kept everything from being written; `notes` go to stderr."""
    for note in notes:
        click.echo(note, err=True)
    if style == "json":
        print_json(_report(generated, outcome, schemas))
        return
    print_faults(generated.faults)
    for line in _lines(generated, outcome, check):
        click.echo(line)


def _lines(generated: Generated, outcome: Written | None, check: bool) -> Iterator[str]:
    if outcome is None:
        yield f"nothing was written: {_count(len(generated.faults), 'fault')}"
        return
    for file, tables in _overlays(generated).items():
        yield f"overlay {file}: {', '.join(tables)}"
    for unit in generated.units:
        if unit.record.holes:
            yield f"{unit.arch} {unit.iface}: {_count(unit.record.holes, 'cell')} without a config: `no kernel`"
    counts = _counts(generated)
    yield (
        f"{_count(counts['tables'], 'table')} of {_count(counts['archs'], 'arch')} and "
        f"{_count(counts['ifaces'], 'interface')}, {counts['reused']} of them taken over as they were; "
        f"{_count(counts['images'], 'kernel image')}"
    )
    if check:
        yield from (f"differs: {path}" for path in outcome.written)
        yield from (f"no longer generated: {path}" for path in outcome.removed)
        wrong = len(outcome.written) + len(outcome.removed)
        yield f"{_count(wrong, 'file')} not up to date, {outcome.unchanged} up to date"
    else:
        written, removed = _count(len(outcome.written), "file"), len(outcome.removed)
        yield f"{written} written, {outcome.unchanged} unchanged, {removed} removed"


def _report(generated: Generated, outcome: Written | None, schemas: Mapping[str, Schema]) -> dict[str, Any]:
    tables = [
        {
            "arch": unit.arch,
            "iface": unit.iface,
            "reused": unit.reused,
            "inputs": unit.record.inputs,
            "functionals": unit.record.functionals,
            "configs": unit.record.configs,
            "images": unit.record.images,
            "holes": unit.record.holes,
            "layers": list(unit.layers),
        }
        for unit in generated.units
    ]
    holes = [
        {
            "arch": arch,
            "iface": iface,
            "functional": schemas[iface].functional_dict(hole.functional),
            "at": list(hole.bins),
        }
        for (arch, iface), found in generated.holes.items()
        for hole in found
    ]
    return {
        "faults": [fault_json(fault) for fault in generated.faults],
        "tables": tables,
        "holes": holes,
        "written": list(outcome.written) if outcome else [],
        "removed": list(outcome.removed) if outcome else [],
        "unchanged": outcome.unchanged if outcome else 0,
        "counts": _counts(generated),
    }


def _counts(generated: Generated) -> dict[str, int]:
    units = generated.units
    return {
        "archs": len({unit.arch for unit in units}),
        "ifaces": len({unit.iface for unit in units}),
        "tables": len(units),
        "reused": sum(unit.reused for unit in units),
        "images": sum(unit.record.images for unit in units),
        "holes": sum(unit.record.holes for unit in units),
    }


def _overlays(generated: Generated) -> dict[str, list[str]]:
    """Each overlay file with the tables that it is a layer of, bases included."""
    found: dict[str, list[str]] = {}
    for unit in generated.units:
        for file in unit.overlays:
            found.setdefault(file, []).append(f"{unit.arch} {unit.iface}")
    return found


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
