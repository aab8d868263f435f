"""A cluster whose agents measure pods of programs that follow Amdahl's law, while time passes.

Agents answer as the real ones do, as far as an operator can tell: a measurement is made once, takes
time, is lost if its agent is restarted, and is reported until the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import worlds
from walras.speedup.amdahls_law import speedup
from walras_operator.decide.measuring.measurement_record import read_record
from whole_decisions import decide
from worlds import NOW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_api.kinds import MarketJob, SpeedupProfile
    from walras_api.node_allocation import NodeAllocation, ProfilingRequest
    from walras_operator.decide.measuring.measurement_record import ProfileRecord
    from walras_operator.decide.world import Document, World
    from whole_decisions import Decision

STEP = 10
"""Seconds from one decision to the next."""

SAMPLE = 2.0


def measurement(pod: str, rates: Mapping[int, float], finished: str = NOW) -> Document:
    """Return a measurement as a profile's status keeps it, by rates."""
    return {
        "id": f"{pod}-1",
        "pod": pod,
        "podUID": f"u-lab-{pod}",
        "node": "n1",
        "finished": finished,
        "source": "cpuTime",
        "samples": samples(rates),
    }


def samples(rates: Mapping[int, float]) -> list[Document]:
    """Return three samples at each core count."""
    return [
        {"cores": cores, "seconds": "2", "progress": f"{rate * SAMPLE:.9f}"}
        for cores, rate in [*rates.items()] * 3
    ]


def counts(held: int) -> list[int]:
    """Return the core counts of a measurement."""
    return sorted({1 << power for power in range(held.bit_length())} | {held})


@dataclass
class Cluster:
    """A world in which the operator decides and agents measure.

    Attributes:
        world: Current state of the world.
        truth: True parallel fractions, by job.
        pace: Progress of every job in a second on one core.
        dead: Nodes without an agent.
        mute: Nodes whose agent does not measure.
        wrong: Fields that replace those of agents' reports, by node.
        made: IDs of the measurements that agents have begun, once for each time.
        deaf: Kinds of objects that cannot be written.
    """

    world: World
    truth: dict[str, float]
    pace: float = 1.0
    now: datetime = field(default_factory=lambda: datetime.fromisoformat(NOW))
    dead: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)
    wrong: dict[str, Document] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    deaf: set[str] = field(default_factory=set)
    running: dict[str, datetime] = field(default_factory=dict)
    done: dict[str, set[str]] = field(default_factory=dict)
    reports: dict[str, Document] = field(default_factory=dict)

    def step(self, seconds: int = STEP, *, leader_changes: bool = False) -> Decision:
        """Decide, write the decision, and let time pass, in which agents act on it."""
        agents = frozenset(each.metadata.name for each in self.world.objects.nodes) - self.dead
        known = replace(self.world, now=f"{self.now:%Y-%m-%dT%H:%M:%SZ}", agents=agents)
        decision = decide(known)
        self.world = worlds.outcome(known, self._written(decision), leader_changes=leader_changes)
        self.now += timedelta(seconds=seconds)
        self._agents_act()
        return decision

    def steps(self, number: int) -> None:
        for _ in range(number):
            self.step()

    def _written(self, decision: Decision) -> Decision:
        """Return a decision without the objects that cannot be written."""
        return replace(
            decision,
            nodes=() if "NodeAllocation" in self.deaf else decision.nodes,
            profiles=() if "SpeedupProfile" in self.deaf else decision.profiles,
            statuses=tuple(each for each in decision.statuses if each.object.kind not in self.deaf),
        )

    def _agents_act(self) -> None:
        told = {
            name: self._told(each) if name not in self.dead else each
            for name, each in self.world.allocations.items()
        }
        self.world = replace(self.world, allocations=told)

    def _told(self, each: NodeAllocation) -> NodeAllocation:
        node, status = each.metadata.name, worlds.enforced(self.world).allocations
        found: Document = dict(status[node].status or {})
        self._measure(node, each.spec.profiling, each)
        if node in self.reports:
            found["profiling"] = {**self.reports[node], **self.wrong.get(node, {})}
        return each.model_copy(update={"status": found})

    def _measure(self, node: str, asked: ProfilingRequest | None, each: NodeAllocation) -> None:
        done = self.done.setdefault(node, set())
        if asked is None:
            self.running.pop(node, None)
            return
        if node in self.mute:
            return
        if asked.id not in done:
            done.add(asked.id)
            self.made.append(asked.id)
            self.running[node] = self.now
            self.reports[node] = {"id": asked.id, "podUID": asked.pod_uid, "state": "Running"}
        elif node in self.running and self.reports[node]["id"] == asked.id:
            self.running.pop(node)
            self.reports[node] = self._complete(asked, each)

    def _complete(self, asked: ProfilingRequest, each: NodeAllocation) -> Document:
        head = {"id": asked.id, "podUID": asked.pod_uid, "source": "cpuTime"}
        grant = next((one for one in each.spec.grants if one.pod_uid == asked.pod_uid), None)
        if grant is None or grant.cores < 2:
            return {**head, "state": "Failed", "reason": "the pod has no grant on this node"}
        held = int(grant.cores)
        fraction = self.truth[grant.name.rpartition("-")[0]]
        wanted = [held] if asked.purpose == "Progress" else (asked.cores or counts(held))
        rates = {cores: self.pace * float(speedup(cores, fraction)) for cores in wanted}
        return {**head, "state": "Complete", "samples": samples(rates)}

    def restart_agent(self, node: str) -> None:
        """Restart a node's agent, as the kubelet does; a measurement that it was making is lost."""
        if self.running.pop(node, None) is not None:
            self.reports[node] |= {"state": "Failed", "reason": "the agent was started anew"}

    def remove_pod(self, name: str) -> None:
        objects = self.world.objects
        pods = [each for each in objects.pods if each.metadata.name != name]
        self.world = replace(self.world, objects=replace(objects, pods=pods))

    def put_pod(self, name: str, job: str, node: str) -> None:
        """Create a pod; leave one of that name alone."""
        objects = self.world.objects
        if all(each.metadata.name != name for each in objects.pods):
            more = worlds.world(worlds.pod(name, job, node)).objects.pods
            self.world = replace(self.world, objects=replace(objects, pods=[*objects.pods, *more]))

    def delete_profile(self, name: str) -> None:
        objects = self.world.objects
        profiles = [each for each in objects.profiles if each.metadata.name != name]
        self.world = replace(self.world, objects=replace(objects, profiles=profiles))

    def profile(self, name: str = "train") -> SpeedupProfile | None:
        found = [each for each in self.world.objects.profiles if each.metadata.name == name]
        return found[0] if found else None

    def record(self, name: str = "train") -> ProfileRecord:
        found = self.profile(name)
        return read_record(found.status if found else None)

    def fraction(self, name: str = "train") -> float | None:
        """Return the parallel fraction in a profile's status."""
        found = self.profile(name)
        text = ((found.status if found else None) or {}).get("parallelFraction")
        return None if text is None else float(text)

    def asked(self) -> dict[str, ProfilingRequest]:
        """Return the requests of measurements, by node."""
        return {
            name: each.spec.profiling
            for name, each in self.world.allocations.items()
            if each.spec.profiling is not None
        }

    def verdict(self, name: str = "train") -> tuple[str, str, str]:
        """Return what a job's status says about its profile."""
        job = self._job(name)
        found = next(
            each for each in (job.status or {})["conditions"] if each["type"] == "Profiled"
        )
        return found["status"], found["reason"], found["message"]

    def _job(self, name: str) -> MarketJob:
        return next(each for each in self.world.objects.jobs if each.metadata.name == name)
