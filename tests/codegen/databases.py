"""Small databases, each with something that generated code has to get right. All are written to text by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path

from tests.build import write_files

Value = bool | int | str
ARCH_HEADS = "[arch.gfxA]\naliases = ['Alpha:xnack-']\n[arch.gfxB]\n"


def shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def toml(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else shown(value)  # type: ignore[arg-type]


def section(head: str, **values: object) -> str:
    return f"[[{head}]]\n" + "".join(f"{name} = {toml(value)}\n" for name, value in values.items())


def key(name: str, values: Sequence[Value], **more: object) -> str:
    kind = "bool" if isinstance(values[0], bool) else "int" if isinstance(values[0], int) else "enum"
    return section("key", name=name, type=kind, values=list(values), **more)


def table_text(
    arch: str,
    keys: Mapping[str, Sequence[Value]],
    axes: Mapping[str, Sequence[int]],
    fields: Sequence[str],
    cells: Callable[[tuple[Value, ...], tuple[int, ...]], tuple[Value, ...] | str],
    *,
    iface: str = "f",
    kind: str = "txtdb",
    base: str = "",
    functionals: Sequence[tuple[Value, ...]] | None = None,
) -> str:
    """A table that holds `cells(functional, bins)`: a config, or one of the marks `.` and `-`."""
    symbols: dict[tuple[Value, ...], str] = {}
    blocks = []
    for functional in functionals if functionals is not None else list(product(*keys.values())):
        blocks.append(f"[{' '.join(map(shown, functional))}]")
        *labels, last = axes.values()
        for label in product(*labels):
            row = [",".join(map(str, label))] if label else []
            for value in last:
                cell = cells(functional, (*label, value))
                row.append(cell if isinstance(cell, str) else symbols.setdefault(cell, symbol(len(symbols))))
            blocks.append(" ".join(row))
    lines = [f"#! {kind} 1", f"#! iface {iface}", f"#! arch {arch}", *([f"#! base {base}"] if base else [])]
    lines += [f"#! key {' '.join(keys)}", *(f"#! axis {n} {' '.join(map(str, own))}" for n, own in axes.items())]
    lines += [f"#! config {' '.join(fields)}", *(f"{s} = {' '.join(map(shown, c))}" for c, s in symbols.items())]
    return "\n".join([*lines, *blocks, "#! end"]) + "\n"


def symbol(number: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    text = letters[number % 52]
    return text if number < 52 else symbol(number // 52 - 1) + text


def layered(folder: Path, axes: int, seed: int = 7) -> tuple[Path, list[Path]]:
    """Base, table, patches, pins and an overlay over one to four axes with bins that are no powers of two."""
    chance = random.Random(seed)
    bins = {
        f"n{number}": sorted(chance.sample([0, 1, 3, 16, 17, 24, 64, 100, 5000], 4 if axes < 3 else 3))
        for number in range(axes)
    }
    keys = {"dtype": ["fp16", "bf16"], "pad": [False, True], "dim": [16, 48, 64]}
    fields = ("tile", "fast", "mode")

    def config() -> tuple[Value, ...]:
        return chance.choice([16, 32, 64]), chance.random() < 0.5, chance.choice(["wide", "narrow"])

    def sparse(full: float) -> Callable[[tuple[Value, ...], tuple[int, ...]], tuple[Value, ...] | str]:
        return lambda _f, _at: config() if chance.random() < full else chance.choice([".", ".", "-"])

    def some_bins() -> dict[str, list[int]]:
        return {name: sorted(chance.sample(own, 2)) for name, own in bins.items()}

    schema = (
        'iface = "f"\n'
        + key("dtype", keys["dtype"])
        + key("pad", [False, True], fallback=False)
        + key("dim", keys["dim"])
    )
    schema += "".join(section("axis", name=name, bins=own) for name, own in bins.items())
    schema += section("config", name="tile", type="int", values=[16, 32, 64])
    schema += section("config", name="fast", type="bool", default=False)
    schema += section("config", name="mode", type="enum", values=["wide", "narrow"], binary=False)
    schema += '[[absent]]\ndtype = "fp16"\ndim = 48\n[arch.gfxA]\n[arch.gfxB]\ndomain.dim = [16, 48]\n'
    unpadded = [f for f in product(*keys.values()) if not f[1] and (f[0], f[2]) != ("fp16", 48)]
    padded = [("bf16", True, 48), ("bf16", True, 16)]
    point = ", ".join(f"{name} = {own[0]}" for name, own in bins.items())
    pins = (
        '[[pin]]\niface = "f"\nreason = "a test"\nuntil = 2030-01-01\n'
        'config = { tile = 64, fast = true, mode = "narrow" }\n'
        f'functional = {{ dtype = "bf16", pad = false, dim = 16 }}\nat = {{ {point} }}\n'
    )
    root = write_files(
        folder / "db",
        {
            "archs.toml": ARCH_HEADS,
            "schema/f.toml": schema,
            "gfxB/f.txtdb": table_text(
                "gfxB", keys, bins, fields, sparse(1.0), functionals=[f for f in unpadded if f[2] != 64]
            ),
            "gfxB/f.0020-later.dbpatch": table_text(
                "gfxB", keys, some_bins(), fields, sparse(0.6), kind="dbpatch", functionals=padded
            ),
            "gfxB/f.0003-first.dbpatch": table_text(
                "gfxB", keys, some_bins(), fields, sparse(0.9), kind="dbpatch", functionals=padded
            ),
            "gfxA/f.txtdb": table_text(
                "gfxA", keys, some_bins(), fields, sparse(0.4), base="gfxB", functionals=unpadded
            ),
            "gfxA/pins.toml": pins,
        },
    )
    over = table_text(
        "gfxA", keys, some_bins(), fields, sparse(0.5), kind="dbpatch", functionals=[*unpadded[:2], *padded[:1]]
    )
    return root, [write_files(folder / "over", {"gfxA/f.0001-over.dbpatch": over})]


def many_configs(folder: Path, number: int = 300) -> Path:
    """So many configs, with 300 more than one byte counts, in a grid of one axis."""
    bins = range(1, number + 1)
    schema = 'iface = "f"\n' + key("dim", [16, 64]) + section("axis", name="n", bins=list(bins))
    schema += section("config", name="tile", type="int", min=0, max=400) + "[arch.gfxA]\n"
    keys = {"dim": [16, 64]}
    cells = table_text("gfxA", keys, {"n": bins}, ["tile"], lambda f, at: (at[0] if f == (16,) else 7,))
    return write_files(folder / "db", {"archs.toml": "[arch.gfxA]\n", "schema/f.toml": schema, "gfxA/f.txtdb": cells})


TWELVE = {
    **{f"a_key_with_a_name_of_some_length_{n}": [False, True] for n in range(8)},
    "dtype": ["float16", "bfloat16"],
    "sparse": [-70_000, 0, 3, 900_000_000_000_000_000],
    "step": [-8, 0, 24],
    "one": [5],
}


def twelve_keys(folder: Path) -> Path:
    """Twelve keys of every type with negative, distant and single values; image names are too long as they stand."""
    fields = [f"a_config_field_of_some_length_{n}" for n in range(6)]
    schema = 'iface = "an_interface_with_a_name_of_some_length"\n'
    schema += "".join(key(name, values) for name, values in TWELVE.items()) + section("axis", name="n", bins=[64, 128])
    schema += "".join(section("config", name=name, type="int", min=-9, max=9) for name in fields) + "[arch.gfxA]\n"
    schema += '[[arch.gfxA.unsupported]]\nstep = 24\ndtype = "float16"\n'
    exist = [f for f in product(*TWELVE.values()) if not (f[10] == 24 and f[8] == "float16")]
    chance = random.Random(3)
    configs = [tuple(chance.randrange(-9, 10) for _ in fields) for _ in range(5)]
    text = table_text(
        "gfxA", TWELVE, {"n": [64, 128]}, fields, lambda _f, _at: chance.choice(configs),
        iface="an_interface_with_a_name_of_some_length", functionals=exist,
    )  # fmt: skip
    name = "an_interface_with_a_name_of_some_length"
    return write_files(
        folder / "db", {"archs.toml": "[arch.gfxA]\n", f"schema/{name}.toml": schema, f"gfxA/{name}.txtdb": text}
    )


def many_codes(folder: Path) -> Path:
    """More combinations of key values than a direct table has room for; few of them exist."""
    keys = {"a": list(range(300)), "b": list(range(-100, 200)), "c": [False, True]}
    exist = [(a, b, c) for a in (0, 7, 299) for b in (-100, 0, 199) for c in (False, True)]
    schema = 'iface = "f"\n' + "".join(key(name, values) for name, values in keys.items())
    schema += section("axis", name="n", bins=[8, 16]) + section("config", name="tile", type="int", min=0, max=400)
    schema += "[arch.gfxA]\ndomain.a = [0, 7, 299]\ndomain.b = [-100, 0, 199]\n"
    schema += "[arch.gfxB]\ndomain.a = [1]\ndomain.b = [1]\ndomain.c = [true]\n"
    cells = table_text("gfxA", keys, {"n": [8, 16]}, ["tile"], lambda f, at: (f[0] + at[0],), functionals=exist)
    one = table_text("gfxB", keys, {"n": [8, 16]}, ["tile"], lambda f, at: (at[0],), functionals=[(1, 1, True)])
    return write_files(
        folder / "db", {"archs.toml": ARCH_HEADS, "schema/f.toml": schema, "gfxA/f.txtdb": cells, "gfxB/f.txtdb": one}
    )


def operators(folder: Path) -> Path:
    """An operator over a tuned kernel and a fixed helper, with fixed keys of every type and derived fields."""
    fixed = section("key", name="alibi", type="bool", fixed=False) + section("key", name="bits", type="int", fixed=8)
    fixed += section("key", name="layout", type="enum", fixed="bshd")
    keys = {"dtype": ["fp16", "bf16"], "causal": [0, 3]}
    heads = "".join(key(name, values) for name, values in keys.items())
    axis = section("axis", name="n", bins=[32, 64, 1000])
    op = 'iface = "op"\nkind = "operator"\n' + heads + fixed + axis
    op += (
        section("backend", name="split", launches=["f", "helper"])
        + section("backend", name="external")
        + "[arch.gfxA]\n"
    )
    kernel = 'iface = "f"\n' + heads + fixed + axis + section("config", name="tile", type="int", values=[16, 32])
    kernel += '[[derived]]\nname = "persistent"\ntype = "int"\nkey = "causal"\nmap = { 0 = 0, 3 = 2 }\n'
    kernel += '[[derived]]\nname = "math"\ntype = "enum"\nkey = "dtype"\nmap = { fp16 = "fast", bf16 = "exact" }\n'
    kernel += '[[derived]]\nname = "wide"\ntype = "bool"\nkey = "dtype"\nmap = { fp16 = false, bf16 = true }\n'
    kernel += "[arch.gfxA]\n[arch.gfxB]\n"
    helper = 'iface = "helper"\nkind = "fixed"\nfixed_config = { tile = 128, safe = true }\n' + heads
    helper += (
        section("config", name="tile", type="int", values=[128])
        + section("config", name="safe", type="bool")
        + "[arch.gfxA]\ndomain.causal = [0]\n"
    )
    axes = {"n": [32, 64, 1000]}
    return write_files(
        folder / "db",
        {
            "archs.toml": ARCH_HEADS,
            "schema/op.toml": op,
            "schema/f.toml": kernel,
            "schema/helper.toml": helper,
            "gfxA/op.txtdb": table_text(
                "gfxA", keys, axes, ["backend"], lambda f, at: ("split" if at[0] < 64 else "external",), iface="op"
            ),
            "gfxA/f.txtdb": table_text("gfxA", keys, axes, ["tile"], lambda f, at: (16 if f[1] else 32,)),
            "gfxB/f.txtdb": "#! txtdb 1\n#! iface f\n#! arch gfxB\n#! base gfxA\n#! end\n",
        },
    )
