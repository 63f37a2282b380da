"""Evidence files: what is written is read back, and nothing else is."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence.cells import reading, readings
from tests.evidence.made import by_hand, config, raced, run_of, schema, with_sample
from txtdb.evidence import files
from txtdb.evidence.files import evidence_digest, read_evidence, write_evidence
from txtdb.model.evidence import Entrant, Evidence, Status, TrialEvidence

FILE = "gfxB/evidence/run.json"


@pytest.fixture(scope="module")
def run() -> Evidence:
    return run_of(
        [
            by_hand(raced({"a": 20, "b": 10, "c": 10.2}, incumbent="a"), 1),
            by_hand(raced({"a": 10.2, "b": 10}, at=(64, 128)), 1),
        ]
    )


def again(run: Evidence) -> Evidence:
    read, faults = read_evidence(write_evidence(run, schema()), FILE, schema())
    assert faults == []
    assert read is not None
    return read


def content_of(run: Evidence) -> Any:
    return json.loads(write_evidence(run, schema()))


def refused(content: object) -> list[tuple[str, str]]:
    """Rule and message of each fault of a file with this content."""
    text = content if isinstance(content, str) else json.dumps(content)
    read, faults = read_evidence(text.encode(), FILE, schema())
    assert read is None
    assert faults
    assert {fault.span.file for fault in faults} == {FILE}
    return [(fault.rule, fault.message) for fault in faults]


def test_it_reads_what_it_wrote(run: Evidence) -> None:
    assert again(run) == run
    assert write_evidence(again(run), schema()) == write_evidence(run, schema())


def trial(symbol: str = "d", **changes: Any) -> TrialEvidence:
    cell = raced({"a": 10, "b": 10}, incumbent="a")
    made = TrialEvidence(False, cell.functional, cell.at, config(symbol), "race", 2, ((), ()), cell.blocks)
    return replace(made, **changes)


def test_trials_and_readings_are_read_as_they_were_written(run: Evidence) -> None:
    times = ((1.0, math.inf), (2.0, 3.0))
    trials = (trial(), trial("a", twin=True, strategy="exhaustive", depth=times))
    taken = (
        reading(300.5, 301.5, path="eager", reason="caf\u00e9", idle_watts=50.0),
        None,
        reading(windows=(math.inf,)),
    )
    measured = replace(run.cells[0].measured, watts=taken)
    made = replace(
        run,
        calibration={"bar_pct": 3.5},
        trials=trials,
        cells=(replace(run.cells[0], measured=measured), *run.cells[1:]),
    )
    assert again(made) == made
    assert content_of(made)["calibration"]["trials"][0]["config"] == 3, "configs of cells come first"
    lines = write_evidence(made, schema()).decode().splitlines()
    assert sum(line.startswith('{"path": ') for line in lines) == 2
    assert sum(line.startswith('{"order": ') for line in lines) == sum(
        len(item.blocks) for item in (*(cell.measured for cell in made.cells), *trials)
    )


def test_a_calibration_without_trials_can_be_read(run: Evidence) -> None:
    content = content_of(replace(run, calibration={"bar_pct": 3.5}))
    del content["calibration"]["trials"]
    read, faults = read_evidence(json.dumps(content).encode(), FILE, schema())
    assert faults == []
    assert read is not None
    assert (read.calibration, read.trials) == ({"bar_pct": 3.5}, ())


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("labels", 10**6, "calibration.trials[0].labels: more than 1000 labels"),
        ("config", 9, "calibration.trials[0].config: there is no config 9"),
        ("depth", [[1.0]], "calibration.trials[0].depth: 1 lists for 2 entrants"),
        ("blocks", [{"order": [2], "times": [[1.0]]}], "calibration.trials[0].blocks[0].order: there is no label 2"),
        ("at", {"seqlen_q": 64}, "calibration.trials[0].at: the axes of the schema are"),
        ("more", 1, "calibration.trials[0]: `more` is nothing that it may have"),
    ],
)
def test_what_is_no_trial(run: Evidence, member: str, value: Any, message: str) -> None:
    content = content_of(replace(run, calibration={"bar_pct": 3.5}, trials=(trial(),)))
    content["calibration"]["trials"][0][member] = value
    ((_, told),) = refused(content)
    assert message in told


@pytest.mark.parametrize(
    ("member", "value"),
    [("windows", 3.0), ("path", None), ("reliable", 1), ("updates", -1), ("seconds", "1"), ("x", 1)],
)
def test_what_is_no_reading(run: Evidence, member: str, value: Any) -> None:
    measured = replace(run.cells[0].measured, watts=readings(300.0, None, 100.0))
    content = content_of(replace(run, cells=(replace(run.cells[0], measured=measured), run.cells[1])))
    content["cells"][0]["watts"][2][member] = value
    ((rule, told),) = refused(content)
    assert rule == "bad-evidence"
    assert "cells[0].watts[2]" in told


def test_the_order_of_members_does_not_change_the_file(run: Evidence) -> None:
    turned = replace(run, device=dict(reversed(run.device.items())), policy=dict(reversed(run.policy.items())))
    assert list(turned.device) != list(run.device)
    assert write_evidence(turned, schema()) == write_evidence(run, schema())


def test_one_sample_changes_one_line(run: Evidence) -> None:
    before, after = (
        write_evidence(item, schema()).splitlines()
        for item in (run, replace(run, cells=(with_sample(run.cells[0], 3, 1, (1.0, 2.0, 3.0)), run.cells[1])))
    )
    assert len(before) == len(after)
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_configs_stand_once_and_are_named_by_field(run: Evidence) -> None:
    content = content_of(run)
    assert content["fields"] == ["BLOCK_M", "PRE_LOAD_V", "num_warps", "num_stages", "waves_per_eu"]
    assert content["configs"] == [[32, True, 2, 1, 0], [64, True, 4, 1, 0], [64, False, 4, 2, 0]]
    assert [entrant[0] for entrant in content["cells"][1]["entrants"]] == [0, 1]
    assert content["cells"][1]["at"] == {"seqlen_q": 64, "seqlen_k": 128}


def test_times_that_are_none_are_kept(run: Evidence) -> None:
    times = (math.nan, math.inf, -math.inf, 0.0, -0.0, -5.0, 1e-300)
    changed = replace(run, cells=(with_sample(run.cells[0], 0, 0, times), run.cells[1]))
    read = again(changed).cells[0].measured.blocks[0].times[0]
    assert list(map(repr, read)) == list(map(repr, times))
    assert b'"nan", "inf", "-inf", 0.0, -0.0, -5.0, 1e-300' in write_evidence(changed, schema())


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=4))
def test_every_float_is_read_as_it_was(times: list[float]) -> None:
    made = run_of(
        [
            with_sample(
                by_hand(
                    raced(
                        {"a": 2, "b": 1},
                    ),
                    1,
                ),
                0,
                0,
                times,
            )
        ]
    )
    assert list(map(repr, again(made).cells[0].measured.blocks[0].times[0])) == list(map(repr, times))


def test_messages_of_any_encoding_are_kept_readable(run: Evidence) -> None:
    cell = run.cells[0]
    broken = Entrant(config("d"), Status.COMPILE_ERROR, "bad \udcff byte\n\u202e ünd</script>", math.nan)
    measured = replace(cell.measured, entrants=(*cell.measured.entrants, broken))
    data = write_evidence(replace(run, cells=(replace(cell, measured=measured),), planned=1), schema())
    read, faults = read_evidence(data, FILE, schema())
    assert (data.isascii(), faults) == (True, [])
    assert read is not None
    last = read.cells[0].measured.entrants[-1]
    assert last.detail == "bad ? byte\n\u202e ünd</script>"
    assert last.error is not None
    assert math.isnan(last.error)


def test_plain_objects_hold_no_nan(run: Evidence) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_evidence(replace(run, device={"temperature": math.nan}), schema())


def test_a_field_that_came_with_a_default_may_be_missing(run: Evidence) -> None:
    content = content_of(run)
    content["fields"].remove("waves_per_eu")
    for row in content["configs"]:
        del row[-1]
    read, faults = read_evidence(json.dumps(content).encode(), FILE, schema())
    assert (read, faults) == (run, [])


def test_fields_are_read_by_name(run: Evidence) -> None:
    content = content_of(run)
    content["fields"].reverse()
    for row in content["configs"]:
        row.reverse()
    assert read_evidence(json.dumps(content).encode(), FILE, schema()) == (run, [])


Change = Callable[[Any], object]


def _set(name: str, value: object) -> Change:
    return lambda content: content.__setitem__(name, value)


def _cell(name: str, value: object) -> Change:
    return lambda content: content["cells"][1].__setitem__(name, value)


def _decision(name: str, value: object) -> Change:
    return lambda content: content["cells"][1]["decision"].__setitem__(name, value)


def _block(name: str, value: object) -> Change:
    return lambda content: content["cells"][1]["blocks"][2].__setitem__(name, value)


def _entrant(place: int, value: object) -> Change:
    return lambda content: content["cells"][1]["entrants"][1].__setitem__(place, value)


def _deep(content: Any) -> None:
    for _ in range(20):
        content["device"] = {"deeper": content["device"]}


BAD: dict[str, tuple[Change, str]] = {
    "another version": (_set("evidence", 2), "evidence: version 1 is what can be read"),
    "a version that is true": (_set("evidence", True), "evidence: version 1"),
    "a member missing": (lambda content: content.pop("seed"), "`seed` is missing"),
    "a member too many": (_set("note", 1), "`note` is nothing"),
    "a state that is not so": (_set("state", "complete 3/3"), "state: the cells give `complete 2/2`"),
    "more cells than planned": (_set("planned", 1), "planned: 1 cells were planned, and 2 are there"),
    "a count that is true": (_set("planned", True), "planned: a whole number"),
    "a count that is a float": (_set("seed", 7.0), "seed: a whole number"),
    "cells that are no list": (_set("cells", {}), "cells: a list"),
    "a policy that is none": (_set("policy", []), "policy: an object"),
    "objects without end": (_deep, "nested deeper than 8"),
    "a config of another length": (lambda content: content["configs"][0].pop(), "configs[0]: 4 values for 5 fields"),
    "a bool that is a number": (lambda content: content["configs"][1].__setitem__(1, 1), "configs[1] PRE_LOAD_V: "),
    "a number that is a bool": (lambda content: content["configs"][1].__setitem__(0, True), "expected int, found bool"),
    "a config twice": (lambda content: content["configs"].append(content["configs"][0]), "a config stands twice"),
    "a key of another type": (
        lambda content: content["cells"][1]["functional"].__setitem__("causal", False),
        "cells[1].functional.causal: expected int, found bool",
    ),
    "a bin that is a text": (
        lambda content: content["cells"][1]["at"].__setitem__("seqlen_k", "128"),
        "cells[1].at.seqlen_k: a whole number",
    ),
    "the same cell twice": (
        lambda content: content["cells"].append(content["cells"][0]),
        "cells[2]: this is the cell of cells[0]",
    ),
    "an incumbent that is not there": (_cell("incumbent", 2), "cells[1].incumbent: there is no entrant 2"),
    "a neighbour below zero": (_cell("neighbours", [-1]), "cells[1].neighbours: a whole number from 0"),
    "depth of some entrants": (_cell("depth", [[1.0]]), "cells[1].depth: 1 lists for 2 entrants"),
    "watts of some entrants": (_cell("watts", [1.0]), "cells[1].watts[0]: an object is expected"),
    "a flag that is a number": (_cell("finished", 1), "cells[1].finished: true or false"),
    "an entrant of another form": (lambda content: content["cells"][1]["entrants"].append([0, "ok"]), "entrants[2]"),
    "an unknown status": (_entrant(1, "fine"), "cells[1].entrants[1]: one of ok, wrong_result"),
    "a config that is not there": (_entrant(0, 3), "cells[1].entrants[1]: there is no config 3"),
    "an entrant twice in a block": (_block("order", [1, 1]), "cells[1].blocks[2].order: an entrant stands twice"),
    "times of some": (_block("times", [[1.0]]), "cells[1].blocks[2].times: 1 lists for 2 entrants"),
    "a time that is a text": (_block("times", [[1.0], ["1.0"]]), "cells[1].blocks[2].times[1][0]: a number, or one of"),
    "a time that is true": (_block("times", [[True], [1.0]]), "blocks[2].times[0][0]: a number"),
    "a time of many digits": (_block("times", [[10**400], [1.0]]), "blocks[2].times[0][0]: a number"),
    "an unknown outcome": (_decision("outcome", "won"), "cells[1].decision.outcome: one of published"),
    "a winner that is not there": (_decision("winner", 9), "cells[1].decision.winner: there is no entrant 9"),
    "a sum that is null": (_decision("total_ns", None), "cells[1].decision.total_ns: a number"),
    "a standing of nobody": (
        lambda content: content["cells"][1]["decision"]["standings"][0].__setitem__("entrant", 2),
        "cells[1].decision.standings[0].entrant: there is no entrant 2",
    ),
    "half a character": (_set("name", "\ud800"), "name: a text with half a character"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BAD))
def test_what_cannot_be_is_refused_by_its_path(run: Evidence, name: str) -> None:
    change, message = BAD[name]
    content = content_of(run)
    change(content)
    ((rule, told),) = refused(content)
    assert rule == "bad-evidence"
    assert message in told


UNLIKE: dict[str, tuple[Change, str]] = {
    "another interface": (_set("iface", "attn_bwd"), "iface: this is evidence of attn_bwd, not of attn_fwd"),
    "another field": (
        lambda content: content["fields"].__setitem__(0, "BLOCK_X"),
        "fields: the schema has no field `BLOCK_X`",
    ),
    "a field missing": (
        lambda content: [content["fields"].pop(0), *(row.pop(0) for row in content["configs"])],
        "fields: field `BLOCK_M` is missing",
    ),
    "another key": (
        lambda content: content["cells"][1]["functional"].__setitem__("bias", 0),
        "cells[1].functional: the keys of the schema are dtype causal head_dim",
    ),
    "an axis missing": (
        lambda content: content["cells"][1]["at"].pop("seqlen_q"),
        "cells[1].at: the axes of the schema are seqlen_q seqlen_k",
    ),
}


@pytest.mark.parametrize("name", sorted(UNLIKE))
def test_evidence_of_something_else_is_unlike(run: Evidence, name: str) -> None:
    change, message = UNLIKE[name]
    content = content_of(run)
    change(content)
    ((rule, told),) = refused(content)
    assert (rule, told[: len(message)]) == ("unlike-evidence", message)


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_have(run: Evidence, token: str) -> None:
    text = write_evidence(run, schema()).decode().replace("[[10", f"[[{token}, 10", 1)
    ((rule, message),) = refused(text)
    assert rule == "bad-evidence"
    assert "number" in message


def test_a_member_that_stands_twice() -> None:
    assert refused('{"evidence": 1, "a": 1, "a": 2}') == [
        ("bad-evidence", "this is no JSON: `a` stands twice in one object")
    ]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "null", "[" * 100_000, '{"a":' * 100_000, "{}", "\ufeff{}", "9" * 5000]
)
def test_what_is_no_evidence_at_all(text: str) -> None:
    assert [rule for rule, _ in refused(text)] == ["bad-evidence"]


def test_bytes_that_are_no_text() -> None:
    assert [fault.rule for fault in read_evidence(b'{"a": "\xff"}', FILE, schema())[1]] == ["bad-evidence"]


def test_broken_json_has_a_position(run: Evidence) -> None:
    text = write_evidence(run, schema()).decode().replace('"arch": "gfxB",', '"arch": gfxB,')
    (fault,) = read_evidence(text.encode(), FILE, schema())[1]
    assert (fault.span.line, fault.span.column) == (4, 9)


def test_a_file_of_many_mistakes_tells_some(run: Evidence) -> None:
    content = content_of(run)
    content["cells"] = [{}] * 100_000
    assert len(refused(content)) == files.MAX_FAULTS


def test_two_bad_cells_are_told_both(run: Evidence) -> None:
    content = content_of(run)
    content["cells"][0]["dropped"] = content["cells"][1]["dropped"] = -1
    assert [message.partition(":")[0] for _, message in refused(content)] == ["cells[0].dropped", "cells[1].dropped"]


def test_a_file_that_is_too_large(monkeypatch: pytest.MonkeyPatch, run: Evidence) -> None:
    data = write_evidence(run, schema())
    monkeypatch.setattr(files, "MAX_BYTES", len(data) - 1)
    assert "bytes" in read_evidence(data, FILE, schema())[1][0].message
    monkeypatch.setattr(files, "MAX_BYTES", len(data))
    assert read_evidence(data, FILE, schema())[1] == []


def _members(value: Any) -> list[tuple[Any, Any]]:
    pairs = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [(value, name) for name, _ in pairs] + [found for _, item in pairs for found in _members(item)]


@given(st.data())
def test_any_change_is_read_or_refused(data: st.DataObject) -> None:
    """One place of a sound file replaced by anything: a fault or evidence comes back, never an exception."""
    made = by_hand(raced({"a": 2, "b": 1}), 1)
    content = content_of(run_of([made]))
    holder, name = data.draw(st.sampled_from(_members(content)))
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    holder[name] = data.draw(scalars | st.lists(scalars) | st.dictionaries(st.text(), scalars))
    read, faults = read_evidence(json.dumps(content).encode(), FILE, schema())
    assert (read is None) == bool(faults)
    if read is not None:
        assert write_evidence(read, schema()) == write_evidence(again(read), schema())


def test_the_digest_is_that_of_the_bytes() -> None:
    assert evidence_digest(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
