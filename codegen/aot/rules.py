"""Checks of kernel images against the tables that ask for them. docs/aot.md explains each id.

They look at tables whose images have to be on record (`uses.Images.uses`), and need neither a compiler nor a device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial

from codegen.aot.compiler_name import is_compiler
from codegen.aot.liveness import family, inert_fields
from codegen.aot.measured import COMPILER, STALE, measured_cells, measured_findings
from codegen.aot.resources import RULE as RESOURCES_RULE
from codegen.aot.resources import Block, Entry, ResourceFile
from codegen.aot.result import OK
from codegen.aot.sources import Sources, sources
from codegen.aot.uses import Images, Use
from codegen.aot.wording import counted, first
from txtdb.check.context import Context, Place
from txtdb.check.finding import CellRef, Finding, from_fault
from txtdb.check.rules import Rule
from txtdb.faults import Severity, Span
from txtdb.model.table import functional_text
from txtdb.model.values import print_value

SPILLING = "spilling-config"
_REBUILD = "build the images again, then `txtdb aot resources`"


def image_findings(context: Context) -> Iterator[Finding]:
    """Every finding about images; nothing where no image has to be on record."""
    return check_images(context, sources())


def check_images(context: Context, kernels: Sources) -> Iterator[Finding]:
    """The same, with the kernels of another folder."""
    images = Images(context, kernels)
    for place in images.files:
        yield from _no_use(context, images, place)
    yield from (from_fault(fault, *place) for place, fault in images.faults)
    if context.compiler and not images.archs:
        yield _nothing_recorded(context)
    found: list[_Hit] = []
    for place, uses in images.uses.items():
        if uses and not _is_unreadable(images, place):
            yield from _never_compiled(images, place, uses)
            yield from _stale_kernel(images, place, uses, kernels)
            yield from _other_compiler(context, images, place, uses)
            found += _config_hits(context, images, place, uses)
            found += _inert_hits(context, place, uses)
    yield from _originating(context, found)


RULES = (
    Rule(
        (
            RESOURCES_RULE,
            "unused-resources",
            "never-compiled",
            "uncompilable-config",
            "over-lds",
            SPILLING,
            "stale-kernel",
            "other-compiler",
            "inert-field",
        ),
        image_findings,
    ),
    Rule((STALE, COMPILER), measured_findings),
)


@dataclass(frozen=True, slots=True)
class _Hit:
    """A finding about a config or a field, which heirs may have as well. `key` is what makes two the same cause."""

    key: tuple[str, ...]
    finding: Finding


def _is_unreadable(images: Images, place: Place) -> bool:
    """Whether the place has a file that cannot be read: a finding already, of which all others would follow."""
    return any(own == place for own, _ in images.faults) and place not in images.files


def _no_use(context: Context, images: Images, place: Place) -> Iterator[Finding]:
    arch, iface = place
    schema = context.database.schemas.get(iface)
    if arch not in context.database.archs:
        return  # the folder itself is a finding
    if schema is None or schema.kind == "operator" or schema.for_arch(arch) is None:
        span = Span(images.file_name(place))
        message = f"{iface} has no images on {arch}"
        yield Finding("unused-resources", Severity.ERROR, span, message, "remove the file", arch, iface)


def _never_compiled(images: Images, place: Place, uses: list[Use]) -> Iterator[Finding]:
    missing = [use for use in uses if _entry(images, place, use) is None]
    if missing:
        names = (f"[{use.functional_text}] {use.config_text}" for use in missing)
        message = f"{counted(len(missing), 'image')} of {len(uses)} never compiled: {first(names)}"
        yield _grouped("never-compiled", Severity.ERROR, images, place, message, missing)


def _stale_kernel(images: Images, place: Place, uses: list[Use], kernels: Sources) -> Iterator[Finding]:
    stale = [use for use in uses if any(_is_stale(block, use, kernels) for _, block in _blocks(images, place, use))]
    if stale:
        functionals = dict.fromkeys(functional_text(use.schema, use.functional) for use in stale)
        every = {use.functional for use in uses}
        message = (
            f"the source of kernel {place[1]} has changed since {counted(len(functionals), 'functional')} of "
            f"{len(every)} were compiled: {first(functionals)}"
        )
        yield _grouped("stale-kernel", Severity.WARNING, images, place, message, stale)


def _is_stale(block: Block, use: Use, kernels: Sources) -> bool:
    kernel = kernels.kernels.get(use.schema.iface)
    return kernel is None or block.source != kernels.digest(kernel, use.schema.kernel_values(use.functional))


def _other_compiler(context: Context, images: Images, place: Place, uses: list[Use]) -> Iterator[Finding]:
    wanted = context.compiler
    groups: dict[tuple[Span, str], list[Use]] = defaultdict(list)
    for use in uses if wanted else ():
        for file, block in _blocks(images, place, use):
            if wanted and not is_compiler(block.compiler, wanted):
                groups[file.span(block.line), block.compiler].append(use)
    for (span, compiler), own in groups.items():
        cells = sum(int(use.mask.sum()) for use in own)
        text = functional_text(own[0].schema, own[0].functional)
        message = f"{text}: the images of {counted(cells, 'cell')} are by {compiler}, not {wanted}"
        yield Finding("other-compiler", Severity.WARNING, span, message, _REBUILD, *place, cells=_cells(own))


def _nothing_recorded(context: Context) -> Finding:
    span = Span(context.database.listings[0].label)
    message = "no resource file says which compiler made the images"
    return Finding("other-compiler", Severity.WARNING, span, message, "build them, then `txtdb aot resources`")


def _config_hits(context: Context, images: Images, place: Place, uses: list[Use]) -> Iterator[_Hit]:
    limit = context.database.archs[place[0]].lds_bytes
    measured = cache(partial(measured_cells, context, place))
    for use in uses:
        file, block = next(_blocks(images, place, use), (None, None))
        entry = block.entry(use.config_text) if block else None
        wrong = _wrong(entry, block, limit) if entry and block else None
        if file is None or entry is None or wrong is None:
            continue
        rule, severity, reason, hint = wrong
        # What was measured to be the fastest is so, spills or not. On an heir nobody has measured it.
        known = measured() if rule == SPILLING else frozenset()
        every = use.cells()
        cells = tuple(cell for cell in every if cell not in known)
        text = f"{functional_text(use.schema, use.functional)}: {_config(use)} {reason}"
        finding = Finding(rule, severity, file.span(entry.line), text, hint, *place, cells=cells)
        some = "" if len(cells) == len(every) else "some"
        if cells:
            yield _Hit((rule, place[1], use.functional_text, use.config_text, some), finding)


def _wrong(entry: Entry, block: Block, limit: int | None) -> tuple[str, Severity, str, str] | None:
    """(rule, severity, what is wrong, hint) of a config that cells use."""
    own = entry.resources
    if own is None:
        return "uncompilable-config", Severity.ERROR, f"could not be compiled: {entry.status}", "tune these cells again"
    if limit is not None and own.shared > limit:
        reason = f"needs {own.shared} bytes of local memory, the arch has {limit}"
        return "over-lds", Severity.ERROR, reason, "tune these cells again"
    if own.spills and _has_better(block, limit):
        reason = f"spills {counted(own.spills, 'register')}; candidates that do not are on record"
        return SPILLING, Severity.WARNING, reason, "choose one of those, or a smaller tile"
    return None


def _has_better(block: Block, limit: int | None) -> bool:
    compiled = (entry.resources for entry in block.entries() if entry.status == OK)
    return any(own and not own.spills and (limit is None or own.shared <= limit) for own in compiled)


def _inert_hits(context: Context, place: Place, uses: list[Use]) -> Iterator[_Hit]:
    arch, iface = place
    names = [item.name for item in uses[0].schema.config if item.binary]
    for name in sorted(inert_fields(arch, iface) & set(names)):
        values = {use.config[names.index(name)] for use in uses}
        if len(values) > 1:
            listed = ", ".join(sorted(map(print_value, values)))
            message = f"{name} changes nothing on {family(arch)}, and the table has it as {listed}"
            hint = "keep one value: the others name the same images"
            finding = Finding("inert-field", Severity.WARNING, context.table_span(place), message, hint, arch, iface)
            yield _Hit(("inert-field", iface, name), finding)


def _originating(context: Context, hits: Iterable[_Hit]) -> Iterator[Finding]:
    """Each cause once, at the arch that hands it down, with the heirs that have it as well."""
    groups: dict[tuple[str, ...], dict[str, Finding]] = defaultdict(dict)
    for hit in hits:
        groups[hit.key][hit.finding.arch] = hit.finding
    for group in groups.values():
        heirs = {arch: set(context.heirs.get((arch, own.iface), ())) & group.keys() for arch, own in group.items()}
        inherited = set().union(*heirs.values())
        for arch, own in group.items():
            if arch not in inherited:
                yield Finding(
                    own.rule,
                    own.severity,
                    own.span,
                    own.message,
                    own.hint,
                    own.arch,
                    own.iface,
                    tuple(sorted(heirs[arch])),
                    own.cells,
                )


def _blocks(images: Images, place: Place, use: Use) -> Iterator[tuple[ResourceFile, Block]]:
    """The blocks of a use's functional that have its config."""
    blocks = images.blocks(place, use.functional_text)
    return ((file, block) for file, block in blocks if use.config_text in block.lines)


def _entry(images: Images, place: Place, use: Use) -> Entry | None:
    return next((block.entry(use.config_text) for _, block in _blocks(images, place, use)), None)


def _grouped(rule: str, severity: Severity, images: Images, place: Place, message: str, uses: list[Use]) -> Finding:
    """One finding for many images of a place, at its resource file."""
    span = Span(images.file_name(place))
    return Finding(rule, severity, span, message, _REBUILD, *place, cells=_cells(uses))


def _cells(uses: Iterable[Use]) -> tuple[CellRef, ...]:
    return tuple(cell for use in uses for cell in use.cells())


def _config(use: Use) -> str:
    names = [item.name for item in use.schema.config if item.binary]
    return " ".join(f"{name}={print_value(value)}" for name, value in zip(names, use.config, strict=True))
