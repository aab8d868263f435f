"""Placement of waiting jobs in pairs, on sockets of nodes (Cooper, sections III to V).

Every job that waits is an agent. Its loss of throughput beside each other agent is measured between
their programs, or else predicted. A rule of `walras.mechanisms.cooper` pairs the agents; pairs then
go to sockets that have room for both, those of the emptiest nodes first. A pair that fits no socket
is split, and each of the two may have a socket alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.market.plan import Pairing, Refusal
from walras.mechanisms.cooper.by_type import advise_by_type, penalties_by_type
from walras.mechanisms.cooper.colocation import ALONE, dispatch
from walras.placement.agents_by_kind import MAX_PROGRAMS, AgentsByKind, expected_losses
from walras.placement.free_sockets import FreeSockets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from walras.market.admission import Admitted
    from walras.market.snapshot import Job, JobKey, Policy, Snapshot
    from walras.numerics.arrays import Floats, Integers
    from walras.placement.agents_by_kind import Penalties

NO_RULE = (
    "waits to be placed, but colocation.policy is None; set a policy, or remove the pod's gate"
)
NO_FREE_SOCKET = "waits: no node has a free socket"
NO_ROOM = "waits: no node with a free socket accepts the pod and has room for its requests"
WAITS_FOR_MATCHING = "waits for the next matching of jobs"


class Placed(NamedTuple):
    """Jobs that take part in the market, each with a node, and what became of the others.

    Attributes:
        refused: Jobs that were not admitted, then those that wait for a node.
        losses: What interference takes from the fractions of jobs, a sentence for each by key.
    """

    jobs: tuple[Job, ...]
    refused: tuple[Refusal, ...]
    pairings: tuple[Pairing, ...] = ()
    losses: Mapping[JobKey, str] = MappingProxyType({})


@dataclass(slots=True)
class _MatchingRound:
    """Decisions on the waiting jobs so far, by their index.

    Attributes:
        nodes: Nodes that jobs are sent to, by index of the job.
        reasons: Reasons why other jobs wait on, by index of the job.
    """

    agents: Sequence[Job]
    nodes: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    pairings: list[Pairing] = field(default_factory=list)

    def left(self) -> list[int]:
        """Return the indices of jobs that are undecided."""
        return [
            number
            for number in range(len(self.agents))
            if number not in self.nodes and number not in self.reasons
        ]


def place_waiting_jobs(admitted: Admitted, snapshot: Snapshot, policy: Policy) -> Placed:
    """Assign a node to jobs without one, in pairs.

    1. Follow partners: send a job to the node that its partner was already sent to.
    2. Match the jobs that fit any socket, by the rule of the policy, and exchange partners where
       that teaches more than it costs.
    3. Send pairs to sockets, in batches where there are too few.
    4. Advise jobs that would gain by another co-runner.

    Args:
        admitted: Jobs that were admitted, of which those with a node keep it, and the others.
        snapshot: Snapshot with the nodes, the measured penalties, and whether to match now.
        policy: Rule of colocation.

    Raises:
        DisutilityError: A penalty is above 1, or not a finite number.
    """
    jobs = admitted.jobs
    agents = [job for job in jobs if not job.node]
    if not agents:
        return Placed(*admitted)
    round_ = _MatchingRound(agents)
    any_avoids = any(job.placement.avoids for job in jobs)
    open_ = [node for node in snapshot.nodes if node.name not in snapshot.frozen]
    sockets = FreeSockets([job for job in jobs if job.node], open_, any_avoids=any_avoids)
    _follow_partners(round_, jobs, sockets, snapshot.penalties)
    reason = _reason_to_wait(sockets, snapshot, policy)
    if reason:
        round_.reasons.update((number, reason) for number in round_.left())
    else:
        _match(round_, sockets, snapshot.penalties, policy)
    return _result(admitted, round_)


def _reason_to_wait(sockets: FreeSockets, snapshot: Snapshot, policy: Policy) -> str:
    """Return why no job is matched now; empty if jobs are."""
    if policy.colocation == "None":
        return NO_RULE
    if not snapshot.matching:
        return WAITS_FOR_MATCHING
    return "" if sockets.free else NO_FREE_SOCKET


def _follow_partners(
    round_: _MatchingRound, jobs: Sequence[Job], sockets: FreeSockets, penalties: Penalties
) -> None:
    """Send jobs to the nodes of partners whose operator stopped before it placed both."""
    placed = {(job.title, job.node): job for job in jobs if job.node}
    for number, agent in enumerate(round_.agents):
        node = agent.placement.partner_node
        partner = placed.get((agent.placement.partner, node))
        if partner is not None and sockets.place_beside_partner(agent, node):
            round_.nodes[number] = node
            both = (agent, partner)
            cost = expected_losses(both, penalties).mean
            lost = (float(cost[0, 1]), float(cost[1, 0]))
            round_.pairings.append(_pairing(node, both, lost, penalties))


def _match(
    round_: _MatchingRound, sockets: FreeSockets, penalties: Penalties, policy: Policy
) -> None:
    for number in _without_room(round_, sockets):
        round_.reasons[number] = NO_ROOM
    for numbers in _groups(round_):
        agents = [round_.agents[number] for number in numbers]
        by_kind = AgentsByKind.of(agents, penalties)
        explored = by_kind.explored(by_kind.paired(policy), policy)
        placed_with = _send_to_sockets(round_, sockets, numbers, explored.partner)
        learning = np.where(placed_with == explored.partner, explored.cost, np.nan)
        _record_pairings(round_, numbers, by_kind, placed_with, learning, penalties, policy)


def _without_room(round_: _MatchingRound, sockets: FreeSockets) -> list[int]:
    """Return the indices of jobs that fit no socket, so that no job is paired with them."""
    fits: dict[object, bool] = {}
    stranded = []
    for number in round_.left():
        agent = round_.agents[number]
        named = (agent.namespace, agent.name) if agent.placement.avoids else ()
        shape = (agent.placement, named)
        if shape not in fits:
            fits[shape] = sockets.has_room(agent)
        if not fits[shape]:
            stranded.append(number)
    return stranded


def _groups(round_: _MatchingRound) -> Iterator[list[int]]:
    """Yield the indices of undecided jobs, in groups of at most `MAX_PROGRAMS` programs."""
    numbers = round_.left()
    programs = sorted({round_.agents[number].program for number in numbers})
    group = {program: index // MAX_PROGRAMS for index, program in enumerate(programs)}
    for each in range(-(-len(programs) // MAX_PROGRAMS)):
        yield [number for number in numbers if group[round_.agents[number].program] == each]


def _record_pairings(
    round_: _MatchingRound,
    numbers: Sequence[int],
    by_kind: AgentsByKind,
    placed_with: Integers,
    learning: Floats,
    penalties: Penalties,
    policy: Policy,
) -> None:
    """Record the pairs that were placed, with their losses and the advice to each job.

    Args:
        round_: Decisions so far.
        numbers: Indices of the agents.
        by_kind: The agents and their losses.
        placed_with: Partner of each agent where it was sent.
        learning: Expected loss of each agent by the exchange of its partner, NaN for none.
        penalties: Measured penalties.
        policy: Rule of colocation.
    """
    agents = by_kind.agents
    lost = penalties_by_type(by_kind.cost, by_kind.kind, placed_with)
    advice = advise_by_type(by_kind.cost, by_kind.kind, placed_with, policy.break_away_gain)
    for one, other in _pairs(placed_with):
        node = round_.nodes.get(numbers[one])
        if node is None:
            continue
        both = (one,) if other == ALONE else (one, other)
        companions = [int(advice.companion[each]) for each in both]
        round_.pairings.append(
            _pairing(
                node,
                [agents[each] for each in both],
                [float(lost[each]) for each in both],
                penalties,
                ["" if each == ALONE else agents[each].title for each in companions],
                [float(advice.gain[each]) for each in both],
                [] if np.isnan(learning[one]) else [float(learning[each]) for each in both],
            )
        )


def _send_to_sockets(
    round_: _MatchingRound, sockets: FreeSockets, numbers: Sequence[int], partner: Integers
) -> Integers:
    """Send pairs to sockets in the order of each pair's earlier agent; return the partners there.

    Where sockets are too few, the other pairs wait in batches.
    """
    placed_with = partner.copy()
    batch = dispatch(partner, sockets.free or 1)
    for one, other in _pairs(partner):
        both = [one] if other == ALONE else [one, other]
        node = sockets.place([round_.agents[numbers[each]] for each in both])
        if node is None and other != ALONE:
            placed_with[both] = ALONE
        for each in both:
            alone = sockets.place([round_.agents[numbers[each]]]) if node is None else node
            if alone is not None:
                round_.nodes[numbers[each]] = alone
            else:
                round_.reasons[numbers[each]] = _behind(int(batch[each]))
    return placed_with


def _behind(batches: int) -> str:
    """Return the reason of a job that waits for so many batches of others."""
    if batches == 0:
        return NO_ROOM
    many = "1 batch" if batches == 1 else f"{batches} batches"
    return f"waits for a socket, behind {many} of other jobs"


def _pairs(partner: Integers) -> Iterator[tuple[int, int]]:
    """Yield every agent with its partner, each pair once."""
    for one, other in enumerate(partner.tolist()):
        if other == ALONE or one < other:
            yield one, other


def _pairing(
    node: str,
    jobs: Sequence[Job],
    lost: Sequence[float],
    penalties: Penalties,
    companions: Sequence[str] = ("", ""),
    gains: Sequence[float] = (0.0, 0.0),
    learning: Sequence[float] = (),
) -> Pairing:
    programs = [job.program for job in jobs]
    return Pairing(
        node=node,
        jobs=tuple(job.title for job in jobs),
        penalties=tuple(lost),
        measured=tuple(
            len(jobs) > 1 and (one, other) in penalties
            for one, other in zip(programs, programs[::-1], strict=True)
        ),
        companions=tuple(companions[: len(jobs)]),
        gains=tuple(gains[: len(jobs)]),
        learning=tuple(learning),
    )


def _result(admitted: Admitted, round_: _MatchingRound) -> Placed:
    placed, waiting = [], []
    number = 0
    for job in admitted.jobs:
        if job.node:
            placed.append(job)
            continue
        if number in round_.nodes:
            placed.append(replace(job, node=round_.nodes[number]))
        else:
            waiting.append(Refusal(job.namespace, job.name, round_.reasons[number], job.pod))
        number += 1
    return Placed(tuple(placed), (*admitted.refused, *waiting), tuple(round_.pairings))
