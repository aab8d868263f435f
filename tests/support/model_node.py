"""A node of the model kernel with an agent on it, for tests of the whole loop."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from machines import machine, show_memory
from model_kernel import Memory, ModelKernel
from pod_groups import QosClass, pod_group
from walras_agent.cpuset import CpuSet
from walras_agent.enforce import CpuEnforcer
from walras_agent.journal import Journal
from walras_agent.kubepods import Layout
from walras_agent.memory.enforce import MemoryEnforcer
from walras_agent.memory.numa import EFFECTIVE, NumaEnforcer
from walras_agent.node_plan import EnforcedGrant, MemoryNodes, Mode, NodePlan
from walras_agent.observe import PodObserver
from walras_agent.reconcile import Reconciler
from walras_agent.topology import Topology, Unit
from walras_agent.tree import CgroupError, CgroupFile

if TYPE_CHECKING:
    from pathlib import Path

    from walras_agent.status import NodeStatus

CORES = 8
LAYOUT = Layout("cgroupfs")
QOS: tuple[QosClass, ...] = ("Guaranteed", "Burstable", "BestEffort")


@dataclass
class Node:
    """A node of the model kernel with an agent that can be started anew.

    Attributes:
        owning: Pattern of the UIDs of pods that are granted whole cores for themselves.
        idle: Seconds for which each CPU has been idle so far; the model runs no programs.
    """

    kernel: ModelKernel
    folder: Path
    now: float = 1000.0
    online: CpuSet = field(default_factory=lambda: CpuSet(range(CORES)))
    isolated: CpuSet = field(default_factory=CpuSet)
    refusal: str = ""
    epoch: int = 0
    threads: int = 1
    numa: int = 1
    unit: Unit = "core"
    memory_nodes: MemoryNodes = "any"
    owning: str = ""
    idle: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "boot_id").write_text("this boot\n")
        show_memory(self.folder, 64 << 10, *range(self.numa))
        self.kernel.make("/kubepods")
        self.start_agent()

    def start_agent(self) -> None:
        self.journal = Journal.open(self.folder / "journal", self.folder / "boot_id")
        observer = PodObserver(self.kernel, LAYOUT)
        enforcer = CpuEnforcer(
            self.kernel,
            observer,
            self.journal,
            classes=LAYOUT.classes,
            clock=lambda: self.now,
            idle=lambda: dict(self.idle),
        )
        memory = MemoryEnforcer(self.kernel, self.journal)
        nodes = NumaEnforcer(self.kernel, self.journal, self.folder)
        self.agent = Reconciler(enforcer, memory, nodes, self.topology, lambda: self.refusal)

    def topology(self) -> Topology:
        cores = CORES // self.threads // self.numa
        whole = machine(nodes=self.numa, cores=cores, threads=self.threads)
        assigned = self.online - self.isolated
        return Topology(
            tuple(cpu for cpu in whole.cpus if cpu.id in assigned),
            self.online & self.isolated,
            self.mems("/"),
        )

    def pod(self, uid: str) -> str:
        return pod_group(LAYOUT, uid, QOS[ord(uid[-1]) % 3])

    def container(self, uid: str, number: int = 0) -> str:
        return f"{self.pod(uid)}/{uid.encode().hex():f>60}{number:04x}"

    def start_pod(self, uid: str, number: int = 0, memory: Memory | None = None) -> None:
        self.kernel.make(self.container(uid, number), tasks=1, memory=memory)

    def use(self, waited: float = 0.0, **cpus: float) -> None:
        """Let the programs of pods use CPUs and wait for one from now on, others of the node not.

        Args:
            waited: Part of the time in which a thread of each of these pods waits.
            cpus: CPUs that each pod uses on average.
        """
        for groups in LAYOUT.scan(self.kernel):
            rate = cpus.get(groups.uid, 0.0)
            self.kernel.use(groups.group, rate, waited if groups.uid in cpus else 0.0)

    def step(self, seconds: float = 1.0, *, undisturbed: bool = False, **limits: int) -> NodeStatus:
        self.now += seconds
        self.kernel.elapse(seconds)
        return self.agent.step(self.now, limits, undisturbed=undisturbed)

    def plan(self, mode: Mode = "enforce", memory: int | None = None, **millicores: int) -> bool:
        self.epoch += 1
        return self.offer(self.epoch, mode, memory, **millicores)

    def offer(self, epoch: int, mode: Mode, memory: int | None = None, **millicores: int) -> bool:
        grants = (
            EnforcedGrant(
                uid, f"default/{uid}", each, memory, isolated=bool(re.fullmatch(self.owning, uid))
            )
            for uid, each in millicores.items()
        )
        plan = NodePlan(epoch, mode, tuple(grants), self.unit, self.memory_nodes)
        return self.agent.offer(plan)

    def cpus(self, group: str) -> CpuSet:
        file = "cpuset.effective_cpus" if self.kernel.version == 1 else "cpuset.cpus.effective"
        return CpuSet.parse(self.kernel.read(CgroupFile("cpuset", group, file)))

    def mems(self, group: str) -> CpuSet:
        file = EFFECTIVE[self.kernel.version]
        return CpuSet.parse(self.kernel.read(CgroupFile("cpuset", group, file)))

    def everybody(self) -> dict[str, CpuSet]:
        """Return the CPUs that every container's tasks may use, by container."""
        return {
            name: self.cpus(name)
            for groups in LAYOUT.scan(self.kernel)
            for name in groups.containers
        }


def states(status: NodeStatus) -> dict[str, str]:
    """Return how each pod's grant is held, by pod."""
    return {pod.pod: pod.state for pod in status.pods}


class CpusetDisabled(ModelKernel):
    """A kernel of v2 whose pods can lose the cpuset controller, with all values of its files.

    Attributes:
        enabled: Groups for whose children the controller is enabled; None for all.
        refuses: Whether the agent may not enable the controller.
    """

    enabled: set[str] | None = None
    refuses = False

    def make(
        self,
        group: str,
        *,
        tasks: int = 0,
        cpus: str | None = None,
        memory: Memory | None = None,
    ) -> None:
        """Make a group with the controller, as runc does under systemd."""
        super().make(group, tasks=tasks, cpus=cpus, memory=memory)
        if self.enabled is not None:
            names = group.strip("/").split("/")
            self.enabled |= {"/", *(f"/{'/'.join(names[:n])}" for n in range(1, len(names)))}

    def disable(self) -> None:
        for pod in LAYOUT.scan(self):
            for group in (pod.group, *pod.containers):
                self.set_by_others(CgroupFile("cpuset", group, "cpuset.cpus"), f"0-{CORES - 1}")
        self.enabled = set()

    def read(self, setting: CgroupFile) -> str:
        missing = self._is_missing(setting)
        if setting.file == "cgroup.controllers":
            return "cpu memory" if missing else "cpuset cpu memory"
        if missing and setting.file.startswith("cpuset."):
            raise CgroupError(setting, errno.ENOENT)
        return super().read(setting)

    def write(self, setting: CgroupFile, value: str) -> None:
        if setting.file == "cgroup.subtree_control":
            if self.refuses:
                raise CgroupError(setting, errno.EACCES, value)
            assert self.enabled is not None
            assert value == "+cpuset"
            self.enabled.add(setting.group)
        elif self._is_missing(setting) and setting.file.startswith("cpuset."):
            raise CgroupError(setting, errno.ENOENT, value)
        else:
            super().write(setting, value)

    def _is_missing(self, setting: CgroupFile) -> bool:
        if self.enabled is None or setting.controller != "cpuset" or setting.group == "/":
            return False
        above = setting.group.rpartition("/")[0] or "/"
        return above not in self.enabled
