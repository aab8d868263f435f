"""Study beyond the papers: what a user gains by lying, by mechanism and number of users."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from walras_studies.chart import Chart
from walras_studies.lying_runs import DIVISIONS, Lie, about_cores, about_demands, about_weights
from walras_studies.study import Claim, Finding, Progress, Study, pick, steps

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class LyingSize:
    """How many populations of how many users, and how many of these lie, one at a time."""

    populations: int
    users: tuple[int, ...]
    liars: int
    quanta: int


NEGLIGIBLE = 1e-4
"""Gain that is worth no lie."""


@dataclass(frozen=True, slots=True)
class LyingRows:
    """All tables of the study."""

    lies: tuple[Lie, ...]

    @property
    def users(self) -> list[int]:
        """Return the numbers of users, in order."""
        return sorted({row.users for row in self.lies})


def run(seed: int, size: LyingSize, progress: Progress) -> LyingRows:
    """Let some users of every population lie, one at a time."""
    lies: list[Lie] = []
    cases = list(product(size.users, range(size.populations)))
    for users, number in steps(cases, progress, "users and population"):
        lies += about_cores(users, number, size.liars, [seed])
        lies += about_weights(users, number, size.liars, [seed])
        lies += about_demands(users, size.quanta, number, size.liars, [seed])
    return LyingRows(tuple(lies))


def _best(rows: LyingRows, about: str, mechanism: str, users: int, lie: str = "") -> list[float]:
    """Return what each liar gains by its best lie, or by one lie; 0 if all of them lose."""
    gains: defaultdict[tuple[int, int], float] = defaultdict(float)
    for row in pick(rows.lies, about=about, mechanism=mechanism, users=users):
        if not lie or row.lie == lie:
            who = row.number, row.liar
            gains[who] = max(gains[who], row.gain)
    return list(gains.values())


def _ends(rows: LyingRows, about: str, mechanism: str, lie: str = "") -> tuple[float, float, float]:
    """Return mean best gains among the fewest and the most users, and the largest among these."""
    few, many = rows.users[0], rows.users[-1]
    last = _best(rows, about, mechanism, many, lie)
    first = _best(rows, about, mechanism, few, lie)
    return float(np.mean(first)), float(np.mean(last)), max(last)


def _falls(ends: tuple[float, float, float], to: float = 1.0) -> bool:
    """Return whether gains are below this part among most users, or nothing worth a lie there."""
    return ends[1] < to * ends[0] or ends[1] < NEGLIGIBLE


def _in_words(rows: LyingRows, ends: tuple[float, float, float]) -> str:
    few, many = rows.users[0], rows.users[-1]
    return (
        f"{ends[0]:.2%} on average among {few} users, {ends[1]:.3%} among {many}, where the most "
        f"is {ends[2]:.2%}"
    )


def _market(rows: LyingRows) -> Finding:
    ends = _ends(rows, "F", "Amdahl market")
    return Finding(
        _in_words(rows, ends),
        _falls(ends, to=0.25),
        ends[2] < 0.01,
        reason="" if ends[2] < 0.01 else "some user of few gains more than a hundredth",
    )


def _pays(mechanism: str) -> Callable[[LyingRows], Finding]:
    def judge(rows: LyingRows) -> Finding:
        ends = _ends(rows, "F", mechanism)
        return Finding(_in_words(rows, ends), ends[1] > 0.01)

    return judge


def _nash(rows: LyingRows) -> Finding:
    ends = _ends(rows, "F", "best response")
    return Finding(_in_words(rows, ends), _falls(ends))


def _unasked(rows: LyingRows) -> Finding:
    ends = _ends(rows, "F", "proportional sharing")
    return Finding(_in_words(rows, ends), ends == (0.0, 0.0, 0.0))


def _weights(rows: LyingRows) -> Finding:
    ends = {name: _ends(rows, "weights", name) for name in ("auction", "price-anticipating")}
    return Finding(
        "; ".join(f"{name} {_in_words(rows, end)}" for name, end in ends.items()),
        all(map(_falls, ends.values())),
        all(end[2] < 0.01 for end in ends.values()),
        reason=""
        if all(end[2] < 0.01 for end in ends.values())
        else "some gain more than a hundredth",
    )


def _budgets(rows: LyingRows) -> Finding:
    gains = {
        mechanism: float(np.mean(_best(rows, "budget", mechanism, rows.users[-1], "budget x 2")))
        for mechanism in DIVISIONS
    }
    others = [gain for mechanism, gain in gains.items() if mechanism != "greedy"]
    return Finding(
        ", ".join(f"{mechanism} {gain:.0%}" for mechanism, gain in gains.items()),
        min(others) > 0.05 and gains["greedy"] == 0,
    )


def _demands(mechanism: str) -> Callable[[LyingRows], Finding]:
    def judge(rows: LyingRows) -> Finding:
        over = [
            row.gain
            for row in pick(rows.lies, about="demand", mechanism=mechanism)
            if row.lie != "half the demand"
        ]
        lost = float(np.mean(over))
        return Finding(
            f"of {len(over)} lies none gains more than {max(0.0, *over):.2%}; on average they "
            f"lose {abs(lost):.1%}",
            max(over) <= 0,
            reason="" if max(over) <= 0 else "it pays where it happens to save credits",
        )

    return judge


def _less(rows: LyingRows) -> Finding:
    gains = {
        mechanism: [
            row.gain
            for row in pick(rows.lies, about="demand", mechanism=mechanism, lie="half the demand")
        ]
        for mechanism in ("Karma", "max-min", "strict")
    }
    best = max(max(each) for each in gains.values())
    return Finding(
        ", ".join(
            f"{mechanism} {np.mean(each):+.0%}, at best {max(each):+.1%}"
            for mechanism, each in gains.items()
        ),
        all(np.mean(each) < 0 for each in gains.values()),
        best <= 0,
        reason=""
        if best <= 0
        else "credits that are saved now are worth more later to a user who knows what comes",
    )


def _charts(rows: LyingRows) -> tuple[Chart, ...]:
    def line(about: str, mechanism: str) -> tuple[tuple[float, float], ...]:
        return tuple(
            (float(users), 100 * float(np.mean(_best(rows, about, mechanism, users))))
            for users in rows.users
        )

    return (
        Chart(
            "fractions",
            "Mean gain of the best lie about F",
            "users",
            "gain, percent",
            {mechanism: line("F", mechanism) for mechanism in DIVISIONS},
            log_x=True,
            log_y=True,
        ),
        Chart(
            "demands",
            "Mean gain of the best lie about demands",
            "users",
            "gain, percent",
            {mechanism: line("demand", mechanism) for mechanism in ("Karma", "max-min", "strict")},
            log_x=True,
        ),
    )


STUDY = Study(
    title="What a user gains by lying",
    paper="",
    stands_in=(
        "Markets grow in depth: eight servers whatever the number of users, four jobs a user, "
        "three cores a job, parallel fractions as in the Amdahl study. A liar multiplies or "
        "divides the odds f / (1 - f) by 1.2 or by four, of all its jobs or of one; claims twice "
        "or half its budget; multiplies or divides by as much what the first of four resources is "
        "worth to it; says of its demand for memory that it is at least its fair share, or twice "
        "or half of what it is. The gain is in what it truly has of it, over what it has by the "
        "truth, or by its bare entitlement if that is more, all others being honest; the best lie "
        "of each liar counts, and 0 if all of them lose. Cores are real numbers, but whole under "
        "greedy."
    ),
    run=run,
    full=LyingSize(20, (2, 4, 8, 16, 32, 64, 128, 256), 8, 400),
    quick=LyingSize(2, (2, 64), 2, 100),
    claims=(
        Claim(
            "",
            "lies about F gain less in a larger Amdahl market, under 1 % in the end",
            "",
            _market,
        ),
        Claim("", "lies about F gain less among more price-anticipating users too", "", _nash),
        Claim(
            "", "lies about F pay under greedy however many users there are", "", _pays("greedy")
        ),
        Claim(
            "",
            "lies about F pay under the upper bound however many users there are",
            "",
            _pays("upper bound"),
        ),
        Claim("", "proportional sharing does not ask for F, and no lie gains", "", _unasked),
        Claim(
            "",
            "lies about what resources are worth gain less among more users, under 1 % in the end",
            "",
            _weights,
        ),
        Claim(
            "",
            "twice the budget pays wherever budgets count: they must not be the user's to say",
            "",
            _budgets,
        ),
        Claim("", "saying more than the true demand never pays under Karma", "", _demands("Karma")),
        Claim(
            "", "saying more than the true demand never pays under max-min", "", _demands("max-min")
        ),
        Claim("", "saying less than the true demand does not pay", "", _less),
    ),
    charts=_charts,
)
