"""Anything may happen to a node ten thousand times, and no promise is ever broken.

``WALRAS_FUZZ_STEPS`` gives another number of steps for each cgroup version (5 000;
2 000 in `make test`).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal

import pytest

from examples import ALL
from model_files import Refused
from model_kernel import MIB, Memory, ModelKernel, Stopped
from model_node import CORES, LAYOUT, CpusetDisabled, Node
from walras_agent.cpuset import CpuSet
from walras_agent.journal import JournalError
from walras_agent.quota import WEIGHT_FILES
from walras_agent.tree import CgroupError, CgroupFile

if TYPE_CHECKING:
    from walras_agent.node_plan import Mode
    from walras_agent.status import NodeStatus

STEPS = int(os.environ.get("WALRAS_FUZZ_STEPS", "5000" if ALL else "2000"))
WITHDRAWN_EVERY = 500
"""Steps after which all grants end once."""

LIMIT = 400 * MIB
"""The hard limit of every pod and container, once it has been written."""


class FaultyDisk:
    """Lets one step of a durable write fail: to a file, its rename, or to its folder."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._left, self._number = -1, 0
        self.failures = 0
        replace = Path.replace

        def failing_fsync(_: int) -> None:
            self._step()

        def failing_replace(path: Path, target: Path) -> Path:
            self._step()
            return replace(path, target)

        patch.setattr(os, "fsync", failing_fsync)
        patch.setattr(Path, "replace", failing_replace)

    def fail(self, after: int, number: int) -> None:
        self._left, self._number = after, number

    def _step(self) -> None:
        self._left -= 1
        if self._left == -1:
            self.failures += 1
            raise OSError(self._number, os.strerror(self._number))


class Fuzz:
    """A node to which anything may happen.

    Its programs stay well within their own limits, so none may ever be killed for memory.
    """

    def __init__(self, node: Node, disk: FaultyDisk, seed: int) -> None:
        self.node, self.disk, self.random = node, disk, Random(seed)
        self.pods: dict[str, set[int]] = {}
        self.grants: dict[str, int] = {}
        self.limits: dict[str, int] = {}
        self.hard_limits: dict[str, str] = {}
        self.class_weights: dict[str, str] = {}
        self.limited = 0
        self.owned = 0
        self.local = 0
        self.count = 0
        self.crashes = 0
        self.lost = 0
        self.lowered = 0
        self.raised = 0
        self.memory: int | None = None
        self.only_observes = False

    def containers(self) -> list[str]:
        """Return the groups of all containers."""
        pods = LAYOUT.scan(self.node.kernel)
        return sorted(name for groups in pods for name in groups.containers)

    def programs(self) -> list[str]:
        """Return the groups with the processes of all containers."""
        return [next(iter(self.node.kernel.children(each)), each) for each in self.containers()]

    def cpus(self, group: str) -> CpuSet:
        """Return the CPUs that a group's tasks may use: all if the cpuset controller is lost."""
        try:
            return self.node.cpus(group)
        except CgroupError as error:
            if error.kind != "gone":
                raise
            return self.node.online

    def happen(self) -> None:
        happenings = [
            *[self.arrive] * 3,
            *[self.leave] * 2,
            *[self.regrant] * 4,
            *[self.container_comes] * 2,
            self.container_goes,
            *[self.drift] * 2,
            self.throttle,
            self.hotplug,
            self.refuse,
            self.stale,
            *[self.crash] * 2,
            *[self.measure] * 2,
            *[self.use_memory] * 2,
            self.limit_is_written_anew,
            self.lose_the_cpuset_controller,
            self.break_the_disk,
            *[self.use_cpus] * 3,
        ]
        self.random.choice(happenings)()

    def arrive(self) -> None:
        if len(self.pods) < 8:
            self.count += 1
            uid = f"p{self.count}"
            self.pods[uid] = {0}
            below = "/container" if self.node.kernel.version == 2 and self.count % 3 == 0 else ""
            group = self.node.container(uid) + below
            self.node.kernel.make(group, tasks=1, memory=self.some_memory())
            self.limit_is_written_anew()
            self.classes_are_weighed_anew()

    def some_memory(self) -> Memory:
        anonymous, reclaimable = (self.random.randrange(100) * MIB for _ in range(2))
        return Memory(anonymous, reclaimable, hot=self.random.choice([0, reclaimable]))

    def leave(self) -> None:
        if self.pods:
            uid = self.random.choice(sorted(self.pods))
            del self.pods[uid]
            self.node.kernel.remove(self.node.pod(uid), while_open=self.random.random() < 0.3)
            self.classes_are_weighed_anew()

    def regrant(self) -> None:
        some = [uid for uid in sorted(self.pods) if self.random.random() < 0.5]
        self.grants = {uid: self.random.choice([300, 600, 1000, 1500, 2000, 3000]) for uid in some}
        self.grants |= {"elsewhere": 1000} if self.random.random() < 0.1 else {}
        self.node.owning = self.random.choice(["", "p.*[0-4]", ".*"])
        observes = self.only_observes or self.random.random() < 0.1
        mode: Mode = "observe" if observes else "enforce"
        self.node.memory_nodes = self.random.choice(["any", "local"])
        self.memory = self.random.choice([None, 4096, 50 * MIB, 200 * MIB, 2 * LIMIT])
        self.node.plan(mode, self.memory, **self.grants)

    def container_comes(self) -> None:
        if self.pods:
            uid = self.random.choice(sorted(self.pods))
            number = self.random.randrange(1, 4)
            if number not in self.pods[uid]:
                self.pods[uid].add(number)
                self.node.start_pod(uid, number)

    def container_goes(self) -> None:
        several = [uid for uid in sorted(self.pods) if len(self.pods[uid]) > 1]
        if several:
            uid = self.random.choice(several)
            number = self.random.choice(sorted(self.pods[uid]))
            self.pods[uid].remove(number)
            group = self.node.container(uid, number)
            self.node.kernel.remove(group)
            self.hard_limits.pop(group, None)

    def drift(self) -> None:
        names = self.containers()
        if names:
            some = self.random.sample(sorted(self.node.online), self.random.randint(1, 3))
            setting = CgroupFile("cpuset", self.random.choice(names), "cpuset.cpus")
            self.node.kernel.set_by_others(setting, str(CpuSet(some)))

    def throttle(self) -> None:
        if self.pods:
            uid = self.random.choice(sorted(self.pods))
            group = self.random.choice(self.groups(uid))
            quota = self.random.choice(["-1", "20000", "700000"])
            with contextlib.suppress(Refused):  # v1 has children within their parents
                if self.node.kernel.version == 1:
                    setting = CgroupFile("cpu", group, "cpu.cfs_quota_us")
                    self.node.kernel.set_by_others(setting, quota)
                else:
                    setting = CgroupFile("cpu", group, "cpu.max")
                    self.node.kernel.set_by_others(setting, quota.replace("-1", "max"))

    def hotplug(self) -> None:
        if self.node.kernel.version == 1:
            return  # it moves tasks out of the groups that lose all their CPUs
        cpu = CpuSet([self.random.randrange(CORES)])
        if cpu <= self.node.online and len(self.node.online) > 3:
            self.node.kernel.offline(cpu)
            self.node.online -= cpu
        elif not cpu <= self.node.online:
            self.node.kernel.online(cpu)
            self.node.online |= cpu

    def refuse(self) -> None:
        names = self.containers()
        if names:
            number = self.random.choice([errno.EBUSY, errno.EINVAL, errno.EACCES, errno.ENOMEM])
            setting = CgroupFile("cpuset", self.random.choice(names), "cpuset.cpus")
            self.node.kernel.fail(setting, number)

    def stale(self) -> None:
        if self.node.epoch > 1:
            assert not self.node.offer(self.node.epoch - 1, "enforce", p1=8000)

    def measure(self) -> None:
        some = [uid for uid in sorted(self.pods) if self.random.random() < 0.3]
        self.limits = {uid: self.random.randint(1, 4) for uid in some}

    def crash(self) -> None:
        self.crashes += 1
        self.node.kernel.stop_after(self.random.randrange(12))
        with contextlib.suppress(Stopped):
            self.step(1.0)
        self.node.kernel.go_on()
        self.node.start_agent()
        if self.node.epoch:
            mode: Mode = "observe" if self.only_observes else "enforce"
            self.node.plan(mode, self.memory, **self.grants)

    def use_memory(self) -> None:
        """A program takes some more, also while the agent looks and writes, or frees most of it."""
        groups = self.programs()
        if groups:
            memory = self.node.kernel.memory_of(self.random.choice(groups))
            if memory.anonymous < 150 * MIB:
                memory.growth = self.random.randrange(8) * MIB
            else:
                memory.anonymous //= 4

    def use_cpus(self) -> None:
        """Some programs use CPUs, not as weights say, and wait for them; others sleep."""
        some = {
            uid: self.random.random() for uid in sorted(self.pods) if self.random.random() < 0.7
        }
        self.node.use(waited=self.random.choice([0.0, 0.9]), **some)

    def limit_is_written_anew(self) -> None:
        """Reset all hard limits to those of the pods' specs, as kubelet, runc or systemd may do."""
        file = {1: "memory.limit_in_bytes", 2: "memory.max"}[self.node.kernel.version]
        for uid in self.pods:
            for group in self.groups(uid):
                with contextlib.suppress(
                    Refused
                ):  # v1 has more in use, and the kubelet tries again
                    limit = CgroupFile("memory", group, file)
                    text = self.node.kernel.read(limit)
                    self.lowered += text.isdecimal() and LIMIT < int(text) <= 2 * LIMIT
                    self.node.kernel.set_by_others(limit, str(LIMIT))
                    self.hard_limits[group] = str(LIMIT)

    def classes_are_weighed_anew(self) -> None:
        """The kubelet weighs classes as pods come and go.

        Never as the agent has since all grants ended: nobody could tell such a write by the text.
        """
        kernel = self.node.kernel
        for group in LAYOUT.classes:
            if kernel.identity(group) is not None:
                file = self.weight(group)
                agents = {each.value for each in kernel.writes if each.setting == file}
                weights = map(str, (*range(2, 102), *range(9900, 10_000)))
                self.class_weights[group] = self.random.choice(
                    [each for each in weights if each not in agents]
                )
                kernel.set_by_others(file, self.class_weights[group])

    def weight(self, group: str) -> CgroupFile:
        return CgroupFile("cpu", group, WEIGHT_FILES[self.node.kernel.version])

    def groups(self, uid: str) -> tuple[str, ...]:
        pod, children = self.node.pod(uid), self.node.kernel.children
        containers = children(pod)
        return (pod, *containers, *(below for each in containers for below in children(each)))

    def lose_the_cpuset_controller(self) -> None:
        if isinstance(self.node.kernel, CpusetDisabled):
            self.node.kernel.disable()
            self.lost += 1

    def break_the_disk(self) -> None:
        self.disk.fail(self.random.randrange(6), self.random.choice([errno.ENOSPC, errno.EIO]))

    def step(self, seconds: float, *, undisturbed: bool = False) -> NodeStatus | None:
        """Let the agent look once; None if its journal could not be written."""
        try:
            status = self.node.step(seconds, undisturbed=undisturbed, **self.limits)
        except JournalError:
            return None
        else:
            return status
        finally:
            for group in self.programs():
                self.node.kernel.memory_of(group).growth = 0

    def withdraw(self) -> None:
        """End all grants, after which every value is what it was or what others have written."""
        self.node.plan()
        for _ in range(20):
            status = self.step(100.0)
        assert status is not None
        assert status.writes == ()
        assert dict(self.node.journal.originals) == {}
        file, unlimited = {
            1: ("memory.limit_in_bytes", "9223372036854771712"),
            2: ("memory.max", "max"),
        }[self.node.kernel.version]
        for uid in self.pods:
            for group in self.groups(uid):
                limit = self.node.kernel.read(CgroupFile("memory", group, file))
                assert limit == self.hard_limits.get(group, unlimited), group
        for group, weight in self.class_weights.items():
            assert self.node.kernel.read(self.weight(group)) == weight
        self.node.kernel.writes.clear()

    def check_class(self, pod: str) -> None:
        """Check that the class of a pod weighs at most as much as all of its pods."""
        kernel, group = self.node.kernel, pod.rpartition("/")[0]
        if group in LAYOUT.classes:
            weights = (kernel.read(self.weight(each)) for each in (group, *kernel.children(group)))
            now, *below = map(int, weights)
            assert now <= 1.02 * sum(below) + 1, "more than if all of its pods were busy"
            self.raised += now > int(self.class_weights.get(group, now))

    def is_throttled(self, uid: str) -> bool:
        """Whether a quota binds the pod or one of its containers."""
        file = {1: "cpu.cfs_quota_us", 2: "cpu.max"}[self.node.kernel.version]
        texts = [
            self.node.kernel.read(CgroupFile("cpu", group, file)) for group in self.groups(uid)
        ]
        return any(not text.startswith(("-1", "max")) for text in texts)

    def check_weights(self) -> None:
        """Check that pods weigh on one scale what they were granted, but for corrections."""
        cpus = {
            uid: int(self.node.kernel.read(self.weight(self.node.pod(uid)))) / millicores
            for uid, millicores in self.grants.items()
            if uid in self.pods
        }
        assert max(cpus.values()) <= 16 * 16 * 1.1 * min(cpus.values()), cpus

    def check(self, status: NodeStatus) -> None:
        """Check that no group is on a CPU that another owns, except reported failures."""
        assert self.node.kernel.oom_kills == []
        now = {name: self.cpus(name) for name in self.containers()}
        assert all(now.values()), "a container without CPUs"
        excused = {each.group for each in status.failures}
        if status.mode != "enforce" or status.epoch is None:
            return
        if status.is_enforced and self.grants.keys() & self.pods.keys():
            self.check_weights()
        for pod in status.pods:
            if pod.state != "Enforced" or pod.cpus is None:
                continue
            assert not pod.exclusive & status.shared
            assert pod.exclusive <= pod.cpus or pod.limit is not None
            self.limited += pod.limit is not None
            self.owned += bool(pod.exclusive)
            mine = f"{self.node.pod(pod.pod)}/"
            if self.node.memory_nodes == "local":
                self.local += bool(pod.exclusive)
                near = pod.exclusive or pod.cpus
                assert pod.memory_nodes == CpuSet(cpu // (CORES // 2) for cpu in near)
            assert not self.is_throttled(pod.pod)
            self.check_class(self.node.pod(pod.pod))
            for name, cpus in now.items():
                if name.startswith(mine):
                    assert self.node.mems(name) == (pod.memory_nodes or CpuSet([0, 1]))
                    assert cpus == pod.cpus, f"{pod.title} is said to be on {pod.cpus}"
                elif name not in excused:
                    assert not cpus & pod.exclusive, f"{name} is on CPUs of {pod.title}"


@pytest.mark.long
@pytest.mark.parametrize("version", [1, 2])
def test_anything_may_happen_ten_thousand_times(
    version: Literal[1, 2],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)  # to keep all messages takes two thirds of the time
    kernel = (CpusetDisabled if version == 2 else ModelKernel)(version, cpus=CORES, numa=2)
    fuzz = Fuzz(Node(kernel, tmp_path, numa=2), FaultyDisk(monkeypatch), seed=version)
    enforced = 0
    for number in range(1, STEPS + 1):
        if number % WITHDRAWN_EVERY == 0:
            fuzz.withdraw()
        fuzz.happen()
        status = fuzz.step(fuzz.random.choice([0.1, 1.0, 30.0]))
        if fuzz.random.random() < 0.5:
            status = fuzz.step(fuzz.random.choice([1.0, 10.0]), undisturbed=True)
        if status is None:
            continue
        fuzz.check(status)
        enforced += any(pod.state == "Enforced" for pod in status.pods)
    assert enforced > 0.4 * STEPS
    assert fuzz.crashes > 0.04 * STEPS
    assert fuzz.limited > 0.06 * STEPS
    assert fuzz.local > 0.06 * STEPS
    assert fuzz.owned > 0.06 * STEPS
    assert fuzz.disk.failures > 0.01 * STEPS
    assert fuzz.lowered > 0.01 * STEPS
    assert fuzz.raised > 0.01 * STEPS
    assert fuzz.lost > 0.01 * STEPS or version == 1
    fuzz.withdraw()


@pytest.mark.long
@pytest.mark.parametrize("version", [1, 2])
def test_on_a_node_that_only_observes_no_file_is_ever_written(
    version: Literal[1, 2], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = (CpusetDisabled if version == 2 else ModelKernel)(version, cpus=CORES, numa=2)
    fuzz = Fuzz(Node(kernel, tmp_path, numa=2), FaultyDisk(monkeypatch), seed=version)
    fuzz.only_observes = True
    fuzz.node.plan("observe", None)
    told = 0
    for _ in range(STEPS // 10):
        fuzz.happen()
        status = fuzz.step(fuzz.random.choice([0.1, 1.0, 30.0]))
        told += status is not None and bool(status.writes)
        assert kernel.writes == []
    assert told > STEPS // 100
