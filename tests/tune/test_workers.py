"""Worker processes by themselves: their protocol, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.evidence.cells import reading
from tests.tune.bench import CELLS, FIRST, make_bench
from txtdb.evidence.policy import Measurement, Run
from txtdb.model.evidence import Status
from txtdb.tune.device import CandidateFault, Task
from txtdb.tune.devices import DEVICES_GROUP, DeviceMissing, device_names, open_device, with_measurement
from txtdb.tune.measuring import Compilers, Measurer, Notes, request_of
from txtdb.tune.workers import Worker, WorkerLost

TASK = Task("attn_fwd", "gfxA", {"head_dim": 64}, {"seqlen_q": 64, "seqlen_k": 64})
CONFIG = {"BLOCK_M": FIRST[0], "num_warps": FIRST[1]}
RUN = Run(compile_limit_s=20.0, call_limit_s=20.0, retries=2)


def device(tmp_path, *faults, **more):
    made = make_bench(tmp_path, faults={(CELLS[0], FIRST): faults}, **more)
    return f"simulated:{made.device}"


@pytest.fixture
def closing():
    """Closes what is handed to it."""
    open_ones = []
    yield lambda one: open_ones.append(one) or one
    for one in open_ones:
        one.close()


def test_a_worker_answers_one_request_after_the_other(tmp_path, closing):
    worker = closing(Worker(device(tmp_path)))
    assert worker.ask(request_of("compile", TASK, CONFIG), 20) is None
    assert worker.ask(request_of("check", TASK, CONFIG), 20) == "0.1"
    reply = worker.ask(request_of("time", TASK, CONFIG, warm_up=1, calls=3, number=0), 20)
    assert [len(reply["times"]), reply["throttled"]] == [3, False]


def test_a_hanging_worker_is_ended_at_its_limit(tmp_path, closing):
    worker = closing(Worker(device(tmp_path, {"stage": "check", "kind": "hang"})))
    worker.ask(request_of("compile", TASK, CONFIG), 20)
    start = time.monotonic()
    with pytest.raises(WorkerLost, match=r"timeout: no answer in 0\.3 s"):
        worker.ask(request_of("check", TASK, CONFIG), 0.3)
    assert time.monotonic() - start < 5


def test_a_worker_that_dies_tells_how(tmp_path, closing):
    worker = closing(Worker(device(tmp_path, {"stage": "check", "kind": "kill"})))
    with pytest.raises(WorkerLost, match="crash: Killed"):
        worker.ask(request_of("check", TASK, CONFIG), 20)


def test_a_shield_ends_as_its_worker_does(tmp_path, closing):
    worker = closing(Worker(device(tmp_path, {"stage": "check", "kind": "abort"}), shielded=True))
    with pytest.raises(WorkerLost, match="crash: Aborted"):
        worker.ask(request_of("check", TASK, CONFIG), 20)


def test_a_shield_falls_in_the_place_of_the_tuner(tmp_path, closing):
    fault = {"stage": "check", "kind": "kill-parent"}
    measurer = closing(Measurer(device(tmp_path, fault, may_kill_parent=True), RUN))
    measurer.shield()
    seen = []
    notes = Notes(lambda: seen.append("begin"), lambda: seen.append("landed"))
    with pytest.raises(CandidateFault) as raised:
        measurer.check(TASK, CONFIG, notes)
    assert raised.value.status is Status.CRASH
    assert seen == ["begin", "landed"] * 3


def test_a_shield_costs_a_candidate_next_to_nothing(tmp_path, closing):
    """A run that is taken up has one from the start: 40 checks once waited 0.2 s each."""
    measurer = closing(Measurer(device(tmp_path), RUN, shielded=True))
    notes = Notes(lambda: None, lambda: None)
    measurer.check(TASK, CONFIG, notes)
    start = time.monotonic()
    for _ in range(40):
        measurer.check(TASK, CONFIG, notes)
    assert time.monotonic() - start < 4


def test_an_interrupt_while_the_begin_is_written_is_outlived_behind_a_shield(tmp_path, closing):
    """Else a person who ends a run again and again makes a candidate one that ends the tuner."""
    measurer = closing(Measurer(device(tmp_path), RUN, shielded=True))
    landed = []

    def begin():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measurer.check(TASK, CONFIG, Notes(begin, lambda: landed.append(1)))
    assert landed == [1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_a_shield_that_was_just_sent_a_signal_has_fallen(tmp_path, closing, number):
    """Though it may not be gone yet."""
    worker = closing(Worker(device(tmp_path), shielded=True))
    worker.ready()
    assert not worker.fell()
    os.kill(worker._process.pid, number)
    assert worker.fell()


@pytest.mark.parametrize("ask", ["check", "confirm", "time"])
def test_what_ends_the_process_above_its_own_is_to_blame_whatever_it_was_asked(tmp_path, closing, monkeypatch, ask):
    """A timing is noted in no journal before it runs; the candidate after it is not taken for the cause."""
    measurer = closing(Measurer(device(tmp_path), replace(RUN, retries=0), shielded=True))
    good = {"BLOCK_M": 64, "num_warps": 4}
    given = (1, 3, 0) if ask == "time" else ()
    measurer.check(TASK, good)
    answers = Worker.ask

    def asked(worker, request, limit_s):
        value = answers(worker, request, limit_s)
        if request["ask"] == ask:
            os.kill(worker._process.pid, signal.SIGKILL)
        return value

    monkeypatch.setattr(Worker, "ask", asked)
    with pytest.raises(CandidateFault, match="the process above its own"):
        getattr(measurer, ask)(TASK, CONFIG, *given)
    monkeypatch.undo()
    assert getattr(measurer, ask)(TASK, good, *given)


def test_a_crash_is_tried_again_alone_as_often_as_the_policy_says_and_no_more(tmp_path, closing):
    measurer = closing(Measurer(device(tmp_path, {"stage": "check", "kind": "abort"}), RUN))
    tries = []
    with pytest.raises(CandidateFault):
        measurer.check(TASK, CONFIG, Notes(lambda: tries.append(1), lambda: None))
    assert len(tries) == 1 + RUN.retries
    assert measurer.check(TASK, {"BLOCK_M": 64, "num_warps": 4}) == 0.1


def test_a_worker_without_a_device_says_what_is_missing(tmp_path, closing):
    worker = closing(Worker(f"simulated:{tmp_path / 'nowhere.json'}"))
    with pytest.raises(DeviceMissing, match=r"nowhere\.json"):
        worker.ask({"ask": "facts", "iface": "attn_fwd"}, 20)


@pytest.mark.parametrize("hangs", [False, True])
def test_a_worker_whose_tuner_is_gone_ends_by_itself(tmp_path, hangs):
    text = device(tmp_path, {"stage": "check", "kind": "hang"})
    process = subprocess.Popen(
        [sys.executable, "-m", "txtdb.tune.worker", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    assert json.loads(process.stdout.readline()) == {"ready": True}
    if hangs:
        process.stdin.write(json.dumps({**request_of("check", TASK, CONFIG), "limit_s": 600}).encode() + b"\n")
        process.stdin.flush()
        time.sleep(0.2)
    process.stdin.close()
    assert process.wait(10) == 0
    process.stdout.close()


PRINTING = """
import os, sys
from txtdb.tune.device import DeviceFacts
class Printing:
    def facts(self, iface): print("a word"); os.write(1, b"{}"); return DeviceFacts({}, {}, {}, "")
    def compile(self, task, config): sys.stdin.read()
    def check(self, task, config): return 0.0
    confirm = check
    def time(self, task, config, warm_up, calls, number): return [1.0] * calls
    def throttled(self): return False
def printing(text):
    return Printing()
def broken(text):
    return object()
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with devices, for this process and those that it starts."""
    site = tmp_path / "site"
    info = site / "printing-1.dist-info"
    info.mkdir(parents=True)
    (site / "printing_device.py").write_text(PRINTING, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: printing\nVersion: 1\n", encoding="utf-8")
    points = f"[{DEVICES_GROUP}]\nprinting = printing_device:printing\nbroken = printing_device:broken\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))


@pytest.mark.usefixtures("installed")
def test_what_a_device_prints_or_reads_does_not_reach_the_protocol(closing):
    worker = closing(Worker("printing"))
    assert worker.ask({"ask": "facts", "iface": "x"}, 20)["source"] == ""
    assert worker.ask(request_of("compile", TASK, CONFIG), 20) is None


@pytest.mark.usefixtures("installed")
def test_devices_of_other_packages_are_found_and_verified():
    assert device_names() == ["broken", "gpu", "printing", "simulated"]
    assert open_device("printing:text").throttled() is False
    with pytest.raises(DeviceMissing, match="device broken has no facts, compile, check, confirm, time, throttled"):
        open_device("broken")


def test_a_gpu_measures_as_the_policy_says_unless_the_text_says_otherwise():
    assert with_measurement("gpu:index=1,fill=64", Measurement()) == "gpu:index=1,fill=64,flush=1"
    assert with_measurement("gpu", Measurement()) == f"gpu:fill={Measurement().fill},flush=1"
    assert with_measurement("simulated:x", Measurement()) == "simulated:x"


def test_signals_of_the_terminal_do_not_reach_workers(tmp_path, closing):
    worker = closing(Worker(device(tmp_path)))
    worker.ready()
    assert os.getpgid(worker._process.pid) != os.getpgid(0)


MEASURING = """
import json, os, time
from pathlib import Path
from txtdb.tune.device import DeviceFacts
class Measuring:
    def __init__(self, log): self.log = Path(log)
    def note(self, *words):
        with self.log.open("a") as stream: print(os.getpid(), *words, file=stream)
    def wake(self): self.note("wake")
    def prepare(self, task, ask): self.note("prepare", ask, task.at["seqlen_q"]); time.sleep(0.5)
    def facts(self, iface): return DeviceFacts({}, {}, {}, "")
    def compile(self, task, config): self.note("compile")
    def check(self, task, config): self.note("check"); return 0.0
    def confirm(self, task, config): self.note("confirm"); return 0.5
    def time(self, task, config, warm_up, calls, number): self.note("time"); return [1.0] * calls
    def throttled(self): self.note("throttled"); return False
def measuring(text):
    return Measuring(text)
"""


@pytest.fixture
def measuring(installed, tmp_path, monkeypatch):
    """A device that logs what it is asked for; its text, and its log."""
    site = tmp_path / "site"
    (site / "measuring_device.py").write_text(MEASURING, encoding="utf-8")
    points = site / "printing-1.dist-info" / "entry_points.txt"
    points.write_text(f"{points.read_text()}measuring = measuring_device:measuring\n", encoding="utf-8")
    log = tmp_path / "log"
    return f"measuring:{log}", lambda: [line.partition(" ")[2] for line in log.read_text().splitlines()]


def test_a_device_is_woken_before_candidates_and_prepared_once_for_each_task_and_kind(measuring, closing):
    text, log = measuring
    measurer = closing(Measurer(text, Run(call_limit_s=0.4)))
    other = Task("attn_fwd", "gfxA", {"head_dim": 64}, {"seqlen_q": 128, "seqlen_k": 64})
    for task in (TASK, TASK, other):
        measurer.check(task, CONFIG)
    for _ in range(2):
        measurer.time(TASK, CONFIG, 0, 1, 0)
    checks = ["prepare check 64", "check", "check", "prepare check 128", "check"]
    assert log() == ["wake", *checks, "prepare time 64", "time", "throttled", "time", "throttled"]


def test_a_new_process_is_prepared_again(measuring, closing):
    text, log = measuring
    measurer = closing(Measurer(text, RUN))
    for _ in range(2):
        measurer.check(TASK, CONFIG)
        measurer.fresh()
    assert log() == ["wake", "prepare check 64", "check"] * 2


def test_processes_that_compile_do_not_wake_the_device(measuring, closing):
    text, log = measuring
    compilers = closing(Compilers(text, 1, RUN))
    compilers.submit(TASK, CONFIG, Notes(lambda: None, lambda: None), lambda fault: None).result()
    assert log() == ["compile"]


def test_a_process_serves_a_batch_of_checks(measuring, closing):
    text, log = measuring
    measurer = closing(Measurer(text, Run(batch=2)))
    for _ in range(3):
        measurer.check(TASK, CONFIG)
    assert log() == ["wake", "prepare check 64", "check", "check", "wake", "prepare check 64", "check"]


def test_settings_of_the_policy_reach_the_device_that_a_gpu_worker_opens(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    opened = open_device(with_measurement("gpu:index=1", Measurement(fill=4096, flush_cache=False)))
    assert (opened.index, opened.measurement.fill, opened.measurement.flush_cache) == (1, 4096, False)


def test_cells_that_come_first_are_compiled_first(measuring, closing):
    text, _ = measuring
    compilers, done = closing(Compilers(text, 1, RUN)), []

    def submit(place):
        notes = Notes(lambda: None, lambda: None)
        return compilers.submit(TASK, CONFIG, notes, lambda fault: done.append(place), place)

    submitted = [submit(place) for place in (0, 2, 2, 1)]  # the first one is taken while its process starts
    for future in submitted:
        future.result(60)
    assert done == [0, 1, 2, 2]


def test_what_waits_learns_that_there_is_no_device(tmp_path, closing):
    compilers = closing(Compilers(f"simulated:{tmp_path / 'nowhere.json'}", 1, RUN))
    with pytest.raises(DeviceMissing):
        compilers.submit(TASK, CONFIG, Notes(lambda: None, lambda: None), lambda fault: None).result(60)


def test_why_power_is_no_graphs_is_logged_once_for_each_reason(monkeypatch, caplog):
    measurer = Measurer("simulated:none", RUN)
    reasons = iter(["", "a", "a", "b"])
    monkeypatch.setattr(measurer, "_ask", lambda *given: asdict(reading(1.0, reason=next(reasons))))
    for _ in range(4):
        measurer.power(TASK, CONFIG)
    assert [record.getMessage().rpartition(" ")[2] for record in caplog.records] == ["a", "b"]


def test_a_fault_that_is_told_as_ok_is_a_crash():
    fault = CandidateFault(Status.OK, "nothing")
    assert (fault.status, fault.detail) == (Status.CRASH, "a fault was told as ok: nothing")


HOSTILE = """
import os, signal, time
from pathlib import Path
from txtdb.tune.device import DeviceFacts
class Hostile:
    def __init__(self, folder): self.folder = Path(folder)
    def note(self): (self.folder / str(os.getpid())).touch()
    def facts(self, iface): return DeviceFacts({}, {}, {}, "")
    def compile(self, task, config): pass
    def check(self, task, config): self.note(); return getattr(self, config["does"])()
    def good(self): return 0.0
    def write(self):
        for end in range(3, 30):
            try: os.write(end, b"not an answer\\n")
            except OSError: pass
        time.sleep(60)
    def list_(self):
        for end in range(3, 30):
            try: os.write(end, b"[1]\\n")
            except OSError: pass
    def leave(self):
        if not os.fork():
            os.setsid()
            self.note()
        time.sleep(60)
    def die(self):
        if not os.fork():
            os.setsid()
            self.note()
            time.sleep(60)
        os.abort()
    def stop(self): os.killpg(0, signal.SIGSTOP)
    confirm = check
    def time(self, task, config, warm_up, calls, number): return [1.0] * calls
    def throttled(self): return False
def hostile(text):
    return Hostile(text)
"""


@pytest.fixture
def hostile(installed, tmp_path):
    """A device whose candidates do what their config says. Whatever they leave is ended."""
    site, folder = tmp_path / "site", tmp_path / "processes"
    folder.mkdir()
    (site / "hostile_device.py").write_text(HOSTILE, encoding="utf-8")
    points = site / "printing-1.dist-info" / "entry_points.txt"
    points.write_text(f"{points.read_text()}hostile = hostile_device:hostile\n", encoding="utf-8")
    yield folder
    for path in folder.iterdir():
        with suppress(ProcessLookupError):
            os.kill(int(path.name), signal.SIGKILL)


@pytest.mark.parametrize("does", ["write", "list_"])
def test_what_is_no_answer_costs_the_candidate_that_wrote_it(hostile, closing, does):
    measurer = closing(Measurer(f"hostile:{hostile}", replace(RUN, retries=0)))
    with pytest.raises(CandidateFault, match="something else wrote where answers are expected") as raised:
        measurer.check(TASK, {"does": does})
    assert raised.value.status is Status.CRASH
    assert measurer.check(TASK, {"does": "good"}) == 0.0


@pytest.mark.parametrize("shielded", [False, True])
@pytest.mark.parametrize(("does", "status"), [("leave", Status.TIMEOUT), ("die", Status.CRASH)])
def test_what_a_candidate_leaves_behind_does_not_hold_the_tuner(hostile, closing, does, status, shielded):
    """A process in a session of its own outlives the group, and holds the pipe that answers come by."""
    run = replace(RUN, retries=0, call_limit_s=1.5)
    measurer = closing(Measurer(f"hostile:{hostile}", run, shielded))
    measurer.check(TASK, {"does": "good"})
    start = time.monotonic()
    with pytest.raises(CandidateFault) as raised:
        measurer.check(TASK, {"does": does})
    assert (raised.value.status, time.monotonic() - start < 10) == (status, True)
    assert measurer.check(TASK, {"does": "good"}) == 0.0


@pytest.mark.parametrize("shielded", [False, True])
def test_a_process_serves_no_more_than_its_batch(hostile, closing, shielded):
    measurer = closing(Measurer(f"hostile:{hostile}", replace(RUN, batch=2), shielded))
    for _ in range(5):
        measurer.check(TASK, {"does": "good"})
    assert len(list(hostile.iterdir())) == 3


TUNING = """
import sys
from txtdb.evidence.policy import Run
from txtdb.tune.device import Task
from txtdb.tune.measuring import Measurer
task = Task("attn_fwd", "gfxA", {"head_dim": 64}, {"seqlen_q": 64, "seqlen_k": 64})
Measurer(sys.argv[1], Run(call_limit_s=60), shielded=sys.argv[2] == "True").check(task, {"does": "stop"})
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a stopped process with its parent")
@pytest.mark.parametrize("shielded", [False, True])
def test_a_stopped_candidate_ends_with_a_tuner_that_was_killed(hostile, shielded):
    tuner = subprocess.Popen([sys.executable, "-c", TUNING, f"hostile:{hostile}", str(shielded)])
    until(lambda: any(stopped(path.name) for path in hostile.iterdir()))
    tuner.kill()
    tuner.wait()
    until(lambda: not any(Path("/proc", path.name).exists() for path in hostile.iterdir()))


def stopped(process: str) -> bool:
    return Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[0] == "T"


def until(holds) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
