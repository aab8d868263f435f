"""Facts and answers: all that one decision is made of, and all that it wants written (values).

The runtime gathers a `World` from its indexes, has `walras_operator.decision.decide` make a
`Decision` of it, and writes that. Neither knows of a client, a clock or a thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from walras.resources.assembly import Objects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras.plan import Plan
    from walras.resources.allocation import NodeAllocation
    from walras.resources.cluster import Pod
    from walras.resources.kinds import Market, MarketSpec
    from walras.resources.waiting import Way
    from walras.snapshot import Holding, Key
    from walras_operator.recording.lifetimes import Lifetime

Document = dict[str, Any]
"""Plain data, as JSON has it."""

MOST_REPORTED = 2**52
"""No operator gets to a larger epoch: an agent that reports one is not believed."""


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """Names an object.

    Attributes:
        kind: of the object.
        name: of the object.
        namespace: of the object; empty for kinds that have none.
        uid: of the object, for Events and for writes that must not hit a later one of the same
            name; plays no part in comparisons.
    """

    kind: str
    name: str
    namespace: str = ""
    uid: str = field(default="", compare=False)

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.kind} {self.namespace}/{self.name}".replace(" /", " ")


@dataclass(frozen=True, slots=True)
class Broken:
    """An object that could not be understood.

    Attributes:
        problems: one line each: field, what is wrong, the way out.
        generation: of the object.
        status: of the object.
    """

    problems: tuple[str, ...]
    generation: int = 0
    status: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Carried:
    """What one decision hands to the next. A new leader has none, and reads it from statuses.

    Attributes:
        rules: of the last Market that could be used.
        held: cores that jobs have.
        quantum: of Karma, that was settled last; its credits are in the Market's status.
        asked: bytes that entitlements have asked for in it, by node and entitlement.
    """

    rules: MarketSpec | None = None
    held: Mapping[Key, Holding] = field(default_factory=dict)
    quantum: int = 0
    asked: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class World:
    """All that is known at one moment.

    Attributes:
        now: the time, for conditions (RFC 3339, such as ``2026-01-31T12:00:00Z``).
        objects: that could be understood, with their statuses as they were written last;
            ``rules`` is not looked at.
        markets: likewise.
        broken: that could not be understood, of any kind that is watched.
        allocations: NodeAllocations by node; those that cannot be understood are left out, and
            written anew.
        agents: nodes whose agent is alive, by its Lease.
        carried: of the last decision of this leader; None for its first.
        version: of the Market that is used, its resourceVersion.
        matching: whether it is time to pair pods that wait for a node: once an epoch, so that many
            are paired at a time.
        unplaceable: why this operator may not place pods, as the API server said last; empty if it
            may, as far as is known.
        ends: of pods that were asked for, by UID: when they ran, None for those that leave no run.
    """

    now: str
    objects: Objects = field(default_factory=Objects)
    markets: Sequence[Market] = ()
    broken: Mapping[Reference, Broken] = field(default_factory=dict)
    allocations: Mapping[str, NodeAllocation] = field(default_factory=dict)
    agents: frozenset[str] = frozenset()
    carried: Carried | None = None
    version: str = ""
    matching: bool = True
    unplaceable: str = ""
    ends: Mapping[str, Lifetime | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeWrite:
    """The spec of a NodeAllocation that is to be another, or to be made.

    Attributes:
        node: its name, and the node that is to own it.
        node_uid: of the node.
        spec: as the API server takes it, but for ``epoch``, which the writer adds.
    """

    node: str
    node_uid: str
    spec: Document


@dataclass(frozen=True, slots=True)
class ProfileWrite:
    """A SpeedupProfile that is to be made, if there is none of its name.

    Attributes:
        object: its name.
        document: all of it, as the API server takes it.
    """

    object: Reference
    document: Document


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """A status that is to be another.

    The writer adds ``leader`` and ``epoch`` to a Market's; they alone are no reason to write.

    Attributes:
        object: whose.
        status: all of it, as the API server takes it.
    """

    object: Reference
    status: Document


@dataclass(frozen=True, slots=True)
class Settlement:
    """A quantum of Karma that counts when the status of the Market says so.

    Attributes:
        market: whose status that is; it is among those to write, and is written before anything
            that follows from it.
        version: of the Market that was decided from: if it is another by now, all is void.
        record: of the quantum, for the log (`walras.karma.record.record_of`).
    """

    market: Reference
    version: str
    record: Document


@dataclass(frozen=True, slots=True)
class Placement:
    """A pod that is to be given a node, or let go.

    Attributes:
        pod: the pod.
        way: how it waits.
        node: where it is to be; empty if a scheduler is to decide that.
        body: of the request: a merge patch of the pod, or its Binding.
        after: the pod as it is then.
    """

    pod: Reference
    way: Way
    node: str
    body: Document
    after: Pod = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an object, for its people.

    Attributes:
        object: to which.
        type: as Kubernetes has them.
        reason: in one word, for programs.
        message: one sentence.
    """

    object: Reference
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done, or a part of it. Deciding again on the outcome gives nothing to write.

    Attributes:
        nodes: NodeAllocations to write, by name.
        statuses: to write, by object; every one of them is of an object in the world, or of a
            profile to be made.
        events: to tell, by object.
        carried: for the next world.
        rules: that it was decided by; None where nothing could be decided.
        plan: that it comes from; likewise.
        notes: one line on everything that takes no part and has no status of its own.
        profiles: SpeedupProfiles to make.
        settlement: of a quantum; None if credits stay as they are.
        until: when memory is to be divided again; empty if it is not divided.
        placements: pods to give a node, or to let go.
        ended: pods whose end is to be asked for, or is known and not yet in a status; None where
            that was not looked at.
    """

    nodes: tuple[NodeWrite, ...]
    statuses: tuple[StatusWrite, ...]
    events: tuple[Event, ...]
    carried: Carried
    rules: MarketSpec | None = None
    plan: Plan | None = None
    notes: tuple[str, ...] = ()
    profiles: tuple[ProfileWrite, ...] = ()
    settlement: Settlement | None = None
    until: str = ""
    placements: tuple[Placement, ...] = ()
    ended: tuple[Reference, ...] | None = None

    @property
    def writes(self) -> bool:
        """Whether anything is to be written."""
        return any((self.nodes, self.profiles, self.statuses, self.events, self.placements))
