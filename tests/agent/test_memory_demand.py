"""Memory demand of pods: computed from given numbers, and read from this machine's kernel."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from waiting import eventually
from walras_agent.memory.demand import GROWTH, HALF_LIFE, PAUSE, PodDemand, estimate
from walras_agent.memory.pressure import headroom
from walras_agent.memory.stats import MemoryLimits, MemorySample, MemoryStall, read_sample
from walras_agent.tree import CgroupFile, CgroupTree

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
LIMIT = MemoryLimits(soft=200 * MIB)
LIMIT_FILE = {1: "memory.limit_in_bytes", 2: "memory.max"}


def using(
    mib: int, *, inactive_file: int = 0, refaulted: int = 0, refused: int = 0, slowed: int = 0
) -> MemorySample:
    return MemorySample(
        LIMIT,
        usage=mib * MIB,
        inactive_file=inactive_file,
        refaulted=refaulted,
        refused=refused,
        slowed=slowed,
    )


def after(samples: list[MemorySample], seconds: float = 10.0) -> PodDemand:
    """Return the estimate of the demand after one look at each sample."""
    known: PodDemand | None = None
    for number, sample in enumerate(samples):
        known = estimate(sample, known, number * seconds)
    assert known is not None
    return known


def test_what_is_used_is_wanted_and_room_to_grow() -> None:
    assert after([using(100)]).amount == 116 * MIB
    assert after([using(1000)]).amount == 1100 * MIB


HELD_BACK = {
    "it reads back what was taken": {"refaulted": 200 * MIB},
    "it comes up against its hard limit": {"refused": 3},
    "it is slowed down beyond its soft limit": {"slowed": 9},
}


@pytest.mark.parametrize("signs", HELD_BACK.values(), ids=HELD_BACK)
def test_a_squeezed_program_wants_more_than_its_limit(signs: dict[str, int]) -> None:
    grows = [using(198), using(198, **signs)]
    assert after(grows).amount > LIMIT.soft
    again = using(198, **{name: 2 * amount for name, amount in signs.items()})
    assert after([*grows, again]).amount > after(grows).amount


def test_pressure_tells_of_want_at_once() -> None:
    calm, pressed = MemoryStall(), MemoryStall(some=40.0, some_total=4.0)
    known = estimate(replace(using(198), stall=calm), None, 0)
    assert estimate(replace(using(198), stall=pressed), known, 10).amount > LIMIT.soft


def test_a_squeezed_program_with_cache_to_give_wants_no_more() -> None:
    first = using(198, inactive_file=90 * MIB)
    later = replace(first, refused=5, slowed=5)
    assert after([first, later]).amount == after([first]).amount


def test_demand_grows_no_further_than_twice_what_there_is() -> None:
    """There may be no more memory to be had, and then the estimate must not run away."""
    samples = [using(198, refaulted=number * 200 * MIB) for number in range(50)]
    used = 198 * MIB + headroom(198 * MIB)
    assert after(samples).amount == 2 * used


def test_steps_wait_for_what_the_last_one_did() -> None:
    known = estimate(using(198), None, 0)
    first = estimate(using(198, refused=1), known, 1)
    soon = estimate(using(198, refused=2), first, 1 + PAUSE / 2)
    later = estimate(using(198, refused=3), soon, 1 + PAUSE)
    assert first.amount == soon.amount < later.amount == round(first.amount * GROWTH)


def test_what_is_not_used_any_more_is_forgotten_by_halves() -> None:
    known = estimate(using(1000), None, 0)
    idle = estimate(using(100), known, HALF_LIFE)
    assert idle.amount == 116 * MIB + (1100 - 116) * MIB // 2
    assert idle.amount > estimate(using(100), idle, 10 * HALF_LIFE).amount >= 116 * MIB


def test_a_steady_program_is_told_of_once() -> None:
    """A thousand nodes must not tell of every breath of every pod."""
    samples = [using(500 + 20 * (number % 3)) for number in range(100)]
    told = set()
    known: PodDemand | None = None
    for number, sample in enumerate(samples):
        known = estimate(sample, known, 10.0 * number)
        told.add(known.reported)
    assert len(told) <= 2


PROGRAM = """
import mmap, os, sys
with open(sys.argv[1], "w") as procs:
    procs.write("0")
held = [mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(100)]
for each in held:
    each.write(bytes(1 << 20))
print("holds", flush=True)
sys.stdin.readline()
del held
print("freed", flush=True)
sys.stdin.readline()
print("reads", flush=True)
with open(sys.argv[2], "rb", buffering=0) as file:
    while True:
        file.seek(0)
        while file.read(1 << 20):
            pass
"""


@pytest.fixture
def pod() -> Iterator[str]:
    """A group with another inside, as a pod has of its container; the pod may have 1 GiB."""
    tree = CgroupTree.at()
    name = f"/walras-demand-{os.getpid()}"
    folder = Path(tree.folder("memory", name))
    inside = folder / "main"
    folder.mkdir()
    if tree.version == 2:
        (folder / "cgroup.subtree_control").write_text("+memory")
    inside.mkdir()
    tree.write(CgroupFile("memory", name, LIMIT_FILE[tree.version]), str(1 << 30))
    yield name
    for pid in (inside / "cgroup.procs").read_text().split():
        os.kill(int(pid), 9)
    assert eventually(lambda: not (inside / "cgroup.procs").read_text())
    inside.rmdir()
    folder.rmdir()


def seen(tree: CgroupTree, pod: str, known: PodDemand | None, now: float) -> PodDemand:
    return estimate(read_sample(tree, pod), known, now, {"main": read_sample(tree, f"{pod}/main")})


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a group with a limit")
@pytest.mark.parametrize("limited", ["", "/main"], ids=["pod", "container"])
def test_the_demand_of_a_real_program_is_what_it_holds_and_what_it_is_kept_from(
    pod: str, limited: str
) -> None:
    """It holds 100 MiB, frees them, and reads a file of 120 MiB again and again within 64 MiB.

    Where these are its container's, what the pod may have beyond is nothing to it.
    """
    tree = CgroupTree.at()
    data = Path("/var/tmp") / f"walras-demand-{os.getpid()}"  # noqa: S108 - not in memory
    with data.open("wb") as file:
        file.write(os.urandom(MIB) * 120)
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # it is this process's cache
    procs = f"{tree.folder('memory', pod)}/main/cgroup.procs"
    command = [sys.executable, "-c", PROGRAM, procs, str(data)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        known = seen(tree, pod, None, 0)
        assert 100 * MIB <= known.amount <= 160 * MIB
        process.stdin.write("\n")
        assert process.stdout.readline() == "freed\n"
        known = seen(tree, pod, known, 10 * HALF_LIFE)
        assert known.amount < 60 * MIB
        limit = CgroupFile("memory", pod + limited, LIMIT_FILE[tree.version])
        tree.write(limit, str(64 * MIB))
        process.stdin.write("\n")
        assert process.stdout.readline() == "reads\n"
        began = time.monotonic()

        def wants_more() -> bool:
            nonlocal known
            known = seen(tree, pod, known, 10 * HALF_LIFE + time.monotonic() - began)
            return known.amount > 64 * MIB

        assert eventually(wants_more, pause=0.5), known
        for _ in range(12):
            time.sleep(0.5)
            wants_more()
            assert known.amount <= 64 * MIB + 2 * (64 * MIB + headroom(64 * MIB))
    finally:
        process.kill()
        process.communicate()
        data.unlink()
