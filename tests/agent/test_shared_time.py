"""The weights of pods that share a CPU follow what they used, and go back when grants end."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_kernel import ModelKernel, Stopped
from model_node import LAYOUT, Node
from walras_agent.cpu_use import CpuUseReader
from walras_agent.cpuset import CpuSet
from walras_agent.observe import ObservedPod
from walras_agent.quota import WEIGHT_FILES
from walras_agent.restore import restore
from walras_agent.tree import CgroupFile

ORIGINAL = "7"


class TwoCores:
    """A node of two cores: the pod a is granted one and a half of them, b half of one."""

    def __init__(self, folder: Path) -> None:
        kernel = ModelKernel(2)
        kernel.offline(range(2, 8))
        self.node = Node(kernel, folder, online=CpuSet([0, 1]))
        for uid in "ab":
            self.node.start_pod(uid)
            self.set(self.node.pod(uid))
        for group in LAYOUT.classes:
            self.set(group)
        self.node.plan(a=1500, b=500)
        self.node.step()
        self.granted = self.weights()

    def set(self, group: str) -> None:
        self.node.kernel.set_by_others(self.file(group), ORIGINAL)

    def file(self, group: str) -> CgroupFile:
        return CgroupFile("cpu", group, WEIGHT_FILES[self.node.kernel.version])

    def weight(self, group: str) -> int:
        return int(self.node.kernel.read(self.file(group)))

    def weights(self) -> dict[str, int]:
        """Return the weights of both pods and of their classes."""
        groups = [*(self.node.pod(uid) for uid in "ab"), *LAYOUT.classes]
        return {group: self.weight(group) for group in groups}


@pytest.fixture
def two(tmp_path: Path) -> TwoCores:
    return TwoCores(tmp_path)


def short(two: TwoCores, looks: int = 5) -> None:
    """Let the pod b have too little, and the agent look a few times."""
    two.node.use(waited=1.0, a=1.6, b=0.4)
    for _ in range(looks):
        two.node.step(2.0)


def test_a_pod_that_has_too_little_weighs_more_and_the_other_less(two: TwoCores) -> None:
    short(two)
    a, b = (two.node.pod(uid) for uid in "ab")
    assert two.weight(a) < two.granted[a]
    assert two.weight(b) > 1.2 * two.granted[b]
    for group, pod in zip(LAYOUT.classes, (a, b), strict=True):
        assert abs(two.weight(group) - two.weight(pod)) <= 1
    assert two.node.step(2.0).repaired == ()


def test_between_passes_weights_are_corrected_every_two_seconds_while_pods_compete(
    two: TwoCores,
) -> None:
    agent = two.node.agent
    assert agent.competing, "nothing is known yet"
    two.node.step(2.0)
    assert not agent.competing
    short(two, looks=2)
    assert agent.competing
    two.node.now += 1.9
    assert agent.correct(two.node.now) == ()
    two.node.now += 0.1
    two.node.kernel.elapse(2.0)
    assert {setting.file for setting, _ in agent.correct(two.node.now)} == {"cpu.weight"}
    two.node.use(a=1.5, b=0.2)
    two.node.step(2.0)
    assert not two.node.step(2.0).writes
    assert not agent.competing


def test_a_pod_that_uses_what_others_leave_is_not_looked_at_often(two: TwoCores) -> None:
    two.node.use(a=1.0, b=0.9)
    two.node.step(2.0)
    two.node.step(2.0)
    assert not two.node.agent.competing
    two.node.use(waited=0.2, a=1.0, b=0.9)
    two.node.step(2.0)
    assert two.node.agent.competing


def test_who_has_what_it_bought_keeps_its_weight(two: TwoCores) -> None:
    two.node.use(waited=1.0, a=1.503, b=0.497)
    for _ in range(5):
        assert two.node.step(2.0).writes == ()
    assert two.weights() == two.granted


def test_where_no_pod_shares_a_cpu_nothing_is_read(two: TwoCores) -> None:
    two.node.plan(a=1000)
    short(two)
    read = two.node.kernel.read
    seen: list[str] = []

    def watched(setting: CgroupFile) -> str:
        seen.append(setting.file)
        return read(setting)

    two.node.kernel.read = watched  # type: ignore[method-assign]
    two.node.step(2.0)
    assert "cpu.stat" not in seen
    assert "cpuset.cpus.effective" in seen


def test_a_restarted_agent_knows_corrected_weights_as_its_own(two: TwoCores) -> None:
    short(two)
    two.node.start_agent()
    two.node.plan()
    two.node.step()
    assert set(two.weights().values()) == {int(ORIGINAL)}
    assert dict(two.node.journal.originals) == {}


@pytest.mark.parametrize("writes", range(4))
def test_an_agent_that_ends_before_any_correction_leaves_all_to_be_put_back(
    two: TwoCores, writes: int
) -> None:
    short(two, looks=1)
    two.node.now += 2.0
    two.node.kernel.elapse(2.0)
    two.node.kernel.stop_after(writes)
    with pytest.raises(Stopped):
        two.node.agent.correct(two.node.now)
    two.node.kernel.go_on()
    two.node.start_agent()
    restore(two.node.journal, two.node.kernel)
    assert set(two.weights().values()) == {int(ORIGINAL)}


def test_a_correction_is_one_durable_write(two: TwoCores, monkeypatch: pytest.MonkeyPatch) -> None:
    short(two, looks=1)
    two.node.now += 2.0
    two.node.kernel.elapse(2.0)
    written: list[Path] = []
    replace = Path.replace

    def counted(path: Path, target: Path) -> Path:
        written.append(target)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", counted)
    groups = {setting.group for setting, _ in two.node.agent.correct(two.node.now)}
    assert groups >= {two.node.pod("a"), two.node.pod("b"), *LAYOUT.classes}
    assert len(written) == 1


def test_a_pod_that_others_keep_writing_to_is_left_to_the_next_pass(two: TwoCores) -> None:
    short(two, looks=1)
    pod = two.node.pod("b")
    two.node.now += 2.0
    two.node.kernel.elapse(2.0)
    written = two.node.agent.enforcer.correct(fixed=[pod])
    assert written
    assert pod not in {setting.group for setting, _ in written}


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
    reader.rates(pods, {})
    kernel.taken = False  # it is on another CPU from now on
    kernel.now += 7.0
    kernel.elapse(7.0)
    used = {pod: rate.used for pod, rate in reader.rates(pods, {}).items()}
    assert used == pytest.approx(dict.fromkeys("abc", 0.3 * 7 / 10))
