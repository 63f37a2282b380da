"""pins.toml: each wrong value is a fault at its pin, and nothing in a file raises."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contents import FIXED, good_schema, mutated, schema
from tests.strategies import LAW, toml_text
from txtdb.faults import Fault
from txtdb.layers.pins import Pin, pin_table, read_pins
from txtdb.model.table import ConfigPool

PINS: dict[str, Any] = {
    "pin": [
        {
            "iface": "f",
            "functional": {"dtype": "bf16", "causal": 0, "padded": False},
            "at": {"q": 16, "k": [16, 64]},
            "config": {"BLOCK": 32, "pre": False, "path": "x"},
            "reason": "why",
            "until": date(2030, 1, 1),
        }
    ]
}


def pins(content: dict[str, Any]) -> tuple[tuple[Pin, ...], list[Fault]]:
    return read_pins(toml_text(content).encode(), "gfxA/pins.toml", "gfxA", {"f": good_schema()})


def test_the_file_is_good() -> None:
    found, faults = pins(PINS)
    assert (len(found), faults) == (1, [])


@given(st.data())
@LAW
def test_any_value_anywhere_in_pins(data: st.DataObject) -> None:
    content = mutated(mutated(PINS, data), data)
    found, faults = pins(content)
    assert all(fault.rule in ("pin", "toml") and len(str(fault)) < 1000 for fault in faults)
    wanted = content.get("pin")
    assert faults or len(found) == (len(wanted) if isinstance(wanted, list) else 0)
    if found:
        table = pin_table(found, "gfxA/pins.toml", ConfigPool())
        assert (table.cells >= 0).sum() == sum(len(pin.bins[0]) * len(pin.bins[1]) for pin in found)


def pin(**changes: object) -> dict[str, Any]:
    return {"pin": [{**PINS["pin"][0], **changes}]}


WRONG_PINS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown name": (pin(untill=1), "pin: unknown name `untill`"),
    "no reason": (pin(reason=" "), "pin: `reason` is empty"),
    "date of text": (pin(until="2030-01-01"), "pin: `until` must be a date"),
    "date and time": (pin(until=datetime(2030, 1, 1)), "pin: `until` must be a date"),
    "unknown interface": (pin(iface="g"), "pin: no interface `g` on gfxA"),
    "functional with a gap": (pin(functional={"dtype": "bf16"}), "pin: functional needs causal as int"),
    "functional of another type": (
        pin(functional={"dtype": "bf16", "causal": True, "padded": False}),
        "pin: functional needs causal as int",
    ),
    "functional that does not exist": (
        pin(functional={"dtype": "fp16", "causal": 0, "padded": False}),
        "pin: matches nothing: there is no such functional here",
    ),
    "bin that does not exist": (pin(at={"q": 17}), "pin: matches nothing: 17 is no bin of q"),
    "bin of another arch": (pin(at={"q": 64}), "pin: matches nothing: 64 is no bin of q"),
    "bin of text": (pin(at={"q": "16"}), "pin: matches nothing: '16' is no bin of q"),
    "bin of bool": (pin(at={"q": True}), "pin: matches nothing: true is no bin of q"),
    "no bins": (pin(at={"q": []}), "pin: matches nothing: a list is no bin of q"),
    "unknown axis": (pin(at={"m": 16}), "pin: at: unknown name `m`"),
    "config with a gap": (pin(config={"BLOCK": 32, "pre": False}), "pin: config needs path as enum"),
    "config of another type": (
        pin(config={"BLOCK": 32.0, "pre": False, "path": "x"}),
        "pin: config needs BLOCK as int",
    ),
    "number of 19 digits in a config": (
        pin(config={"BLOCK": 10**18, "pre": False, "path": "x"}),
        "pin: config needs BLOCK as int",
    ),
    "number of 19 digits in a functional": (
        pin(functional={"dtype": "bf16", "causal": -(10**18), "padded": False}),
        "pin: functional needs causal as int",
    ),
    "config outside": (
        pin(config={"BLOCK": 48, "pre": False, "path": "x"}),
        "pin: BLOCK = 48 is outside its domain (16 32)",
    ),
    "config that is illegal": (pin(config={"BLOCK": 32, "pre": True, "path": "x"}), "pin: forbidden: pre in {True}"),
    "pinned twice": ({"pin": PINS["pin"] * 2}, "pin: [bf16 0 false] 16,16 is pinned already in line 0"),
}


@pytest.mark.parametrize("case", WRONG_PINS)
def test_wrong_pins(case: str) -> None:
    content, message = WRONG_PINS[case]
    found, faults = pins(content)
    assert message in [fault.message for fault in faults]
    assert len(found) == (2 if case == "pinned twice" else 0)


@pytest.mark.parametrize(
    ("functional", "hint"),
    [
        (
            {"dtype": "bf16", "causal": 0},
            "it has false true; add it like `padded = false`; a lookup may leave it out, a",
        ),
        ({"causal": 0, "padded": False}, 'it has bf16 fp16; add it like `dtype = "bf16"`'),
    ],
)
def test_a_key_that_a_pin_lacks_is_told_with_its_values(functional: dict[str, Any], hint: str) -> None:
    [fault] = pins(pin(functional=functional))[1]
    assert fault.hint.startswith(hint)


def test_a_kernel_of_one_fixed_config_cannot_be_pinned() -> None:
    fixed, _ = schema(FIXED)
    assert fixed is not None
    content = pin(functional={"dtype": "bf16"}, at={}, config={"BLOCK": 32})
    _, faults = read_pins(toml_text(content).encode(), "gfxA/pins.toml", "gfxA", {"f": fixed})
    assert [fault.message for fault in faults] == ["pin: f has one fixed config and no table"]


PIN = """\
iface = "f"
functional = { dtype = "bf16", causal = 0, padded = false }
at = { q = 17 }
config = { BLOCK = 32, pre = false, path = "x" }
reason = '''
[[pin]]
is a head, but not here'''
until = 2030-01-01
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_pins_have_positions(end: str) -> None:
    """The head of each pin, also where a text holds what looks like one."""
    text = f"# two pins\n[[pin]]\n{PIN}  [[ pin ]] # the second\n{PIN.replace('17', '16')}".replace("\n", end)
    found, faults = read_pins(text.encode(), "gfxA/pins.toml", "gfxA", {"f": good_schema()})
    assert [(f.span.line, f.span.column, f.span.last_column) for f in faults] == [(2, 1, 7)]
    assert [(p.span.line, p.span.column, p.span.last_column) for p in found] == [(11, 1, 24)]


def test_pins_without_heads_have_no_invented_positions() -> None:
    faults = pins(pin(at={"q": 17}))[1]
    assert [(fault.span.file, fault.span.line) for fault in faults] == [("gfxA/pins.toml", 0)]
