"""Effects: binds the memory of pods to NUMA nodes, and unbinds it.

Memory of its own node is nearer to a core, but there is less of it: in a group that is bound to a
node the kernel reclaims, and finally kills, when that node is full, even if other nodes have free
memory (``Documentation/admin-guide/cgroup-v2.rst``, cpuset.mems; ``mm/oom_kill.c``,
CONSTRAINT_CPUSET). So a pod is bound to the nodes of its cores only while these have room for all
of its memory, and unbound before they are full.

Only the cgroups of containers and their descendants (v1) are written, in an order in which a group
always has all nodes of its descendants. In v2 the kernel moves pages from other nodes before the
write returns; in v1 it does so if ``cpuset.memory_migrate`` is set, which the agent does not change
(``cgroup-v2.rst``, ``cgroup-v1/cpusets.rst``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from walras.numerics.byte_text import format_bytes
from walras_agent.backoff import BACKING_OFF, Backoff
from walras_agent.cpuset import CpuSet
from walras_agent.memory.stats import USAGE_FILES
from walras_agent.moves import plan_resize
from walras_agent.restore import restore
from walras_agent.tree import CgroupError, CgroupFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from walras_agent.journal import Journal
    from walras_agent.observe import Container, ObservedPod
    from walras_agent.pod_cpus import NodeCpus
    from walras_agent.topology import Topology
    from walras_agent.tree import Cgroups, FileWrite

BIND_HEADROOM = 512 << 20
"""Bytes that nodes must have available beyond a pod's memory before it is bound to them."""

STAY_HEADROOM = 128 << 20
"""Bytes that nodes must have available while a pod is bound to them."""

MEMS = "cpuset.mems"
EFFECTIVE: Mapping[Literal[1, 2], str] = {1: "cpuset.effective_mems", 2: "cpuset.mems.effective"}

_AVAILABLE = re.compile(r"^Node \d+ (?:MemFree|Inactive\(file\)): +(\d+) kB$", re.MULTILINE)


class NumaBinding(NamedTuple):
    """The NUMA binding of a pod.

    Attributes:
        nodes: NUMA nodes that the pod's memory is bound to; None while it is not bound.
        reason: Message why it is not bound; empty if it is.
    """

    nodes: CpuSet | None
    reason: str = ""


class NumaRound(NamedTuple):
    """The result of one step for all pods.

    Attributes:
        pods: Bindings of the pods that are to be bound, by UID.
        writes: Writes that were made.
        refused: Errors of files that could not be restored.
    """

    pods: Mapping[str, NumaBinding]
    writes: Sequence[FileWrite]
    refused: Sequence[CgroupError]


class _NumaTarget(NamedTuple):
    """The nodes and writes that bind a pod; without writes it is not bound, or need not be."""

    nodes: CpuSet | None
    reason: str = ""
    writes: Mapping[str, Sequence[FileWrite]] | None = None  # by container


@dataclass(slots=True)
class NumaEnforcer:
    """Binds the memory of pods to NUMA nodes.

    Attributes:
        cgroups: Cgroups of this node.
        journal: Original texts of the files that were written.
        root: Folder that contains ``sys``.
    """

    cgroups: Cgroups
    journal: Journal
    root: Path = Path("/")
    # Containers that were written, so that overwritten or refused values are not written at once.
    _again: Backoff = field(default_factory=lambda: Backoff(first=1.0, longest=300.0))
    # Groups that could not be unbound.
    _stuck: frozenset[str] = frozenset()

    def step(
        self, pods: Sequence[ObservedPod], wanted: Mapping[str, CpuSet], now: float
    ) -> NumaRound:
        """Bind some pods to NUMA nodes, and unbind all others.

        Args:
            pods: Pods of this node as observed.
            wanted: NUMA nodes by UID of the pods to bind.
            now: Monotonic time in seconds.

        Raises:
            JournalError: The journal cannot be written; nothing was written for the pod.
        """
        bindings: dict[str, NumaBinding] = {}
        writes: list[FileWrite] = []
        kept: set[str] = set()
        for pod in pods:
            if pod.uid not in wanted:
                continue
            try:
                target = self._target(pod, wanted[pod.uid])
                if target.writes is None:
                    bindings[pod.uid] = NumaBinding(target.nodes, target.reason)
                    continue
                kept.update(_groups(pod.containers))
                bindings[pod.uid] = self._bind(target.nodes, target.writes, now, writes)
            except CgroupError as error:
                kept.update(_groups(pod.containers))
                bindings[pod.uid] = NumaBinding(None, str(error))
        refused = self._unbind(kept, now, writes)
        self._again.keep(frozenset(_groups(each for pod in pods for each in pod.containers)))
        return NumaRound(bindings, writes, refused)

    def _target(self, pod: ObservedPod, wanted: CpuSet) -> _NumaTarget:
        all_nodes = self._effective(pod.group)
        nodes = all_nodes & wanted
        if not nodes:
            return _NumaTarget(None, f"{pod.group} may not use memory of NUMA node {wanted}")
        if nodes == all_nodes:
            return _NumaTarget(nodes)
        writes = {each.group.name: self._writes(each, nodes) for each in pod.containers}
        usage = CgroupFile("memory", pod.group, USAGE_FILES[self.cgroups.version])
        used = int(self.cgroups.read(usage))
        try:
            available = self._available(nodes)
        except OSError as error:
            reason = f"{error.filename} cannot be read: {error.strerror}; mount the host's /sys"
            return _NumaTarget(None, reason)
        reason = reason_not_to_bind(used, available, is_bound=not any(writes.values()))
        if reason:
            return _NumaTarget(None, f"memory of NUMA node {nodes}: {reason}")
        return _NumaTarget(nodes, "", writes)

    def _writes(self, container: Container, nodes: CpuSet) -> tuple[FileWrite, ...]:
        # In v2 the descendants follow by themselves.
        names = _groups([container]) if self.cgroups.version == 1 else [container.group.name]
        now = {name: self._effective(name) for name in names}
        texts = {setting: kept.text for setting, kept in self.journal.originals.items()}
        return plan_resize(names, nodes, now, texts, MEMS).writes

    def _bind(
        self,
        nodes: CpuSet | None,
        needed: Mapping[str, Sequence[FileWrite]],
        now: float,
        writes: list[FileWrite],
    ) -> NumaBinding:
        waiting = self._again.waiting(now)
        for name, steps in needed.items():
            if not steps:
                continue
            if name in waiting:
                return NumaBinding(None, f"{name}: {MEMS} {BACKING_OFF}")
            self._again.failed(name, now)
            self.journal.record(steps, self.cgroups)
            for setting, value in steps:
                self.journal.write(setting, value, self.cgroups)
                writes.append((setting, value))
            held = self._effective(name)
            if held != nodes:
                return NumaBinding(
                    None, f"{name}: wrote NUMA nodes {nodes}, but {held} are in effect"
                )
        return NumaBinding(nodes)

    def _unbind(
        self, kept: Collection[str], now: float, writes: list[FileWrite]
    ) -> Sequence[CgroupError]:
        originals = dict(self.journal.originals)
        alone = self._again.waiting(now) & self._stuck
        lost = [
            each
            for each in originals
            if each.file == MEMS and each.group not in kept and each.group not in alone
        ]
        done = restore(self.journal, self.cgroups, lost)
        writes += [(setting, originals[setting].text) for setting in done.restored]
        for setting in done.failed:
            self._again.failed(setting.group, now)
        self._stuck = alone.union(setting.group for setting in done.failed)
        return tuple(done.failed.values())

    def _effective(self, group: str) -> CpuSet:
        file = EFFECTIVE[self.cgroups.version]
        return CpuSet.parse(self.cgroups.read(CgroupFile("cpuset", group, file)))

    def _available(self, nodes: CpuSet) -> int:
        """Return the bytes on some nodes that are free or hold inactive file cache."""
        folder = self.root / "sys/devices/system/node"
        texts = [(folder / f"node{node}/meminfo").read_text(encoding="ascii") for node in nodes]
        return sum(int(kilobytes) << 10 for text in texts for kilobytes in _AVAILABLE.findall(text))


def _groups(containers: Iterable[Container]) -> list[str]:
    """Return the cgroups of containers and their descendants, parents first."""
    return [group.name for each in containers for group in (each.group, *each.inside)]


def local_nodes(node_cpus: NodeCpus, topology: Topology) -> dict[str, CpuSet]:
    """Return the NUMA nodes with memory of the CPUs of pods, or of their own ones, by UID."""
    node_of = {
        cpu.id: cpu.numa
        for cpu in topology.cpus
        if topology.memory is None or cpu.numa in topology.memory
    }
    local = {
        uid: CpuSet(node_of[cpu] for cpu in pod_cpus.exclusive or pod_cpus.cpus if cpu in node_of)
        for uid, pod_cpus in node_cpus.pods.items()
    }
    return {uid: nodes for uid, nodes in local.items() if nodes}


def reason_not_to_bind(used: int, available: int, *, is_bound: bool) -> str:
    """Return why a pod must not be bound to its nodes; empty if it may be.

    Args:
        used: Bytes that the pod uses on all nodes.
        available: Bytes that its nodes have free or in inactive file cache.
        is_bound: Whether the pod is bound already, so that no pages have to move.
    """
    needed = STAY_HEADROOM if is_bound else used + BIND_HEADROOM
    if available >= needed:
        return ""
    return f"{format_bytes(available)} are available, but {format_bytes(needed)} are needed"
