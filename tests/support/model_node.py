"""A node of the model kernel with an agent on it, for tests of the whole loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from machines import machine, show_memory
from walras_agent.cpuset import CpuSet
from walras_agent.enforce import CpuEnforcer
from walras_agent.journal import Journal
from walras_agent.kubepods import Layout, QosClass
from walras_agent.memory.enforce import MemoryEnforcer
from walras_agent.memory.numa import EFFECTIVE, NumaEnforcer
from walras_agent.node_plan import EnforcedGrant, MemoryNodes, Mode, NodePlan
from walras_agent.observe import PodObserver
from walras_agent.reconcile import Reconciler
from walras_agent.topology import Topology, Unit
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from pathlib import Path

    from model_kernel import Memory, ModelKernel
    from walras_agent.status import NodeStatus

CORES = 8
LAYOUT = Layout("cgroupfs")
QOS: tuple[QosClass, ...] = ("Guaranteed", "Burstable", "BestEffort")


@dataclass
class Node:
    """A node of the model kernel with an agent that can be started anew."""

    kernel: ModelKernel
    folder: Path
    now: float = 1000.0
    online: CpuSet = field(default_factory=lambda: CpuSet(range(CORES)))
    refusal: str = ""
    epoch: int = 0
    threads: int = 1
    numa: int = 1
    unit: Unit = "core"
    memory_nodes: MemoryNodes = "any"

    def __post_init__(self) -> None:
        (self.folder / "boot_id").write_text("this boot\n")
        show_memory(self.folder, 64 << 10, *range(self.numa))
        self.kernel.make("/kubepods")
        self.start_agent()

    def start_agent(self) -> None:
        self.journal = Journal.open(self.folder / "journal", self.folder / "boot_id")
        enforcer = CpuEnforcer(self.kernel, PodObserver(self.kernel, LAYOUT), self.journal)
        memory = MemoryEnforcer(self.kernel, self.journal)
        nodes = NumaEnforcer(self.kernel, self.journal, self.folder)
        self.agent = Reconciler(enforcer, memory, nodes, self.topology, lambda: self.refusal)

    def topology(self) -> Topology:
        cores = CORES // self.threads // self.numa
        whole = machine(nodes=self.numa, cores=cores, threads=self.threads)
        return Topology(tuple(cpu for cpu in whole.cpus if cpu.id in self.online))

    def pod(self, uid: str) -> str:
        return LAYOUT.pod(uid, QOS[ord(uid[-1]) % 3])

    def container(self, uid: str, number: int = 0) -> str:
        return f"{self.pod(uid)}/{uid.encode().hex():f>60}{number:04x}"

    def start_pod(self, uid: str, number: int = 0, memory: Memory | None = None) -> None:
        self.kernel.make(self.container(uid, number), tasks=1, memory=memory)

    def step(self, seconds: float = 1.0, **limits: int) -> NodeStatus:
        self.now += seconds
        self.kernel.elapse(seconds)
        return self.agent.step(self.now, limits)

    def plan(self, mode: Mode = "enforce", memory: int | None = None, **millicores: int) -> bool:
        self.epoch += 1
        return self.offer(self.epoch, mode, memory, **millicores)

    def offer(self, epoch: int, mode: Mode, memory: int | None = None, **millicores: int) -> bool:
        grants = (
            EnforcedGrant(uid, f"default/{uid}", each, memory) for uid, each in millicores.items()
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
        """What every container's tasks may use."""
        return {
            name: self.cpus(name)
            for groups in LAYOUT.scan(self.kernel)
            for name in groups.containers
        }


def states(status: NodeStatus) -> dict[str, str]:
    """By pod, how its grant is held."""
    return {pod.pod: pod.state for pod in status.pods}
