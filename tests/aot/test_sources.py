"""Digests of kernel sources: which edit marks which functional."""

from __future__ import annotations

import ast
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from codegen.aot.sources import FOLDER, Sources

KERNEL = '''
"""A module."""

import triton
import triton.language as tl

from codegen.kernels.parts import SCALE, part
from codegen.kernels import parts

LOCAL = tl.constexpr(3)


@triton.jit
def attn(Q, stride, DIM: tl.constexpr, DROP: tl.constexpr, BLOCK: tl.constexpr):
    """A docstring."""
    x = tl.load(Q) * LOCAL  # a comment
    if DIM == 128:
        x += 1
    elif DIM > 128 and not DROP:
        x += 2
    if DROP:
        x = part(x, stride, DIM, True)
        return x
    return parts.other(x, FLAG=DROP or BLOCK > 64)


@triton.jit
def unrelated(Q):
    tl.store(Q, 1)
'''
PARTS = """
import triton
import triton.language as tl

SCALE = tl.constexpr(1.5)


@triton.jit
def part(x, stride, DIM: tl.constexpr, MASKED: tl.constexpr = False):
    if MASKED:
        x = x * SCALE
    if DIM == 64:
        x = x + stride
    return x


@triton.jit
def other(x, FLAG: tl.constexpr):
    if FLAG:
        x = x - 1
    return x
"""


def digests(folder: Path, kernel: str = KERNEL, parts: str = PARTS) -> dict[tuple[int, bool], str]:
    """(head dim, dropout) → digest."""
    folder.mkdir(exist_ok=True)
    (folder / "attn.py").write_text(kernel, encoding="utf-8")
    (folder / "parts.py").write_text(parts, encoding="utf-8")
    sources = Sources(folder)
    cases = [(dim, drop) for dim in (64, 128, 256) for drop in (False, True)]
    return {(dim, drop): sources.digest(sources.kernels["attn"], {"DIM": dim, "DROP": drop}) for dim, drop in cases}


def changed(folder: Path, old: str, new: str) -> set[tuple[int, bool]]:
    """The functionals that an edit marks."""
    assert old in KERNEL or old in PARTS
    before, after = digests(folder), digests(folder, KERNEL.replace(old, new), PARTS.replace(old, new))
    return {case for case in before if before[case] != after[case]}


ALL = {(dim, drop) for dim in (64, 128, 256) for drop in (False, True)}
PLAIN = {case for case in ALL if not case[1]}
DROPOUT = ALL - PLAIN


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        pytest.param("  # a comment", "  # another one", set(), id="comment"),
        pytest.param('    """A docstring."""\n', "", set(), id="docstring"),
        pytest.param("tl.load(Q) * LOCAL", "(tl.load(Q)\n        * LOCAL)", set(), id="layout"),
        pytest.param("tl.store(Q, 1)", "tl.store(Q, 2)", set(), id="another kernel"),
        pytest.param("tl.load(Q)", "tl.load(Q + 1)", ALL, id="every functional"),
        pytest.param("x += 1\n", "x += 3\n", {(128, False), (128, True)}, id="branch of head dim 128"),
        pytest.param("x += 2\n", "x += 3\n", {(256, False)}, id="branch of two keys"),
        pytest.param("return x\n    return parts", "return x + 1\n    return parts", DROPOUT, id="behind a return"),
        pytest.param("x = x - 1", "x = x - 2", PLAIN, id="function called by its module"),
        pytest.param("x = x + stride", "x = x - stride", {(64, True)}, id="branch of a called function"),
        pytest.param("SCALE = tl.constexpr(1.5)", "SCALE = tl.constexpr(1.25)", DROPOUT, id="constant"),
        pytest.param("LOCAL = tl.constexpr(3)", "LOCAL = tl.constexpr(4)", ALL, id="constant of the module"),
        pytest.param("MASKED: tl.constexpr = False", "MASKED: tl.constexpr = True", DROPOUT, id="default"),
        pytest.param("Q, stride, DIM", "stride, Q, DIM", ALL, id="order of arguments"),
        pytest.param("@triton.jit\ndef part", "@triton.jit(noinline=True)\ndef part", DROPOUT, id="decorator"),
    ],
)
def test_an_edit_marks_the_functionals_that_compile_it(tmp_path: Path, old: str, new: str, marked: set) -> None:
    assert changed(tmp_path, old, new) == marked


def test_config_fields_are_not_folded(tmp_path: Path) -> None:
    """A digest is of a functional: a branch on a tile size belongs to all of its configs."""
    both = KERNEL.replace("x += 1\n", "x += 1\n    if BLOCK == 32:\n        x += 9\n")
    assert {case for case, own in digests(tmp_path).items() if digests(tmp_path, both)[case] != own} == ALL


def test_a_name_that_is_assigned_hides_a_constant(tmp_path: Path) -> None:
    """What the function assigns to has no fixed value: both branches count."""
    hidden = KERNEL.replace("    if DROP:\n", "    DROP = x > 1\n    if DROP:\n")
    before, after = (
        digests(tmp_path, hidden),
        digests(tmp_path, hidden.replace("return parts.other", "return 1 + parts.other")),
    )
    assert {case for case in before if before[case] != after[case]} == ALL


def test_recursion_ends(tmp_path: Path) -> None:
    loop = PARTS.replace(
        "    return x\n\n\n@triton.jit\ndef other", "    return part(x, stride, DIM)\n\n\n@triton.jit\ndef other"
    )
    assert len(set(digests(tmp_path, parts=loop).values())) > 1


@pytest.mark.parametrize(
    "form",
    [
        pytest.param("LOCAL, OTHER = tl.constexpr(3), 1", id="several at once"),
        pytest.param("LOCAL = 1\nLOCAL += 3", id="in two steps"),
        pytest.param("try:\n    import absent\nexcept ImportError:\n    LOCAL = 3", id="in a handler"),
        pytest.param("if tl.VERSION > 3:\n    LOCAL = 1", id="under a condition"),
        pytest.param("for LOCAL in range(3):\n    pass", id="in a loop"),
        pytest.param("with tl.scope(3) as LOCAL:\n    pass", id="in a context"),
        pytest.param("(LOCAL := 3)", id="in an expression"),
    ],
)
def test_a_constant_marks_in_whatever_form_it_is_set(tmp_path: Path, form: str) -> None:
    before, after = (
        digests(tmp_path, KERNEL.replace("LOCAL = tl.constexpr(3)", text)) for text in (form, form.replace("3", "4"))
    )
    assert {case for case in before if before[case] != after[case]} == ALL


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("import codegen.kernels.parts", "codegen.kernels.parts.other"),
        ("import codegen.kernels", "codegen.kernels.parts.other"),
        ("import codegen.kernels.parts as pieces", "pieces.other"),
        ("from codegen import kernels", "kernels.parts.other"),
        ("from . import parts as pieces", "pieces.other"),
    ],
)
def test_a_function_is_followed_by_each_way_to_name_it(tmp_path: Path, line: str, name: str) -> None:
    (tmp_path / "__init__.py").write_text("", encoding="utf-8")
    kernel = KERNEL.replace("from codegen.kernels import parts", line).replace("parts.other", name)
    edited = PARTS.replace("x = x - 1", "x = x - 2")
    before, after = digests(tmp_path, kernel), digests(tmp_path, kernel, edited)
    assert {case for case in before if before[case] != after[case]} == PLAIN


@pytest.mark.parametrize(
    "text",
    [
        "from codegen.kernels.parts import *",
        "try:\n    from codegen.kernels.parts import other\nexcept ImportError:\n    pass",
        "if tl.FAST:\n    def other(x):\n        return x",
    ],
)
def test_what_a_name_means_is_told_by_the_module_or_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SyntaxError) as raised:
        digests(tmp_path, f"{text}\n{KERNEL}")
    assert raised.value.filename == "attn.py"
    assert raised.value.lineno in (1, 2)


def test_true_and_1_are_told_apart_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("@triton.jit\ndef one(A: tl.constexpr, b):\n    return b + A\n", "utf-8")
    for order in ((1, True), (True, 1)):
        sources = Sources(tmp_path)
        found = {type(value): sources.digest(sources.kernels["one"], {"A": value}) for value in order}
        assert found[int] != found[bool]
        text = (
            "b:NoneType:None\n[]\n[(Attribute value=(Name id=str:'triton') attr=str:'jit')]\n"
            "[(Return value=(BinOp left=(Name id=str:'b') op=(Add ) right=(Constant value=bool:True)))]"
        )
        assert found[bool] == sha256(text.encode()).hexdigest()[:16]


def test_a_moved_function_is_the_same_function(tmp_path: Path) -> None:
    """Which module a function stands in plays no part."""
    head, _, part = PARTS.partition("@triton.jit\ndef other")
    moved = KERNEL.replace("return parts.other", "return other") + "\n\n@triton.jit\ndef other" + part
    assert digests(tmp_path, moved, head) == digests(tmp_path)


def test_the_real_kernels() -> None:
    sources = Sources()
    names = {"attn_fwd", "bwd_preprocess", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse"}
    assert names <= sources.kernels.keys()
    keys = {"Q_dtype": "bf16", "CAUSAL_TYPE": 0, "ENABLE_DROPOUT": False, "PADDED_HEAD": False, "BIAS_TYPE": 0}
    seen = {
        sources.digest(sources.kernels[name], {**keys, "BLOCK_DMODEL": dim, **more})
        for name in names - {"bwd_preprocess"}
        for dim in (64, 128)
        for more in ({}, {"CAUSAL_TYPE": 3}, {"BIAS_TYPE": 1}, {"ENABLE_DROPOUT": True}, {"PADDED_HEAD": True})
    }
    assert len(seen) == 4 * 2 * 5


def test_digests_do_not_depend_on_the_process(tmp_path: Path) -> None:
    """The same for every hash seed, and triton is not imported for it."""
    digests(tmp_path / "kernels")
    code = (
        "import sys; from pathlib import Path; from codegen.aot.sources import Sources\n"
        f"s = Sources(Path({str(tmp_path / 'kernels')!r}))\n"
        "print(s.digest(s.kernels['attn'], {'DIM': 128, 'DROP': True})); assert 'triton' not in sys.modules"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert runs == {digests(tmp_path / "kernels")[128, True] + "\n"}


def test_a_digest_worked_by_hand(tmp_path: Path) -> None:
    """The text that is digested, so that a change of its spelling is noticed: every recorded digest would be stale."""
    (tmp_path / "one.py").write_text(
        "@triton.jit\ndef one(A: tl.constexpr, b):\n    if A:\n        return b\n", "utf-8"
    )
    sources = Sources(tmp_path)
    text = (
        "b:NoneType:None\n[]\n[(Attribute value=(Name id=str:'triton') attr=str:'jit')]\n"
        "[(Return value=(Name id=str:'b'))]"
    )
    assert sources.digest(sources.kernels["one"], {"A": True}) == sha256(text.encode()).hexdigest()[:16]


def test_every_kernel_file_parses() -> None:
    for path in FOLDER.rglob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"))
