"""Which waiting jobs are placed beside each other, and on which node (Cooper, sections III to V).

Every job that waits is an agent. What it would lose beside each other comes from penalties that
were measured between programs, and from a prediction where none were. A rule of `walras.cooper`
pairs the agents; pairs then go to processors, the emptiest nodes first. A node has a processor to
spare for every socket that the jobs on it, two a socket, do not fill.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.cooper.colocation import ALONE, Colocation, suffered_beside
from walras.cooper.dispatch import dispatch
from walras.cooper.policies import colocate
from walras.cooper.prediction import predict
from walras.plan import Pairing, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from walras.snapshot import Job, Node, Policy

    Floats = NDArray[np.float64]


class Placed(NamedTuple):
    """All jobs that have a node now, the pairs that were made, and who has to wait."""

    jobs: tuple[Job, ...]
    pairings: tuple[Pairing, ...]
    waiting: tuple[Refusal, ...]


def place(
    jobs: Sequence[Job],
    nodes: Sequence[Node],
    penalties: Mapping[tuple[str, str], float],
    policy: Policy,
) -> Placed:
    """Give jobs without a node one, in pairs.

    Args:
        jobs: all jobs of the market; those with a node keep it.
        nodes: that sell cores.
        penalties: what programs lose beside each other, as far as it was measured.
        policy: by which rule.
    """
    agents = [job for job in jobs if not job.node]
    if not agents:
        return Placed(tuple(jobs), (), ())
    if policy.colocation == "None":
        reason = "waits to be placed, but colocation.policy is None; set one, or drop the gate"
        return _settled(jobs, {}, (), [reason] * len(agents))
    processors = _processors(jobs, nodes)
    if not processors:
        return _settled(jobs, {}, (), ["waits: no node has a processor to spare"] * len(agents))
    suffered = disutilities([agent.program for agent in agents], penalties)
    found = _pair(suffered, agents, policy)
    sent = dispatch(found.partner, len(processors))
    lost = suffered_beside(suffered, found.partner)
    node_of: dict[int, str] = {}
    reasons: list[str | None] = []
    for number in range(len(agents)):
        ahead = int(sent.batch[number])
        if ahead == 0:
            node_of[number] = processors[int(sent.processor[number])]
            reasons.append(None)
        else:
            batches = "1 batch" if ahead == 1 else f"{ahead} batches"
            reasons.append(f"waits for a processor, behind {batches} of others")
    return _settled(jobs, node_of, _pairings(agents, found, lost, node_of), reasons)


def disutilities(programs: Sequence[str], penalties: Mapping[tuple[str, str], float]) -> Floats:
    """Return what each agent loses beside each other, shape (n, n), by their programs.

    Pairs of programs that were not measured are predicted from those that were; where nothing
    was, nobody is thought to lose anything.

    Args:
        programs: shape (n,); what each agent runs.
        penalties: 1 - throughput beside / throughput alone, of a program and the one beside it.

    Raises:
        DisutilityError: a penalty is above 1, or not a finite number.
    """
    kinds = sorted({*programs, *(program for pair in penalties for program in pair)})
    number = {program: index for index, program in enumerate(kinds)}
    measured = np.full((len(kinds), len(kinds)), np.nan)
    for (program, other), penalty in penalties.items():
        measured[number[program], number[other]] = penalty
    known = not np.isnan(measured).all()
    full = predict(measured).disutility if known else np.zeros_like(measured)
    of = np.array([number[program] for program in programs])
    return np.ascontiguousarray(full[np.ix_(of, of)])


def _pair(suffered: Floats, agents: Sequence[Job], policy: Policy) -> Colocation:
    """Let the rule decide; an agent whose bandwidth is unknown counts as an average one."""
    told = [agent.bandwidth for agent in agents if agent.bandwidth is not None]
    mean = sum(told) / len(told) if told else 0.0
    intensity = [mean if agent.bandwidth is None else agent.bandwidth for agent in agents]
    return colocate(policy.colocation, suffered, intensity, policy.seed)


def _processors(jobs: Sequence[Job], nodes: Sequence[Node]) -> list[str]:
    """Return the node of every free processor, those of the emptiest nodes first."""
    there = dict.fromkeys((node.name for node in nodes if node.cores > 0), 0)
    for job in jobs:
        if job.node in there:
            there[job.node] += 1
    free = [
        (taken, number, node.name)
        for number, node in enumerate(nodes)
        if node.name in there
        for taken in range(-(-there[node.name] // 2), node.sockets)
    ]
    return [name for _, _, name in sorted(free)]


def _pairings(
    agents: Sequence[Job], found: Colocation, lost: Floats, node_of: Mapping[int, str]
) -> tuple[Pairing, ...]:
    pairings = []
    for number in range(len(agents)):
        partner = int(found.partner[number])
        if number not in node_of or (partner != ALONE and partner < number):
            continue
        both = (number,) if partner == ALONE else (number, partner)
        pairings.append(
            Pairing(
                node=node_of[number],
                jobs=tuple(agents[each].title for each in both),
                penalties=tuple(float(lost[each]) for each in both),
            )
        )
    return tuple(pairings)


def _settled(
    jobs: Sequence[Job],
    node_of: Mapping[int, str],
    pairings: tuple[Pairing, ...],
    reasons: Sequence[str | None],
) -> Placed:
    placed, waiting = [], []
    number = 0
    for job in jobs:
        if job.node:
            placed.append(job)
            continue
        reason = reasons[number]
        if reason is None:
            placed.append(replace(job, node=node_of[number]))
        else:
            waiting.append(Refusal(job.namespace, job.name, reason, job.pod))
        number += 1
    return Placed(tuple(placed), pairings, tuple(waiting))
