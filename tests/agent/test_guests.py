"""Cores whose owners sleep are used by others, and are back at once when the owners wake."""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import pytest

from model_kernel import ModelKernel, Stopped
from model_node import LAYOUT, Node
from walras_agent.cpu_use import CpuUseReader
from walras_agent.cpuset import CpuSet
from walras_agent.guests import find_guests, with_guests
from walras_agent.pod_cpus import KUBELETS_WEIGHTS, NodeCpus, PodCpus
from walras_agent.quota import WEIGHT_FILES
from walras_agent.restore import restore
from walras_agent.shared_time import SharedTime
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from pathlib import Path

NONE = CpuSet()


def whole(*cpus: int, isolated: bool = False) -> PodCpus:
    return PodCpus(CpuSet(cpus), NONE, 1000 * len(cpus), isolated=isolated)


def mixed(shared: int, *own: int, borrows: bool = False) -> PodCpus:
    milliweight = 1000 * len(own) + 500
    return PodCpus(CpuSet(own), CpuSet([shared]), milliweight, borrows=borrows)


def found(
    pods: dict[str, PodCpus],
    *,
    asleep: str,
    before: dict[str, CpuSet] | None = None,
    **wanted: float,
) -> dict[str, str]:
    cores = tuple(CpuSet([cpu]) for cpu in range(8))
    guests = find_guests(NodeCpus(pods, NONE, cores), set(asleep), wanted, before or {})
    return {pod: str(cpus) for pod, cpus in guests.items()}


def test_who_wants_more_gets_as_many_cpus_of_a_sleeper_as_it_wants() -> None:
    pods = {"a": whole(0, 1), "b": whole(2)}
    assert found(pods, asleep="a", b=2.5) == {"b": "0-2"}
    assert found(pods, asleep="a", b=2.0) == {"b": "0,2"}
    assert found(pods, asleep="a", b=1.05) == {}
    assert found(pods, asleep="", b=9.0) == {}


def test_no_cpu_has_two_guests_and_all_take_turns() -> None:
    pods = {"a": whole(0, 1, 2), "b": whole(3), "c": whole(4)}
    assert found(pods, asleep="a", b=9.0, c=9.0) == {"b": "0,2-3", "c": "1,4"}
    assert found(pods, asleep="a", b=2.0, c=9.0) == {"b": "0,3", "c": "1-2,4"}


def test_guests_stay_where_they_are() -> None:
    pods = {"a": whole(0, 1), "b": whole(2), "c": whole(3)}
    before = {"b": CpuSet([1, 2])}
    assert found(pods, asleep="a", before=before, b=2.0, c=2.0) == {"b": "1-2", "c": "0,3"}


def test_isolated_pods_lend_nothing_and_measured_ones_neither_lend_nor_borrow(
    tmp_path: Path,
) -> None:
    pods = {"a": whole(0, isolated=True), "b": whole(1)}
    assert found(pods, asleep="a", b=2.0) == {}
    node = Lenders(tmp_path, 2)
    assert node.guests() == {"b": CpuSet([0, 1])}
    node.step(a=1)
    assert node.guests() == {}
    node.step(b=1)
    assert node.guests() == {}


def test_a_shared_cpu_is_lent_while_all_sleep_that_hold_it() -> None:
    pods = {"a": mixed(0), "b": mixed(0), "c": whole(1)}
    assert found(pods, asleep="ab", c=2.0) == {"c": "0-1"}
    assert found(pods, asleep="a", c=2.0) == {}


def test_who_shares_with_a_sleeper_stays_and_who_shares_with_one_awake_leaves() -> None:
    pods = {"a": mixed(1, 0), "b": mixed(1)}
    assert found(pods, asleep="a", b=2.0) == {"b": "0-1"}
    pods["c"] = mixed(1)
    assert found(pods, asleep="a", b=2.0, c=0.5) == {"b": "0"}
    assert found(pods, asleep="a", b=2.0, c=2.0) == {"b": "0"}


def test_who_would_leave_more_than_it_gets_is_no_guest() -> None:
    spanning = PodCpus(NONE, CpuSet([1, 2]), 1400)
    pods = {"a": whole(0), "b": spanning, "c": mixed(1)}
    assert found(pods, asleep="a", b=4.0, c=1.0) == {"c": "0"}


def test_a_measured_pod_borrows_a_whole_core_before_others() -> None:
    pods = {"a": whole(0), "b": mixed(1, 2, borrows=True), "c": mixed(1), "d": whole(3)}
    assert found(pods, asleep="a", d=2.0) == {"b": "0,2"}
    assert found(pods, asleep="ad", before={"b": CpuSet([2, 3])}) == {"b": "2-3"}
    assert found(pods, asleep="d", b=2.0, c=1.0) == {"b": "2-3"}
    assert found(pods, asleep="", d=2.0) == {}, "it has no guests itself"


def test_a_measured_pod_has_a_shared_cpu_to_itself_while_the_others_there_sleep() -> None:
    pods = {"a": whole(0), "b": mixed(1, 2, borrows=True), "c": mixed(1)}
    assert found(pods, asleep="c") == {"b": "1-2"}
    pods["c"] = whole(3)
    assert found(pods, asleep="") == {"b": "1-2"}


class Lenders:
    """A node of three CPUs: a and b have one core each, c a half; b wants two, and a sleeps."""

    def __init__(self, folder: Path, version: Literal[1, 2]) -> None:
        self.kernel = ModelKernel(version)
        self.kernel.offline(range(3, 8))
        self.node = Node(self.kernel, folder, online=CpuSet([0, 1, 2]))
        for uid in "abc":
            self.node.start_pod(uid)
        self.before = self.texts()
        self.node.plan(a=1000, b=1000, c=500)
        self.node.step()
        self.use(b=1.0)
        for _ in range(4):
            self.step()

    def use(self, **cpus: float) -> None:
        """Let pods use CPUs; c always wants a little, and b waits for more."""
        self.node.use(c=0.3, **cpus)
        if self.kernel.version == 2:
            self.kernel.use(self.node.pod("b"), cpus["b"], waited=0.5)
        else:  # the model has no threads whose waiting could be read
            self.kernel.use(self.node.pod("b"), cpus["b"] + 0.5)

    def step(self, **limits: int) -> None:
        status = self.node.step(1.0, undisturbed=False, **limits)
        assert status.is_enforced, status.failures
        assert status.repaired == ()
        for pod in status.pods:
            assert pod.cpus is not None
            assert len(pod.cpus) == 1, "borrowed CPUs are not in a status"

    def texts(self) -> tuple[dict[CgroupFile, str], dict[str, CpuSet]]:
        """Return the CPUs and weights of all groups of pods, and the weights of classes."""
        weight = WEIGHT_FILES[self.kernel.version]
        pods = LAYOUT.scan(self.kernel)
        settings = [CgroupFile("cpu", group, weight) for group in LAYOUT.classes]
        settings += [CgroupFile("cpu", pod.group, weight) for pod in pods]
        weights = {setting: self.kernel.read(setting) for setting in settings}
        return weights, self.node.everybody()

    def weight(self, uid: str) -> int:
        setting = CgroupFile("cpu", self.node.pod(uid), WEIGHT_FILES[self.kernel.version])
        return int(self.kernel.read(setting))

    def guests(self) -> dict[str, CpuSet]:
        """Return the CPUs of pods that have more than one."""
        cpus = {uid: self.node.cpus(self.node.container(uid)) for uid in "abc"}
        return {uid: each for uid, each in cpus.items() if len(each) > 1}


@pytest.fixture(params=[1, 2])
def lenders(request: pytest.FixtureRequest, tmp_path: Path) -> Lenders:
    return Lenders(tmp_path, request.param)


def test_a_guest_weighs_nothing_beside_who_lends(lenders: Lenders) -> None:
    assert set(lenders.guests()) == {"b"}
    assert lenders.weight("b") <= 2
    assert lenders.weight("a") > 200 * lenders.weight("b")


def test_who_wakes_has_its_cores_back_and_does_not_lend_again_soon(lenders: Lenders) -> None:
    lenders.use(a=0.5, b=1.0)
    lenders.step()
    lenders.step()
    assert lenders.guests() == {}
    of_a_core = {1: 1024, 2: 39}[lenders.kernel.version]
    assert [lenders.weight(uid) for uid in "ab"] == [of_a_core, of_a_core]
    lenders.use(b=1.0)
    for _ in range(8):
        lenders.step()
        assert lenders.guests() == {}
    for _ in range(8):
        lenders.step()
    assert set(lenders.guests()) == {"b"}


def test_the_agent_looks_on_while_there_is_a_guest_though_nobody_wants_more(
    lenders: Lenders,
) -> None:
    lenders.use(a=0.5, b=0.2)  # less than it bought, so it is no guest any more
    lenders.node.now += 1.0
    lenders.kernel.elapse(1.0)
    assert lenders.node.agent.competing
    lenders.node.agent.correct(lenders.node.now)
    assert lenders.node.agent.competing
    assert lenders.node.agent.guests_due


def test_a_guest_that_needs_no_more_leaves(lenders: Lenders) -> None:
    lenders.use(b=0.2)
    lenders.step()
    lenders.step()
    assert lenders.guests() == {}


def test_a_restarted_agent_knows_whose_the_cores_are(lenders: Lenders) -> None:
    owned = lenders.node.cpus(lenders.node.container("a"))
    lenders.node.start_agent()
    lenders.node.plan(a=1000, b=1000, c=500)
    lenders.step()
    assert lenders.guests() == {}
    assert lenders.node.cpus(lenders.node.container("a")) == owned


@pytest.mark.parametrize("granted", [{}, {"a": 1500}])
def test_who_slept_before_others_lost_their_grants_is_not_taken_to_sleep_on(
    lenders: Lenders, granted: dict[str, int]
) -> None:
    lenders.node.plan("enforce", None, **granted)
    lenders.use(a=0.5, b=1.0)
    for _ in range(8):
        lenders.node.step()
    lenders.node.plan(a=1000, b=1000, c=500)
    for _ in range(4):
        lenders.step()
        assert lenders.guests() == {}


def test_who_woke_as_grants_came_back_is_not_taken_to_sleep_by_the_time_before(
    lenders: Lenders,
) -> None:
    """A mean over all the time without grants says nothing of who is awake now."""
    lenders.node.plan()
    lenders.use(b=1.0)
    lenders.node.step()
    lenders.node.step(1000.0)
    lenders.use(a=0.5, b=1.0)
    lenders.node.plan(a=1000, b=1000, c=500)
    for _ in range(4):
        lenders.step()
        assert lenders.guests() == {}


def test_a_core_that_gets_another_owner_loses_its_guest_first(lenders: Lenders) -> None:
    lenders.node.start_pod("d")
    lenders.node.plan(b=1000, c=500, d=1000)
    lenders.node.step()
    assert lenders.guests() == {}
    assert len(lenders.node.cpus(lenders.node.container("d"))) == 1


@pytest.mark.parametrize("writes", range(16))
@pytest.mark.parametrize("version", [1, 2])
def test_whoever_is_on_a_core_of_others_weighs_nothing_after_every_single_write(
    version: Literal[1, 2], writes: int, tmp_path: Path
) -> None:
    """An owner may wake at any moment, and an agent that was killed gives it nothing back."""
    lenders = Lenders(tmp_path, version)
    for a in (0.5, 0.0):  # the guest leaves and comes
        lenders.use(a=a, b=1.0)
        lenders.kernel.stop_after(writes)
        with suppress(Stopped):
            for _ in range(20):
                lenders.step()
        lenders.kernel.go_on()
        if lenders.guests():
            assert lenders.weight("b") <= 2
            groups = (
                parent for parent in LAYOUT.classes if lenders.node.pod("b").startswith(parent)
            )
            for group in groups:
                file = CgroupFile("cpu", group, WEIGHT_FILES[version])
                assert int(lenders.kernel.read(file)) <= lenders.weight("a") / 100


@pytest.mark.parametrize("writes", range(12))
@pytest.mark.parametrize("version", [1, 2])
def test_an_agent_that_ends_at_any_moment_leaves_all_to_be_put_back(
    version: Literal[1, 2], writes: int, tmp_path: Path
) -> None:
    lenders = Lenders(tmp_path, version)
    lenders.use(a=0.5, b=1.0)
    lenders.kernel.stop_after(writes)
    try:
        for _ in range(20):
            lenders.step()
    except Stopped:
        pass
    lenders.kernel.go_on()
    lenders.node.start_agent()
    restore(lenders.node.journal, lenders.kernel, possible=CpuSet(range(8)))
    assert lenders.texts() == lenders.before
    assert dict(lenders.node.journal.originals) == {}


def measured(lenders: Lenders) -> int | None:
    """Make a pass in which b is measured on two cores, and return how many it has."""
    lenders.use(b=1.0)
    status = lenders.node.step(1.0, b=2)
    assert status.is_enforced, status.failures
    b = next(pod for pod in status.pods if pod.pod == "b")
    if b.limit is not None:
        assert b.cpus == lenders.node.cpus(lenders.node.container("b"))
        assert b.cpus is not None
        assert len(b.cpus) == 2
    return b.limit


def test_a_pod_with_one_core_is_measured_on_that_of_one_that_sleeps(lenders: Lenders) -> None:
    assert measured(lenders) == 2
    assert lenders.weight("b") <= 2
    assert lenders.weight("a") > 200 * lenders.weight("b")
    lenders.use(a=0.5, b=1.0)
    for _ in range(2):
        lenders.node.step(1.0, b=2)
    assert lenders.guests() == {}
    assert measured(lenders) is None, "the owner is awake"
    assert lenders.weight("b") > 2


def test_what_was_borrowed_to_be_measured_is_back_when_that_ends(lenders: Lenders) -> None:
    measured(lenders)
    lenders.kernel.use(lenders.node.pod("b"), 0.5)
    lenders.node.step(1.0, b=2)
    lenders.node.step(1.0, b=2)
    assert set(lenders.guests()) == {"b"}, (
        "however little it uses, as a program that is not parallel"
    )
    lenders.step()
    assert lenders.guests() == {}
    assert lenders.weight("b") > 2


@pytest.mark.parametrize("writes", range(8))
@pytest.mark.parametrize("version", [1, 2])
def test_an_agent_that_ends_while_it_measures_leaves_the_owner_its_core(
    version: Literal[1, 2], writes: int, tmp_path: Path
) -> None:
    lenders = Lenders(tmp_path, version)
    lenders.kernel.use(lenders.node.pod("b"), 0.5)
    lenders.step()
    lenders.step()
    assert lenders.guests() == {}
    lenders.kernel.stop_after(writes)
    with suppress(Stopped):
        lenders.node.step(1.0, b=2)
        lenders.node.step(1.0)
    lenders.kernel.go_on()
    assert not lenders.guests() or lenders.weight("b") <= 2
    lenders.node.start_agent()
    lenders.node.plan(a=1000, b=1000, c=500)
    lenders.step()
    assert lenders.guests() == {}
    assert lenders.weight("b") > 2


def test_an_owner_that_falls_asleep_has_a_guest_within_a_second(lenders: Lenders) -> None:
    lenders.use(a=1.0, b=1.0)
    for _ in range(80):  # until a pod that woke may lend again
        lenders.step()
    assert lenders.guests() == {}
    node, agent = lenders.node, lenders.node.agent
    (own,) = node.cpus(node.container("a"))
    node.idle = dict.fromkeys(range(3), 0.0)
    assert agent.competing
    for _ in range(4):
        pass_time(lenders, own, asleep=False)
        agent.correct(node.now)
        assert lenders.guests() == {}
    lenders.use(b=1.0)
    seconds = 0.0
    while not agent.guests_due and seconds < 2:
        seconds += pass_time(lenders, own, asleep=True)
        agent.correct(node.now)
    assert seconds <= 0.8
    agent.step(node.now)
    assert set(lenders.guests()) == {"b"}
    assert agent.pause == 1.0, "there is nothing left to borrow"


def pass_time(lenders: Lenders, own: int, *, asleep: bool) -> float:
    """Let time pass until the agent is to correct again, and return how long that is."""
    seconds = lenders.node.agent.pause
    lenders.node.now += seconds
    lenders.kernel.elapse(seconds)
    lenders.node.idle[own] += seconds if asleep else 0.0
    return seconds


def test_a_cpu_that_falls_idle_is_worth_two_looks_and_no_more() -> None:
    now, idle = 0.0, {0: 0.0, 1: 0.0}
    reader = CpuUseReader(ModelKernel(1), clock=lambda: now)
    pods = SharedTime(reader, KUBELETS_WEIGHTS, lambda: dict(idle))
    pods.lendable = CpuSet([1])

    def glances(number: int, seconds: float = 0.25, **of_cpus: float) -> list[bool]:
        nonlocal now
        found = []
        for _ in range(number):
            now += seconds
            for cpu in idle:
                idle[cpu] += seconds * of_cpus.get(f"cpu{cpu}", 0.0)
            found.append(pods.glance())
        return found

    assert not any(glances(4, cpu0=1.0)), "nobody would borrow it"
    assert glances(4, cpu1=0.96) == [True, True, False, False]
    assert not any(glances(4, cpu1=0.5))
    assert glances(3, cpu1=1.0) == [True, True, False]
    assert not any(glances(3, seconds=2.0, cpu1=1.0)), "the last glance is too old"


@pytest.mark.parametrize(("least", "factor"), [(400, 4), (5250, 16), (50, 1)])
def test_who_lends_is_raised_no_more_than_it_takes_and_all_of_them_alike(
    least: int, factor: int
) -> None:
    """Pods that wake together divide their CPU as they bought it, with the guest or without."""
    small, large = (PodCpus(NONE, CpuSet([0]), milli) for milli in (100, 900))
    guest = {"b": CpuSet([0, 1])}
    pods = NodeCpus({"small": small, "large": large, "b": whole(1)}, CpuSet([0]))
    lent = with_guests(pods, guest, least).pods
    weights = [lent[pod].milliweight for pod in ("small", "large", "b")]
    assert weights == [100 * factor, 900 * factor, 0]


def test_a_guest_that_cannot_leave_weighs_nothing_until_it_has_left(lenders: Lenders) -> None:
    cpus = CgroupFile("cpuset", lenders.node.container("b"), "cpuset.cpus")
    lenders.kernel.fail(cpus, errno.EBUSY, times=20)
    lenders.use(a=0.5, b=1.0)
    for _ in range(3):
        lenders.node.step()
        assert set(lenders.guests()) == {"b"}
        assert lenders.weight("b") <= 2
    lenders.kernel.heal()
    for _ in range(40):
        lenders.node.step()
    assert lenders.guests() == {}
    of_a_core = {1: 1024, 2: 39}[lenders.kernel.version]
    assert [lenders.weight(uid) for uid in "ab"] == [of_a_core, of_a_core]


def test_a_guest_that_cannot_leave_weighs_nothing_though_it_sleeps_and_lends(
    lenders: Lenders,
) -> None:
    kernel, node = lenders.kernel, lenders.node
    kernel.fail(CgroupFile("cpuset", node.container("b"), "cpuset.cpus"), errno.EBUSY, times=20)
    of_c = {1: (1.5, 0.0), 2: (0.5, 1.0)}[kernel.version]
    node.use(a=0.5)
    kernel.use(node.pod("c"), *of_c)
    for _ in range(4):
        node.step()
        assert lenders.weight("b") <= 2
    assert set(lenders.guests()) == {"b", "c"}


@pytest.mark.parametrize("limits", [{}, {"b": 2}], ids=["busy", "measured"])
def test_who_cannot_be_weighed_as_a_guest_keeps_to_its_own_cpus(
    lenders: Lenders, limits: dict[str, int]
) -> None:
    """Also if others have put it on all CPUs meanwhile."""
    kernel, node = lenders.kernel, lenders.node
    lenders.use(a=0.5, b=1.0)
    lenders.step()
    lenders.step()
    own = node.everybody()
    lenders.use(b=1.0)
    weight = CgroupFile("cpu", node.pod("b"), WEIGHT_FILES[kernel.version])
    kernel.fail(weight, errno.EBUSY, times=1000)
    for number in range(40):
        if number == 20:
            kernel.set_by_others(CgroupFile("cpuset", node.container("b"), "cpuset.cpus"), "0-2")
        status = node.step(1.0, undisturbed=False, **limits)
        assert node.everybody() == own or number == 20
        assert lenders.node.container("b") not in status.repaired or number == 20
        assert node.pod("a") not in status.repaired
    kernel.heal()
    for _ in range(400):
        node.step(1.0, undisturbed=False, **limits)
    assert set(lenders.guests()) == {"b"}
    assert lenders.weight("b") <= 2
