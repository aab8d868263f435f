"""Pods at rest: few files are read, and whatever they do is answered as if all of them were."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal

import pytest

from model_files import Refused
from model_kernel import MIB, Memory, ModelKernel
from model_node import Node
from walras_agent.memory.stats import LIMIT_FILES, USAGE_FILES
from walras_agent.quota import WEIGHT_FILES
from walras_agent.reconcile import REST
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_agent.status import NodeStatus

Version = Literal[1, 2]
PASS = 10.0
PODS = [f"pod{number}" for number in range(20)]
SOME = PODS[:3]
READS_OF_CPUS, READS_OF_MEMORY = 5, 5  # of a pod with one container, in a pass at rest
LIMITS = {file for files in LIMIT_FILES.values() for file in files.values()}


class CountingKernel(ModelKernel):
    """A kernel model that counts the reads of each file."""

    def __init__(self, version: Version) -> None:
        super().__init__(version)
        self.reads: Counter[CgroupFile] = Counter()

    def read(self, setting: CgroupFile) -> str:
        self.reads[setting] += 1
        return super().read(setting)


class Twins:
    """Two nodes to which the same happens; the agent of one never lets a pod rest.

    Attributes:
        demand: Demand in bytes of the pod that `start_resting` has started.
        disturbed: Whether somebody has made a group or written a file since the last pass.
    """

    demand: int | None = None
    disturbed = True

    def __init__(
        self, version: Version, folder: Path, kernel: type[CountingKernel] = CountingKernel
    ) -> None:
        self.nodes = []
        for name in ("rests", "never"):
            (folder / name).mkdir()
            self.nodes.append(Node(kernel(version), folder / name))
        self.rests, self.never = self.nodes

    def start(self, number: int, memory: int) -> None:
        """Start a container that uses some bytes, with a limit below the grant of its pod."""
        for node in self.nodes:
            node.start_pod("pod0", number, Memory(anonymous=memory))
            hard = LIMIT_FILES[node.kernel.version]["hard"]
            setting = CgroupFile("memory", node.container("pod0", number), hard)
            node.kernel.set_by_others(setting, str(64 * MIB))

    def start_resting(self, memory: int) -> None:
        """Start a pod that uses some bytes, let it rest, and note its demand."""
        self.start(0, memory)
        for node in self.nodes:
            node.plan("enforce", 512 * MIB, pod0=500)
        for _ in range(5):
            status, _ = self.step(PASS)
        few, all_of_them = self.reads()
        assert few < all_of_them, "it does not rest"
        self.demand = status.pods[0].demand

    def step(self, seconds: float) -> tuple[NodeStatus, NodeStatus]:
        """Return the statuses of both after the next pass."""
        rested = self.rests.step(seconds, undisturbed=not self.disturbed)
        self.disturbed = False
        return rested, self.never.step(seconds)

    def reads(self) -> list[int]:
        """Return how many files of memory either agent has read so far."""
        return [
            sum(number for file, number in node.kernel.reads.items() if file.controller == "memory")
            for node in self.nodes
            if isinstance(node.kernel, CountingKernel)
        ]


def at_rest(version: Version, folder: Path) -> tuple[Node, CountingKernel]:
    """Return a node whose pods have held their grants for a while."""
    kernel = CountingKernel(version)
    node = Node(kernel, folder)
    for pod in PODS:
        node.start_pod(pod, memory=Memory(anonymous=50 * MIB))
    node.plan("enforce", 512 * MIB, **dict.fromkeys(PODS, 100))
    for _ in range(8):
        assert not node.step(PASS).failures
    assert node.step(PASS).is_enforced
    kernel.reads.clear()
    return node, kernel


@pytest.mark.parametrize("version", [1, 2])
def test_few_files_are_read_while_nothing_changes(version: Version, tmp_path: Path) -> None:
    node, kernel = at_rest(version, tmp_path)
    assert node.step(PASS, undisturbed=True).writes == ()
    of_memory = {setting for setting in kernel.reads if setting.controller == "memory"}
    assert len(of_memory) <= READS_OF_MEMORY * len(PODS)
    assert not LIMITS & {setting.file for setting in of_memory}
    of_the_node = [setting for setting in kernel.reads if setting.group == "/"]
    of_pods = kernel.reads.total() - sum(kernel.reads[setting] for setting in of_the_node)
    assert of_pods <= (READS_OF_CPUS + READS_OF_MEMORY) * len(PODS)


@pytest.mark.parametrize("version", [1, 2])
def test_no_file_of_memory_is_read_twice_in_a_pass_that_writes_nothing(
    version: Version, tmp_path: Path
) -> None:
    node, kernel = at_rest(version, tmp_path)
    assert node.step(PASS).writes == ()
    read = {setting: n for setting, n in kernel.reads.items() if setting.controller == "memory"}
    assert {setting.file for setting in read} >= set(LIMIT_FILES[version].values()) - {
        "memory.memsw.limit_in_bytes"
    }
    assert set(read.values()) == {1}


@pytest.mark.parametrize("version", [1, 2])
def test_a_limit_that_others_write_is_found_without_a_word_of_it(
    version: Version, tmp_path: Path
) -> None:
    node, kernel = at_rest(version, tmp_path)
    soft = CgroupFile("memory", node.pod(PODS[0]), LIMIT_FILES[version]["soft"])
    held = kernel.read(soft)
    kernel.set_by_others(soft, str(64 * MIB))
    for _ in range(round(REST / PASS)):
        node.step(PASS, undisturbed=True)
    assert kernel.read(soft) == held


@pytest.mark.parametrize("version", [1, 2])
def test_a_pod_that_outgrows_its_limit_by_little_gets_more_once_it_has_waited(
    version: Version, tmp_path: Path
) -> None:
    node, kernel = at_rest(version, tmp_path)
    soft = CgroupFile("memory", node.pod(PODS[0]), LIMIT_FILES[version]["soft"])
    held = int(kernel.read(soft))
    kernel.memory_of(node.container(PODS[0])).anonymous = held + MIB // 2
    assert node.step(PASS, undisturbed=True).is_enforced
    node.step(PASS, undisturbed=True)
    assert int(kernel.read(soft)) > held


@pytest.mark.parametrize("version", [1, 2])
def test_what_others_wrote_is_read_after_a_pass_that_was_refused(
    version: Version, tmp_path: Path
) -> None:
    node, kernel = at_rest(version, tmp_path)
    weight = CgroupFile("cpu", node.pod(PODS[0]), WEIGHT_FILES[version])
    held = kernel.read(weight)
    kernel.set_by_others(weight, "77")
    node.refusal = "another program writes"
    assert node.step(PASS).refused
    node.refusal = ""
    node.step(PASS, undisturbed=True)
    assert kernel.read(weight) == held


def test_first_limits_of_all_pods_are_one_durable_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Path] = []
    replace = Path.replace

    def counted(path: Path, target: Path) -> Path:
        saved.append(target)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", counted)
    node = Node(ModelKernel(1), tmp_path)
    for pod in PODS:
        node.start_pod(pod, memory=Memory(anonymous=50 * MIB))
    node.plan("enforce", 512 * MIB, **dict.fromkeys(PODS, 100))
    node.step()
    saved.clear()
    written = {setting.group for setting, _ in node.step().writes}
    assert written == {node.pod(pod) for pod in PODS}
    assert len(saved) == 1


class KernelMemory(CountingKernel):
    """A kernel whose own memory for each pod, such as for sockets, is in no ``memory.stat``."""

    used = 0  # bytes

    def read(self, setting: CgroupFile) -> str:
        text = super().read(setting)
        return str(int(text) + self.used) if setting.file in USAGE_FILES.values() else text


@pytest.mark.parametrize("version", [1, 2])
def test_usage_that_no_other_file_shows_is_answered_in_the_same_pass(
    version: Version, tmp_path: Path
) -> None:
    twins = Twins(version, tmp_path, KernelMemory)
    twins.start_resting(50 * MIB)
    for used in (0, 20 * MIB, 200 * MIB):
        for node in twins.nodes:
            assert isinstance(node.kernel, KernelMemory)
            node.kernel.used = used
        for _ in range(5):
            mine, others = twins.step(PASS)
            assert mine == others
    assert mine.pods[0].demand != twins.demand


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_in_place_of_another_gets_its_limits_in_the_same_pass(
    version: Version, tmp_path: Path
) -> None:
    twins = Twins(version, tmp_path)
    twins.start_resting(50 * MIB)
    for node in twins.nodes:
        node.kernel.remove(node.container("pod0"))
    twins.start(1, 50 * MIB)
    twins.disturbed = True
    mine, others = twins.step(PASS)
    hard = CgroupFile("memory", twins.rests.container("pod0", 1), LIMIT_FILES[version]["hard"])
    assert mine == others
    assert int(twins.rests.kernel.read(hard)) >= 512 * MIB


@pytest.mark.parametrize("version", [1, 2])
def test_memory_that_grows_while_a_limit_is_written_is_answered_in_the_next_pass(
    version: Version, tmp_path: Path
) -> None:
    twins = Twins(version, tmp_path)
    twins.start_resting(50 * MIB)
    for node in twins.nodes:
        node.plan("enforce", 1024 * MIB, pod0=500)
        node.kernel.memory_of(node.container("pod0")).growth = 100 * MIB
        node.now += PASS  # the model's tasks grow at each write, not before
        assert node.agent.step(node.now, undisturbed=True).writes
        node.kernel.memory_of(node.container("pod0")).growth = 0
    mine, others = twins.step(PASS)
    assert mine == others
    assert mine.pods[0].demand != twins.demand


def something(random: Random, version: Version) -> tuple[str, Callable[[Node], None]]:
    """Return what happens to a pod of a node, or to its grant, and its name."""
    pod = random.choice(SOME)
    what = random.choice(["grows", "turns", "reads", "frees", "grant", "more", "limit"])
    size, growth = random.randint(1, 100) * MIB, random.choice([MIB // 4, MIB, 8 * MIB])

    def happens(node: Node) -> None:
        kernel = node.kernel
        memory = kernel.memory_of(node.container(pod))
        match what:
            case "grows":
                memory.growth = growth
            case "turns":  # from a program's own memory into cache; it uses as much as before
                memory.anonymous, memory.reclaimable = memory.reclaimable, memory.anonymous
            case "reads":
                memory.hot = memory.reclaimable + size
            case "frees":
                memory.anonymous, memory.hot, memory.growth = size // 2, 0, 0
            case "grant":
                node.plan("enforce", 2 * size, **dict.fromkeys(SOME, 500))
            case "more" if kernel.identity(node.container(pod, 1)) is None:
                node.start_pod(pod, 1, Memory(anonymous=size))
            case "limit":
                hard = CgroupFile("memory", node.pod(pod), LIMIT_FILES[version]["hard"])
                with suppress(Refused):  # v1, below what is used
                    kernel.set_by_others(hard, str(4 * size))

    return what, happens


@pytest.mark.parametrize(("version", "seed"), [(1, 5), (2, 8)])
def test_growth_and_pressure_are_answered_in_the_same_pass_as_by_an_agent_that_reads_all(
    version: Version, seed: int, tmp_path: Path
) -> None:
    random, twins = Random(seed), Twins(version, tmp_path)
    for pod in SOME:
        for node in twins.nodes:
            node.start_pod(pod, memory=Memory(50 * MIB, reclaimable=30 * MIB, hot=10 * MIB))
    for node in twins.nodes:
        node.plan("enforce", 100 * MIB, **dict.fromkeys(SOME, 500))
    writes = 0
    for number in range(50):
        if number % 7 == 6:
            what, happens = something(random, version)
            for node in twins.nodes:
                happens(node)
            twins.disturbed = what in {"more", "limit"}  # as inotify tells
        mine, others = twins.step(PASS)
        assert mine == others, number
        writes += any(each.controller == "memory" for each, _ in mine.writes)
    few, all_of_them = twins.reads()
    assert writes, "nothing happened"
    assert few < 0.97 * all_of_them, "nothing rested"
