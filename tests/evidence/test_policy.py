"""The policy: defaults with reasons, JSON there and back, overriding, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from tools.docs.examples import REPO
from txtdb.evidence.policy import Policy, Race, as_json, described, from_json, overridden
from txtdb.faults import Span

SPAN = Span("evidence/a.json")


def test_json_and_back() -> None:
    policy = Policy(race=Race(delta_pct=0.5, max_blocks=77), seed=3)
    text = json.dumps(as_json(policy))
    assert from_json(json.loads(text), SPAN) == (policy, [])


def test_a_whole_number_stands_for_a_float_and_becomes_one() -> None:
    data = as_json(Policy())
    data["promotion"]["min_improvement_pct"] = 3
    policy, faults = from_json(data, SPAN)
    assert policy == Policy()
    assert faults == []
    assert type(policy.promotion.min_improvement_pct) is float


def test_a_family_overrides_what_differs() -> None:
    policy, faults = overridden(Policy(seed=5), {"race": {"delta_pct": 2.0}}, SPAN)
    assert faults == []
    assert policy == replace(Policy(seed=5), race=Race(delta_pct=2.0))


def test_every_number_has_a_reason_and_is_shown_with_it() -> None:
    policy = replace(Policy(), race=Race(delta_pct=2.0))
    rows = {row.name: row for row in described(policy)}
    assert len(rows) == sum(len(part) if isinstance(part, dict) else 1 for part in as_json(policy).values())
    assert all(row.reason for row in rows.values())
    assert (rows["race.delta_pct"].value, rows["race.delta_pct"].default) == (2.0, 1.0)
    assert rows["seed"].value == 0


def changed(group: str, name: str, value: object) -> dict[str, Any]:
    data = as_json(Policy())
    data[group][name] = value
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "policy must be an object"),
        (changed("race", "delta", 1.0), "unknown name `delta`"),
        (changed("race", "delta_pct", "1"), "policy.race.delta_pct must be of type float"),
        (changed("race", "delta_pct", None), "policy.race.delta_pct must be of type float"),
        (changed("race", "delta_pct", math.nan), "policy.race.delta_pct is nan"),
        (changed("race", "delta_pct", math.inf), "policy.race.delta_pct is inf"),
        (changed("race", "delta_pct", True), "policy.race.delta_pct must be of type float"),
        (changed("race", "block_calls", 0), "policy.race.block_calls is 0"),
        (changed("race", "block_calls", 2.0), "policy.race.block_calls must be of type int"),
        (changed("race", "error_budget", 1.0), "policy.race.error_budget is 1.0"),
        (changed("race", "max_blocks", 3), "max_blocks is less than min_blocks"),
        (changed("measurement", "flush_cache", 1), "policy.measurement.flush_cache must be of type bool"),
        ({**as_json(Policy()), "run": 7}, "policy.run must be an object"),
        ({**as_json(Policy()), "seed": -1}, "policy.seed is -1"),
        ({name: part for name, part in as_json(Policy()).items() if name != "seed"}, "policy.seed is missing"),
    ],
)
def test_what_is_no_policy(data: object, message: str) -> None:
    policy, faults = from_json(data, SPAN)
    assert policy is None
    assert [fault.rule for fault in faults] == ["policy"]
    assert message in faults[0].message
    assert faults[0].span == SPAN


def test_a_misspelt_name_is_guessed_and_all_faults_are_told() -> None:
    policy, faults = overridden(Policy(), {"race": {"delta_pc": 1.0, "min_blocks": 1}, "seeds": 1}, SPAN)
    assert policy is None
    assert len(faults) == 3
    assert any("did you mean delta_pct?" in fault.hint for fault in faults)


def test_the_documentation_shows_every_number_with_its_reason() -> None:
    page = (REPO / "docs" / "tuning.md").read_text(encoding="utf-8")
    rows = [f"| `{row.name}` | {row.value} | {row.reason} |" for row in described(Policy())]
    assert "| name | default | why |\n|---|---|---|\n" + "\n".join(rows) + "\n" in page
