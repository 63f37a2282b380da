"""The policy of a run: the defaults, what a family of kernels replaces, then a file, then options."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click

from txtdb.cli.common import EXIT_USAGE, fail, print_json
from txtdb.evidence.policy import Policy, as_json, described, from_json, overridden
from txtdb.evidence.recompute import lax
from txtdb.faults import Fault, Severity, Span
from txtdb.tune.tunable import Tunable
from txtdb.tune.tunable_faults import asked, wrong_value
from txtdb.wording import did_you_mean


def family_policy(tunable: Tunable | None) -> Policy:
    """The policy that a family of kernels is tuned by. Raises TunableFault for what is none."""
    if tunable is None:
        return Policy()
    given = asked(tunable, "policy", Policy())
    if not isinstance(given, Policy):
        raise wrong_value(tunable, "policy", given, "the policy that it is given with fields replaced")
    found, faults = from_json(as_json(given), Span(f"tunable of {tunable.iface}"))
    if found is None:
        fail(faults, EXIT_USAGE)
    return found


def changed_policy(base: Policy, given: dict[str, Any]) -> Policy:
    """A policy with what a file and options change."""
    return _changed(_with_file(base, given["policy_text"]), given["changes"])


def show_policy(policy: Policy, style: str) -> None:
    """Print every number of a policy with its reason."""
    rows = described(policy)
    if style == "json":
        print_json({"policy": as_json(policy), "reasons": {row.name: row.reason for row in rows}})
        return
    width = max(len(row.name) for row in rows)
    for row in rows:
        usual = "" if row.value == row.default else f" (default {row.default})"
        click.echo(f"{row.name:{width}}  {row.value!s:>7}{usual}  {row.reason}")


def lax_notes(policy: Policy) -> Iterator[Fault]:
    """Warnings that a policy asks for less than `txtdb verify` takes."""
    hint = "`txtdb verify` refuses what is published so, unless its --policy asks for no more"
    for message in lax(policy, Policy()):
        yield Fault("policy", Span("--set"), message, hint, Severity.WARNING)


def _with_file(policy: Policy, named: tuple[str, str] | None) -> Policy:
    if named is None:
        return policy
    name, text = named
    try:
        changes = json.loads(text)
    except (ValueError, RecursionError) as error:
        fail([Fault("policy", Span(name), f"this is no JSON: {error}", "")], EXIT_USAGE)
    return _overridden(policy, changes, Span(name))


def _changed(policy: Policy, words: Sequence[str]) -> Policy:
    """The policy with `race.delta_pct=0.5` and the like applied."""
    known = {row.name for row in described(policy)}
    nested: dict[str, Any] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in known:
            hint = f"{did_you_mean(name, known)}`txtdb tune --show-policy` lists them"
            fail([Fault("policy", Span(word), f"the policy has no number `{name}`", hint)], EXIT_USAGE)
        group, _, last = name.rpartition(".")
        (nested.setdefault(group, {}) if group else nested)[last] = _number(text)
    return _overridden(policy, nested, Span("--set"))


def _overridden(policy: Policy, changes: object, span: Span) -> Policy:
    found, faults = overridden(policy, changes, span)
    if found is None:
        fail(faults, EXIT_USAGE)
    return found


def _number(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
