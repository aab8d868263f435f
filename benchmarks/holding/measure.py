"""Measures loads on the machine that it runs on, which may be an emulated one.

    python measure.py ORDER

ORDER is a file with JSON (`Order`). Each measurement is printed as a line of JSON once it is done.
Nothing that a way says about itself is believed: CPU time is read from the kernel's counters,
progress and latencies from the programs, writes from the kernel's notifications.
"""

from __future__ import annotations

import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from holding.nest import (  # noqa: E402 - found by the line above
    IS_V2,
    LARGEST,
    NICE,
    WEIGHT,
    Reading,
    WriteCounter,
    cpu_time,
    idle_time,
    nest,
    process_time,
)
from holding.programs import Program  # noqa: E402
from holding.rows import ROWS, Row  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SLICE = 5.0
"""Seconds of the parts of a measurement in which pods are looked at one by one, for what swings."""
TICK = 1.0


class Rival(TypedDict):
    """A way to divide CPUs.

    Attributes:
        way: ``weights`` or ``agent``.
        path: Folders of the checkout, for PYTHONPATH.
    """

    way: str
    path: list[str]


class Measurement(TypedDict):
    """What is to be measured: a row, by name, under a rival, by name."""

    row: str
    rival: str
    run: int
    settle: float
    window: float


class Order(TypedDict):
    """All that is to be measured on one machine, in order.

    Attributes:
        load: The compiled load.c.
        gentle: Whether the group of all pods weighs no more than others.
        rivals: Rivals by name.
        measurements: What to measure.
    """

    load: str
    gentle: bool
    rivals: dict[str, Rival]
    measurements: list[Measurement]


class Found(TypedDict):
    """What a measurement found; all rates are a second.

    Attributes:
        used: CPUs that each pod used.
        slices: The same of every few seconds.
        idle: CPUs that nobody used.
        blocks: Work that each pod did.
        took: Milliseconds of the median answer of each service, and of the 99th percentile.
        writes: Writes of weights.
        fsyncs: Calls of fsync.
        agent: CPUs that the process took that divides them.
    """

    used: dict[str, float]
    slices: list[dict[str, float]]
    idle: float
    blocks: dict[str, float]
    took: dict[str, tuple[float, float]]
    writes: float
    fsyncs: float
    agent: float


class Divider:
    """A process of agent_driver.py: one rival, in the groups made for it."""

    def __init__(self, rival: Rival, groups: Sequence[Path]) -> None:
        self.way, self.paths = rival["way"], rival["path"]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-B", HERE / "agent_driver.py"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(self.paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.pid = self._process.pid
        os.setpriority(os.PRIO_PROCESS, self.pid, NICE)
        for group in groups:
            (group / "cgroup.procs").write_text(str(self.pid))

    def ask(self, **order: object) -> dict[str, Any]:
        """Give an order and return the answer.

        Raises:
            RuntimeError: The process has ended.
        """
        assert self._process.stdin is not None  # noqa: S101 - asked for above
        assert self._process.stdout is not None  # noqa: S101
        print(json.dumps(order), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the agent of {self.paths[0]} has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """Let it remove what it made, and end."""
        self._process.communicate()


class Place(NamedTuple):
    """Where the pods of a measurement are."""

    folders: dict[str, str]
    pods: dict[str, str]

    def used(self) -> dict[str, Reading]:
        """Return the CPU time of each pod."""
        return {name: cpu_time(self.folders, group) for name, group in self.pods.items()}


def measure(row: Row, divider: Divider, load: Path, settle: float, window: float) -> Found:
    """Let the pods of a row run, and return how they divided the CPUs."""
    bought = {name: round(1000 * pod.cpus) for name, pod in row.pods.items()}
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        opened = divider.ask(do="open", way=divider.way, pods=bought)
        ends.callback(divider.ask, do="close")
        if not opened["agent"].startswith(tuple(divider.paths)):
            raise RuntimeError(f"{opened['agent']} is not the agent of {divider.paths[0]}")
        place = Place(opened["folders"], opened["pods"])
        Path(f"{place.folders['cpu']}{opened['run']}", WEIGHT).write_text(str(LARGEST))
        programs = {}
        for name, pod in row.pods.items():
            groups = [Path(each + place.pods[name]) for each in {*place.folders.values()}]
            programs[name] = Program(load, pod.program, folder / name, groups)
            ends.callback(programs[name].end)
        for program in programs.values():
            program.begin()
        time.sleep(settle)
        return _watch(divider, place, programs, window)


def _watch(divider: Divider, place: Place, programs: Mapping[str, Program], window: float) -> Found:
    """Read all counters at both ends of a window, and CPU times and writes within it."""
    weights = (Path(place.folders["cpu"] + group).parent for group in place.pods.values())
    with closing(WriteCounter(weights)) as counter:
        fsyncs = divider.ask(do="count")["fsyncs"]
        agent, idle = process_time(divider.pid), idle_time()
        before = {name: program.progress() for name, program in programs.items()}
        readings = list(_readings(place, counter, window))
        after = {name: program.progress() for name, program in programs.items()}
        spent, unused = process_time(divider.pid).since(agent), idle_time().since(idle)
        writes = counter.count()
        fsyncs = divider.ask(do="count")["fsyncs"] - fsyncs
    blocks = {name: (after[name].blocks - before[name].blocks) / window for name in programs}
    took = {
        name: program.latencies(before[name], after[name])
        for name, program in programs.items()
        if after[name].answers
    }
    return Found(
        used=_between(readings[0], readings[-1]),
        slices=[_between(*ends) for ends in pairwise(readings)],
        idle=unused,
        blocks=blocks,
        took={name: (_quantile(each, 0.5), _quantile(each, 0.99)) for name, each in took.items()},
        writes=writes / window,
        fsyncs=fsyncs / window,
        agent=spent,
    )


def _readings(place: Place, counter: WriteCounter, window: float) -> Iterator[dict[str, Reading]]:
    """Yield the CPU times of all pods at the ends of all slices of a window."""
    begin, slices = time.monotonic(), max(1, round(window / SLICE))
    yield place.used()
    for number in range(1, slices + 1):
        end = begin + window * number / slices
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(TICK, left))
            counter.count()
        yield place.used()


def _between(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> dict[str, float]:
    return {name: after[name].since(before[name]) for name in before}


def _quantile(ascending: Sequence[int], part: float) -> float:
    """Return a quantile in milliseconds; infinite if nothing was answered."""
    if not ascending:
        return math.inf
    return ascending[min(len(ascending) - 1, int(part * len(ascending)))] / 1000


def description() -> str:
    """Return what machine this is."""
    processor = next(
        (
            line.split(": ")[1]
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    cpus, version = len(os.sched_getaffinity(0)), 2 if IS_V2 else 1
    emulated = "emulated " if os.environ.get("GUEST") else ""
    return f"{cpus} {emulated}CPUs ({processor}), kernel {platform.release()}, cgroup v{version}"


def main() -> None:
    """Make all measurements of the order."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    order: Order = json.loads(Path(sys.argv[1]).read_text())
    rows = {row.name: row for row in ROWS if row.cpus == len(os.sched_getaffinity(0))}
    with suppress(PermissionError):  # a reading that is late is off
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(10))
    print(json.dumps({"machine": description()}), flush=True)
    with nest(gentle=order["gentle"]) as groups, ExitStack() as ends:
        dividers = {}
        for name, rival in order["rivals"].items():
            dividers[name] = Divider(rival, groups)
            ends.callback(dividers[name].end)
        for each in order["measurements"]:
            print(json.dumps({"begun": each}), flush=True)
            row, load = rows[each["row"]], Path(order["load"])
            divider = dividers[each["rival"]]
            found = measure(row, divider, load, each["settle"], each["window"])
            print(json.dumps({"measured": each, "found": found}), flush=True)


if __name__ == "__main__":
    main()
