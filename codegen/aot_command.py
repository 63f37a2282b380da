"""`txtdb aot`: kernel images, compiled ahead of time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from codegen.aot.build import DEFAULT_LIMIT_S, Build, Workshop, build
from codegen.aot.checking import pack_faults
from codegen.aot.folder import BuildFolder
from codegen.aot.pack import Pack, read_pack, verify_pack
from codegen.aot.pack_file import begins_pack
from codegen.aot.pack_writing import pack_manifest, write_pack
from codegen.aot.plan import TablePlan, make_plans
from codegen.aot.pool import CompilerMissing, SourcesChanged
from codegen.aot.recording import record
from codegen.aot.reports import (
    Effort,
    build_json,
    build_lines,
    list_json,
    list_lines,
    sound_text,
    stats_json,
    stats_lines,
)
from codegen.aot.sources import sources
from codegen.aot.wording import counted
from codegen.aot_progress import shown_progress
from txtdb.cli.common import (
    EXIT_FINDINGS,
    EXIT_USAGE,
    choose_archs,
    fail,
    fault_json,
    format_option,
    open_root,
    overlay_option,
    print_faults,
    print_json,
    root_argument,
)
from txtdb.cli.outputs import unlike_faults
from txtdb.faults import Fault, FaultError, Span
from txtdb.files import atomic_write
from txtdb.interrupts import terminated_as_interrupted
from txtdb.layers.database import Database
from txtdb.model.archs import split_archs
from txtdb.wording import install_hint

pack_argument = click.argument("pack", type=click.Path(path_type=Path))


@click.group(short_help="Compile kernel images, and look into packs of them.")
def aot() -> None:
    """Kernel images, compiled ahead of time, and the packs that hold them."""


@aot.command("build")
@root_argument
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The pack to write.")
@overlay_option
@click.option("--arch", "archs", multiple=True, help="Only these archs (separated by commas; repeatable).")
@click.option("--iface", "ifaces", multiple=True, help="Only these interfaces (separated by commas; repeatable).")
@click.option(
    "--build",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("build/aot"),
    show_default=True,
    help="Where compiled images are kept; a later run goes on from there.",
)
@click.option("--jobs", type=click.IntRange(1), help="Compilers that run at a time.  [default: one a processor]")
@click.option(
    "--limit",
    type=click.FloatRange(0, min_open=True),
    default=DEFAULT_LIMIT_S,
    show_default=True,
    help="Seconds that one image may take.",
)
@format_option("json")
def build_command(
    root: Path,
    out: Path,
    overlays: tuple[Path, ...],
    archs: tuple[str, ...],
    ifaces: tuple[str, ...],
    folder: Path,
    jobs: int | None,
    limit: float,
    style: str,
) -> None:
    """Compile every image that the tables of ROOT ask for, and pack them.

    No device is needed. Cells whose image cannot be built go to another image of their functional; these are listed,
    and the exit code is 1. Where nothing is left for a functional, there is no pack.
    """
    faults = unlike_faults(out, begins_pack)
    if faults:
        fail(faults, EXIT_USAGE)
    database = open_root(root, overlays)
    plans = _plans(database, choose_archs(database, archs), split_archs(ifaces))
    count = jobs or os.cpu_count() or 1
    begin = time.monotonic()
    try:
        with terminated_as_interrupted():
            with shown_progress() as progress:
                done = _build(database, plans, Workshop(BuildFolder(folder), count, limit, progress))
            written = None if done.faults else _write(out, done, folder)
    except KeyboardInterrupt:
        click.echo("stopped: the same command goes on from here", err=True)
        sys.exit(EXIT_FINDINGS)
    effort = Effort(count, time.monotonic() - begin)
    if style == "json":
        print_json(build_json(done, effort, written))
    else:
        print_faults(done.faults)
        _echo(build_lines(done, effort, written))
    if done.faults or any(table.replaced for table in done.tables):
        sys.exit(EXIT_FINDINGS)


def _plans(database: Database, archs: Sequence[str], ifaces: Sequence[str]) -> list[TablePlan]:
    unknown = [name for name in ifaces if name not in database.schemas]
    if unknown:
        hint = f"known are {', '.join(sorted(database.schemas))}"
        fail([Fault("usage", Span(name), f"unknown interface `{name}`", hint) for name in unknown], EXIT_USAGE)
    plans, faults = make_plans(database, archs, ifaces)
    if faults:
        fail(faults)
    return plans


def _build(database: Database, plans: Sequence[TablePlan], shop: Workshop) -> Build:
    try:
        return build(plans, database.archs, shop)
    except CompilerMissing as error:
        hint = f"install it: {install_hint('aot')}"
        fail([Fault("no-compiler", Span("triton"), f"the compiler does not start: {error}", hint)], EXIT_USAGE)
    except SourcesChanged:
        where = Span(shop.kernels.folder.as_posix())
        fail([Fault("kernels-changed", where, "the kernels were edited during the build", "start again")], EXIT_USAGE)
    except OSError as error:
        fail([_file_fault(shop.folder.path, error)], EXIT_USAGE)


def _write(out: Path, done: Build, folder: Path) -> Path:
    try:
        write_pack(out, pack_manifest(done.tables, done.compilation), BuildFolder(folder))
    except OSError as error:
        fail([_file_fault(out, error)], EXIT_USAGE)
    return out


@aot.command("list")
@pack_argument
@format_option("json")
def list_command(pack: Path, style: str) -> None:
    """Print every image of a PACK with what it needs."""
    with _open(pack) as opened:
        if style == "json":
            print_json(list_json(opened))
        else:
            _echo(list_lines(opened))


@aot.command()
@pack_argument
@format_option("json")
def stats(pack: Path, style: str) -> None:
    """Print how many images a PACK has, and how large they are."""
    with _open(pack) as opened:
        numbers = stats_json(opened)
    if style == "json":
        print_json(numbers)
    else:
        _echo(stats_lines(numbers))


@aot.command()
@pack_argument
@click.argument("names", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The folder for the images.")
def extract(pack: Path, names: tuple[str, ...], out: Path) -> None:
    """Write images of a PACK as files ARCH/NAME.hsaco or .cubin: those with these NAMES, or all of them."""
    with _open(pack) as opened:
        tables = opened.manifest.tables
        unknown = [name for name in names if not any(name in table.images for table in tables.values())]
        if unknown:
            where = Span(pack.as_posix())
            fail([Fault("pack-missing-image", where, f"there is no image `{name}`") for name in unknown], EXIT_USAGE)
        chosen = [
            (place.partition("/")[0], image)
            for place, table in tables.items()
            for name, image in table.images.items()
            if not names or name in names
        ]
        for arch, image in chosen:
            path = out / arch / f"{image.name}.{image.file.rpartition('.')[2]}"
            try:
                atomic_write(path, opened.data(image))
            except FaultError as error:
                fail(error.faults)
            except OSError as error:
                fail([_file_fault(path, error)], EXIT_USAGE)
    click.echo(f"{counted(len(chosen), 'image')} written to {out}")


@aot.command()
@pack_argument
@click.argument("root", type=click.Path(path_type=Path), required=False)
@overlay_option
@format_option("json")
def verify(pack: Path, root: Path | None, overlays: tuple[Path, ...], style: str) -> None:
    """Check a PACK: every byte of it and, where ROOT is given, that it belongs to the tables there, has all images, and
    that the kernels are those that it was compiled from.

    Tables of its archs that the pack was not built for are listed. Exit code 0: sound; 1: not.
    """
    if overlays and root is None:
        raise click.UsageError("--overlay has no effect without ROOT")
    faults, absent, replaced = verify_pack(pack), list[str](), 0
    if not faults:
        with _open(pack) as opened:
            replaced = sum(len(table.replaced) for table in opened.manifest.tables.values())
    if not faults and root:
        database = open_root(root, overlays)
        with _open(pack) as opened:
            archs = sorted({place.partition("/")[0] for place in opened.manifest.tables} & database.archs.keys())
            plans, wrong = make_plans(database, archs, ())
            faults = [*wrong, *pack_faults(opened, plans, sources())]
            places = [f"{plan.arch}/{plan.schema.iface}" for plan in plans]
            absent = [place for place in places if place not in opened.manifest.tables]
    if style == "json":
        told = [fault_json(fault) for fault in faults]
        print_json({"pack": pack.as_posix(), "faults": told, "absent": absent, "replaced": replaced})
    else:
        print_faults(faults)
        if absent:
            click.echo(f"not in this pack: {', '.join(absent)}")
        click.echo(f"{pack}: {counted(len(faults), 'fault') if faults else sound_text(replaced)}")
    if faults:
        sys.exit(EXIT_USAGE if faults[0].rule == "pack-unreadable" else EXIT_FINDINGS)


@aot.command()
@root_argument
@click.argument("packs", nargs=-1, required=True, type=click.Path(path_type=Path))
@format_option("json")
def resources(root: Path, packs: tuple[Path, ...], style: str) -> None:
    """Write what the images in PACKS need of a device as text beside the tables of ROOT."""
    database = open_root(root)
    manifests = []
    for pack in packs:
        with _open(pack) as opened:
            manifests.append(opened.manifest)
    try:
        recorded = record(database, manifests)
    except OSError as error:
        fail([_file_fault(root, error)], EXIT_USAGE)
    if style == "json":
        print_json(_recorded_json(recorded.files, recorded.written, recorded.faults))
    else:
        print_faults(recorded.faults)
        _echo(f"written: {path}" for path in recorded.written)
        click.echo(f"{counted(len(recorded.files), 'resource file')}, {len(recorded.written)} changed")
    if recorded.faults:
        sys.exit(EXIT_FINDINGS)


def _recorded_json(files: Iterable[Path], written: Iterable[Path], faults: Iterable[Fault]) -> dict[str, Any]:
    return {
        "files": [path.as_posix() for path in files],
        "written": [path.as_posix() for path in written],
        "faults": [fault_json(fault) for fault in faults],
    }


def _open(path: Path) -> Pack:
    """A pack, or the end of the program."""
    pack, faults = read_pack(path)
    if pack is None:
        fail(faults, EXIT_USAGE if faults[0].rule == "pack-unreadable" else EXIT_FINDINGS)
    return pack


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def _file_fault(path: Path, error: OSError) -> Fault:
    where = error.filename if isinstance(error.filename, str) else path.as_posix()
    return Fault("output", Span(where), f"{error.strerror or error}")
