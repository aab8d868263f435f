"""Study: policies that pair jobs to share a processor, and the penalties (Cooper, section VI)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from walras_studies.chart import Chart, bars
from walras_studies.cooper.runs import (
    ALPHAS,
    PREDICTORS,
    Blocking,
    Colocated,
    Predicted,
    Scaled,
    colocated,
    predicted,
    scaled,
)
from walras_studies.cooper.worlds import MIXES, STANDS_IN, WORLDS
from walras_studies.study import Claim, Finding, Progress, Study, mean, pick, steps

if TYPE_CHECKING:
    from collections.abc import Callable

TOLERANCE = 0.1
"""Loss of throughput that schedulers with a threshold accept (VI-B)."""

POLICIES = ("GR", "CO", "SMP", "SMR", "SR")
"""The paper's names of policies; see `SHORT` in `cooper_runs`."""

LARGE_MAJORITY = 0.75
"""Part that counts as a large majority."""


@dataclass(frozen=True, slots=True)
class CooperSize:
    """Size of the study.

    Attributes:
        populations: Number of populations of each mix in each world.
        agents: Number of agents of each of them.
        matrices: Number of matrices of penalties in each world, for predictions.
        profiled: Parts of the colocations that are profiled.
        sizes: Numbers of agents to vary.
        repeats: Number of populations of each of these sizes in each world.
    """

    populations: int
    agents: int
    matrices: int
    profiled: tuple[float, ...]
    sizes: tuple[int, ...]
    repeats: int


@dataclass(frozen=True, slots=True)
class CooperRows:
    """Tables of the study."""

    colocated: tuple[Colocated, ...]
    blocking: tuple[Blocking, ...]
    predicted: tuple[Predicted, ...]
    scaled: tuple[Scaled, ...]


def run(seed: int, size: CooperSize, progress: Progress) -> CooperRows:
    """Pair the agents of populations, predict penalties, and vary the number of agents."""
    cases = list(product(WORLDS, MIXES, range(size.populations)))
    found = [
        row
        for world, mix, number in steps(cases, progress, "population")
        for row in colocated(world, mix, number, size.agents, [seed])
    ]
    guesses = [
        row
        for world, number, part in product(WORLDS, range(size.matrices), size.profiled)
        for row in predicted(world, number, part, [seed])
    ]
    grown = [
        scaled(world, number, agents, [seed])
        for world, agents, number in product(WORLDS, size.sizes, range(size.repeats))
    ]
    return CooperRows(
        tuple(row for row in found if isinstance(row, Colocated)),
        tuple(row for row in found if isinstance(row, Blocking)),
        tuple(guesses),
        tuple(grown),
    )


def _median(rows: CooperRows, column: str, policy: str, world: str, mix: str = "Uniform") -> float:
    chosen = pick(rows.colocated, policy=policy, world=world, mix=mix)
    return float(np.median([getattr(row, column) for row in chosen]))


def _in_worlds(told: Callable[[str], tuple[str, bool]], why_not: str) -> Finding:
    """Judge a claim that counts as true if it is in any world, and as reproduced if in both.

    Args:
        told: Function of a world that returns our figure there, in words, and whether the claim is
            true there.
        why_not: Reason if the claim is not true in both.
    """
    answers = {world: told(world) for world in WORLDS}
    holds = [holds for _, holds in answers.values()]
    return Finding(
        "; ".join(f"{world[0].upper()}: {text}" for world, (text, _) in answers.items()),
        any(holds),
        all(holds),
        reason="" if all(holds) else why_not,
    )


def _fair(rows: CooperRows) -> Finding:
    def told(world: str) -> tuple[str, bool]:
        rank = {name: _median(rows, "fairness", name, world) for name in POLICIES}
        text = ", ".join(f"{name} {value:.2f}" for name, value in rank.items())
        stable, others = min(rank["SMR"], rank["SR"]), max(rank["GR"], rank["CO"], rank["SMP"])
        return text, stable > 0.5 and stable > others

    return _in_worlds(
        told,
        "in *saturating*, penalties follow demand under every policy",
    )


def _unfair(rows: CooperRows) -> Finding:
    def told(world: str) -> tuple[str, bool]:
        rank = {name: _median(rows, "fairness", name, world) for name in ("GR", "CO", "SMP")}
        text = ", ".join(f"{name} {value:.2f}" for name, value in rank.items())
        return text, max(map(abs, rank.values())) < 0.5

    return _in_worlds(
        told,
        "in *pressure*, pairing high with low demand reverses the order; in *saturating*, "
        "sensitivity follows demand",
    )


def _prefer(rows: CooperRows) -> Finding:
    def told(world: str) -> tuple[str, float]:
        parts = {
            f"{policy}/{rival}": _median(rows, column, policy, world)
            for policy in ("SMP", "SMR", "SR")
            for rival, column in (
                ("GR", "no_worse_than_greedy"),
                ("CO", "no_worse_than_complementary"),
            )
        }
        low = min(parts, key=lambda name: parts[name])
        return f"{parts[low]:.0%} ({low}) to {max(parts.values()):.0%}", parts[low]

    parts = {world: told(world) for world in WORLDS}
    large = all(least >= LARGE_MAJORITY for _, least in parts.values())
    return Finding(
        "; ".join(f"{world[0].upper()}: {text}" for world, (text, _) in parts.items()),
        any(least > 0.5 for _, least in parts.values()),
        large,
        reason="" if large else "the partition forces each agent beside one of the other half",
    )


def _fewest(rows: CooperRows) -> Finding:
    def told(world: str) -> tuple[str, bool]:
        count = {
            name: mean(rows.blocking, "pairs", world=world, policy=name, alpha=0.0)
            for name in POLICIES
        }
        text = ", ".join(f"{name} {value:.0f}" for name, value in count.items())
        return text, all(count["SMR"] <= value for name, value in count.items())

    return _in_worlds(
        told,
        "SR has fewer: it pairs only agents greedily that Irving's algorithm rejects, "
        f"{mean(rows.colocated, 'rejected', policy='SR'):.1f} of a population",
    )


def _always(rows: CooperRows) -> Finding:
    def told(world: str) -> tuple[str, bool]:
        count = {
            name: mean(rows.blocking, "pairs", world=world, policy=name, alpha=0.0)
            for name in ("GR", "CO", "SMP", "SMR")
        }
        part = count["SMR"] / min(count["GR"], count["CO"], count["SMP"])
        text = f"{part:.1%} of the next"
        return text, count["SMR"] <= min(count.values())

    return _in_worlds(told, "")


def _alpha(rows: CooperRows) -> Finding:
    def told(world: str) -> tuple[str, bool]:
        total = [mean(rows.blocking, "pairs", world=world, alpha=alpha) for alpha in ALPHAS]
        return f"{total[0]:.0f} at 0 to {total[-1]:.0f} at 5 %", total == sorted(total)[::-1]

    return _in_worlds(told, "")


def _cheap(rows: CooperRows) -> Finding:
    def told(world: str) -> tuple[str, bool]:
        over = {name: _median(rows, "over_greedy", name, world) - 1 for name in ("SMR", "SR")}
        text = ", ".join(f"{name} {value:+.1%}" for name, value in over.items())
        return text, max(over.values()) < 0.05

    return _in_worlds(
        told,
        "stability is costly where both jobs of a pair suffer from each other",
    )


def _cheaper_than_co(rows: CooperRows) -> Finding:
    def told(world: str) -> tuple[str, bool]:
        over = {
            name: _median(rows, "penalty", name, world) / _median(rows, "penalty", "CO", world) - 1
            for name in ("SMP", "SMR", "SR")
        }
        text = ", ".join(f"{name} {value:+.1%}" for name, value in over.items())
        return text, max(over.values()) < 0.05

    return _in_worlds(
        told,
        "where bandwidth saturates, pairing high with low demand is close to the best",
    )


def _tolerated(rows: CooperRows) -> Finding:
    def told(world: str) -> tuple[str, bool]:
        ends = {name: _median(rows, "whisker", name, world) for name in POLICIES}
        text = ", ".join(f"{name} {value:.1%}" for name, value in ends.items())
        return text, max(ends["SMP"], ends["SMR"], ends["SR"]) <= TOLERANCE

    return _in_worlds(
        told,
        "our penalties are larger than the paper's, also under GR",
    )


def _mixes(rows: CooperRows) -> Finding:
    def told(world: str) -> tuple[str, bool]:
        lost = {mix: mean(rows.colocated, "penalty", world=world, mix=mix) for mix in MIXES}
        text = ", ".join(f"{mix} {value:.1%}" for mix, value in lost.items())
        return text, max(lost, key=lambda mix: lost[mix]) == "Beta-High"

    return _in_worlds(told, "")


def _partition_best(rows: CooperRows) -> Finding:
    def told(world: str) -> tuple[str, bool]:
        lost = {name: _median(rows, "penalty", name, world, "Beta-High") for name in POLICIES}
        best = min(lost, key=lambda name: lost[name])
        gap = lost["SMP"] / lost[best] - 1
        return f"best {best}, SMP {gap:+.1%}", gap < 0.005

    return _in_worlds(told, "our models have no jobs that suffer only beside intensive ones")


def _right(profiled: float, printed: float) -> Claim[CooperRows]:
    def judge(rows: CooperRows) -> Finding:
        means = {
            name: mean(rows.predicted, "right", profiled=profiled, predictor=name)
            for name in PREDICTORS
        }
        theirs = means["Cooper's filtering"]
        close = theirs >= printed - 0.02
        return Finding(
            ", ".join(f"{name} {value:.0%}" for name, value in means.items()),
            theirs > 0.5,
            close,
            reason=""
            if close
            else "judged by the paper's own filtering; our penalties have unpredictable noise",
        )

    return Claim(
        "VI-C, fig. 12",
        f"preferences predicted correctly with {100 * profiled:g} % of colocations profiled",
        f"{100 * printed:g} %",
        judge,
    )


def _grows(rows: CooperRows) -> Finding:
    sizes = sorted({row.agents for row in rows.scaled})

    def told(world: str) -> tuple[str, bool]:
        ends = [
            [row.fairness for row in pick(rows.scaled, world=world, agents=agents)]
            for agents in (sizes[0], sizes[-1])
        ]
        (low, high), (wide, narrow) = map(np.mean, ends), map(np.std, ends)
        text = f"{low:.2f} ± {wide:.2f} at {sizes[0]}, {high:.2f} ± {narrow:.2f} at {sizes[-1]}"
        return text, bool(high > low and narrow < wide)

    return _in_worlds(told, "")


def _charts(rows: CooperRows) -> tuple[Chart, ...]:
    sizes = sorted({row.agents for row in rows.scaled})
    parts = sorted({row.profiled for row in rows.predicted})
    return (
        Chart(
            "fairness",
            "Rank correlation of penalty and bandwidth (fig. 8)",
            "policy",
            "correlation",
            {w: bars(_median(rows, "fairness", name, w) for name in POLICIES) for w in WORLDS},
            POLICIES,
        ),
        Chart(
            "blocking",
            "Blocking pairs by alpha, pressure (fig. 10)",
            "alpha",
            "pairs + 1",
            {
                name: tuple(
                    (a, 1 + mean(rows.blocking, "pairs", world="pressure", policy=name, alpha=a))
                    for a in ALPHAS
                )
                for name in POLICIES
            },
            log_y=True,
        ),
        Chart(
            "penalties",
            "Mean penalty by mix of jobs, pressure (fig. 11)",
            "mix",
            "loss of throughput",
            {
                name: bars(
                    mean(rows.colocated, "penalty", world="pressure", mix=mix, policy=name)
                    for mix in MIXES
                )
                for name in POLICIES
            },
            MIXES,
        ),
        Chart(
            "prediction",
            "Preferences right by part profiled (fig. 12)",
            "part of colocations profiled",
            "right",
            {
                name: tuple(
                    (part, mean(rows.predicted, "right", profiled=part, predictor=name))
                    for part in parts
                )
                for name in PREDICTORS
            },
        ),
        Chart(
            "agents",
            "Fairness of random marriage by agents (fig. 13)",
            "agents",
            "correlation",
            {
                w: tuple(
                    (float(n), mean(rows.scaled, "fairness", world=w, agents=n)) for n in sizes
                )
                for w in WORLDS
            },
            log_x=True,
        ),
    )


STUDY = Study(
    title="Pairs of jobs that share a processor",
    paper="Cooper: Task Colocation with Cooperative Games, section VI",
    stands_in=STANDS_IN,
    run=run,
    full=CooperSize(20, 1000, 50, (0.1, 0.25, 0.5, 0.75), (20, 50, 100, 200, 500, 1000), 20),
    quick=CooperSize(6, 300, 10, (0.25, 0.75), (20, 300), 10),
    claims=(
        Claim(
            "VI-A, fig. 8",
            "penalties follow demand under SMR and SR",
            "rank correlation high",
            _fair,
        ),
        Claim(
            "VI-A, fig. 8",
            "penalties do not follow demand under GR, CO and SMP",
            "unrelated",
            _unfair,
        ),
        Claim(
            "VI-A, fig. 9",
            "most agents lose no more under stable policies than under GR and CO",
            "a large majority",
            _prefer,
        ),
        Claim("VI-A, fig. 10", "SMR has the fewest blocking pairs", "fewest", _fewest),
        Claim("VI-A, fig. 10", "SMR is more stable than GR, CO and SMP", "fewer pairs", _always),
        Claim("VI-A, fig. 10", "a larger alpha leaves fewer blocking pairs", "fewer", _alpha),
        Claim(
            "abstract, VI-B", "stable policies are within 5 % of prior heuristics", "5 %", _cheap
        ),
        Claim(
            "VI-B, fig. 11",
            "stable policies cost no more than CO",
            "comparable with GR, better than CO",
            _cheaper_than_co,
        ),
        Claim(
            "VI-B, fig. 11",
            "upper whiskers of stable policies are within a tolerance of 10 %",
            "within",
            _tolerated,
        ),
        Claim(
            "VI-B, fig. 11",
            "penalties are largest in the memory-intensive mix",
            "Beta-High",
            _mixes,
        ),
        Claim(
            "VI-B, fig. 11",
            "SMP has the smallest penalties in the memory-intensive mix",
            "best",
            _partition_best,
        ),
        _right(0.25, 0.83),
        _right(0.75, 0.95),
        Claim(
            "VI-D, fig. 13",
            "random marriage is fairer among more agents, and varies less",
            "strengthens",
            _grows,
            of_spread=True,
        ),
    ),
    charts=_charts,
)
