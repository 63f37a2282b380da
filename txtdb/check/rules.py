"""The table of rules. docs/checks.md explains each id, and each has a fixture in the tests that fires it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points

from txtdb.check import configs, evidence, gaps, layering
from txtdb.check.context import Context
from txtdb.check.finding import Finding

RULES_GROUP = "txtdb.rules"


@dataclass(frozen=True, slots=True)
class Rule:
    """One check: the ids that it reports, and the function that finds them."""

    ids: tuple[str, ...]
    check: Callable[[Context], Iterator[Finding]]


RULES: tuple[Rule, ...] = (
    Rule(("unused-file", "unknown-arch", "unknown-iface", "unreachable-file"), layering.unreachable_files),
    Rule(("unreachable-block",), layering.unreachable_blocks),
    Rule(("missing-functional", "missing-row", "hole"), gaps.gaps),
    Rule(("missing-bin",), gaps.missing_bins),
    Rule(("undeclared-bin",), layering.undeclared_bins),
    Rule(("illegal-config",), configs.inherited_illegal),
    Rule(("backend-without-kernel",), configs.backend_without_kernel),
    Rule(("unused-entry",), configs.unused_entries),
    Rule(("no-op-override", "stale-onto"), layering.patch_effects),
    Rule(("equal-patch-number",), layering.equal_numbers),
    Rule(("same-name-patch",), layering.shadowed_names),
    Rule(("unused-layer",), layering.unused_layers),
    Rule(("expired-pin",), layering.expired_pins),
    Rule(
        ("missing-evidence", "evidence-digest", "bad-evidence", "unlike-evidence", "partial-evidence"),
        evidence.evidence_files,
    ),
)

# Ids that are found while files are read or compared with a baseline; no rule function reports them.
READING_IDS: tuple[str, ...] = (
    # files and lines
    "unreadable", "bom", "not-utf8", "no-magic", "newer-version", "truncated", "text-after-end", "wrong-kind",
    "wrong-place", "conflict-marker", "tab", "carriage-return", "control-character", "indented", "comment-not-alone",
    "bad-symbol", "bad-config", "empty-config", "bad-functional", "bad-row", "unknown-directive", "directive-form",
    "directive-out-of-place", "entry-out-of-place", "row-out-of-place", "duplicate-directive", "missing-directive",
    "duplicate-name", "too-many-axes", "axis-order", "too-large",
    # palette, blocks and rows
    "duplicate-symbol", "duplicate-config", "config-length", "functional-length", "duplicate-functional",
    "empty-block", "bad-label", "unknown-symbol", "empty-run", "row-too-long", "row-too-short", "rows-overlap",
    # held against the schema
    "axis-names", "unknown-key", "missing-key", "key-type", "unknown-field", "missing-field", "value-type",
    # TOML files
    "toml", "schema", "archs", "pin",
    # layers
    "base-cycle", "missing-base", "no-data", "no-archs", "no-root",
    # the run itself
    "no-files", "stale-baseline",
)  # fmt: skip

# Ids that only open changes have, which `check --with` merges.
QUEUE_IDS: tuple[str, ...] = ("same-cell", "merge-conflict")


def all_rules() -> tuple[Rule, ...]:
    """The rules here and those of other packages, those ordered by name.

    Raises TypeError when a package offers something else than a tuple of rules: nothing of it is used then.
    """
    rules = list(RULES)
    for point in sorted(entry_points(group=RULES_GROUP), key=lambda point: point.name):
        offered = point.load()
        if not isinstance(offered, tuple) or not all(isinstance(rule, Rule) for rule in offered):
            raise TypeError(f"entry point {point.name} ({point.value}) must be a tuple of Rule")
        rules.extend(offered)
    return tuple(rules)
