"""Short texts that spell huge things: each is a fault or a table within seconds, and never fills the memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from txtdb.model.schema_file import read_schema
from txtdb.model.table import ConfigPool, build_table
from txtdb.syntax import print_source, read
from txtdb.syntax.grid import MAX_CELLS

HEADER = "#! txtdb 1\n#! iface f\n#! arch g\n#! key k\n"


@contextmanager
def within(seconds: float, mebibytes: int) -> Iterator[None]:
    tracemalloc.start()
    start = time.perf_counter()
    try:
        yield
        taken, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < seconds, f"{taken:.1f} s"
    assert peak < mebibytes << 20, f"{peak >> 20} MiB"


def numbers(count: int) -> str:
    return " ".join(map(str, range(count)))


def axes(*counts: int) -> str:
    return "".join(f"#! axis x{number} {numbers(count)}\n" for number, count in enumerate(counts))


def end(body: str) -> str:
    return f"{body}#! end\n"


# name → (text, rules)
BOMBS: dict[str, tuple[Callable[[], str], list[str]]] = {
    "four axes of 10,000 bins": (
        lambda: end(HEADER + axes(*[10_000] * 4) + "#! config c\na = 1\n[x]\n0,0,0 a\n"),
        ["too-large"],
    ),
    "four axes of 10,000 bins, no block": (lambda: end(HEADER + axes(*[10_000] * 4) + "#! config c\n"), ["too-large"]),
    "many blocks of one long range": (
        lambda: end(
            HEADER + axes(20_000, 1) + "#! config c\na = 1\n" + "".join(f"[x{n}]\n0-19999 a\n" for n in range(1000))
        ),
        ["too-large"],
    ),
    "a row of many long runs": (
        lambda: end(HEADER + axes(20_000) + "#! config c\na = 1\n[x]\n" + "a*20000 " * 20_000 + "\n"),
        ["row-too-long"],
    ),
    "one row again and again": (
        lambda: end(HEADER + axes(20_000) + "#! config c\na = 1\n[x]\n" + "a*20000\n" * 2_000),
        ["rows-overlap"] * 1_999,
    ),
    "a run of each length": (
        lambda: end(
            HEADER
            + axes(10_000)
            + "#! config c\na = 1\nb = 2\n"
            + "".join(f"[x{n}]\na*{n} b*{10_000 - n}\n" for n in range(1, 1_500))
        ),
        [],
    ),
    "100,000 bins and as many rows": (
        lambda: end(
            HEADER
            + axes(100_000, 2)
            + "#! config c\na = 1\nb = 2\n[x]\n"
            + "".join(f"{n} {'ab'[n % 2]}*2\n" for n in range(100_000))
        ),
        [],
    ),
    "falling bins": (
        lambda: end(HEADER + f"#! axis m {' '.join(map(str, range(100_000, 0, -1)))}\n#! config c\n"),
        ["axis-order"],
    ),
    "50,000 names twice": (lambda: end(HEADER.replace("key k", f"key {'k ' * 50_000}")), ["duplicate-name"] * 49_999),
    "2,000 axes": (lambda: end(HEADER + axes(*[1] * 2_000) + "#! config c\n"), ["too-many-axes"]),
    "a long bad line": (lambda: end(HEADER + "a " * 1_000_000 + "!\n"), ["bad-row"]),
    "a long line of blanks": (lambda: end(HEADER + " " * 1_000_000 + "\n"), []),
    "a long symbol": (lambda: end(HEADER + axes(1) + f"#! config c\n{'a' * 100_000} = 1\n[x]\n{'a' * 100_000}\n"), []),
    "a long head": (lambda: end(HEADER + f"[{'x' * 1_000_000} !]\n"), ["bad-functional", "missing-directive"]),
    "a row with a fault in its last run": (
        lambda: end(HEADER + axes(60_000) + "#! config c\na = 1\n[x]\n" + "a " * 59_999 + "q\n"),
        ["unknown-symbol"],
    ),
    "label faults on a long axis": (
        lambda: end(HEADER + axes(20_000, 1) + "#! config c\na = 1\n[x]\n" + "99999 a\n" * 20_000),
        ["bad-label"] * 20_000,
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bomb(bomb: str) -> None:
    make, rules = BOMBS[bomb]
    data = make().encode()
    with within(20, 400):
        source, faults = read(data, "g/f.txtdb")
    assert [f.rule for f in faults if f.rule not in ("missing-directive",)] == [
        r for r in rules if r != "missing-directive"
    ]
    if source and not faults:
        assert read(print_source(source).encode(), "g/f.txtdb")[1] == []


def test_a_file_that_is_too_large_has_no_table() -> None:
    schema_text = (
        'iface = "f"\n[[key]]\nname = "k"\ntype = "enum"\nvalues = ["x"]\n[[config]]\nname = "c"\ntype = "int"\n'
    )
    schema_text += "".join(f'[[axis]]\nname = "x{n}"\nbins = [1, 2]\n' for n in range(4)) + "[arch.g]\n"
    schema, found = read_schema(schema_text.encode(), "f.toml", "f")
    assert schema is not None, found
    text = HEADER + "".join(f"#! axis x{n} {numbers(10_000)}\n" for n in range(4)) + "#! config c\na = 1\n#! end\n"
    source, _ = read(text.encode(), "g/f.txtdb")
    assert source is not None
    assert source.shape.axes == ()
    table, faults = build_table(source, schema, "g", ConfigPool())
    assert (table.functionals, faults) == ((), [])


def test_the_limit_by_hand() -> None:
    """4,096 × 4,096 cells are 2^24 and pass, one block more does not."""
    assert MAX_CELLS == 4_096 * 4_096
    header = HEADER + axes(4_096, 4_096) + "#! config c\na = 1\n"
    one = end(header + "[x]\n0 a*4096\n")
    assert read(one.encode(), "f.txtdb")[1] == []
    assert [f.rule for f in read(end(header + "[x]\n0 a*4096\n[y]\n0 a*4096\n").encode(), "f.txtdb")[1]] == [
        "too-large"
    ]
