"""The files that `#! evidence` names: there, unchanged, complete, and of what they are named for.

What they prove is left to `txtdb verify`.
"""

from __future__ import annotations

from collections.abc import Iterator

from txtdb.check.context import Context
from txtdb.check.finding import Finding, from_fault
from txtdb.evidence.named import (
    EvidenceFile,
    device_fault,
    is_partial,
    missing_fault,
    partial_fault,
    unlike_fault,
)
from txtdb.faults import Fault, Span
from txtdb.layers.database import LoadedFile
from txtdb.syntax.tree import Directive


def evidence_files(context: Context) -> Iterator[Finding]:
    """`missing-evidence`, `evidence-digest`, `bad-evidence`, `unlike-evidence` and `partial-evidence`."""
    for loaded in context.files:
        directives = loaded.source.document.directives if loaded.source else []
        for directive in directives:
            if directive.name == "evidence":
                found = context.evidence(loaded, directive.args[0])
                for fault in _faults(context, loaded, directive, found):
                    yield from_fault(fault, loaded.file.arch, loaded.file.iface)


def _faults(context: Context, loaded: LoadedFile, directive: Directive, found: EvidenceFile) -> Iterator[Fault]:
    """The content counts only where it is the one that was named."""
    span, (name, digest) = directive.span(loaded.file.display), directive.args
    if not found.digest:
        yield from found.faults or (missing_fault(name, span),)
    elif digest != found.digest:
        text = f"evidence file {name} is not the one that this file was made from"
        yield Fault("evidence-digest", span, text, "restore it, or measure again")
    elif found.evidence is None:
        yield from found.faults
    else:
        yield from _content_faults(context, loaded.file.arch, span, found)


def _content_faults(context: Context, arch: str, span: Span, found: EvidenceFile) -> Iterator[Fault]:
    assert found.evidence is not None, "the caller has seen to it"
    device = device_fault(found.name, found.evidence, arch, context.database.archs, span)
    if found.evidence.arch != arch:
        yield unlike_fault(found.name, found.evidence, arch, span)
    elif device:
        yield device
    if is_partial(found.evidence):
        yield partial_fault(found.evidence, span)
