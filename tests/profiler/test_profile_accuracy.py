"""Measurements are near the truth, for real programs of known parallel fraction on real CPUs.

Other work on the machine is the enemy of these tests, and in a virtual machine so is the work of
its neighbours, which cannot be seen from inside. As root they run in a real-time class, which goes
before the former (but not in a cgroup, where the kernel may refuse that). Against the latter each
is tried a few times: a wrong method is wrong every time, a disturbed measurement is not. And where
two CPUs are really the two threads of one core, for a while or always, nothing gains as much as it
could: a program that is all parallel, measured alongside, says how much that is.
"""

import contextlib
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec

import pytest

from walras.speedup.profile import SpeedupFit
from walras_api import speedup_profile
from walras_api.kinds import SpeedupProfileSpec

PROFILE = ["-m", "walras_cli", "profile"]
ROOT = os.geteuid() == 0
ATTEMPTS = 12
PAUSE_SECONDS = 5
"""Between attempts: neighbours disturb for a while, and then do not."""

P = ParamSpec("P")

pytestmark = [
    pytest.mark.speed,
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs to measure a speedup"
    ),
]
needs_root = pytest.mark.skipif(not ROOT, reason="needs root")

# argv: processes, data size, parallel fraction. Its time on one CPU is proportional to the size.
MULTI_PROCESS = """
import os, sys

def work(amount):
    total = 0
    for i in range(int(amount)):
        total += i * i

processes, size, fraction = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
amount = 12_000_000 * size
work(amount * (1 - fraction))
for _ in range(processes):
    if os.fork() == 0:
        work(amount * fraction / processes)
        os._exit(0)
for _ in range(processes):
    os.wait()
"""

# The same, of a program that waits instead of computing: its time does not depend on what else the
# machine does, only on the data.
WAITING = MULTI_PROCESS.replace("import os, sys", "import os, sys, time").replace(
    """    total = 0
    for i in range(int(amount)):
        total += i * i
""",
    """    time.sleep(amount / 12_000_000)
""",
)

# argv: threads, data size. Compresses blocks in a pool; zlib lets go of the interpreter's lock.
ZLIB_THREADS = """
import random, sys, zlib
from concurrent.futures import ThreadPoolExecutor

generator = random.Random(1)
block = bytes(generator.choices(b"abcdefgh", k=60_000))
with ThreadPoolExecutor(int(sys.argv[1])) as pool:
    list(pool.map(zlib.compress, [block] * int(120 * float(sys.argv[2]))))
"""


def tried_again(test: Callable[P, None]) -> Callable[P, None]:
    """Try a test of a measurement again when it fails, a few times."""

    @functools.wraps(test)
    def attempts(*args: P.args, **kwargs: P.kwargs) -> None:
        for _ in range(ATTEMPTS - 1):
            with contextlib.suppress(AssertionError):
                test(*args, **kwargs)
                return
            time.sleep(PAUSE_SECONDS)
        test(*args, **kwargs)

    return attempts


def walras(*arguments: str, nobody: bool = False, first: bool = ROOT) -> dict[str, Any]:
    """Return the document of a profile; with ``first``, its runs have real-time priority."""
    prefix = ["chrt", "--rr", "1"] if first else []
    if nobody:
        prefix += ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = subprocess.run(
        [*prefix, sys.executable, *PROFILE, "-o", "json", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def fraction_of(document: dict[str, Any]) -> float:
    assert "rawParallelFraction" in document["status"], "not measured"
    return float(document["status"]["rawParallelFraction"])


def fraction_here(document: dict[str, Any], *options: str, **ways: bool) -> float:
    """Return a fraction relative to that of a fully parallel program, measured the same way."""
    ideal = fraction_of(walras(*options, *multi_process(1.0), **ways))
    assert ideal > 0.3, "the CPUs are busy elsewhere"
    return fraction_of(document) / ideal


def fit_of(document: dict[str, Any]) -> SpeedupFit:
    return speedup_profile.fit_of(SpeedupProfileSpec.model_validate(document["spec"]))


def multi_process(fraction: float, size: str = "1") -> tuple[str, ...]:
    return ("--", sys.executable, "-c", MULTI_PROCESS, "{threads}", size, str(fraction))


@pytest.mark.parametrize("true_fraction", [0.5, 0.9])
@tried_again
def test_known_fraction_is_measured_under_affinity(true_fraction: float) -> None:
    document = walras("--pin", "affinity", *multi_process(true_fraction))
    found = fraction_here(document, "--pin", "affinity")
    assert found == pytest.approx(true_fraction, abs=0.15)


@needs_root
@tried_again
def test_known_fraction_is_measured_in_a_cgroup() -> None:
    document = walras("--pin", "cgroup", *multi_process(0.7), first=False)
    found = fraction_here(document, "--pin", "cgroup", first=False)
    assert found == pytest.approx(0.7, abs=0.2)


@needs_root
@tried_again
def test_known_fraction_is_measured_by_an_ordinary_user() -> None:
    document = walras(*multi_process(0.7), nobody=True)
    assert fraction_here(document, nobody=True) == pytest.approx(0.7, abs=0.2)


@contextlib.contextmanager
def beside(busy: int) -> Iterator[None]:
    """Let programs compute all the time meanwhile."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        yield
    finally:
        for each in others:
            each.kill()
            each.wait()


@pytest.mark.parametrize("true_fraction", [0.5, 0.9])
@pytest.mark.parametrize("busy", [1, 2, 4])
@tried_again
def test_a_fraction_is_measured_beside_busy_programs_as_on_a_quiet_machine(
    busy: int, true_fraction: float
) -> None:
    """Beside one or two, it is measured; beside four, it may not be, but is never wrong."""
    two = ("--cores", "1,2", "--pin", "affinity", *multi_process(true_fraction))
    quiet = fraction_of(walras(*two, first=False))
    with beside(busy):
        document = walras(*two, first=False)
    if busy <= 2 or "rawParallelFraction" in document["status"]:
        assert fraction_of(document) == pytest.approx(quiet, abs=0.05)
    else:
        found = {finding["code"] for finding in document["status"]["findings"]}
        assert found & {"BusyMachine", "TooNoisy"}


@tried_again
def test_program_of_one_process_is_found_to_gain_nothing() -> None:
    document = walras("--pin", "affinity", *multi_process(0.0))
    assert abs(fraction_of(document)) < 0.15


@tried_again
def test_threads_of_a_library_are_found_to_gain() -> None:
    command = ("--", sys.executable, "-c", ZLIB_THREADS, "{threads}", "1")
    document = walras("--pin", "affinity", *command)
    assert fraction_here(document, "--pin", "affinity") > 0.6


@tried_again
def test_small_samples_predict_the_whole_on_either_core_count() -> None:
    """Section IV-B on a real program: 20, 30 and 40 % of the data predict 100 %, within 25 %."""
    sampled = walras(
        "--pin", "affinity", "--sizes", "20%,30%,40%", *multi_process(0.8, "{fraction}")
    )
    whole = walras("--pin", "affinity", *multi_process(0.8))
    fit, truth = fit_of(sampled), fit_of(whole)
    for cores in (1, 2):
        measured = truth.predict_seconds(cores, 1.0)
        assert fit.predict_seconds(cores, 1.0) == pytest.approx(measured, rel=0.25)


@tried_again
def test_fraction_of_small_samples_predicts_the_speedup_of_the_whole() -> None:
    """Amdahl's step alone: from one core's time on all data and F of the samples."""
    sampled = walras("--pin", "affinity", "--sizes", "30%,40%", *multi_process(0.8, "{fraction}"))
    whole = walras("--pin", "affinity", *multi_process(0.8))
    fit, truth = fit_of(sampled), fit_of(whole)
    predicted = truth.predict_seconds(1, 1.0) / fit.speedup(2)
    assert predicted == pytest.approx(truth.predict_seconds(2, 1.0), rel=0.2)


@tried_again
def test_time_that_grows_with_the_square_of_the_data_is_found_quadratic() -> None:
    squared = WAITING.replace("12_000_000 * size", "12_000_000 * size * size")
    assert squared != WAITING
    command = ("--", sys.executable, "-c", squared, "{threads}", "{fraction}", "0.8")
    fit = fit_of(walras("--pin", "affinity", "--sizes", "20%,40%,60%,80%,100%", *command))
    assert fit.time_models[1].form == "Quadratic"
    assert fit.predict_seconds(1, 2.0) == pytest.approx(4.0, rel=0.1)
