"""archs.toml: facts, aliases, and the names under which an arch is found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contents import changed, mutated
from tests.strategies import LAW, toml_text
from txtdb.faults import Fault
from txtdb.model.archs import Arch, find_arch, keeps_resources, read_archs, split_archs

ARCHS: dict[str, Any] = {
    "arch": {
        "gfxA": {"aliases": ["a", "b"], "wave_size": 64, "lds_bytes": 65536, "pack": "p", "gpu": "gfxA_mod0"},
        "gfxB": {"vgpr_budget": 512, "compute_units": 304, "xcds": 8},
    }
}


def test_the_file_is_good() -> None:
    assert read_archs(toml_text(ARCHS).encode(), "archs.toml")[1] == []


@given(st.data())
@LAW
def test_any_value_anywhere_in_archs(data: st.DataObject) -> None:
    archs, faults = read_archs(toml_text(mutated(ARCHS, data)).encode(), "archs.toml")
    for arch in archs.values():
        assert isinstance(arch.gpu_name, str)
    assert all(fault.rule in ("archs", "toml") and len(str(fault)) < 1000 for fault in faults)


WRONG_ARCHS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown name": (ARCHS | {"archs": {}}, "archs.toml: unknown name `archs`"),
    "unknown fact": (changed(ARCHS, ("arch", "gfxA", "wavesize"), 64), "arch gfxA: unknown name `wavesize`"),
    "negative": (changed(ARCHS, ("arch", "gfxA", "wave_size"), -64), "arch gfxA: `wave_size` must be a positive int"),
    "bool": (changed(ARCHS, ("arch", "gfxA", "wave_size"), True), "arch gfxA: `wave_size` must be a positive int"),
    "pack of no text": (changed(ARCHS, ("arch", "gfxA", "pack"), 5), "arch gfxA: `pack` must be a text"),
    "alias twice": (changed(ARCHS, ("arch", "gfxB", "aliases"), ["A"]), "`a` names both gfxA and gfxB"),
    "alias of another arch": (
        changed(ARCHS, ("arch", "gfxB", "aliases"), ["gfxA:x+"]),
        "`gfxa` names both gfxA and gfxB",
    ),
    "empty alias": (changed(ARCHS, ("arch", "gfxA", "aliases"), [" "]), "arch gfxA: an alias is empty"),
    "resources of no bool": (ARCHS | {"resources": "yes"}, "`resources` must be true or false"),
    "odd name": (changed(ARCHS, ("arch", "a/b"), {}), "arch a/b: `a/b` is no name"),
}


@pytest.mark.parametrize("case", WRONG_ARCHS)
def test_wrong_archs(case: str) -> None:
    content, message = WRONG_ARCHS[case]
    faults = read_archs(toml_text(content).encode(), "archs.toml")[1]
    assert message in [fault.message for fault in faults]


@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        ("resources = true\n[arch.a]\n", True),
        ("resources = false\n", False),
        ("[arch.resources]\n", False),
        ("=", False),
    ],
)
def test_whether_a_database_keeps_resource_files(text: str, keeps: bool) -> None:
    assert keeps_resources(text.encode()) is keeps
    assert text == "=" or read_archs(text.encode(), "archs.toml")[1] == []


KNOWN, _ = read_archs(toml_text(ARCHS).encode(), "archs.toml")


@pytest.mark.parametrize("name", ["gfxA", "GFXA", " gfxa ", "gfxA:sramecc+:xnack-", "b", "B:x"])
def test_an_arch_is_known_by_its_names(name: str) -> None:
    found = find_arch(name, KNOWN)
    assert isinstance(found, Arch)
    assert found.name == "gfxA"


def test_an_unknown_arch_lists_the_known_ones() -> None:
    found = find_arch("gfxD", KNOWN)
    assert isinstance(found, Fault)
    assert found.hint == "did you mean gfxA? known are gfxA (a, b), gfxB"
    assert isinstance(find_arch("", KNOWN), Fault)
    assert isinstance(find_arch(":xnack-", KNOWN), Fault)


def test_a_name_like_an_alias_is_told_the_arch_and_its_alias() -> None:
    archs = {
        "gfx942": Arch("gfx942", ("MI300A", "MI300X", "MI325X")),
        "gfx950": Arch("gfx950", ("MI355X",)),
        "gfx90a": Arch("gfx90a"),
    }
    for name, guess in {"mi300": "gfx942 (MI300A, MI300X)", "MI355": "gfx950 (MI355X)", "gfx94": "gfx942"}.items():
        found = find_arch(name, archs)
        assert isinstance(found, Fault)
        assert found.hint == (
            f"did you mean {guess}? known are gfx90a, gfx942 (MI300A, MI300X, MI325X), gfx950 (MI355X)"
        )


def test_a_misspelt_fact_is_told_at_its_line() -> None:
    _, faults = read_archs(b"[arch.gfxA]\nwavesize = 64\n", "archs.toml")
    assert [(fault.span.line, fault.span.column, fault.span.last_column) for fault in faults] == [(2, 1, 8)]
    assert faults[0].hint.startswith("did you mean wave_size? known are ")


def test_lists_of_archs() -> None:
    assert split_archs(["gfxA;gfxB, c", "d  e\tf", ""]) == ["gfxA", "gfxB", "c", "d", "e", "f"]


def test_gpu_names() -> None:
    assert Arch("gfx942").gpu_name == "gfx942_mod0"
    assert Arch("gfx942_mod1").gpu_name == "gfx942_mod1"
    assert Arch("gfx942", gpu="MI300").gpu_name == "MI300"
