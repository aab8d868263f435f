"""Chooses (pure): whether a node's cgroups follow the rules that must hold at every moment.

A CPU has an owner if it is in the cpuset of a pod that is granted whole cores alone, as its own.
Owners are known when a plan is settled: its agent says that all of it is enforced, before and after
a look at the cgroups. The looks between two such moments, for successive plans, are judged at the
later one: a CPU must not have had its old and its new owner at once, and a CPU that keeps its owner
must not have had another user. Only a container that has just begun may use any CPU, until it has
once been in its place.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Held(NamedTuple):
    """The CPUs and memory that one container was seen to have.

    Attributes:
        pod: UID of the pod.
        cpus: CPUs that the container's processes may use.
        busy: Whether the container has any processes.
        oom_kills: Number of OOM kills by the kernel so far.
    """

    pod: str
    cpus: frozenset[int]
    busy: bool = True
    oom_kills: int = 0


Sight = dict[str, Held]
"""The CPUs and memory that all containers had at one moment, by ID."""


class Plan(NamedTuple):
    """The plan in a node's NodeAllocation, as the API server has it.

    Attributes:
        generation: Generation of the NodeAllocation's spec.
        settled: Whether the node's agent reports that it enforces all of this generation.
        whole: Whole cores of the pods that have nothing but cores of their own, by UID.
        granted: UIDs of all pods with a grant.
        cores: Cores of every grant, by UID.
    """

    generation: int
    settled: bool
    whole: Mapping[str, int]
    granted: frozenset[str]
    cores: Mapping[str, float] = MappingProxyType({})


@dataclass
class Judge:
    """Judge of looks at the cgroups and of plans, in the order in which they were seen.

    Attributes:
        online: CPUs of the node.
        owners: Owners of CPUs by the last plan that was enforced; None until there is one.
    """

    online: frozenset[int]
    owners: dict[int, str] | None = None
    _plan: Plan | None = None
    _generation: int = 0
    _known: set[str] = field(default_factory=set)
    _seen: list[Sight] = field(default_factory=list)

    def see(self, sight: Sight) -> Iterator[str]:
        """Note what containers have, and yield violations that can be judged at once."""
        if self._seen and self._seen[-1] == sight:
            return
        before = self._seen[-1] if self._seen else {}
        self._seen.append(sight)
        granted = self._plan.granted if self._plan else frozenset()
        for container, held in sight.items():
            if held.pod in granted and held.busy and not held.cpus:
                yield f"pod {held.pod}: its container {container[:12]} has no CPU"
            if container in before and held.oom_kills > before[container].oom_kills:
                yield f"pod {held.pod}: the kernel killed a process for want of memory"

    def receive(self, plan: Plan | None) -> Iterator[str]:
        """Note the current plan; if it is settled, yield violations since the last settled one."""
        last, self._plan = self._plan, plan
        if plan is None:
            self.owners, self._seen = None, self._seen[-1:]
        elif plan.settled and last == plan and self._seen:
            yield from self._settle(plan)

    def _settle(self, plan: Plan) -> Iterator[str]:
        now = self._seen[-1]
        owners: dict[int, str] = {}
        for held in now.values():
            for cpu in held.cpus if held.pod in plan.whole else ():
                if owners.setdefault(cpu, held.pod) != held.pod:
                    yield f"CPU {cpu} is owned by the pods {owners[cpu]} and {held.pod}"
        begun = {held.pod for held in now.values()}  # others' containers are still to be made
        yield from self._unheld({pod: plan.whole[pod] for pod in begun & plan.whole.keys()}, owners)
        if self.owners is not None:
            one_step = plan.generation - self._generation <= 1
            # A plan in between may have let everybody be anywhere.
            for sight in self._seen[1:] if one_step else ():
                yield from self._between(self.owners, owners, sight)
        self.owners, self._generation, self._seen = owners, plan.generation, [now]
        self._known = {each for each in now if each in self._known or _in_place(now[each], owners)}

    def _unheld(self, whole: Mapping[str, int], owners: Mapping[int, str]) -> Iterator[str]:
        for pod, cores in sorted(whole.items()):
            has = sum(owner == pod for owner in owners.values())
            if has < cores:
                yield f"pod {pod} has {has} CPUs of its own and was granted {cores} cores"
        if not owners.keys() <= self.online:
            yield f"pods own CPUs {sorted(owners.keys() - self.online)}, which are not online"

    def _between(
        self, old: Mapping[int, str], new: Mapping[int, str], sight: Sight
    ) -> Iterator[str]:
        for cpu in old.keys() & new.keys():
            pods = {
                held.pod
                for container, held in sight.items()
                if cpu in held.cpus and container in self._known
            }
            if old[cpu] != new[cpu] and {old[cpu], new[cpu]} <= pods:
                yield f"CPU {cpu} had its old owner {old[cpu]} and its new one {new[cpu]} at once"
            elif old[cpu] == new[cpu] and pods - {old[cpu]}:
                yield f"CPU {cpu} of pod {old[cpu]} was also used by {sorted(pods - {old[cpu]})}"


def _in_place(held: Held, owners: Mapping[int, str]) -> bool:
    return all(owners.get(cpu, held.pod) == held.pod for cpu in held.cpus)


WINDOW = 60.0
"""Seconds over which CPU time is judged."""

SHORT = 0.05
"""Part of what a pod bought that it may lack in a window."""


class Spent(NamedTuple):
    """The CPU time of a pod in an interval in which one and the same grant was enforced.

    Attributes:
        seconds: Length of the interval.
        bought: CPUs of the grant.
        used: CPU seconds that its processes had.
        waited: Seconds in which its threads waited for a CPU, summed over threads.
        outside: Part of the interval in which programs outside of pods, or other machines, had the
            CPU of the pod that they had longest.
    """

    seconds: float
    bought: float
    used: float
    waited: float
    outside: float = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether its threads ran or waited for all of what it bought."""
        return self.used + self.waited >= self.bought * self.seconds


@dataclass
class TimeJudge:
    """Judge of the CPU time that busy pods have."""

    _busy: dict[str, deque[Spent]] = field(default_factory=dict)

    def see(self, pod: str, spent: Spent) -> Iterator[str]:
        """Note an interval of a pod, and yield a violation if the last of them lack too much.

        Args:
            pod: UID of the pod.
            spent: What it had; intervals without an enforced grant are left out.
        """
        if not spent.is_busy:
            self._busy.pop(pod, None)
            return
        window = self._busy.setdefault(pod, deque())
        window.append(spent)
        while sum(each.seconds for each in window) - window[0].seconds >= WINDOW:
            window.popleft()
        if sum(each.seconds for each in window) < WINDOW:
            return
        used = sum(each.used for each in window)
        due = sum(each.bought * each.seconds * (1 - each.outside) for each in window)
        if used < (1 - SHORT) * due:
            window.clear()
            yield (
                f"pod {pod} was busy and had {used:.1f} CPU seconds of the {due:.1f} that it bought"
            )
