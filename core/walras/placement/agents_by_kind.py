"""Agents that are matched, by kind: what each kind loses beside each other, and their partners."""

from __future__ import annotations

from functools import lru_cache
from math import nan  # always the same object, by which the cache knows it
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.mechanisms.cooper.beliefs import Beliefs, believe
from walras.mechanisms.cooper.by_type import FORBIDDEN, pair_by_type
from walras.mechanisms.cooper.colocation import ALONE
from walras.mechanisms.cooper.exploration import Exploration, Uncertainty, explore
from walras.placement.free_sockets import avoid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras.market.snapshot import Job, Policy
    from walras.numerics.arrays import Floats, Integers

    Penalties = Mapping[tuple[str, str], float]

MAX_PROGRAMS = 2000
"""Programs in one matrix of disutilities, which takes 32 MB. Jobs of more programs are matched in
several groups."""


def expected_losses(jobs: Sequence[Job], penalties: Penalties) -> Beliefs:
    """Return what is believed of the loss of throughput of each job beside each other.

    Losses between programs that were not measured are predicted from those that were, and from the
    memory bandwidths of the programs.

    Args:
        jobs: n jobs, whose programs and bandwidths count.
        penalties: Measured penalties, 1 - throughput beside / throughput alone, by program and
            co-runner.

    Raises:
        DisutilityError: A penalty is above 1, or not a finite number.
    """
    bandwidths: dict[str, float] = {}
    for job in jobs:
        drawn = nan if job.bandwidth is None else job.bandwidth
        bandwidths.setdefault(job.program, drawn)
    kinds = bandwidths.keys() | {program for pair in penalties for program in pair}
    if len(kinds) > MAX_PROGRAMS:
        kinds = set(bandwidths)
    measured = sorted(each for each in penalties.items() if kinds.issuperset(each[0]))
    ordered = sorted(kinds)
    drawn_by = tuple(bandwidths.get(program, nan) for program in ordered)
    full = _believed(tuple(ordered), drawn_by, tuple(measured))
    number = {program: index for index, program in enumerate(ordered)}
    of = np.array([number[job.program] for job in jobs], np.int64)
    mean, deviation = (
        np.ascontiguousarray(each[np.ix_(of, of)]) for each in (full.mean, full.deviation)
    )
    return Beliefs(mean, deviation)


@lru_cache(maxsize=2)
def _believed(
    kinds: tuple[str, ...],
    bandwidths: tuple[float, ...],
    penalties: tuple[tuple[tuple[str, str], float], ...],
) -> Beliefs:
    """Return what is believed of the losses of all programs, shape (K, K).

    Cached, since there are many decisions between measurements.
    """
    number = {program: index for index, program in enumerate(kinds)}
    measured = np.full((len(kinds), len(kinds)), np.nan)
    for (program, other), penalty in penalties:
        measured[number[program], number[other]] = penalty
    return believe(measured, bandwidths)


class AgentsByKind(NamedTuple):
    """n agents of K kinds; those of one kind run one program and avoid nobody by name.

    Attributes:
        cost: Loss of each kind beside each other, `FORBIDDEN` if either avoids the other, shape
            (K, K).
        uncertainty: Standard deviations of the losses of kinds that pods can still show.
        intensity: Memory bandwidth of each kind, the mean of the others if unknown, shape (K,).
    """

    agents: Sequence[Job]
    kind: Integers
    cost: Floats
    uncertainty: Uncertainty
    intensity: Floats

    @classmethod
    def of(cls, agents: Sequence[Job], penalties: Penalties) -> AgentsByKind:
        """Return agents by kind, with what is believed of their losses."""
        kinds: dict[tuple[str, ...], int] = {}
        examples: list[Job] = []
        kind = np.empty(len(agents), np.int64)
        avoided = frozenset().union(*(agent.placement.avoids for agent in agents))
        for number, agent in enumerate(agents):
            names = {(agent.namespace, agent.name), (agent.namespace, "")}
            apart = agent.placement.avoids or not avoided.isdisjoint(names)
            key = (agent.program, *((agent.namespace, agent.name) if apart else ()))
            if key not in kinds:
                kinds[key] = len(examples)
                examples.append(agent)
            kind[number] = kinds[key]
        believed = expected_losses(examples, penalties)
        cost = believed.mean
        for one in [number for number, each in enumerate(examples) if each.placement.avoids]:
            for other, each in enumerate(examples):
                if avoid(examples[one], each):
                    cost[one, other] = cost[other, one] = FORBIDDEN
        bandwidths = [each.bandwidth for each in agents if each.bandwidth is not None]
        mean = sum(bandwidths) / len(bandwidths) if bandwidths else 0.0
        drawn = [mean if each.bandwidth is None else each.bandwidth for each in examples]
        uncertainty = _to_learn(examples, believed.deviation)
        return cls(agents, kind, cost, uncertainty, np.array(drawn, np.float64))

    def paired(self, policy: Policy) -> Integers:
        """Return each agent's partner, shape (n,); `ALONE` for those that need a socket each."""
        partner = np.full(len(self.agents), ALONE, np.int64)
        together = np.array(
            [number for number, each in enumerate(self.agents) if not each.placement.exclusive],
            np.int64,
        )
        allowed = self.cost < FORBIDDEN
        partners = pair_by_type(
            policy.colocation, self.cost, allowed, self.kind[together], self.intensity, policy.seed
        )
        partner[together] = np.where(partners == ALONE, ALONE, together[partners])
        return partner

    def explored(self, partner: Integers, policy: Policy) -> Exploration:
        """Return the partners with some exchanged to learn their losses; exclusive jobs stay."""
        together = np.array(
            [number for number, each in enumerate(self.agents) if not each.placement.exclusive],
            np.int64,
        )
        position = np.full(len(partner) + 1, ALONE, np.int64)
        position[together] = np.arange(len(together))
        allowed = self.cost < FORBIDDEN
        exploration = explore(
            self.cost,
            self.uncertainty,
            allowed,
            self.kind[together],
            position[partner[together]],
            policy.exploration,
        )
        after, spent = partner.copy(), np.full(len(partner), np.nan)
        after[together] = np.where(
            exploration.partner == ALONE, ALONE, together[exploration.partner]
        )
        spent[together] = exploration.cost
        return Exploration(after, spent)


def _to_learn(kinds: Sequence[Job], deviation: Floats) -> Uncertainty:
    """Return what there is to learn of kinds of agents, of which each job is an example.

    Nothing is learned of a job whose losses are not measured while it runs. A job whose program
    was never seen alone teaches, if it is alone, as much as its least known pair, since none of its
    losses can be told before.
    """
    observed = np.array([each.observed for each in kinds], np.bool_)
    hidden = np.array([each.observed and not each.seen_alone for each in kinds], np.bool_)
    beside = np.where(observed[:, None], deviation, 0.0)
    both = np.hypot(beside, beside.T).max(axis=1, initial=0.0)
    return Uncertainty(beside, np.where(hidden, both, 0.0))
