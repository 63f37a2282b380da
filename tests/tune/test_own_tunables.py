"""Tunables of other packages: what is wrong with them is told in one line with its place, before a device is opened."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.tune.bench import Bench, make_bench
from txtdb.tune.devices import DEVICES_GROUP
from txtdb.tune.tunable import TUNABLES_GROUP

SOURCE = """\
from txtdb.tune.tunable import Problem


class Own:
    iface = "own"
    asks = ("head_dim", "seqlen_q", "BLOCK_M")
    restored = zeroed = ()

    def policy(self, usual):
        return usual

    def source(self):
        return "sha256:00"

    def functional_source(self, values):
        return "sha256:01"

    def narrow(self, task, configs):
        return [config for config in configs if config["num_warps"] == 2]

    def timing_problem(self, task, fill):
        return Problem({"rows": fill})

    def accuracy_problems(self, task):
        return [Problem({"rows": 3})]

    def confirmation_problems(self, task):
        return [Problem(dict(task.at))]

    def arguments(self, task, problem):
        raise NotImplementedError

    compile = call = results = reference = tolerance = arguments
"""
# member → what it is replaced by, and what is told.
BROKEN = {
    "narrow raises": ("narrow(self, task, configs):", "1 / 0", "narrow(…) raised ZeroDivisionError: division by zero"),
    "narrow gives None": ("narrow(self, task, configs):", "return", "narrow(…) gave None, not configs"),
    "narrow is a generator that raises": ("narrow(self, task, configs):", "yield 1 / 0", "raised ZeroDivisionError"),
    "narrow gives texts": ("narrow(self, task, configs):", 'return ["a"]', "gave 'a', not only configs"),
    "narrow invents": ("narrow(self, task, configs):", 'return [{"BLOCK_M": 7}]', "a config that is not of"),
    "narrow gives no value": ("narrow(self, task, configs):", 'return [{"BLOCK_M": []}]', "is not of the field"),
    "policy raises": ("policy(self, usual):", "usual.nothing", "policy(…) raised AttributeError"),
    "policy gives a number": ("policy(self, usual):", "return 3", "policy(…) gave 3, not the policy"),
    "source is no digest": ("source(self):", 'return "1.0"', "source(…) gave '1.0', not `sha256:`"),
    "source raises": ("source(self):", "open('/nowhere')", "source(…) raised FileNotFoundError"),
    "functional_source gives None": ("functional_source(self, values):", "return", "gave None, not a digest as text"),
    "functional_source": ("functional_source(self, values):", "return values['no']", "raised KeyError: 'no'"),
    "timing_problem": ("timing_problem(self, task, fill):", "return {}", "timing_problem(…) gave {}, not a problem"),
    "sizes are texts": ("timing_problem(self, task, fill):", "return Problem({'a': '1'})", "whose sizes are ints"),
    "no accuracy problem": ("accuracy_problems(self, task):", "return []", "accuracy_problems(…) gave no problem for"),
    "one problem": ("accuracy_problems(self, task):", "return Problem({})", "sizes={}, seed=0), not problems"),
    "confirmation raises": ("confirmation_problems(self, task):", "return [task.at['x']]", "raised KeyError: 'x'"),
}  # fmt: skip


def offered(folder: Path, source: str) -> Bench:
    """The bench, and a package with a tunable of its interface beside it."""
    package, info = folder / "site" / "own_kernels", folder / "site" / "own_kernels-1.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(source, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-kernels\nVersion: 1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{TUNABLES_GROUP}]\nown = own_kernels:Own\n", encoding="utf-8")
    made = make_bench(folder)
    schema = made.root / "schema" / "attn_fwd.toml"
    schema.rename(schema.with_name("own.toml"))
    text = (made.root / "schema" / "own.toml").read_text(encoding="utf-8")
    (made.root / "schema" / "own.toml").write_text(text.replace('"attn_fwd"', '"own"'), encoding="utf-8")
    (made.root / "gfxA" / "attn_fwd.txtdb").unlink()
    return made


def tuned(made: Bench, *options: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """In a process of its own: what is installed is known for as long as one lasts."""
    places = ("--root", str(made.root), "--arch", "gfxA", "--journal-dir", str(made.journals), "--jobs", "1", "--all")
    code = f"import sys; sys.path.insert(0, {str(made.root.parent / 'site')!r}); from txtdb.cli import main; main()"
    command = [sys.executable, "-c", code, "tune", "own", *places, *options]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **(env or {})}
    )


def test_a_tunable_is_tried_without_a_device(tmp_path):
    done = tuned(offered(tmp_path, SOURCE), "--device", "gpu", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("18 cells, 54 candidates, about ")


@pytest.mark.parametrize("name", BROKEN)
def test_what_a_tunable_does_wrong_is_told_in_a_line_with_its_place(tmp_path, name):
    head, body, told = BROKEN[name]
    source = SOURCE
    start = source.index(f"def {head}")
    number = source[:start].count("\n") + 1
    broken = f"{source[:start]}def {head}\n        {body}\n{source[source.index('    def', start + 4) :]}"
    made = offered(tmp_path, broken)
    for more in (("--dry-run",), ()):
        done = tuned(made, "--device", "gpu", *more)
        file = tmp_path / "site" / "own_kernels" / "__init__.py"
        first = done.stderr.splitlines()[0]
        assert done.returncode == 2, done.stderr
        assert first.startswith((f"{file}:{number}:1: error: the tunable of own: ", f"{file}:{number + 1}:1: error: "))
        assert told in first
        assert first.endswith(" [tunable]")
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "told", "place"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'", ":1:1"),
        ("from txtdb.tune.tunable import Nothing", "ImportError: cannot import name 'Nothing'", ":1:1"),
        ("1 / 0", "ZeroDivisionError: division by zero", ":1:1"),
        ("def", "SyntaxError: ", ":1:1"),
    ],
)
def test_a_package_that_cannot_be_imported_is_named_with_its_place(tmp_path, line, told, place):
    done = tuned(offered(tmp_path, f"{line}\n{SOURCE}"), "--device", "gpu", "--dry-run")
    file = tmp_path / "site" / "own_kernels" / "__init__.py"
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"{file}{place}: error: the tunable of own (entry point own = own_kernels:Own) cannot be"
    )
    assert told in done.stderr
    assert "pip install" not in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("class Own:", "class Other:", "cannot be loaded: AttributeError"),
        ("class Own:", "class Own:\n    def __init__(self): 1 / 0", "cannot be loaded: ZeroDivisionError"),
        ('iface = "own"', 'iface = "other"', "tunes other"),
        ("    def policy(self, usual):\n        return usual\n", "    policy = 3\n", "policy cannot be called"),
        ('"head_dim", "seqlen_q", ', '"width", ', "asks needs width, which the schema lacks"),
        ('config["num_warps"] == 2', 'config["num_warps"] == 3', "no cell of own has a candidate"),
        ('asks = ("head_dim", "seqlen_q", "BLOCK_M")', 'asks = "head_dim"', "asks gave 'head_dim', not names"),
        ("restored = zeroed = ()", "restored = zeroed = (1,)", "restored gave 1, not only names of arguments"),
    ],
)
def test_an_offer_that_cannot_be_used_is_told(tmp_path, old, new, told):
    done = tuned(offered(tmp_path, SOURCE.replace(old, new)), "--device", "gpu", "--dry-run")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert told in done.stderr


@pytest.mark.skipif(find_spec("pynvml") is not None, reason="pynvml is installed")
def test_what_txtdb_s_own_extras_bring_is_advised_to_be_installed(tmp_path):
    done = tuned(offered(tmp_path, f"import pynvml\n{SOURCE}"), "--device", "gpu", "--dry-run")
    assert done.returncode == 2
    assert "what the device needs is not installed: No module named 'pynvml' [device]" in done.stderr
    assert "pip install" in done.stderr


def test_a_simulated_device_says_that_it_asks_no_tunable(tmp_path):
    made = offered(tmp_path, SOURCE)
    device = ("--device", f"simulated:{made.device}", "--dry-run")
    done = tuned(made, *device)
    assert done.stdout.startswith("18 cells, 108 candidates, about "), done.stderr
    assert "the tunable of own is not asked" in done.stderr


DEVICE = """

def open_mine(path):
    from txtdb.tune.simulate import open_simulated

    device = open_simulated(path)
    device.check = lambda task, config: Own().arguments(task, None)
    return device
"""


def test_what_a_tunable_raises_in_a_worker_is_told_with_its_line(tmp_path):
    made = offered(tmp_path, SOURCE + DEVICE)
    points = tmp_path / "site" / "own_kernels-1.dist-info" / "entry_points.txt"
    points.write_text(f"{points.read_text(encoding='utf-8')}[{DEVICES_GROUP}]\nmine = own_kernels:open_mine\n")
    done = tuned(made, "--device", f"mine:{made.device}", env={"PYTHONPATH": str(tmp_path / "site")})
    number = SOURCE[: SOURCE.index("raise NotImplementedError")].count("\n") + 1
    assert done.returncode == 1, done.stderr
    assert f"no valid candidate (3 crash: NotImplementedError (own_kernels, line {number}))" in done.stdout
