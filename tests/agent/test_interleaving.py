"""Whatever others write and whatever fails, at any moment of the agent: nothing is lost.

In small worlds, one thing happens at every moment that there is; in larger ones, many things happen
at random moments. `make test` takes a sample of both, `make verify STAGES=interleaving` all of the
small worlds and ``WALRAS_HISTORIES`` (10 000) of the larger.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

import pytest

from interleaving import Death, Foreign, Happening, InterleavedKernel, ReadError
from model_kernel import MIB, Memory, Stopped
from model_node import Node
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


Version = Literal[1, 2]
CPUS = 8
LIMIT = 400 * MIB
HISTORIES = int(os.environ.get("WALRAS_HISTORIES", "10000"))
Begin = Callable[..., "History"]
Plan = Mapping[str, int]  # thousandths of a core, by pod; the other pods have no grant
Happenings = Mapping[int, Sequence[Happening]]  # by moment
SMALL: tuple[Plan, ...] = ({"a": 1500, "b": 2000}, {"a": 3000, "b": 1000})


class History:
    """A node from the first plan to the last, on which things happen at given moments.

    Args:
        folder: Folder of the agent's state.
        version: Version of the cgroup interface.
        pods: Names of the pods; the last one never has a grant, and nobody else writes its CPUs.
        owning: Pattern of the names of pods that are granted whole cores for themselves.
    """

    def __init__(self, folder: Path, version: Version, pods: str, owning: str) -> None:
        self.kernel = InterleavedKernel(version, cpus=CPUS)
        self.node = Node(self.kernel, folder, owning=owning)
        self.pods = pods
        self.moments = 0  # at which something can happen
        for pod in pods:
            self.node.start_pod(pod, memory=Memory(anonymous=50 * MIB, reclaimable=20 * MIB))
        for setting, value in originals(self.node, pods):
            self.kernel.want(setting, value)
        self.kernel.pods = {self.node.container(pod): pod for pod in pods}
        self.kernel.anybody = self.node.container(pods[-1])
        self.node.use(waited=1.0, **dict.fromkeys(pods, 1.0))

    def run(self, plans: Sequence[Plan], happenings: Happenings) -> list[str]:
        """Enforce plans, and return what is wrong meanwhile, and after all grants have ended."""
        self.kernel.moments, self.kernel.happenings = 0, happenings
        self.kernel.fsyncs.clear()
        for plan in (*plans, {}):
            self._steps(3, plan)
        self.moments = self.kernel.moments
        self.kernel.happenings = {}
        self.kernel.heal()
        self._steps(5, plans[-1])
        double = list(self.kernel.double())
        self._steps(8, {})
        left = [f"{each} is still in the journal" for each in self.node.journal.originals]
        return [*self.kernel.taken, *double, *left, *self.kernel.lost(), *self.kernel.oom_kills]

    def _steps(self, number: int, plan: Plan) -> None:
        for _ in range(number):
            if not plan:
                self.kernel.forget_owners()
            self.node.plan("enforce", 500 * MIB if plan else None, **plan)
            try:
                self.node.step(100.0)
            except Stopped:
                self.node.start_agent()
            self.kernel.end_pass()


def originals(node: Node, pods: str) -> Iterator[Foreign]:
    """Yield the values of the kubelet and of a container runtime."""
    v1 = node.kernel.version == 1
    for pod in pods:
        for group in (node.pod(pod), node.container(pod)):
            yield Foreign(CgroupFile("cpuset", group, "cpuset.cpus"), "0-7" if v1 else "")
            for setting, value in limits(node, group, 200_000, 512, LIMIT):
                yield Foreign(setting, value)


def limits(node: Node, group: str, quota: int, shares: int, memory: int) -> list[Foreign]:
    """Return writes of others of a group's quota, weight and memory limit."""
    if node.kernel.version == 1:
        texts = {"cpu.cfs_quota_us": quota, "cpu.shares": shares, "memory.limit_in_bytes": memory}
    else:
        texts = {"cpu.max": quota, "cpu.weight": shares // 10, "memory.max": memory}
    return [
        Foreign(
            CgroupFile("memory" if "memory" in file else "cpu", group, file),
            f"{value} 100000" if file == "cpu.max" else str(value),
        )
        for file, value in texts.items()
    ]


def happenings(node: Node, pods: Iterable[str]) -> list[Happening]:
    """Return what may happen to pods and their containers at any moment, and to the agent.

    Others resize pods in place and choose CPUs, and reads fail once or for a while.
    """
    effective = {1: "cpuset.effective_cpus", 2: "cpuset.cpus.effective"}[node.kernel.version]
    found: list[Happening] = [Death()]
    for pod, cpus in zip(pods, ("1-2", "3-6", "0,5", "2-7"), strict=False):
        group = node.container(pod)
        both = [*limits(node, group, 150_000, 700, 300 * MIB)]
        chosen = Foreign(CgroupFile("cpuset", group, "cpuset.cpus"), cpus)
        found += [*both, *limits(node, node.pod(pod), 150_000, 700, 300 * MIB), chosen]
        settings = [each.setting for each in (*both, chosen)]
        for setting in (*settings, CgroupFile("cpuset", group, effective)):
            found += [ReadError(setting, errno.EIO), ReadError(setting, errno.EACCES, times=5)]
    return found


@pytest.fixture(autouse=True)
def moments_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[InterleavedKernel]]:
    """Let things happen before every fsync, too."""
    kernels: list[InterleavedKernel] = []

    def fsync(_: int) -> None:
        for each in kernels:
            each.fsyncs.append(each.moments)
            each.moment()

    monkeypatch.setattr(os, "fsync", fsync)
    logging.disable(logging.CRITICAL)
    yield kernels
    logging.disable(logging.NOTSET)


@pytest.fixture
def history(
    moments_of_the_disk: list[InterleavedKernel],
) -> Iterator[Begin]:
    """Return a function that begins a history; the journal is in memory, where there is a folder.

    A disk takes milliseconds to replace a file, more than all else that an agent does in a pass.
    """
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        folder = Path(name)

        def begin(version: Version, pods: str, owning: str = ".") -> History:
            (folder / "journal").unlink(missing_ok=True)
            begun = History(folder, version, pods, owning)
            moments_of_the_disk[:] = [begun.kernel]
            return begun

        yield begin


def judged_at_random(history: Begin, version: Version, seed: int) -> list[str]:
    """Return what is wrong after a history in which many things happen."""
    random, pods = Random(seed), "abcdefg"
    begun = history(version, pods, random.choice((".", "[a-c]", "")))
    cores = (300, 1000, 1500, 2000, 3000)
    plans: list[Plan] = [
        {pod: random.choice(cores) for pod in random.sample(pods[:-1], random.randint(1, 4))}
        for _ in range(5)
    ]
    choices, rare = happenings(begun.node, random.sample(pods[:-1], 4)), random.choice((30, 300))
    return begun.run(
        plans,
        {moment: [random.choice(choices)] for moment in range(5000) if not random.randrange(rare)},
    )


@pytest.mark.long
@pytest.mark.parametrize("version", [1, 2])
def test_what_others_write_while_the_journal_is_written_stays(
    version: Version, history: Begin
) -> None:
    quiet = history(version, "abc")
    assert quiet.run(SMALL, {}) == []
    foreign = [each for each in happenings(quiet.node, "ab") if isinstance(each, Foreign)]
    # Of each write, the second one is of the folder.
    moments = [each for each in quiet.kernel.fsyncs[1::2] if each < quiet.moments]
    assert len(moments) > 8
    for moment in moments:
        assert history(version, "abc").run(SMALL, {moment: foreign}) == []


@pytest.mark.parametrize("version", [1, 2])
def test_nothing_is_lost_if_many_things_happen(version: Version, history: Begin) -> None:
    for seed in range(2):
        assert judged_at_random(history, version, seed) == [], seed


@pytest.mark.interleaving
@pytest.mark.parametrize("version", [1, 2])
def test_nothing_is_lost_if_one_thing_happens_at_any_moment(
    version: Version, history: Begin
) -> None:
    quiet = history(version, "abc")
    assert quiet.run(SMALL, {}) == []
    found = {}
    for moment, each in product(range(quiet.moments), happenings(quiet.node, "a")):
        if wrong := history(version, "abc").run(SMALL, {moment: [each]}):
            found[moment, each] = wrong
    assert found == {}


@pytest.mark.interleaving
@pytest.mark.parametrize("version", [1, 2])
def test_nothing_is_lost_in_thousands_of_larger_worlds(version: Version, history: Begin) -> None:
    found = {seed: judged_at_random(history, version, seed) for seed in range(HISTORIES // 2)}
    assert {seed: wrong for seed, wrong in found.items() if wrong} == {}
