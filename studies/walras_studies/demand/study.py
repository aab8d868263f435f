"""Study beyond the papers: what learning how many cores programs can use is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras_api.job_inputs import ASSUMED_FRACTION
from walras_studies.chart import Chart
from walras_studies.demand.runs import (
    ALL,
    ASSUMED,
    BURSTS,
    HALF,
    IDLE,
    KNOWN,
    KUBERNETES,
    LEARNED,
    MINUTES,
    Assumption,
    Attack,
    Moment,
    assume,
    play,
)
from walras_studies.demand.worlds import STANDS_IN, draw_world
from walras_studies.study import Claim, Finding, Progress, Study, pick, steps

if TYPE_CHECKING:
    from collections.abc import Callable

ENDS = MINUTES[-1]
LEAST_GAIN, MOST_BELOW, MOST_GAINED, MOST_LOST = 0.07, 0.03, 0.01, 0.002


@dataclass(frozen=True, slots=True)
class DemandSize:
    """Size of the study.

    Attributes:
        clusters: Number of clusters.
    """

    clusters: int


@dataclass(frozen=True, slots=True)
class DemandRows:
    """Tables of the study.

    Attributes:
        moments: Clusters at moments, by policy.
        attacks: What deceivers gain.
        assumptions: Clusters in which parallel fractions are assumed.
    """

    moments: tuple[Moment, ...]
    attacks: tuple[Attack, ...]
    assumptions: tuple[Assumption, ...]


def run(seed: int, size: DemandSize, progress: Progress) -> DemandRows:
    """Play ten minutes of every cluster."""
    moments: list[Moment] = []
    attacks: list[Attack] = []
    assumptions: list[Assumption] = []
    for number in steps(range(size.clusters), progress, "cluster"):
        world = draw_world([seed, number])
        seen, deceived = play(world, number)
        moments += seen
        attacks += deceived
        assumptions += assume(world, number)
    return DemandRows(tuple(moments), tuple(attacks), tuple(assumptions))


def gains(rows: DemandRows, policy: str, minute: int = 0) -> list[float]:
    """Return the gains in progress over Kubernetes, by cluster."""
    theirs = pick(rows.moments, policy=KUBERNETES)
    ours = pick(rows.moments, policy=policy, minute=minute)
    return [mine.progress / other.progress - 1 for mine, other in zip(ours, theirs, strict=True)]


def below(rows: DemandRows, policy: str, minute: int = 0) -> float:
    """Return the mean part of users who have less than an equal split of their share gives."""
    found = [row.below for row in pick(rows.moments, policy=policy, minute=minute)]
    return float(np.mean(found))


def _gains_enough(rows: DemandRows) -> Finding:
    first, last = (float(np.mean(gains(rows, LEARNED, minute))) for minute in (0, ENDS))
    known = float(np.mean(gains(rows, KNOWN)))
    return Finding(
        f"{last:+.1%}; nothing known {first:+.1%}, all known {known:+.1%}", last >= LEAST_GAIN
    )


def _few_below(rows: DemandRows) -> Finding:
    last = below(rows, LEARNED, ENDS)
    others = (
        f"nothing known {below(rows, LEARNED):.1%}, all known {below(rows, KNOWN):.1%}, "
        f"Kubernetes {below(rows, KUBERNETES):.1%}"
    )
    return Finding(f"{last:.1%}; {others}", last < MOST_BELOW)


def _within_a_minute(rows: DemandRows) -> Finding:
    wrong = {
        minute: float(
            np.mean([row.wrong for row in pick(rows.moments, policy=LEARNED, minute=minute)])
        )
        for minute in MINUTES
    }
    told = ", ".join(f"{minute} min {part:.1%}" for minute, part in wrong.items())
    return Finding(f"wrong: {told}", wrong[1] < MOST_GAINED)


def _gains_nothing(way: str) -> Callable[[DemandRows], Finding]:
    def judge(rows: DemandRows) -> Finding:
        found = pick(rows.attacks, way=way)
        most = max(row.gain for row in found)
        mean, harm = np.mean([row.gain for row in found]), max(row.harm for row in found)
        return Finding(
            f"{mean:+.1%}, at most {most:+.1%}; another user loses at most {harm:.1%}",
            most < MOST_GAINED,
        )

    return judge


def _assumed(every: int) -> Callable[[DemandRows], Finding]:
    def judge(rows: DemandRows) -> Finding:
        found = {
            fraction: pick(rows.assumptions, every=every, fraction=fraction) for fraction in ASSUMED
        }
        loss = {f: float(np.mean([row.loss for row in each])) for f, each in found.items()}
        short = {f: float(np.mean([row.below for row in each])) for f, each in found.items()}
        told = ", ".join(f"{f:g}: {loss[f]:.2%} and {short[f]:.1%}" for f in ASSUMED)
        best = loss[ASSUMED_FRACTION] <= min(loss.values()) + MOST_LOST
        return Finding(told, best and short[ASSUMED_FRACTION] <= short[0.9])

    return judge


def _charts(rows: DemandRows) -> tuple[Chart, ...]:
    ranked = {
        label: tuple((float(rank), 100 * gain) for rank, gain in enumerate(sorted(found), 1))
        for label, found in (
            ("all known", gains(rows, KNOWN)),
            ("nothing known", gains(rows, LEARNED)),
            ("learned", gains(rows, LEARNED, ENDS)),
        )
    }
    return (
        Chart(
            "gains",
            "Gain in progress over Kubernetes",
            "clusters, by gain",
            "gain, percent",
            ranked,
        ),
    )


STUDY = Study(
    title="Learning how many cores programs can use",
    paper="",
    stands_in=STANDS_IN,
    run=run,
    full=DemandSize(40),
    quick=DemandSize(8),
    claims=(
        Claim(
            "",
            "within ten minutes, progress is 7 % above that under Kubernetes, although numbers of "
            "threads were unknown",
            "",
            _gains_enough,
            of_spread=True,
        ),
        Claim(
            "",
            "fewer than 3 % of the users then have less than their share of each node, divided "
            "equally among their pods there, would give",
            "",
            _few_below,
        ),
        Claim(
            "",
            "within a minute, nearly all pods that run on all their threads are sold no more, and "
            "no pod less than it can use",
            "",
            _within_a_minute,
        ),
        Claim(
            "",
            "a user whose pods have a thousand threads that do nothing gains less than 1 %",
            "",
            _gains_nothing(IDLE),
        ),
        Claim(
            "",
            "a user whose pods run on all CPUs whenever they are looked at gains less than 1 %",
            "",
            _gains_nothing(BURSTS),
        ),
        Claim(
            "",
            "where F is assumed of all programs, 0.8 loses at most 0.2 % more progress than any "
            "other value, and leaves no more users below than 0.9",
            "",
            _assumed(ALL),
        ),
        Claim(
            "",
            "the same where F is assumed of every second program",
            "",
            _assumed(HALF),
        ),
    ),
    charts=_charts,
)
