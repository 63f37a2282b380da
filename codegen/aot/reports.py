"""What the `txtdb aot` commands tell, as lines and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from codegen.aot.build import Build, BuiltTable
from codegen.aot.pack import Pack
from codegen.aot.pack_manifest import PackedImage, PackedTable
from codegen.aot.reassign import Replaced
from codegen.aot.result import OK
from codegen.aot.wording import counted
from txtdb.cli.common import fault_json


@dataclass(frozen=True, slots=True)
class Effort:
    """How a build was made: `jobs` processes, `seconds` from start to end."""

    jobs: int
    seconds: float


def build_json(build: Build, effort: Effort, pack: Path | None) -> dict[str, Any]:
    """The report of a build. `pack` is what was written, None where faults forbade it."""
    return {
        "pack": pack.as_posix() if pack else None,
        "faults": [fault_json(fault) for fault in build.faults],
        "statuses": build.statuses,
        "images": sum(len(table.results) for table in build.tables),
        "distinct": len(build.compilation.results),
        "compiled": build.compilation.fresh,
        "compiler_seconds": round(build.compilation.seconds, 1),
        "seconds": round(effort.seconds, 1),
        "jobs": effort.jobs,
        "replaced": [_replaced_json(table, item) for table in build.tables for item in table.replaced],
    }


def build_lines(build: Build, effort: Effort, pack: Path | None) -> Iterator[str]:
    """The report of a build for people."""
    for table in build.tables:
        for item in table.replaced:
            yield f"{table.plan.place}: {item.wanted.name}: {item.result.status} {_reason(item)}".rstrip()
            yield f"    {_moved(len(item.cells))} to {item.by.name}: {_bins(item)}"
    counts = ", ".join(f"{number} {status}" for status, number in build.statuses.items())
    yield f"images: {counts}"
    fresh, seconds = build.compilation.fresh, build.compilation.seconds
    rate = f", {fresh / seconds:.2f} a second and process" if seconds and build.statuses.get(OK) else ""
    distinct = counted(len(build.compilation.results), "different compilation")
    yield f"{distinct}, {fresh} made now in {effort.seconds:.1f} s by {effort.jobs}{rate}"
    size = f", {pack.stat().st_size} bytes" if pack and pack.is_file() else ""  # not of a pipe
    yield f"written: {pack}{size}" if pack else "nothing was written"


def _reason(item: Replaced) -> str:
    """The last line of what the compiler said: the one with the reason."""
    lines = item.result.detail.strip().splitlines()
    return f"({lines[-1].strip()})" if lines else ""


def _bins(item: Replaced) -> str:
    return " ".join(",".join(map(str, cell)) for cell in item.cells)


def _replaced_json(table: BuiltTable, item: Replaced) -> dict[str, Any]:
    return {
        "arch": table.plan.arch,
        "iface": table.plan.schema.iface,
        "image": item.wanted.name,
        "by": item.by.name,
        "status": item.result.status,
        "detail": item.result.detail,
        "functional": table.plan.schema.functional_dict(item.wanted.functional),
        "cells": [list(cell) for cell in item.cells],
    }


def list_json(pack: Pack) -> list[dict[str, Any]]:
    """Every image of a pack."""
    return [_image_json(place, table, image) for place, table, image in _images(pack)]


def list_lines(pack: Pack) -> Iterator[str]:
    """Every image of a pack, and what stands in for those that could not be built."""
    for place, _, image in _images(pack):
        own = image.binary.resources
        needs = (counted(own.registers, "register"), counted(own.spills, "spill"), f"{own.shared} bytes shared")
        size = f"{image.binary.size} bytes, {counted(image.binary.warps, 'warp')}"
        yield f"{place} {image.name}: {size}, {', '.join(needs)}, occupancy {own.occupancy}"
    for place, table in sorted(pack.manifest.tables.items()):
        for item in table.replaced.values():
            yield f"{place} {item.name}: {item.status}; {_moved(len(item.cells))} to {item.by}"


def sound_text(replaced: int) -> str:
    """That nothing is wrong with a pack, and how many of its images others stand in for."""
    count = f"{counted(replaced, 'image')} {'was' if replaced == 1 else 'were'}"
    return f"sound; {count} not built, and {'is' if replaced == 1 else 'are'} replaced" if replaced else "sound"


def _moved(cells: int) -> str:
    return f"{counted(cells, 'cell')} {'goes' if cells == 1 else 'go'}"


def _images(pack: Pack) -> Iterator[tuple[str, PackedTable, PackedImage]]:
    for place, table in sorted(pack.manifest.tables.items()):
        yield from ((place, table, table.images[name]) for name in sorted(table.images))


def _image_json(place: str, table: PackedTable, image: PackedImage) -> dict[str, Any]:
    arch, _, iface = place.partition("/")
    return {
        "arch": arch,
        "iface": iface,
        "name": image.name,
        "functional": dict(zip(table.keys, image.origin.functional, strict=True)),
        "config": table.config(image),
        "source": image.origin.source,
        "compiler": image.origin.compiler,
        "file": image.file,
        "arguments": [list(argument) for argument in image.signature.arguments],
        "fixed": dict(image.signature.fixed),
        **asdict(image.binary),
    }


def stats_json(pack: Pack) -> dict[str, Any]:
    """How many images a pack has, how many are different, and how large they are."""
    images = [image for _, _, image in _images(pack)]
    sizes = {image.file: image.binary.size for image in images}
    return {
        "tables": {
            place: {"digest": table.digest, "images": len(table.images), "replaced": len(table.replaced)}
            for place, table in sorted(pack.manifest.tables.items())
        },
        "images": len(images),
        "files": len(sizes),
        "dedup_ratio": round(len(images) / len(sizes), 3) if sizes else 1.0,
        "image_bytes": sum(image.binary.size for image in images),
        "file_bytes": sum(sizes.values()),
        "pack_bytes": pack.path.stat().st_size,
        "compilers": sorted({image.origin.compiler for image in images}),
    }


def stats_lines(stats: dict[str, Any]) -> Iterator[str]:
    """The same for people."""
    for place, own in stats["tables"].items():
        yield f"{place}: {counted(own['images'], 'image')}, {own['replaced']} replaced, table {own['digest']}"
    both = f"{counted(stats['images'], 'image')} in {counted(stats['files'], 'file')}"
    yield f"{both}: {stats['dedup_ratio']} images a file"
    yield f"{stats['image_bytes']} bytes as images, {stats['file_bytes']} as files, {stats['pack_bytes']} in the pack"
    yield f"compiled by {', '.join(stats['compilers'])}"
