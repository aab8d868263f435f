"""Which waiting jobs are placed beside each other, and on which node (Cooper, sections III to V).

Every job that waits is an agent. What it would lose beside each other comes from penalties that
were measured between programs, and from a prediction where none were. A rule of `walras.cooper`
pairs the agents; pairs then go to processors that have room for both, those of the emptiest nodes
first. A pair that nobody has room for is parted, and each of the two may have a processor alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.cooper.by_type import FORBIDDEN, advise_by_type, pair_by_type, penalties_by_type
from walras.cooper.colocation import ALONE
from walras.cooper.dispatch import dispatch
from walras.cooper.prediction import predict
from walras.plan import Pairing, Refusal
from walras.seats import Seats, avoid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from walras.snapshot import Job, Policy, Snapshot

    Agents = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Penalties = Mapping[tuple[str, str], float]

NO_RULE = "waits to be placed, but colocation.policy is None; set one, or drop the gate"
NO_PROCESSOR = "waits: no node has a processor to spare"
NO_ROOM = "waits: no node with a processor to spare may take it and has room for its requests"
MOST_KINDS = 2000
"""Programs whose disutilities are laid out at once: 32 MB of them. Jobs of more programs are
matched some at a time."""


NOT_YET = "waits to be placed beside another when jobs are matched next"


class Placed(NamedTuple):
    """All jobs that have a node now, the pairs that were made, and who has to wait."""

    jobs: tuple[Job, ...]
    pairings: tuple[Pairing, ...]
    waiting: tuple[Refusal, ...]


@dataclass(slots=True)
class _Round:
    """What becomes of the jobs that wait.

    Attributes:
        agents: they.
        nodes: that they are sent to, by their number.
        reasons: why others wait, likewise.
        pairings: that were made.
    """

    agents: Sequence[Job]
    nodes: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    pairings: list[Pairing] = field(default_factory=list)

    def left(self) -> list[int]:
        """Return those about whom nothing is decided yet."""
        return [
            number
            for number in range(len(self.agents))
            if number not in self.nodes and number not in self.reasons
        ]


def place(jobs: Sequence[Job], snapshot: Snapshot, policy: Policy) -> Placed:
    """Give jobs without a node one, in pairs.

    1. Promises: whose partner was sent to a node already goes there too.
    2. Match: the rule pairs those for whom there is room anywhere.
    3. Seat: pairs go to processors, in batches where these are too few.
    4. Advise: who would rather share with whom.

    Args:
        jobs: that were admitted; those with a node keep it.
        snapshot: has the nodes, what programs lose beside each other as far as it was measured,
            and whether it is time to match.
        policy: by which rule.

    Raises:
        DisutilityError: a penalty is above 1, or not a finite number.
    """
    agents = [job for job in jobs if not job.node]
    if not agents:
        return Placed(tuple(jobs), (), ())
    done = _Round(agents)
    told_apart = any(job.placing.avoids for job in jobs)
    seats = Seats([job for job in jobs if job.node], snapshot.nodes, told_apart=told_apart)
    _keep_promises(done, jobs, seats, snapshot.penalties)
    reason = _nothing_to_do(seats, snapshot, policy)
    if reason:
        done.reasons.update((number, reason) for number in done.left())
    else:
        _match(done, seats, snapshot.penalties, policy)
    return _settled(jobs, done)


def disutilities(programs: Sequence[str], penalties: Penalties) -> Floats:
    """Return what each agent loses beside each other, shape (n, n), by their programs.

    Pairs of programs that were not measured are predicted from those that were; where nothing
    was, nobody is thought to lose anything.

    Args:
        programs: shape (n,); what each agent runs.
        penalties: 1 - throughput beside / throughput alone, of a program and the one beside it.

    Raises:
        DisutilityError: a penalty is above 1, or not a finite number.
    """
    wanted = set(programs)
    kinds = wanted | {program for pair in penalties for program in pair}
    if len(kinds) > MOST_KINDS:
        kinds = wanted
    known = sorted(each for each in penalties.items() if kinds.issuperset(each[0]))
    full = _filled(tuple(sorted(kinds)), tuple(known))
    number = {program: index for index, program in enumerate(sorted(kinds))}
    of = np.array([number[program] for program in programs], np.int64)
    return np.ascontiguousarray(full[np.ix_(of, of)])


@lru_cache(maxsize=2)
def _filled(kinds: tuple[str, ...], penalties: tuple[tuple[tuple[str, str], float], ...]) -> Floats:
    """Predict what was not measured; once, as decisions are many and measurements few."""
    number = {program: index for index, program in enumerate(kinds)}
    measured = np.full((len(kinds), len(kinds)), np.nan)
    for (program, other), penalty in penalties:
        measured[number[program], number[other]] = penalty
    known = not np.isnan(measured).all()
    return predict(measured).disutility if known else np.zeros_like(measured)


def _nothing_to_do(seats: Seats, snapshot: Snapshot, policy: Policy) -> str:
    if policy.colocation == "None":
        return NO_RULE
    if not snapshot.matching:
        return NOT_YET
    return "" if seats.processors else NO_PROCESSOR


def _keep_promises(done: _Round, jobs: Sequence[Job], seats: Seats, penalties: Penalties) -> None:
    """Send jobs after partners that were sent first, as by an operator that died in between."""
    titles = {job.title: job for job in jobs if job.node}
    for number, agent in enumerate(done.agents):
        node, partner = agent.placing.promised, titles.get(agent.placing.partner)
        if node and partner is not None and seats.join(agent, node):
            done.nodes[number] = node
            both = (agent, partner)
            cost = disutilities([each.program for each in both], penalties)
            lost = (float(cost[0, 1]), float(cost[1, 0]))
            done.pairings.append(_pairing(node, both, lost, penalties))


def _match(done: _Round, seats: Seats, penalties: Penalties, policy: Policy) -> None:
    for number in _without_room(done, seats):
        done.reasons[number] = NO_ROOM
    for numbers in _crowds(done):
        agents = [done.agents[number] for number in numbers]
        crowd = _Crowd.of(agents, penalties)
        seated = _seat(done, seats, numbers, crowd.paired(policy))
        _tell(done, numbers, crowd, seated, penalties, policy)


def _without_room(done: _Round, seats: Seats) -> list[int]:
    """Return those who fit nowhere, so that nobody is paired with them."""
    fits: dict[object, bool] = {}
    found = []
    for number in done.left():
        agent = done.agents[number]
        named = (agent.namespace, agent.name) if agent.placing.avoids else ()
        shape = (agent.placing, named)
        if shape not in fits:
            fits[shape] = seats.has_room(agent)
        if not fits[shape]:
            found.append(number)
    return found


def _crowds(done: _Round) -> Iterator[list[int]]:
    """Yield those who are left, as many at a time as have no more than `MOST_KINDS` programs."""
    numbers = done.left()
    programs = sorted({done.agents[number].program for number in numbers})
    group = {program: index // MOST_KINDS for index, program in enumerate(programs)}
    for each in range(-(-len(programs) // MOST_KINDS)):
        yield [number for number in numbers if group[done.agents[number].program] == each]


class _Crowd(NamedTuple):
    """Agents by kind.

    Attributes:
        agents: they.
        kind: shape (n,); the kind of each.
        cost: shape (K, K); what one kind loses beside another, `FORBIDDEN` where it must not be.
        intensity: shape (K,); bandwidth that each kind draws; an unknown one counts as an average.
    """

    agents: Sequence[Job]
    kind: Agents
    cost: Floats
    intensity: Floats

    @classmethod
    def of(cls, agents: Sequence[Job], penalties: Penalties) -> _Crowd:
        kinds: dict[tuple[str, ...], int] = {}
        patterns: list[Job] = []
        kind = np.empty(len(agents), np.int64)
        shunned = frozenset().union(*(agent.placing.avoids for agent in agents))
        for number, agent in enumerate(agents):
            names = {(agent.namespace, agent.name), (agent.namespace, "")}
            apart = agent.placing.avoids or not shunned.isdisjoint(names)
            key = (agent.program, *((agent.namespace, agent.name) if apart else ()))
            if key not in kinds:
                kinds[key] = len(patterns)
                patterns.append(agent)
            kind[number] = kinds[key]
        cost = disutilities([each.program for each in patterns], penalties)
        for one in [number for number, each in enumerate(patterns) if each.placing.avoids]:
            for other, each in enumerate(patterns):
                if avoid(patterns[one], each):
                    cost[one, other] = cost[other, one] = FORBIDDEN
        told = [each.bandwidth for each in agents if each.bandwidth is not None]
        mean = sum(told) / len(told) if told else 0.0
        drawn = [mean if each.bandwidth is None else each.bandwidth for each in patterns]
        return cls(agents, kind, cost, np.array(drawn, np.float64))

    def paired(self, policy: Policy) -> Agents:
        """Return each agent's partner; those who want a processor to themselves have none."""
        partner = np.full(len(self.agents), ALONE, np.int64)
        together = np.array(
            [number for number, each in enumerate(self.agents) if not each.placing.apart], np.int64
        )
        allowed = self.cost < FORBIDDEN
        found = pair_by_type(
            policy.colocation,
            self.cost,
            allowed,
            self.kind[together],
            self.intensity,
            policy.seed,
        )
        partner[together] = np.where(found == ALONE, ALONE, together[found])
        return partner


def _tell(
    done: _Round,
    numbers: Sequence[int],
    crowd: _Crowd,
    seated: Agents,
    penalties: Penalties,
    policy: Policy,
) -> None:
    """Note who sits by whom, what that costs them, and with whom they would rather sit."""
    agents = crowd.agents
    lost = penalties_by_type(crowd.cost, crowd.kind, seated)
    advice = advise_by_type(crowd.cost, crowd.kind, seated, policy.break_away_gain)
    for one, other in _pairs(seated):
        node = done.nodes.get(numbers[one])
        if node is None:
            continue
        both = (one,) if other == ALONE else (one, other)
        companions = [int(advice.companion[each]) for each in both]
        done.pairings.append(
            _pairing(
                node,
                [agents[each] for each in both],
                [float(lost[each]) for each in both],
                penalties,
                ["" if each == ALONE else agents[each].title for each in companions],
                [float(advice.gain[each]) for each in both],
            )
        )


def _seat(done: _Round, seats: Seats, numbers: Sequence[int], partner: Agents) -> Agents:
    """Send pairs to processors in the order of each pair's earlier agent; return who sits by whom.

    Where processors are too few, the others wait in batches.
    """
    seated = partner.copy()
    sent = dispatch(partner, seats.free or 1)
    for one, other in _pairs(partner):
        both = [one] if other == ALONE else [one, other]
        node = seats.take([done.agents[numbers[each]] for each in both])
        if node is None and other != ALONE:
            seated[both] = ALONE
        for each in both:
            alone = seats.take([done.agents[numbers[each]]]) if node is None else node
            if alone is not None:
                done.nodes[numbers[each]] = alone
            else:
                done.reasons[numbers[each]] = _behind(int(sent.batch[each]))
    return seated


def _behind(batches: int) -> str:
    if batches == 0:
        return NO_ROOM
    many = "1 batch" if batches == 1 else f"{batches} batches"
    return f"waits for a processor, behind {many} of others"


def _pairs(partner: Agents) -> Iterator[tuple[int, int]]:
    """Yield every agent and its partner, each pair once."""
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
    )


def _settled(jobs: Sequence[Job], done: _Round) -> Placed:
    placed, waiting = [], []
    number = 0
    for job in jobs:
        if job.node:
            placed.append(job)
            continue
        if number in done.nodes:
            placed.append(replace(job, node=done.nodes[number]))
        else:
            waiting.append(Refusal(job.namespace, job.name, done.reasons[number], job.pod))
        number += 1
    return Placed(tuple(placed), tuple(done.pairings), tuple(waiting))
