"""What a language cannot say is a fault with its place, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codegen import Inputs, Options, generate
from codegen.expressible import RULE, is_namespace
from tests.build import F1, S0, make_db, table
from txtdb.faults import Fault
from txtdb.layers.database import open_database

SCHEMA = S0["schema/attn_fwd.toml"]
TABLE = S0["gfxB/attn_fwd.txtdb"]


def faults(root: Path, **options: object) -> list[Fault]:
    database = open_database(root)
    assert not database.faults
    result = generate(database, Options(**options), Inputs(database))  # type: ignore[arg-type]
    assert not result.faults or "index.json" not in result.files
    return list(result.faults)


def renamed(*pairs: tuple[str, str]) -> Callable[[str], str]:
    def change(text: str) -> str:
        for old, new in pairs:
            text = text.replace(old, new)
        return text

    return change


def changed(folder: Path, change: Callable[[str], str]) -> Path:
    """S0 with every text changed; gfxA is left out."""
    schema = SCHEMA.partition("[arch.gfxA]")[0] + SCHEMA[SCHEMA.index("[arch.gfxB]") :]
    return make_db(
        folder,
        {"gfxA/attn_fwd.txtdb": None, "schema/attn_fwd.toml": change(schema), "gfxB/attn_fwd.txtdb": change(TABLE)},
    )


# name → (what is renamed, the message, the languages that can say it)
NAMES = {
    "C++ keyword as a key": (renamed(("causal", "register")), "`register` is a word of C++", ("python",)),
    "C++ alternative token as a field": (renamed(("num_warps", "xor")), "`xor` is a word of C++", ("python",)),
    "Python keyword as an axis": (renamed(("seqlen_q", "lambda")), "`lambda` is a word of Python", ("cpp",)),
    "double underscore": (renamed(("causal", "is__causal")), "`is__causal` is no name in C++", ("python",)),
    "leading underscore": (renamed(("causal", "_causal")), "`_causal` is no name in", ()),
    "a dot in a field": (renamed(("num_warps", "num.warps")), "`num.warps` is no name in", ()),
    "C++ keyword as an enum value": (
        renamed(("fp16", "double")),
        "value of dtype `double` is a word of C++",
        ("python",),
    ),
    "digits as an enum value": (renamed(("fp16", "16x")), "value of dtype `16x` is no name in C++", ("python",)),
    "a struct's name as a key": (renamed(("causal", "Params")), "`Params` is a type of the generated code", ()),
    "a colon in an enum value": (renamed(("fp16", "fp:16")), "value", ()),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_that_a_language_does_not_have(name, tmp_path):
    change, message, possible = NAMES[name]
    root = changed(tmp_path, change)
    found = faults(root)
    assert [fault.rule for fault in found] == [RULE]
    assert message in found[0].message
    for lang in ("cpp", "python"):
        assert bool(faults(root, langs=(lang,))) == (lang not in possible)


def test_the_place_of_a_name_is_found(tmp_path):
    root = changed(tmp_path, renamed(("causal", "register")))
    span = faults(root)[0].span
    assert (Path(span.file).name, span.line, span.column, span.last_column) == ("attn_fwd.toml", 8, 9, 16)
    assert (root / "schema" / "attn_fwd.toml").read_text().splitlines()[7][8:16] == "register"


def test_a_name_that_stands_twice_has_no_invented_place(tmp_path):
    root = changed(tmp_path, renamed(("fp16", "double")))
    (root / "schema" / "attn_fwd.toml").write_text(
        (root / "schema" / "attn_fwd.toml")
        .read_text()
        .replace('domain.dtype = ["double"]', 'domain.dtype = ["double"] # "double"')
    )
    assert faults(root)[0].span.line == 0


def test_two_names_that_become_one_type(tmp_path):
    field = '[[config]]\nname = "dtype"\ntype = "enum"\nvalues = ["x", "y"]\ndefault = "x"\n'
    root = make_db(tmp_path, {"schema/attn_fwd.toml": SCHEMA.replace("[[config]]", field + "[[config]]", 1)})
    assert [fault.message for fault in faults(root)] == ["attn_fwd: two names become `dtype_t` in C++"]
    assert faults(root, langs=("python",)) == []


def test_a_key_named_like_the_type_of_another(tmp_path):
    root = changed(tmp_path, renamed(("causal", "dtype_t")))
    assert [fault.message for fault in faults(root)] == ["attn_fwd: two names become `dtype_t` in C++"]


@pytest.mark.parametrize("iface", ["archs", "support", "detail", "Arch", "std", "class", "CON", "import"])
def test_interfaces_whose_name_is_taken(iface, tmp_path):
    files = {f"schema/{iface}.toml": SCHEMA.replace('"attn_fwd"', f'"{iface}"'), "schema/attn_fwd.toml": None}
    text = TABLE.replace("attn_fwd", iface)
    root = make_db(
        tmp_path, {**files, f"gfxB/{iface}.txtdb": text, "gfxB/attn_fwd.txtdb": None, "gfxA/attn_fwd.txtdb": None}
    )
    found = faults(root, archs=("gfxB",))
    assert found
    assert {fault.rule for fault in found} == {RULE}


@pytest.mark.parametrize("arch", ["gfx9.4", "gfx__B", "aux", "class"])
def test_archs_that_are_no_name(arch, tmp_path):
    archs = S0["archs.toml"].replace("gfxB", f'"{arch}"')
    files = {
        "schema/attn_fwd.toml": SCHEMA.partition("[arch.gfxA]")[0]
        + f'[arch."{arch}"]\ndomain.dtype = ["fp16"]\ndomain.causal = [0]\ndomain.head_dim = [64]\n'
    }
    files |= {f"{arch}/attn_fwd.txtdb": TABLE.replace("gfxB", arch), "archs.toml": archs}
    root = make_db(tmp_path, {**files, "gfxB/attn_fwd.txtdb": None, "gfxA/attn_fwd.txtdb": None})
    found = faults(root)
    assert [fault.rule for fault in found] == [RULE] * len(found) != []
    assert found[0].span.line == 4


def test_interfaces_that_differ_in_case_only(tmp_path):
    other = SCHEMA.replace('"attn_fwd"', '"Attn_fwd"')
    files = {"schema/Attn_fwd.toml": other, "gfxB/Attn_fwd.txtdb": TABLE.replace("attn_fwd", "Attn_fwd")}
    if (make_db(tmp_path, {}, "probe") / "ARCHS.toml").exists():
        pytest.skip("this file system does not tell such names apart")
    root = make_db(
        tmp_path, {**files, "gfxA/Attn_fwd.txtdb": S0["gfxA/attn_fwd.txtdb"].replace("attn_fwd", "Attn_fwd")}
    )
    assert [fault.message for fault in faults(root)] == ["interface names `Attn_fwd`, `attn_fwd` differ in case only"]


def test_a_path_that_is_too_long(tmp_path):
    iface = "an_interface_whose_name_is_longer_than_any_file_name_should_be_" + "x" * 60
    files = {f"schema/{iface}.toml": SCHEMA.replace('"attn_fwd"', f'"{iface}"'), "schema/attn_fwd.toml": None}
    files |= {f"gfxB/{iface}.txtdb": TABLE.replace("attn_fwd", iface), "gfxB/attn_fwd.txtdb": None}
    root = make_db(tmp_path, {**files, "gfxA/attn_fwd.txtdb": None})
    assert "at most 120" in faults(root, archs=("gfxB",))[0].message


PIN = """\
[[pin]]
iface = "attn_fwd"
functional = { dtype = "fp16", causal = 0, head_dim = 64 }
at = { seqlen_q = 64, seqlen_k = 64 }
config = { BLOCK_M = 32, PRE_LOAD_V = true, num_warps = 1, num_stages = 1, spill = 9223372036854775808 }
reason = "a test"
until = 2030-01-01
"""


def test_a_number_that_does_not_fit_64_bits_is_told_with_its_pin(tmp_path):
    field = '[[config]]\nname = "spill"\ntype = "int"\ndefault = 0\n'
    schema = SCHEMA.replace("[[config]]", field + "[[config]]", 1)
    root = make_db(tmp_path, {"schema/attn_fwd.toml": schema, "gfxB/pins.toml": "# pins\n" + PIN})
    found = faults(root, archs=("gfxB",))
    assert len(found) == 1
    assert (Path(found[0].span.file).name, found[0].span.line) == ("pins.toml", 2)


def test_every_fault_is_told_in_one_run(tmp_path):
    root = changed(tmp_path, renamed(("causal", "register"), ("seqlen_q", "lambda")))
    path = root / "gfxB" / "attn_fwd.txtdb"
    path.write_text(
        table("gfxB", {F1: ["64 a zz a", "128 q*3"]}, keys="dtype register head_dim").replace("seqlen_q", "lambda")
    )
    rules = {fault.rule for fault in faults(root)}
    assert {RULE, "unknown-symbol"} <= rules


@pytest.mark.parametrize(
    ("text", "good"), [("a", True), ("a::b_c", True), ("a::", False), ("a:b", False), ("std", False), ("1a", False)]
)
def test_namespaces(text, good):
    assert is_namespace(text) == good
