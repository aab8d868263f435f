"""Grants are held on a model of the kernel, whatever it refuses and wherever the agent stops."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from machines import machine
from model_kernel import ModelKernel, Stopped
from pod_groups import QosClass, pod_group
from walras_agent.cpuset import CpuSet
from walras_agent.dry_run import DryRunCgroups
from walras_agent.enforce import CpuEnforcer, CpuRound
from walras_agent.journal import Journal
from walras_agent.kubepods import Layout
from walras_agent.node_plan import EnforcedGrant
from walras_agent.observe import PodObserver
from walras_agent.topology import Topology
from walras_agent.tree import CgroupError, CgroupFile

if TYPE_CHECKING:
    from pathlib import Path

    from walras_agent.pod_cpus import NodeCpus

CORES = 6
TOPOLOGY = machine(cores=CORES)
ONE_ISOLATED = Topology(TOPOLOGY.cpus[:-1], CpuSet([CORES - 1]))
QOS: dict[str, QosClass] = {
    "a": "Guaranteed",
    "b": "Burstable",
    "c": "Burstable",
    "d": "BestEffort",
    "e": "Guaranteed",
}
LAYOUT = Layout("cgroupfs")

VERSIONS = pytest.mark.parametrize("version", [1, 2])


def container(pod: str, number: int = 0) -> str:
    return f"{pod_group(LAYOUT, pod, QOS[pod])}/{pod.encode().hex() * 6}{number:04x}"


def node(
    version: Literal[1, 2], pods: str = "abcd", quota: int | None = None, cpus_of_d: str = ""
) -> ModelKernel:
    """A node whose pods have one container each, which has a group inside in cgroup v1."""
    kernel = ModelKernel(version, cpus=CORES)
    for pod in pods:
        start(kernel, pod, quota, cpus_of_d if pod == "d" else "")
    return kernel


def start(kernel: ModelKernel, pod: str, quota: int | None = None, cpus: str = "") -> None:
    kernel.make(container(pod), tasks=1, cpus=cpus or None)
    if kernel.version == 1:
        kernel.make(f"{container(pod)}/init.scope", tasks=1)
    if quota is not None:
        for group in (pod_group(LAYOUT, pod, QOS[pod]), container(pod)):
            if kernel.version == 1:
                kernel.set_by_others(CgroupFile("cpu", group, "cpu.cfs_quota_us"), str(quota))
            else:
                kernel.set_by_others(CgroupFile("cpu", group, "cpu.max"), f"{quota} 100000")


class Agent:
    """The enforcing part of an agent, started on a node."""

    def __init__(self, kernel: ModelKernel, folder: Path, topology: Topology = TOPOLOGY) -> None:
        self.topology = topology
        boot = folder / "boot_id"
        boot.write_text("this boot\n")
        self.journal = Journal.open(folder / "journal", boot)
        observer = PodObserver(kernel, LAYOUT)
        self.enforcer = CpuEnforcer(kernel, observer, self.journal, classes=LAYOUT.classes)

    def hold(self, **millicores: int) -> CpuRound:
        return self.enforcer.enforce(self.topology, grants(**millicores))

    def rehearse(self, **millicores: int) -> CpuRound:
        kernel = DryRunCgroups(self.enforcer.cgroups)
        journal = Journal.in_memory(self.journal.originals.values())
        enforcer = self.enforcer.with_cgroups(kernel, journal)
        return enforcer.enforce(self.topology, grants(**millicores))


def grants(**millicores: int) -> list[EnforcedGrant]:
    """Return grants of pods that have their whole cores for themselves."""
    return [
        EnforcedGrant(pod, f"default/{pod}", each, isolated=True)
        for pod, each in millicores.items()
    ]


def held(kernel: ModelKernel) -> dict[str, CpuSet]:
    """Return the CPUs that the tasks of each pod may use."""
    file = "cpuset.effective_cpus" if kernel.version == 1 else "cpuset.cpus.effective"
    found: dict[str, CpuSet] = {}
    for groups in LAYOUT.scan(kernel):
        for name in groups.containers:
            cpus = CpuSet.parse(kernel.read(CgroupFile("cpuset", name, file)))
            found[groups.uid] = found.get(groups.uid, CpuSet()) | cpus
    return found


def texts(kernel: ModelKernel, files: tuple[str, ...]) -> dict[CgroupFile, str]:
    found = {}
    pending = ["/"]
    while pending:
        group = pending.pop()
        pending += kernel.children(group)
        for file in files:
            controller: Literal["cpu", "cpuset"] = "cpuset" if "cpuset" in file else "cpu"
            setting = CgroupFile(controller, group, file)
            try:
                found[setting] = kernel.read(setting)
            except CgroupError:  # the topmost group lacks some
                continue
    return found


CPU_FILES: dict[int, tuple[str, ...]] = {
    1: ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares"),
    2: ("cpu.max", "cpu.weight"),
}


@VERSIONS
def test_grants_are_held_and_all_others_share_the_rest(
    version: Literal[1, 2], tmp_path: Path
) -> None:
    kernel = node(version)
    agent = Agent(kernel, tmp_path)
    done = agent.hold(a=2000, b=1500)
    assert done.failures == ()
    now = held(kernel)
    assert len(now["a"]) == 2
    assert now["c"] == now["d"] == done.node_cpus.shared
    assert now["b"] == done.node_cpus.pods["b"].cpus
    assert now["b"] & now["c"] == now["c"], "its fraction is time on all shared CPUs"
    assert len(now["a"] | done.node_cpus.pods["b"].exclusive | now["c"]) == CORES
    before = len(kernel.writes)
    assert agent.hold(a=2000, b=1500).writes == ()
    assert len(kernel.writes) == before


def large_node(version: Literal[1, 2]) -> tuple[ModelKernel, Topology]:
    """Return a node of two sockets with 16 cores each, and its pods on all CPUs."""
    kernel = ModelKernel(version, cpus=32)
    for pod in "abc":
        kernel.make(container(pod), tasks=1)
    return kernel, machine(nodes=2, cores=16)


@VERSIONS
def test_pod_stays_in_its_domain_when_others_go_and_the_agent_restarts(
    version: Literal[1, 2], tmp_path: Path
) -> None:
    kernel, topology = large_node(version)
    shared = [EnforcedGrant(pod, pod, each) for pod, each in (("a", 9000), ("b", 9000))]
    Agent(kernel, tmp_path, topology).enforcer.enforce(topology, shared)
    before = held(kernel)
    assert (before["a"], before["b"]) == (CpuSet(range(16)), CpuSet(range(16, 32)))
    assert before["c"] == topology.cpuset, "it has no grant"
    kernel.make(container("b", 1), tasks=1)  # while no agent is there
    restarted = Agent(kernel, tmp_path, topology)
    restarted.enforcer.enforce(topology, shared[1:])
    assert held(kernel)["b"] == before["b"]
    restarted.enforcer.enforce(topology, shared)
    assert held(kernel)["a"] == before["a"]


@VERSIONS
def test_what_an_agent_that_knew_no_domains_did_is_taken_over_and_put_back(
    version: Literal[1, 2], tmp_path: Path
) -> None:
    """It gave pods exclusive cores, and guests the least weight on those of others."""
    kernel, topology = large_node(version)
    original = texts(kernel, CPU_FILES[version]), held(kernel)
    older = Agent(kernel, tmp_path, topology)
    weight = "cpu.shares" if version == 1 else "cpu.weight"
    steps = [
        *(
            (CgroupFile("cpuset", container(pod), "cpuset.cpus"), cpus)
            for pod, cpus in (("a", "0-8"), ("b", "0-15"), ("c", "16-31"))
        ),
        (CgroupFile("cpu", pod_group(LAYOUT, "a", QOS["a"]), weight), "9000"),
        (CgroupFile("cpu", pod_group(LAYOUT, "b", QOS["b"]), weight), "2"),
        (CgroupFile("cpu", "/kubepods/burstable", weight), "2"),
    ]
    older.journal.record(steps, kernel)
    for setting, value in steps:
        older.journal.write(setting, value, kernel)
    agent = Agent(kernel, tmp_path, topology)
    shared = [EnforcedGrant(pod, pod, each) for pod, each in (("a", 9000), ("b", 9000))]
    done = agent.enforcer.enforce(topology, shared)
    assert done.failures == ()
    now = held(kernel)
    assert (now["a"], now["b"]) == (CpuSet(range(16)), CpuSet(range(16, 32)))
    assert now["c"] == topology.cpuset
    weights = [
        int(kernel.read(CgroupFile("cpu", pod_group(LAYOUT, pod, QOS[pod]), weight)))
        for pod in "ab"
    ]
    assert weights[0] == weights[1] > 1000
    agent.hold()
    assert (texts(kernel, CPU_FILES[version]), held(kernel)) == original
    assert dict(agent.journal.originals) == {}


@VERSIONS
def test_no_group_above_a_container_is_narrowed(version: Literal[1, 2], tmp_path: Path) -> None:
    """Later containers would fail with EACCES (koordinator 395, 546; kubernetes 104147)."""
    kernel = node(version)
    agent = Agent(kernel, tmp_path)
    agent.hold(a=2000, b=1500)
    agent.hold(a=1000, d=3000)
    containers = {
        each for pod in "abcd" for each in (container(pod), f"{container(pod)}/init.scope")
    }
    written = {setting.group for setting, _, _ in kernel.writes if setting.controller == "cpuset"}
    assert written <= containers
    kernel.make(container("a", 1), tasks=1)
    assert agent.hold(a=1000, d=3000).failures == ()


@VERSIONS
def test_container_that_starts_while_the_agent_is_away_moves_no_other(
    version: Literal[1, 2], tmp_path: Path
) -> None:
    kernel = node(version, "abd")
    agent = Agent(kernel, tmp_path)
    agent.hold(a=2000, b=1000)
    agent.hold(b=1000)
    agent.hold(b=1000, d=3000)
    before = held(kernel)
    assert before["b"] != CpuSet([0]), "a node without a past would place it there"
    start(kernel, "e")
    Agent(kernel, tmp_path).hold(b=1000, d=3000)
    assert held(kernel) == before | {"e": before["a"]}


@VERSIONS
def test_quota_is_lifted_while_granted_and_put_back(version: Literal[1, 2], tmp_path: Path) -> None:
    """Throttling goes on with a quota set on pinned pods (koordinator 489, kubernetes 70585)."""
    kernel = node(version, quota=50_000)
    original = texts(kernel, CPU_FILES[version])
    agent = Agent(kernel, tmp_path)
    agent.hold(a=2000, b=1500)
    file = "cpu.cfs_quota_us" if version == 1 else "cpu.max"
    lifted = "-1" if version == 1 else "max 100000"
    for pod in "ab":
        for group in (pod_group(LAYOUT, pod, QOS[pod]), container(pod)):
            assert kernel.read(CgroupFile("cpu", group, file)) == lifted
    agent.hold(b=1500)
    now = texts(kernel, CPU_FILES[version])
    changed = {
        setting.group
        for setting, text in now.items()
        if text != original[setting] and "weight" not in setting.file
    }
    mine = {pod_group(LAYOUT, "b", QOS["b"]), container("b")}
    weighed = {"/kubepods/burstable", "/kubepods/besteffort"} if version == 1 else set()
    assert mine <= changed <= mine | weighed
    agent.hold()
    assert texts(kernel, CPU_FILES[version]) == original


@VERSIONS
def test_a_plan_that_keeps_limits_leaves_quotas_and_puts_back_those_it_had_lifted(
    version: Literal[1, 2], tmp_path: Path
) -> None:
    kernel = node(version, quota=50_000)
    quota_file = "cpu.cfs_quota_us" if version == 1 else "cpu.max"
    quotas = texts(kernel, (quota_file,))
    agent = Agent(kernel, tmp_path)
    for lifts in (False, True, False):
        agent.enforcer.enforce(TOPOLOGY, grants(a=2000, b=1500), keeps_limits=not lifts)
        assert (texts(kernel, (quota_file,)) == quotas) is not lifts
        assert len(held(kernel)["a"]) == 2


@VERSIONS
def test_quotas_and_bursts_of_an_older_agent_are_put_back(
    version: Literal[1, 2], tmp_path: Path
) -> None:
    """It set the quota of a fraction to a tenth more than the grant, below the user's burst."""
    kernel = node(version, quota=50_000)
    group, quota, burst, less = (
        (container("b"), "cpu.cfs_quota_us", "cpu.cfs_burst_us", "16500")
        if version == 1
        else (pod_group(LAYOUT, "b", QOS["b"]), "cpu.max", "cpu.max.burst", "16500 100000")
    )
    kernel.set_by_others(CgroupFile("cpu", group, burst), "30000")
    original = texts(kernel, (*CPU_FILES[version], burst))
    older = Agent(kernel, tmp_path)
    steps = [(CgroupFile("cpu", group, burst), "0"), (CgroupFile("cpu", group, quota), less)]
    older.journal.record(steps, kernel)
    for setting, value in steps:
        older.journal.write(setting, value, kernel)
    agent = Agent(kernel, tmp_path)
    assert agent.hold(b=150).failures == ()
    assert kernel.read(CgroupFile("cpu", group, quota)).removesuffix(" 100000") in {"-1", "max"}
    agent.hold()
    assert texts(kernel, (*CPU_FILES[version], burst)) == original
    assert dict(agent.journal.originals) == {}


def test_cpu_that_was_offline_when_grants_ended_comes_back_to_all(tmp_path: Path) -> None:
    kernel = node(2)
    before = held(kernel)
    agent = Agent(kernel, tmp_path)
    agent.enforcer.possible = TOPOLOGY.cpuset
    agent.hold(a=2000)
    kernel.offline([5])
    agent.hold()
    kernel.online([5])
    assert held(kernel) == before


@VERSIONS
def test_container_that_goes_meanwhile_is_no_failure(
    version: Literal[1, 2], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = node(version)
    agent = Agent(kernel, tmp_path)

    taken = kernel.write

    def write(setting: CgroupFile, value: str) -> None:
        if setting.group.startswith(container("c")):
            monkeypatch.undo()
            kernel.remove(pod_group(LAYOUT, "c", QOS["c"]))
        taken(setting, value)

    monkeypatch.setattr(kernel, "write", write)
    done = agent.hold(a=2000)
    assert done.failures == ()
    assert set(held(kernel)) == {"a", "b", "d"}
    assert len(held(kernel)["a"]) == 2


@VERSIONS
@pytest.mark.parametrize("number", [errno.EBUSY, errno.EINVAL, errno.EACCES])
def test_container_that_cannot_be_moved_keeps_its_cpus_from_others(
    version: Literal[1, 2], number: int, tmp_path: Path
) -> None:
    kernel = node(version)
    for group in (container("c"), f"{container('c')}/init.scope"):
        kernel.fail(CgroupFile("cpuset", group, "cpuset.cpus"), number, times=99)
    done = Agent(kernel, tmp_path).hold(a=2000)
    kinds = {each.group: each.kind for each in done.failures}
    assert kinds[container("c")] == ("transient" if number == errno.EBUSY else "permanent")
    assert os.strerror(number) in next(x.reason for x in done.failures if x.group == container("c"))
    assert held(kernel)["c"] == TOPOLOGY.cpuset
    assert held(kernel)["b"] == held(kernel)["d"] == done.node_cpus.shared


def divided(pods: str = "abc") -> ModelKernel:
    """A node before Linux 6.1, whose containers have groups inside that list CPUs."""
    kernel = ModelKernel(2, cpus=CORES, nested=True)
    for pod in pods:
        kernel.make(f"{container(pod)}/docker/inner", tasks=1)
        for group in (f"{container(pod)}/docker", f"{container(pod)}/docker/inner"):
            kernel.set_by_others(CgroupFile("cpuset", group, "cpuset.cpus"), "0-5")
    return kernel


def test_groups_inside_that_list_cpus_follow_their_container(tmp_path: Path) -> None:
    """Before 6.1 v2 refuses to narrow a group below its children: docker in docker, systemd."""
    kernel = divided()
    before = texts(kernel, ("cpuset.cpus",))
    done = Agent(kernel, tmp_path).hold(a=2000)
    assert done.failures == ()
    assert held(kernel)["b"] == held(kernel)["c"] == done.node_cpus.shared
    writes = len(kernel.writes)
    again = Agent(kernel, tmp_path)  # it knows only by the journal what its predecessor narrowed
    assert again.hold(a=2000).writes == ()
    assert len(kernel.writes) == writes
    wider = again.hold(a=4000)
    inner = CgroupFile("cpuset", f"{container('a')}/docker/inner", "cpuset.cpus")
    assert CpuSet.parse(kernel.read(inner)) == wider.node_cpus.pods["a"].exclusive
    again.hold()
    after = texts(kernel, ("cpuset.cpus",))
    inside = {each for each in before if "/docker" in each.group}
    assert {each: after[each] for each in inside} == {each: before[each] for each in inside}
    assert dict(again.journal.originals) == {}


def test_stopped_before_any_write_to_groups_inside_no_cpu_has_two_owners(tmp_path: Path) -> None:
    stops, finished = 0, False
    while not finished:
        folder = tmp_path / str(stops)
        folder.mkdir()
        kernel = divided()
        originals = held(kernel)
        agent = Agent(kernel, folder)
        was = agent.hold(a=2000, b=3000).node_cpus
        initial = held(kernel)
        target = agent.rehearse(b=1000, c=4000).node_cpus
        kernel.stop_after(stops)
        try:
            agent.hold(b=1000, c=4000)
            finished = True
        except Stopped:
            stops += 1
        kernel.go_on()
        check(kernel, initial, was, target, targets(target, originals))
        recovered = Agent(kernel, folder).hold(b=1000, c=4000)
        assert recovered.failures == ()
        assert held(kernel)["c"] == recovered.node_cpus.pods["c"].exclusive
    assert stops > 5


def test_container_whose_groups_come_and_go_does_not_hold_up_the_round(tmp_path: Path) -> None:
    kernel = node(1)
    busy = CgroupFile("cpuset", f"{container('c')}/init.scope", "cpuset.cpus")
    kernel.fail(busy, errno.ENODEV, times=99)
    done = Agent(kernel, tmp_path).hold(a=2000)
    assert [each.group for each in done.failures if each.kind == "gone"] == [container("c")]
    assert "keep changing" in next(x.reason for x in done.failures if x.group == container("c"))
    assert held(kernel)["b"] == done.node_cpus.shared


def test_kernel_that_takes_a_value_and_holds_another_is_believed(tmp_path: Path) -> None:
    """A v2 cgroup whose CPUs are all offline silently acts as if its cpuset were empty."""
    kernel = node(2)
    kernel.offline([0])
    done = Agent(kernel, tmp_path).hold(a=1000)
    failure = next(each for each in done.failures if each.group == container("a"))
    assert failure.kind == "permanent"
    assert "wrote CPUs 0, but 1-5 are in effect" in failure.reason


@VERSIONS
def test_groups_above_that_lack_a_cpu_are_widened_first(
    version: Literal[1, 2], tmp_path: Path
) -> None:
    kernel = ModelKernel(version, cpus=CORES)
    for group in ("/kubepods", pod_group(LAYOUT, "a", "Guaranteed")):
        kernel.make(group, cpus="0-1")
    start(kernel, "a")
    done = Agent(kernel, tmp_path).hold(a=4000)
    assert done.failures == ()
    assert len(held(kernel)["a"]) == 4


@VERSIONS
def test_rehearsal_tells_the_writes_and_makes_none(version: Literal[1, 2], tmp_path: Path) -> None:
    kernel = node(version, quota=50_000)
    agent = Agent(kernel, tmp_path)
    shown = agent.rehearse(a=2000, b=1500)
    assert kernel.writes == []
    assert dict(agent.journal.originals) == {}
    assert agent.hold(a=2000, b=1500) == shown
    assert agent.rehearse(a=2000, b=1500).writes == ()


def own(node_cpus: NodeCpus | None, pod: str, cpu: int) -> bool:
    return node_cpus is not None and pod in node_cpus.pods and cpu in node_cpus.pods[pod].exclusive


def targets(node_cpus: NodeCpus, originals: dict[str, CpuSet]) -> dict[str, CpuSet]:
    """Return the CPUs that each pod is to have."""
    owned = CpuSet(cpu for each in node_cpus.pods.values() for cpu in each.exclusive)
    return {
        pod: node_cpus.pods[pod].cpus if pod in node_cpus.pods else cpus - owned or node_cpus.shared
        for pod, cpus in originals.items()
    }


def check(
    kernel: ModelKernel,
    initial: dict[str, CpuSet],
    old: NodeCpus | None,
    new: NodeCpus,
    after: dict[str, CpuSet],
) -> None:
    """Check that no CPU has two owners on the way from one plan to the next.

    The new owner of a CPU gets it after all others have left; its old owner has left before others
    come, unless all of them are to share it, or no grant is left and every value is restored.
    """
    now = held(kernel)
    for cpu in range(CORES):
        users = {pod for pod, cpus in now.items() if cpu in cpus}
        if len(users) < 2:
            continue
        came = {pod for pod in users if cpu not in initial[pod]}
        for pod in users:
            assert not (own(new, pod, cpu) and pod in came), f"CPU {cpu}: {users}, {pod} came early"
            shares = cpu in new.shared and cpu in after[pod]
            if own(old, pod, cpu) and new.pods and not shares:
                assert not came - {pod}, f"CPU {cpu}: {came} came before {pod} had left"


PLANS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3).map(lambda n: n * 500 + 500))


@pytest.mark.long
@examples(60)
@given(
    st.sampled_from([1, 2]),
    PLANS,
    PLANS,
    st.sampled_from([TOPOLOGY, ONE_ISOLATED]),
    st.sampled_from(["", "0-1", "4-5", "5"]),
)
def test_stopped_before_any_write_no_cpu_has_two_owners_and_all_is_recovered(
    tmp_path_factory: pytest.TempPathFactory,
    version: Literal[1, 2],
    old: dict[str, int],
    new: dict[str, int],
    topology: Topology,
    cpus_of_d: str,
) -> None:
    """Every crash point between two plans, each followed by a new start of the agent."""
    stops, finished = 0, False
    while not finished:
        folder = tmp_path_factory.mktemp("agent")
        kernel = node(version, quota=50_000, cpus_of_d=cpus_of_d)
        originals = held(kernel)
        start_texts = texts(kernel, CPU_FILES[version])
        agent = Agent(kernel, folder, topology)
        was = agent.hold(**old).node_cpus
        initial = held(kernel)
        target = agent.rehearse(**new).node_cpus
        kernel.stop_after(stops)
        try:
            agent.hold(**new)
            finished = True
        except Stopped:
            stops += 1
        kernel.go_on()
        check(kernel, initial, was, target, targets(target, originals))
        again = Agent(kernel, folder, topology)
        recovered = again.hold(**new)
        assert recovered.failures == ()
        assert held(kernel) == targets(recovered.node_cpus, originals)
        again.hold()
        assert held(kernel) == originals
        assert texts(kernel, CPU_FILES[version]) == start_texts
