"""Effects: runs real programs with the profiler, on parts of their data and on all of it."""

from __future__ import annotations

import shutil
import sys
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from walras_agent.topology import Topology
from walras_profiler.campaign import MeasurementError, disturbance_of
from walras_profiler.session import ProfileRequest, RequestError, carry_out, prepare
from walras_service.failures import Failure
from walras_studies.programs import work as program_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from walras.speedup.profile import SpeedupFit
    from walras_profiler.campaign import Measurement, Runner, Trial, TrialObserver
    from walras_profiler.profile_tables import ProfileReport

WHOLE = "100%"

UNIT = """\
#include <stdlib.h>
#define F(n) static int f##n(const void *a, const void *b) { \\
    return *(int *)a % (n + 2) - *(int *)b; } \\
  int g##n(int *v, int k) { qsort(v, k, sizeof *v, f##n); int s = 0; \\
  for (int i = 0; i < k; i++) for (int j = 0; j < 8; j++) s += v[i] * j ^ n; return s; }
#define G(n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7)
G(1) G(2)
"""

MAKEFILE = """\
N := $(shell expr $(PERCENT) \\* 2 / 5)
.PHONY: all $(shell seq $(N))
all: $(shell seq $(N))
$(shell seq $(N)):
\t@gcc -O2 -DUNIT=$@ -c unit.c -o /dev/null
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to measure.

    Attributes:
        name: Name of the program.
        kind: Description of the computation, with its library.
        needs: Executables that must be installed.
        words: Words of its command; ``{folder}`` stands for the folder of the data.
        data: Whether it works on the text, of which a sample of lines can be taken.
        tasks: Number of equal tasks in all of its data; 0 if it has none that can be counted.
    """

    name: str
    kind: str
    needs: tuple[str, ...]
    words: tuple[str, ...]
    data: bool = False
    tasks: int = 0

    @property
    def installed(self) -> bool:
        """Whether this machine has what it needs."""
        return all(shutil.which(each) for each in self.needs)


def _python(kind: str) -> tuple[str, ...]:
    return (sys.executable, program_work.__file__, kind, "{threads}", "{fraction}")


PROGRAMS = (
    Program(
        "sort",
        "GNU sort, threads",
        ("sort",),
        ("sort", "--parallel={threads}", "-S", "1G", "-o", "/dev/null", "{data}"),
        data=True,
    ),
    Program(
        "xz",
        "XZ compression, threads",
        ("xz",),
        ("xz", "-T{threads}", "-1", "--block-size=1MiB", "-k", "-c", "{data}"),
        data=True,
    ),
    Program(
        "make",
        "GNU make and GCC, processes",
        ("make", "gcc", "seq", "expr"),
        ("make", "-s", "-j{threads}", "-C", "{folder}", "PERCENT={percent}"),
        tasks=40,
    ),
    Program("count", "Python, processes", (), _python("count"), tasks=program_work.TASKS),
    Program("hash", "Python, threads", (), _python("hash"), tasks=program_work.TASKS),
    Program("multiply", "NumPy, threads of OpenBLAS", (), _python("multiply")),
)


def write_data(folder: Path, lines: int, seed: int) -> None:
    """Write the data that programs work on: a text of random numbers, a C file and a Makefile."""
    numbers = np.random.default_rng(seed).integers(0, 10**12, lines)
    text = "\n".join(f"{number:x} {number % 9973}" for number in numbers.tolist())
    (folder / "text").write_text(text + "\n", encoding="ascii")
    (folder / "unit.c").write_text(UNIT, encoding="ascii")
    (folder / "Makefile").write_text(MAKEFILE, encoding="ascii")


@dataclass(frozen=True, slots=True)
class Profile:
    """The results of a program's runs.

    Attributes:
        fit: Fit of the run times.
        seconds: Median run time by number of cores, on the largest part of the data, in seconds.
        disturbed: Mean part of the CPUs' time that other programs took; 0 if unknown.
    """

    fit: SpeedupFit
    seconds: dict[int, float]
    disturbed: float


def measure(
    program: Program, folder: Path, sizes: str, repeats: int, seed: int, tell: Callable[[], None]
) -> Profile:
    """Run a program on parts of its data, on several numbers of cores.

    Args:
        program: Program to run.
        folder: Folder with the data.
        sizes: Parts of the data, as a list in percent.
        repeats: Number of runs for each part and number of cores.
        seed: Seed of the samples.
        tell: Function to call after each run.

    Raises:
        Failure: This machine has only one core, or a run failed.
    """
    request = ProfileRequest(
        tuple(word.replace("{folder}", str(folder)) for word in program.words),
        sizes=sizes,
        repeats=repeats,
        data=folder / "text" if program.data else None,
        seed=seed,
    )
    try:
        report = carry_out(prepare(request, Topology.read()), _Watcher(tell))
    except (RequestError, MeasurementError) as error:
        raise Failure(f"program {program.name}: {error}") from error
    return _profile(report)


def _profile(report: ProfileReport) -> Profile:
    largest = max(run.size for run in report.measurements)
    seconds: defaultdict[int, list[float]] = defaultdict(list)
    for run in report.measurements:
        if run.size == largest:
            seconds[run.cores].append(run.seconds)
    return Profile(
        report.fit,
        {cores: median(taken) for cores, taken in sorted(seconds.items())},
        disturbance_of(report.measurements),
    )


class _Watcher:
    """Observer of a profiler's runs that calls a function after each."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    @contextmanager
    def begin(self, runner: Runner, runs: int) -> Iterator[TrialObserver]:  # noqa: ARG002 - its interface
        """Yield the function that the profiler calls at each run."""

        def observe(trial: Trial, measurement: Measurement | None) -> None:  # noqa: ARG001
            if measurement is not None:
                self._tell()

        yield observe
