"""Failures of other projects on cgroups do not happen here; each test names the issue.

These are promises that no other module is about. Kept elsewhere are: that no QoS or pod group is
narrowed, and that CPUs in effect are believed, not those written (test_enforce.py); pause
containers (test_observe.py); a static CPU manager
(test_kubelet.py); file descriptors (test_open_file_tree.py); `memory.high` before Linux 5.9
(test_memory_limits.py, test_memory_kernel.py).
"""

from __future__ import annotations

import errno
import sys
from collections import Counter
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Literal

import pytest

from model_kernel import MIB, Memory, ModelKernel
from model_node import CORES, LAYOUT, CpusetDisabled, Node, states
from walras_agent.cpuset import CpuSet
from walras_agent.restore import restore
from walras_agent.tree import CONTROLLERS, CgroupError, CgroupFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VERSIONS = pytest.mark.parametrize("version", [1, 2])

# All that the agent ever writes: what others depend on is not among it.
WRITTEN = {
    *("cpuset.cpus", "cpuset.mems"),
    *("cpu.max", "cpu.max.burst", "cpu.weight"),
    *("cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpu.shares"),
    *("memory.high", "memory.max", "memory.reclaim"),
    *("memory.soft_limit_in_bytes", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    "memory.oom_control",
}


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return Node(ModelKernel(request.param, cpus=CORES, numa=2), tmp_path, numa=2, owning=".*")


def setting(group: str, file: str) -> CgroupFile:
    (controller,) = (known for known in CONTROLLERS if file.startswith(f"{known}."))
    return CgroupFile(controller, group, file)


def everything(node: Node, *controllers: str) -> dict[str, str]:
    """Return the content of all files of the controllers, for all pods and containers."""
    found = {}
    for file in sorted(WRITTEN - {"memory.reclaim"}):
        if file.partition(".")[0] not in controllers:
            continue
        for groups in LAYOUT.scan(node.kernel):
            for group in (groups.group, *groups.containers):
                with suppress(CgroupError):  # those of the other version
                    found[f"{group}/{file}"] = node.kernel.read(setting(group, file))
    return found


def write_all(node: Node, texts: dict[str, str], only: Callable[[str], bool]) -> None:
    """Write texts to the files that ``only`` selects, parents first, as others than the agent."""
    for path, text in sorted(texts.items(), key=lambda item: item[0].count("/")):
        group, _, file = path.rpartition("/")
        if only(path):
            node.kernel.set_by_others(setting(group, file), text)


def settle(node: Node, steps: int = 6) -> None:
    for _ in range(steps):
        node.step(100.0)


def held_by_a_plan(node: Node) -> dict[str, str]:
    """Two pods, one with cores of its own; returns what files said before."""
    for uid in "ab":
        node.start_pod(uid)
        quota = {1: ("cpu.cfs_quota_us", "50000"), 2: ("cpu.max", "50000 100000")}
        file, text = quota[node.kernel.version]
        node.kernel.set_by_others(CgroupFile("cpu", node.container(uid), file), text)
    before = everything(node, "cpuset", "cpu")
    node.memory_nodes = "local"
    node.plan(a=2000, b=1500)
    settle(node)
    return before


def test_runtime_that_rewrites_all_of_a_container_is_answered(node: Node) -> None:
    """`runc update` rewrites every value from its saved state (runc 3180, 4227)."""
    before = held_by_a_plan(node)
    right = everything(node, "cpuset", "cpu")
    if node.kernel.version == 2:  # what was not set is not written; it had all, as it has now
        before = {
            path: text or ("0-7" if path.endswith("cpus") else "0-1")
            for path, text in before.items()
        }
    write_all(node, before, lambda path: path.startswith(node.container("a")))
    assert everything(node, "cpuset", "cpu") != right
    status = node.step(100.0)
    assert everything(node, "cpuset", "cpu") == right
    assert states(status) == {"a": "Enforced", "b": "Enforced"}
    assert set(status.repaired) == {node.container("a"), node.pod("a")}


def test_systemd_that_resets_weights_and_quotas_is_answered(node: Node) -> None:
    """`daemon-reload` sets back what systemd was not told (systemd 5077, runc 1605)."""
    before = held_by_a_plan(node)
    right = everything(node, "cpuset", "cpu")
    write_all(node, before, lambda path: "/cpu." in path)
    assert everything(node, "cpuset", "cpu") != right
    node.step(100.0)
    assert everything(node, "cpuset", "cpu") == right


@pytest.mark.parametrize("millicores", [2000, 1500])
def test_a_pod_that_is_resized_in_place_keeps_its_new_size(node: Node, millicores: int) -> None:
    """A kubelet writes limits anew: pod first when raising, else containers."""
    quota = {1: "cpu.cfs_quota_us", 2: "cpu.max"}[node.kernel.version]
    limit = {1: "memory.limit_in_bytes", 2: "memory.max"}[node.kernel.version]
    sizes = {quota: {1: "300000", 2: "300000 100000"}[node.kernel.version], limit: str(900 * MIB)}
    node.start_pod("a", memory=Memory(anonymous=10 * MIB))
    groups = (node.pod("a"), node.container("a"))
    for group in groups:
        small = {1: "100000", 2: "100000 100000"}[node.kernel.version]
        node.kernel.set_by_others(CgroupFile("cpu", group, quota), small)
        node.kernel.set_by_others(CgroupFile("memory", group, limit), str(400 * MIB))
    node.plan("enforce", 600 * MIB, a=millicores)  # above the old limit, so that this is raised
    settle(node)
    for group in groups:
        for file, text in sizes.items():
            node.kernel.set_by_others(setting(group, file), text)
    settle(node)
    assert states(node.step(100.0))["a"] == "Enforced"
    node.start_agent()  # what is new is in the journal, too
    node.plan("enforce", 600 * MIB, a=millicores)
    settle(node)
    assert int(node.kernel.read(setting(node.container("a"), limit))) >= 600 * MIB

    node.plan("enforce", None)
    settle(node)
    for group in groups:
        found = {file: node.kernel.read(setting(group, file)) for file in sizes}
        assert found == sizes, group
    assert dict(node.journal.originals) == {}


def test_a_pod_that_is_resized_to_an_earlier_grant_of_its_own_keeps_its_new_size(
    node: Node,
) -> None:
    hard, weight = {
        1: ("memory.limit_in_bytes", "cpu.shares"),
        2: ("memory.max", "cpu.weight"),
    }[node.kernel.version]
    node.start_pod("a", memory=Memory(anonymous=10 * MIB))
    groups = (node.pod("a"), node.container("a"))
    for group in groups:
        node.kernel.set_by_others(setting(group, hard), str(256 * MIB))
    files = [setting(node.pod("a"), weight), *(setting(group, hard) for group in groups)]
    node.plan("enforce", 512 * MIB, a=2000)
    settle(node)
    earlier = [node.kernel.read(file) for file in files]
    node.plan("enforce", 1024 * MIB, a=3000)
    settle(node)
    granted = [node.kernel.read(file) for file in files]
    for file, text in zip(files, earlier, strict=True):
        node.kernel.set_by_others(file, text)
    settle(node)
    assert [node.kernel.read(file) for file in files] == granted != earlier
    node.plan("enforce", None)
    settle(node)
    assert [node.kernel.read(file) for file in files] == earlier


def test_container_that_starts_beside_a_fractional_grant_may_have_its_own_limit(node: Node) -> None:
    """v1 refuses a quota above the parent's, to runc as well: the pod must not have one."""
    node.start_pod("a")
    groups = node.pod("a"), node.container("a"), node.container("a", 1)
    file, unlimited, suffix = {
        1: ("cpu.cfs_quota_us", "-1", ""),
        2: ("cpu.max", "max", " 100000"),
    }[node.kernel.version]
    quotas = [CgroupFile("cpu", group, file) for group in groups]
    for quota in quotas[:2]:
        node.kernel.set_by_others(quota, f"400000{suffix}")
    node.plan(a=1500)
    settle(node)
    node.start_pod("a", 1)
    node.kernel.set_by_others(quotas[2], f"400000{suffix}")
    settle(node)
    assert states(node.step(100.0)) == {"a": "Enforced"}
    assert {node.kernel.read(quota).removesuffix(suffix) for quota in quotas} == {unlimited}
    restore(node.journal, node.kernel)
    assert {node.kernel.read(quota) for quota in quotas} == {f"400000{suffix}"}


class Classes:
    """A node whose kubelet sets weights by requests: 1 CPU by pod a, Burstable, none by pod b.

    Attributes:
        file: File with a group's weight.
        requested: Weight that the kubelet writes for the Burstable pod and for its class.
        least: Weight that the kubelet writes for the BestEffort pod and for its class.
        asked: Weight of the Burstable pod's request while any pod has a grant.
        granted: Weight of half a CPU then.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.file, self.requested, self.least, self.asked, self.granted = {
            1: ("cpu.shares", 1024, 2, 1024, 512),
            2: ("cpu.weight", 39, 1, 988, 500),
        }[node.kernel.version]
        self.burstable, self.best_effort = LAYOUT.classes
        for uid in "ab":
            node.start_pod(uid)
        assert node.pod("b").startswith(self.best_effort)
        for group in (self.burstable, node.pod("a")):
            self.write(group, self.requested)
        for group in (self.best_effort, node.pod("b")):
            self.write(group, self.least)

    def write(self, group: str, weight: int) -> None:
        self.node.kernel.set_by_others(CgroupFile("cpu", group, self.file), str(weight))

    def weights(self) -> tuple[int, int]:
        """Return the weights of Burstable and BestEffort."""
        files = (CgroupFile("cpu", each, self.file) for each in LAYOUT.classes)
        burstable, best_effort = (int(self.node.kernel.read(each)) for each in files)
        return burstable, best_effort


def test_cpu_time_is_granted_across_classes(node: Node) -> None:
    """The kubelet gives BestEffort the weight of no CPU, so its pods starve beside others."""
    classes = Classes(node)
    node.plan(b=1500)
    assert states(node.step()) == {"b": "Enforced"}
    granted = {1: 1536, 2: 1500}[node.kernel.version]  # of all that it was granted
    assert classes.weights() == (classes.asked, granted)
    node.start_pod("e")  # BestEffort, too, with the weight that the kernel gives
    node.step()
    default = {1: 1024, 2: 2549}[node.kernel.version]
    assert classes.weights() == (classes.asked, granted + default)
    node.plan(a=500)  # less than the pod has requested, which its class loses, too
    node.step()
    assert classes.weights() == (classes.granted, default)
    node.plan(a=2000, b=1000)  # nothing on shared CPUs, but the same beside programs outside
    node.step()
    whole = {1: (2048, 1024 + default), 2: (2000, 1000 + default)}[node.kernel.version]
    assert classes.weights() == whole
    node.plan()
    node.step()
    assert classes.weights() == (classes.requested, classes.least)
    assert all(each.group not in LAYOUT.classes for each in node.journal.originals)


def test_kubelet_that_writes_weights_of_classes_every_minute_is_answered_each_time(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    classes = Classes(node)
    node.plan(b=500)
    node.step()
    caplog.clear()
    for _ in range(20):
        classes.write(classes.best_effort, classes.least)
        status = node.step(0.25)
        assert classes.weights() == (classes.asked, classes.granted)
        assert (status.repaired, status.failures) == ((), ())
    for weight in (3 * classes.granted, classes.least + 1):
        classes.write(classes.best_effort, weight)
        node.step()
        assert classes.weights() == (classes.asked, classes.granted)
    node.plan(b=1700)
    node.step()
    classes.write(classes.best_effort, classes.granted)  # which the agent has written before
    node.step()
    assert classes.weights()[1] > classes.granted
    assert caplog.records == []
    node.start_agent()
    node.plan()
    node.step()
    assert classes.weights() == (classes.requested, classes.granted)
    assert dict(node.journal.originals) == {}


def test_a_class_weighs_as_much_as_its_busy_pods(node: Node) -> None:
    """With the sum of all, a class whose pods sleep gives the others too much."""
    classes = Classes(node)
    node.start_pod("e")  # BestEffort, as b
    node.plan(b=500, e=500)
    node.step()
    assert classes.weights() == (classes.asked, 2 * classes.granted)
    node.use(b=0.5)
    for _ in range(3):
        node.step(2.0)
    assert classes.weights() == (classes.asked, classes.granted)
    node.use()  # whichever is the next to wake, it is not to starve
    for _ in range(3):
        node.step(2.0)
    assert classes.weights() == (classes.asked, 2 * classes.granted)
    restore(node.journal, node.kernel)
    assert classes.weights() == (classes.requested, classes.least)


@pytest.mark.parametrize("end", ["restore", "observe", "pod"])
def test_weights_of_classes_are_put_back(node: Node, end: str) -> None:
    classes = Classes(node)
    node.plan(b=500)
    node.step()
    raised = CgroupFile("cpu", classes.best_effort, classes.file), str(classes.granted)
    if end == "restore":
        restore(node.journal, node.kernel)
    elif end == "observe":
        node.plan("observe", b=500)
        assert raised in node.step().writes
    else:
        node.kernel.remove(node.pod("b"))
        node.step()
    assert classes.weights() == (classes.requested, classes.least)
    assert all(each.group not in LAYOUT.classes for each in node.journal.originals)


def test_weight_of_a_class_that_is_refused_is_told_and_not_tried_all_the_time(node: Node) -> None:
    classes = Classes(node)
    refused = CgroupFile("cpu", classes.best_effort, classes.file)
    node.kernel.fail(refused, errno.EINVAL, times=1000)
    node.plan(a=500, b=500)
    assert states(node.step()) == {"a": "Enforced", "b": "Failed"}
    for _ in range(240):
        assert states(node.step(0.25))["b"] in {"Failed", "Pending"}
    assert 4 <= sum(write.setting == refused for write in node.kernel.writes) <= 8


def test_a_cpuset_controller_that_systemd_disables_is_enabled_again(tmp_path: Path) -> None:
    """It vanished from `kubepods.slice` at a `daemon-reload` (kubernetes 122955, 131567)."""
    kernel = CpusetDisabled(2, cpus=CORES)
    node = Node(kernel, tmp_path)
    for uid in "ab":
        node.start_pod(uid)
    node.plan(a=2000, b=1500)
    settle(node)
    right = node.everybody()
    kernel.disable()
    settle(node)
    assert node.everybody() == right
    assert states(node.step(100.0)) == {"a": "Enforced", "b": "Enforced"}


def test_a_cpuset_controller_that_cannot_be_enabled_is_told(tmp_path: Path) -> None:
    kernel = CpusetDisabled(2, cpus=CORES)
    node = Node(kernel, tmp_path)
    node.start_pod("a")
    node.plan(a=2000)
    settle(node)
    kernel.disable()
    kernel.refuses = True
    status = node.step(100.0)
    assert "the cpuset controller is not enabled for /kubepods" in status.refused
    assert "restart the kubelet" in status.refused
    assert "Permission denied" in status.refused
    node.plan("observe", a=2000)
    assert "the cpuset controller is not enabled" in node.step(100.0).refused
    assert kernel.enabled == set()


def test_others_who_keep_setting_a_quota_are_answered_ever_more_slowly(node: Node) -> None:
    """Two writers undid each other for ever (koordinator 1214), and pods were throttled (489)."""
    before = held_by_a_plan(node)
    node.kernel.writes.clear()
    for _ in range(240):
        write_all(node, before, lambda path: path.startswith(node.pod("a")) and "/cpu." in path)
        node.step(0.25)
    answers = Counter(write.setting for write in node.kernel.writes)
    assert answers
    for setting, times in answers.items():  # the class follows the pod, up and down
        assert 3 <= times <= (10 if setting.group.startswith(node.pod("a")) else 20), answers
    settle(node)
    assert states(node.step(100.0))["a"] == "Enforced"


def test_quota_that_is_refused_is_not_tried_all_the_time(node: Node) -> None:
    """A permanent EINVAL was retried 8 times a second (koordinator 3217)."""
    group, file = {
        1: (node.container("a"), "cpu.cfs_quota_us"),
        2: (node.pod("a"), "cpu.max"),
    }[node.kernel.version]
    refused = CgroupFile("cpu", group, file)
    node.start_pod("a")
    quota = {1: "50000", 2: "50000 100000"}[node.kernel.version]
    node.kernel.set_by_others(refused, quota)
    node.kernel.fail(refused, errno.EINVAL, times=1000)
    node.plan(a=500)
    assert states(node.step()) == {"a": "Failed"}
    for _ in range(240):
        status = node.step(0.25)
        assert states(status) in ({"a": "Failed"}, {"a": "Pending"})
    assert 4 <= sum(write.setting == refused for write in node.kernel.writes) <= 8


@pytest.mark.parametrize("others", [{}, {"b": 1000}], ids=["no grants", "others' grants"])
def test_quota_that_cannot_be_put_back_is_told_and_not_tried_all_the_time(
    node: Node, others: dict[str, int]
) -> None:
    """The quota of a lost grant is still the agent's to restore; it says so and retries rarely."""
    file, quota = {1: ("cpu.cfs_quota_us", "50000"), 2: ("cpu.max", "50000 100000")}[
        node.kernel.version
    ]
    refused = CgroupFile("cpu", node.container("a"), file)
    node.start_pod("a")
    node.start_pod("b")
    node.kernel.set_by_others(refused, quota)
    node.plan("enforce", None, a=1000, **others)
    node.step()
    node.kernel.writes.clear()
    node.kernel.fail(refused, errno.EINVAL, times=1000)
    node.plan("enforce", None, **others)
    for _ in range(240):
        told = [each.group for each in node.step(0.25).failures]
        assert told == [refused.group]
    assert 4 <= sum(write.setting == refused for write in node.kernel.writes) <= 8
    assert set(node.journal.originals) >= {refused}


def test_memory_limit_that_is_refused_is_not_tried_all_the_time(node: Node) -> None:
    """EINVAL is the kernel's answer to a value that it will never accept."""
    file = {1: "memory.soft_limit_in_bytes", 2: "memory.high"}[node.kernel.version]
    refused = CgroupFile("memory", node.pod("a"), file)
    node.start_pod("a", memory=Memory(anonymous=10 * MIB, reclaimable=500 * MIB))
    node.kernel.fail(refused, errno.EINVAL, times=1000)
    node.plan(memory=256 * MIB, a=500)
    failed = sum(states(node.step(0.25)) == {"a": "Failed"} for _ in range(240))
    assert failed > 200
    assert 3 <= sum(write.setting == refused for write in node.kernel.writes) <= 8


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_memory_that_cannot_be_put_back_is_told(
    node: Node, mode: Literal["enforce", "observe"]
) -> None:
    file = {1: "memory.soft_limit_in_bytes", 2: "memory.high"}[node.kernel.version]
    refused = CgroupFile("memory", node.pod("a"), file)
    node.start_pod("a", memory=Memory(anonymous=10 * MIB, reclaimable=500 * MIB))
    node.plan("enforce", 256 * MIB, a=500)
    for _ in range(60):
        node.step(10.0)
    node.kernel.fail(refused, errno.EINVAL, times=1000)
    node.plan(mode)
    told = [each.group for each in node.step(10.0).failures]
    assert told == [node.pod("a")]
    assert refused in node.journal.originals


def test_cpu_manager_that_becomes_static_stops_the_agent(node: Node) -> None:
    """After a restart the kubelet sends all its cpusets again (cri-o 7648)."""
    held_by_a_plan(node)
    node.kernel.writes.clear()
    node.refusal = "the kubelet's CPU manager has the policy 'static'"
    write_all(node, {f"{node.container('a')}/cpuset.cpus": "5"}, bool)
    status = node.step()
    assert (status.refused, node.kernel.writes) == (node.refusal, [])
    assert node.cpus(node.container("a")) == CpuSet([5])


@pytest.mark.long
@VERSIONS
def test_no_cpuset_is_ever_emptied_but_one_that_was_empty(
    version: Literal[1, 2], tmp_path: Path
) -> None:
    """An empty value gave ENOSPC in a loop (koordinator 1460)."""
    node = Node(ModelKernel(version, cpus=CORES, numa=2), tmp_path, numa=2, owning=".*")
    random = Random(version)
    for uid in "abcdef":
        node.start_pod(uid)
    for _ in range(200):
        node.memory_nodes = random.choice(["any", "local"])
        some = {uid: random.choice([300, 1000, 2000, 3500]) for uid in "abcdef"}
        node.plan(
            "enforce",
            None,
            **{uid: some[uid] for uid in "abcdef" if uid == "a" or random.random() < 0.4},
        )
        node.step(random.choice([1.0, 100.0]))
    cpusets = [write for write in node.kernel.writes if write.setting.controller == "cpuset"]
    emptied = [
        write for write in cpusets if not write.value and write.setting.file == "cpuset.cpus"
    ]
    assert len(cpusets) > 200
    assert emptied == []
    assert {write.refused for write in cpusets} <= {None, errno.ENOSPC}
    node.plan()
    settle(node)
    node.kernel.writes.clear()
    settle(node)
    assert node.kernel.writes == [], "what cannot be emptied is as good as empty, and left so"


def test_only_files_of_cpus_and_memory_are_written(node: Node) -> None:
    """Updates through the runtime rewrote device groups, and cut GPUs off (nvidia-docker 966).

    `memory.min` and `memory.low` are not written either: equal to `memory.max`, they had pods
    killed (Kubernetes KEP-2570).
    """
    node.start_pod("a", memory=Memory(anonymous=10 * MIB, reclaimable=500 * MIB))
    node.start_pod("b")
    node.memory_nodes = "local"
    for grants in ({"a": 2000, "b": 500}, {"b": 3000}, {}):
        node.plan("enforce", 128 * MIB, **grants)
        for _ in range(40):
            node.step(10.0)
    written = {write.setting.file for write in node.kernel.writes}
    assert "cpuset.cpus" in written
    assert written & {"memory.high", "memory.soft_limit_in_bytes"}
    assert written <= WRITTEN
    assert not {"docker", "grpc", "containerd"} & sys.modules.keys()


@pytest.mark.parametrize("growth", [0, 20])
def test_hard_limit_is_never_set_below_what_is_in_use(node: Node, growth: int) -> None:
    """v2 kills then, though the write does not fail (kubernetes 141609).

    To look first is no help, as programs grow between the look and the write (kubernetes 129152,
    135670): this one grows in just that moment.
    """
    program = Memory(anonymous=300 * MIB, reclaimable=200 * MIB, growth=growth * MIB)
    file = {1: "memory.limit_in_bytes", 2: "memory.max"}[node.kernel.version]
    node.start_pod("a", memory=program)
    node.kernel.set_by_others(CgroupFile("memory", node.pod("a"), file), str(1024 * MIB))
    for grant in (256, 2048, 128):
        node.plan(memory=grant * MIB, a=500)
        for _ in range(30):
            node.step(2.0)
            if node.kernel.memory_of(node.container("a")).anonymous > 900 * MIB:
                program.growth = 0
    node.plan()
    for _ in range(60):
        node.step(2.0)
    assert node.kernel.oom_kills == []
    hard = [int(write.value) for write in node.kernel.writes if write.setting.file == file]
    assert hard
    if node.kernel.version == 2:
        assert all(value >= 1024 * MIB for value in hard), "only raised, and put back"


@pytest.mark.long
def test_pods_that_are_gone_are_neither_read_nor_remembered(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the pressure of evicted pods led to an OOM kill of the agent (koordinator 2408)."""
    failed: list[CgroupFile] = []
    read = node.kernel.read

    def noting(file: CgroupFile) -> str:
        if node.kernel.identity(file.group) is None:
            failed.append(file)
        return read(file)

    monkeypatch.setattr(node.kernel, "read", noting)
    node.memory_nodes = "local"
    sizes = []
    for number in range(60):
        uid = f"p{number}"
        node.start_pod(uid, memory=Memory(anonymous=10 * MIB))
        node.plan("enforce", 256 * MIB, **{uid: 1000})
        node.step(100.0)
        node.kernel.remove(node.pod(uid))
        node.step(100.0)
        sizes.append(len(node.journal.originals))
    assert failed == []
    assert max(sizes[10:]) <= max(sizes[:10])
