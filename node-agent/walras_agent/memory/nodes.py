"""Apply: pods held to the memory of some NUMA nodes, and let go again.

Only the groups of containers are written and, where these have groups inside (v1), those too, in an
order in which a group always has what the groups inside it have. In v2 the kernel moves pages that
are elsewhere before the write returns; in v1 it does so where ``cpuset.memory_migrate`` says so,
which is left as it is (``Documentation/admin-guide/cgroup-v2.rst``, ``cgroup-v1/cpusets.rst``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from walras_agent.backoff import Backoff
from walras_agent.cpuset import CpuSet
from walras_agent.memory.locality import why_not_held
from walras_agent.moves import resize
from walras_agent.restore import restore
from walras_agent.tree import CgroupError, Setting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from walras_agent.journal import Journal
    from walras_agent.observe import Container, Pod
    from walras_agent.tree import Cgroups

    Write = tuple[Setting, str]

MEMS = "cpuset.mems"
EFFECTIVE: Mapping[Literal[1, 2], str] = {1: "cpuset.effective_mems", 2: "cpuset.mems.effective"}

_USAGE: Mapping[Literal[1, 2], str] = {1: "memory.usage_in_bytes", 2: "memory.current"}
_AVAILABLE = re.compile(r"^Node \d+ (?:MemFree|Inactive\(file\)): +(\d+) kB$", re.MULTILINE)
_LEFT_ALONE = "is left alone for a while, as it could not be written or others keep changing it"


class Local(NamedTuple):
    """How a pod does that is to take memory from the nodes of its cores.

    Attributes:
        nodes: Those that it is held to; None while it is not.
        reason: Why it is not, for people.
    """

    nodes: CpuSet | None
    reason: str = ""


class Step(NamedTuple):
    """What one step came to.

    Attributes:
        pods: By UID, how every pod does of which something is wanted.
        writes: That were made.
        refused: What could not be put back.
    """

    pods: Mapping[str, Local]
    writes: Sequence[Write]
    refused: Sequence[CgroupError]


class _Course(NamedTuple):
    """What is to be done about a pod: hold it to nodes by writes, or let it go."""

    nodes: CpuSet | None
    reason: str = ""
    writes: Mapping[str, Sequence[Write]] | None = None  # by container


@dataclass(slots=True)
class NodeKeeper:
    """Holds pods to NUMA nodes.

    Attributes:
        cgroups: Of this node.
        journal: Has the originals.
        root: Where ``sys`` is found.
    """

    cgroups: Cgroups
    journal: Journal
    root: Path = Path("/")
    # A container to which something was written, by others' doing or for being refused again.
    _again: Backoff = field(default_factory=lambda: Backoff(first=1.0, longest=300.0))
    # Groups that could not be let go.
    _stuck: frozenset[str] = frozenset()

    def step(self, pods: Sequence[Pod], wanted: Mapping[str, CpuSet], now: float) -> Step:
        """Hold pods to what is wanted, and let all others go.

        Args:
            pods: Of this node, as seen now.
            wanted: By pod UID, NUMA nodes.
            now: Seconds, monotonic.

        Raises:
            JournalError: Originals cannot be kept; nothing was written for the pod then.
        """
        found: dict[str, Local] = {}
        writes: list[Write] = []
        kept: set[str] = set()
        for pod in pods:
            if pod.uid not in wanted:
                continue
            try:
                course = self._course(pod, wanted[pod.uid])
                if course.writes is None:
                    found[pod.uid] = Local(course.nodes, course.reason)
                    continue
                kept.update(_groups(pod.containers))
                found[pod.uid] = self._hold(course.nodes, course.writes, now, writes)
            except CgroupError as error:
                kept.update(_groups(pod.containers))
                found[pod.uid] = Local(None, str(error))
        refused = self._let_go(kept, now, writes)
        self._again.keep(frozenset(_groups(each for pod in pods for each in pod.containers)))
        return Step(found, writes, refused)

    def _course(self, pod: Pod, wanted: CpuSet) -> _Course:
        all_nodes = self._effective(pod.group)
        nodes = all_nodes & wanted
        if not nodes:
            return _Course(None, f"{pod.group} may not use memory of NUMA node {wanted}")
        if nodes == all_nodes:
            return _Course(nodes)
        writes = {each.group.name: self._writes(each, nodes) for each in pod.containers}
        usage = Setting("memory", pod.group, _USAGE[self.cgroups.version])
        used = int(self.cgroups.read(usage))
        try:
            available = self._available(nodes)
        except OSError as error:
            told = f"{error.filename} cannot be read: {error.strerror}; mount the host's /sys"
            return _Course(None, told)
        reason = why_not_held(used, available, is_held=not any(writes.values()))
        if reason:
            return _Course(None, f"memory of NUMA node {nodes}: {reason}")
        return _Course(nodes, "", writes)

    def _writes(self, container: Container, nodes: CpuSet) -> tuple[Write, ...]:
        names = _groups([container])
        now = {name: self._effective(name) for name in names}
        texts = {setting: kept.text for setting, kept in self.journal.originals.items()}
        return resize(names, nodes, now, texts, MEMS).writes

    def _hold(
        self,
        nodes: CpuSet | None,
        needed: Mapping[str, Sequence[Write]],
        now: float,
        writes: list[Write],
    ) -> Local:
        waiting = self._again.waiting(now)
        for name, steps in needed.items():
            if not steps:
                continue
            if name in waiting:
                return Local(None, f"{name}: {MEMS} {_LEFT_ALONE}")
            self._again.failed(name, now)
            self.journal.take_down([setting for setting, _ in steps], self.cgroups)
            for setting, value in steps:
                self.cgroups.write(setting, value)
                writes.append((setting, value))
            held = self._effective(name)
            if held != nodes:
                told = f"{nodes} were written, {held} are in effect"
                return Local(None, f"{name}: NUMA nodes {told}")
        return Local(nodes)

    def _let_go(
        self, kept: Collection[str], now: float, writes: list[Write]
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
        return CpuSet.parse(self.cgroups.read(Setting("cpuset", group, file)))

    def _available(self, nodes: CpuSet) -> int:
        """Bytes that are free on some nodes, or taken by cached files that nobody used of late."""
        folder = self.root / "sys/devices/system/node"
        texts = [(folder / f"node{node}/meminfo").read_text(encoding="ascii") for node in nodes]
        return sum(int(kilobytes) << 10 for text in texts for kilobytes in _AVAILABLE.findall(text))


def _groups(containers: Iterable[Container]) -> list[str]:
    """Of containers and inside them, parents first."""
    return [group.name for each in containers for group in (each.group, *each.inside)]
