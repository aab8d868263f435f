"""The weights of all pods follow what they used, and go back when grants end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from model_kernel import ModelKernel, Stopped
from model_node import LAYOUT, Node, states
from walras_agent import shared_time
from walras_agent.correction import Correction, CpuRate, Purchase
from walras_agent.cpu_use import CpuUseReader
from walras_agent.cpuset import CpuSet
from walras_agent.observe import ObservedPod
from walras_agent.quota import WEIGHT_FILES
from walras_agent.restore import restore
from walras_agent.shared_time import SharedTime
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from collections.abc import Mapping

ORIGINAL = "7"


class TwoCores:
    """A node of two cores: the pods a and b are granted one and a half and half of one.

    A third, c, has no grant, and requested 0.16 of a core; a fourth, d, requested nothing.
    """

    def __init__(self, folder: Path) -> None:
        kernel = ModelKernel(2)
        kernel.offline(range(2, 8))
        self.node = Node(kernel, folder, online=CpuSet([0, 1]))
        for uid in "abcd":
            self.node.start_pod(uid)
            self.set(self.node.pod(uid))
        self.set(self.node.pod("d"), "1")
        for group in LAYOUT.classes:
            self.set(group)
        self.node.plan(a=1500, b=500)
        self.node.step()
        self.granted = self.weights()

    def set(self, group: str, weight: str = ORIGINAL) -> None:
        self.node.kernel.set_by_others(self.file(group), weight)

    def file(self, group: str) -> CgroupFile:
        return CgroupFile("cpu", group, WEIGHT_FILES[self.node.kernel.version])

    def weight(self, group: str) -> int:
        return int(self.node.kernel.read(self.file(group)))

    def weights(self) -> dict[str, int]:
        """Return the weights of all pods and of their classes."""
        groups = [*(self.node.pod(uid) for uid in "abcd"), *LAYOUT.classes]
        return {group: self.weight(group) for group in groups}

    def pass_time(self, seconds: float) -> None:
        self.node.now += seconds
        self.node.kernel.elapse(seconds)
        for cpu in (0, 1):
            self.node.idle[cpu] = self.node.idle.get(cpu, 0.0) + 0.2 * seconds


@pytest.fixture
def two(tmp_path: Path) -> TwoCores:
    return TwoCores(tmp_path)


def request(weight: float) -> int:
    """Return what a pod weighs on this node that the kubelet gave a weight for its request."""
    return round(2000 * (2 + (weight - 1) * 262_142 / 9999) / 1024)


def raise_to(monkeypatch: pytest.MonkeyPatch, **factors: float) -> None:
    """Let the control law find these factors, and some pods compete as long as they wait."""

    def correct(purchases: Mapping[str, Purchase], *_: object) -> dict[str, Correction]:
        return {pod: Correction()._replace(factor=factors.get(pod, 1.0)) for pod in purchases}

    monkeypatch.setattr(shared_time, "correct", correct)


def test_all_pods_are_weighed_on_one_scale_by_what_they_bought_or_requested(two: TwoCores) -> None:
    """On v2, where up to four CPUs together weigh 8 000."""
    a, b, c, d = (two.weight(two.node.pod(uid)) for uid in "abcd")
    assert (a, b) == (3000, 1000)
    assert c == request(7.5)
    assert d == 1, "it requested nothing"
    assert sorted(map(two.weight, LAYOUT.classes)) == [b, a]


def test_factors_raise_and_lower_weights_and_those_of_classes(
    two: TwoCores, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_to(monkeypatch, a=0.9, b=1.3)
    two.node.use(waited=1.0, a=1.6, b=0.4, c=0.1)
    status = two.node.step(2.0)
    assert status.repaired == ()
    assert two.weight(two.node.pod("a")) == 2700
    assert two.weight(two.node.pod("b")) == 1300
    assert sorted(map(two.weight, LAYOUT.classes)) == [1300, 2700]
    assert len({setting for setting, _ in status.writes}) == len(status.writes) == 4


def test_between_passes_weights_are_corrected_every_two_seconds_while_pods_compete(
    two: TwoCores, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = two.node.agent
    assert agent.competing, "nothing is known yet"
    two.node.use(a=1.0, b=0.2)
    two.node.idle = {0: 0.0, 1: 0.0}
    for _ in range(2):
        two.node.idle = {cpu: seconds + 1.9 for cpu, seconds in two.node.idle.items()}
        two.node.step(2.0)
    assert not agent.competing
    two.node.use(waited=1.0, a=1.6, b=0.4)
    two.node.step(2.0)
    assert agent.competing
    raise_to(monkeypatch, b=1.5)
    two.node.now += 1.9
    assert agent.correct(two.node.now) == ()
    two.node.now += 0.1
    two.node.kernel.elapse(2.0)
    assert {setting.file for setting, _ in agent.correct(two.node.now)} == {"cpu.weight"}
    assert agent.correct(two.node.now) == ()


def test_the_agent_looks_often_while_no_cpu_is_idle_for_a_pod_that_sleeps(two: TwoCores) -> None:
    """Its class weighs little meanwhile, so the pod would wait when it wakes."""
    for idle, competing in ((0.1, True), (0.9, False)):
        two.node.use(a=1.5, b=0.0, c=0.16)
        two.node.idle = dict.fromkeys((0, 1), 0.0)
        for _ in range(3):
            two.node.idle = {cpu: seconds + 2 * idle for cpu, seconds in two.node.idle.items()}
            two.node.step(2.0)
        assert two.node.agent.competing is competing


def test_who_has_a_nearly_right_weight_keeps_it(
    two: TwoCores, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_to(monkeypatch, a=1.009, b=0.991)
    two.node.use(waited=1.0, a=1.503, b=0.497, c=0.16)
    for _ in range(3):
        assert two.node.step(2.0).writes == ()
    assert two.weights() == two.granted


def test_a_pod_that_ends_its_grant_weighs_what_it_requested(two: TwoCores) -> None:
    two.node.plan(a=1500)
    two.node.step(2.0)
    assert two.weight(two.node.pod("b")) == two.weight(two.node.pod("c"))
    two.node.plan()
    two.node.step(2.0)
    weights = {two.weight(two.node.pod(uid)) for uid in "abc"}
    assert weights == set(map(two.weight, LAYOUT.classes)) == {int(ORIGINAL)}
    assert dict(two.node.journal.originals) == {}


def test_a_request_that_others_change_counts_from_then_on(two: TwoCores) -> None:
    two.set(two.node.pod("c"), "40")
    status = two.node.step(2.0)
    assert status.repaired == (two.node.pod("c"),)
    assert two.weight(two.node.pod("c")) == request(40.5)
    two.node.plan()
    two.node.step(2.0)
    assert two.weight(two.node.pod("c")) == 40


def test_a_grant_that_is_too_small_to_be_weighed_is_told(two: TwoCores) -> None:
    two.node.start_pod("e")
    for millicores, told in ((1, ""), (1, "")):
        two.node.plan(a=1500, b=500, e=millicores)
        assert [pod.reason for pod in two.node.step(2.0).pods][-1] == told
    kernel = ModelKernel(1)
    other = Node(kernel, two.node.folder)
    other.start_pod("e")
    other.plan(e=1)
    status = other.step()
    assert states(status) == {"e": "Enforced"}
    assert status.pods[0].reason == (
        "its grant counts as 0.002 CPUs, the least that the node can weigh"
    )


def test_a_restarted_agent_knows_corrected_weights_as_its_own(
    two: TwoCores, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_to(monkeypatch, a=0.9, b=1.3)
    two.node.step(2.0)
    two.node.start_agent()
    two.node.plan(a=1500, b=500)
    raise_to(monkeypatch)
    two.node.step(2.0)
    assert two.weights() == two.granted
    two.node.plan()
    two.node.step()
    assert set(two.weights().values()) == {int(ORIGINAL), 1}
    assert dict(two.node.journal.originals) == {}


@pytest.mark.parametrize("writes", range(4))
def test_an_agent_that_ends_before_any_correction_leaves_all_to_be_put_back(
    two: TwoCores, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_to(monkeypatch, a=0.9, b=1.3)
    two.pass_time(2.0)
    two.node.kernel.stop_after(writes)
    with pytest.raises(Stopped):
        two.node.agent.correct(two.node.now)
    two.node.kernel.go_on()
    two.node.start_agent()
    restore(two.node.journal, two.node.kernel)
    assert set(two.weights().values()) == {int(ORIGINAL), 1}


def test_corrections_are_no_durable_writes_and_are_undone_after_a_restart(
    two: TwoCores, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []
    replace = Path.replace

    def counted(path: Path, target: Path) -> Path:
        written.append(target)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", counted)
    for factor in (1.3, 1.1, 1.3):
        raise_to(monkeypatch, a=0.9, b=factor)
        two.pass_time(2.0)
        groups = {setting.group for setting, _ in two.node.agent.correct(two.node.now)}
        assert groups >= {two.node.pod("b")}
    assert written == []
    two.node.start_agent()
    restore(two.node.journal, two.node.kernel)
    assert set(two.weights().values()) == {int(ORIGINAL), 1}


def test_a_pod_that_others_keep_writing_to_is_left_to_the_next_pass(
    two: TwoCores, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_to(monkeypatch, a=0.9, b=1.3)
    pod = two.node.pod("b")
    two.pass_time(2.0)
    written = two.node.agent.enforcer.correct(fixed=[pod])
    assert written
    assert pod not in {setting.group for setting, _ in written}


def weighed(rate: CpuRate, cpus: float = 2.0) -> tuple[float, int]:
    """Return for which part of the time a pod is busy, and on how many of eight CPUs at once."""
    kernel = ModelKernel(2)
    kernel.make("/kubepods/poda", tasks=rate.threads or 0)
    reader = CpuUseReader(kernel, clock=lambda: kernel.now)  # type: ignore[attr-defined]
    pod = ObservedPod("a", "/kubepods/poda", ())
    bought = {"a": Purchase(cpus, "a", CpuSet(range(8)))}
    time = SharedTime(reader, dict)
    kernel.now = 0.0  # type: ignore[attr-defined]
    kernel.use(pod.group, rate.used, rate.waited or 0.0)
    for _ in range(2):
        time.look([pod], bought, {})
        kernel.now += 2.0  # type: ignore[attr-defined]
        kernel.elapse(2.0)
    (found,) = time.weighed([pod], bought)
    return found.busy, found.at_once


@pytest.mark.parametrize(
    ("rate", "busy", "at_once"),
    [
        (CpuRate(2.0, 0.0, 0.0, 5), 0.0, 1),
        (CpuRate(2.0, 0.4, 0.1, 5), 0.5, 1),
        (CpuRate(2.0, 1.2, 0.0, 5), 1.0, 2),
        (CpuRate(2.0, 2.0, 0.0, 2), 1.0, 2),
        (CpuRate(2.0, 0.5, 1.0, 6), 1.0, 6),
        (CpuRate(2.0, 0.5, 1.0, 60), 1.0, 8),
    ],
    ids=[
        "asleep",
        "seldom",
        "less than it bought",
        "all that it bought",
        "always waits",
        "has more threads than CPUs",
    ],
)
def test_what_a_pod_is_weighed_by_besides_what_it_bought(
    rate: CpuRate, busy: float, at_once: int
) -> None:
    found = weighed(rate)
    assert (round(found[0], 3), found[1]) == (busy, at_once)


class SlowKernel(ModelKernel):
    """A kernel where to read how long a pod has waited takes a second.

    Attributes:
        taken: Whether the reader has all CPUs meanwhile; else the pods use them as before.
    """

    now = 0.0
    taken = True

    def read(self, setting: CgroupFile) -> str:
        text = super().read(setting)
        if setting.file == "cpu.pressure":
            self.now += 1.0
            if not self.taken:
                self.elapse(1.0)
        return text


def test_what_the_agent_itself_takes_is_taken_from_all_pods_alike() -> None:
    kernel = SlowKernel(2)
    pods = [ObservedPod(uid, f"/kubepods/pod{uid}", ()) for uid in "abc"]
    for pod in pods:
        kernel.make(pod.group)
        kernel.use(pod.group, 0.3, 0.7)
    reader = CpuUseReader(kernel, clock=lambda: kernel.now)
    reader.rates(pods)
    kernel.taken = False  # it is on another CPU from now on
    kernel.now += 7.0
    kernel.elapse(7.0)
    used = {pod: rate.used for pod, rate in reader.rates(pods).items()}
    assert used == pytest.approx(dict.fromkeys("abc", 0.3 * 7 / 10))
