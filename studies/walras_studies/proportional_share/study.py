"""Study: the proportional-share market of users who foresee their effect on prices (section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from walras_studies.chart import Chart
from walras_studies.proportional_share.runs import (
    MACHINES,
    NASH,
    OPTIMUM,
    WEIGHTS,
    Adjusting,
    Outcome,
    adjusting_of,
    draw,
    outcomes_of,
)
from walras_studies.study import Claim, Finding, Progress, Study, as_printed, mean, pick, steps

PREFERENCES = ("uniform", "correlated")
"""Kinds of preferences: distributions of users' weights."""

READING = 0.2
"""Relative error of "about" so many per cent."""


@dataclass(frozen=True, slots=True)
class ProportionalShareSize:
    """Size of the study.

    Attributes:
        markets: Number of markets of each kind.
        users: Numbers of users to vary.
        parallelism: Largest numbers of machines that a user can use, to vary.
        adjusting: Numbers of users for which local greedy adjustment is run, too.
    """

    markets: int
    users: tuple[int, ...]
    parallelism: tuple[int, ...]
    adjusting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProportionalShareRows:
    """Tables of the study."""

    outcomes: tuple[Outcome, ...]
    adjusting: tuple[Adjusting, ...]


def run(seed: int, size: ProportionalShareSize, progress: Progress) -> ProportionalShareRows:
    """Solve markets of both kinds of preferences, and of every limit of parallelism."""
    kinds = [(name, MACHINES) for name in PREFERENCES]
    kinds += [("uniform", limit) for limit in size.parallelism]
    cases = list(product(kinds, size.users, range(size.markets)))
    outcomes: list[Outcome] = []
    adjusting: list[Adjusting] = []
    for (preferences, limit), users, number in steps(cases, progress, "market"):
        market = draw(preferences, users, limit, [seed, users, number])
        outcomes += outcomes_of(market, preferences, limit, users, number)
        if limit == MACHINES and users in size.adjusting:
            adjusting += adjusting_of(market, preferences, users, number)
    return ProportionalShareRows(tuple(outcomes), tuple(adjusting))


def _users(rows: ProportionalShareRows) -> list[int]:
    return sorted({row.users for row in rows.outcomes})


def _by_users(
    rows: ProportionalShareRows,
    column: str,
    preferences: str = "uniform",
    limit: int = MACHINES,
    method: str = NASH,
) -> list[float]:
    wanted = pick(rows.outcomes, preferences=preferences, parallelism=limit, method=method)
    return [mean(wanted, column, users=users) for users in _users(rows)]


def _quick_rounds(rows: ProportionalShareRows) -> Finding:
    nash = [row for row in pick(rows.outcomes, method=NASH) if row.parallelism == MACHINES]
    paper = [row.papers_rounds for row in nash]
    endless = sum(not row.converged for row in nash)
    return Finding(
        f"{min(paper)} to {max(paper)} rounds, mean {mean(nash, 'papers_rounds'):.1f}; mean "
        f"{mean(nash, 'rounds'):.1f} until no user can gain a thousandth, which {endless} of "
        f"{len(nash)} markets never reach",
        bool(np.median(paper) <= 5) and endless <= 0.01 * len(nash),
        max(paper) <= 20,
        reason=""
        if max(paper) <= 20
        else "with five users, some markets cycle until users move half as far at each turn",
    )


def _efficient(rows: ProportionalShareRows) -> Finding:
    uniform, correlated = (_by_users(rows, "efficiency", name) for name in PREFERENCES)
    low = min(uniform + correlated)
    return Finding(
        f"uniform {min(uniform):.2f} to {max(uniform):.2f}, correlated {min(correlated):.2f} to "
        f"{max(correlated):.2f}",
        low > 0.8,
        low >= 0.845,
    )


def _beats(preferences: str, percent: float) -> Claim[ProportionalShareRows]:
    def judge(rows: ProportionalShareRows) -> Finding:
        nash = _by_users(rows, "efficiency", preferences)
        rival = _by_users(rows, "efficiency", preferences, method=WEIGHTS)
        gains = [100 * (a / b - 1) for a, b in zip(nash, rival, strict=True)]
        close = all(as_printed(gain, percent, READING) for gain in gains)
        return Finding(
            f"{min(gains):.0f} to {max(gains):.0f} % by number of users",
            min(gains) > 0,
            close,
            reason=""
            if close
            else f"weight-proportional bids reach {min(rival):.2f} to {max(rival):.2f} here",
        )

    return Claim(
        "7.1, fig. 2c-d",
        "the equilibrium is more efficient than weight-proportional bids, with "
        f"{preferences} preferences",
        f"about {percent:.0f} %",
        judge,
    )


def _uniform(rows: ProportionalShareRows) -> Finding:
    uniform, correlated = (_by_users(rows, "uniformity", name) for name in PREFERENCES)
    return Finding(
        f"least {min(uniform):.2f} uniform, {min(correlated):.2f} correlated",
        min(uniform) > 0.7 and min(correlated) > 0.6,
    )


def _fairer(rows: ProportionalShareRows) -> Finding:
    values = {
        method: mean(rows.outcomes, "uniformity", parallelism=MACHINES, method=method)
        for method in (WEIGHTS, NASH, OPTIMUM)
    }
    ordered = list(values.values())
    return Finding(
        ", ".join(f"{name} {value:.2f}" for name, value in values.items()),
        ordered == sorted(ordered, reverse=True),
    )


def _envy(rows: ProportionalShareRows) -> Finding:
    uniform, correlated = (min(_by_users(rows, "envy_freeness", name)) for name in PREFERENCES)
    return Finding(
        f"least {uniform:.3f} uniform, {correlated:.3f} correlated",
        uniform > 0.99 and correlated > 0.9,
    )


def _settles(rows: ProportionalShareRows) -> Finding:
    last = max(row.rounds for row in rows.adjusting)
    least = min(row.of_nash for row in rows.adjusting if row.rounds == last)
    return Finding(
        f"at least {least:.1%} after {last} rounds",
        least > 0.95,
        least > 0.99,
        reason=""
        if least > 0.99
        else "users move a hundredth of the budget at a turn; the paper prints no figure",
    )


def _unsettled(rows: ProportionalShareRows) -> Finding:
    limits = sorted({row.parallelism for row in rows.outcomes} - {MACHINES})
    told, inside, outside = [], 0, 0
    for limit in limits:
        stuck = [
            row.users * limit / MACHINES
            for row in pick(rows.outcomes, method=NASH, parallelism=limit)
            if not row.converged
        ]
        within = [each for each in stuck if 0.5 <= each <= 3]
        inside, outside = inside + len(within), outside + len(stuck) - len(within)
        span = f"{min(stuck):.1f} to {max(stuck):.1f}" if stuck else "none"
        told.append(f"limit {limit}: {span} users a machine")
    return Finding(
        f"{'; '.join(told)}",
        inside > outside,
        reason="" if inside > outside else "no market fails to converge, or more do elsewhere",
    )


def _limited(rows: ProportionalShareRows) -> Finding:
    limits = sorted({row.parallelism for row in rows.outcomes} - {MACHINES})
    many = [users for users in _users(rows) if users >= 60]
    values = [
        mean(rows.outcomes, "efficiency", method=NASH, parallelism=limit, users=users)
        for limit in limits
        for users in many
    ]
    return Finding(f"{min(values):.2f} to {max(values):.2f} from 60 users on", min(values) > 0.8)


def _uniformity_falls(rows: ProportionalShareRows) -> Finding:
    values = _by_users(rows, "uniformity")
    return Finding(
        f"{values[0]:.2f} with {_users(rows)[0]} users, {values[-1]:.2f} with {_users(rows)[-1]}",
        values[-1] < values[0],
    )


def _charts(rows: ProportionalShareRows) -> tuple[Chart, ...]:
    def chart(name: str, title: str, column: str) -> Chart:
        series = {
            f"{short}, {preferences}": tuple(
                zip(
                    map(float, _users(rows)),
                    _by_users(rows, column, preferences, method=method),
                    strict=True,
                )
            )
            for preferences in PREFERENCES
            for method, short in ((NASH, "Nash"), (WEIGHTS, "weights"))
        }
        limits = sorted({row.parallelism for row in rows.outcomes} - {MACHINES})
        for limit in limits:
            values = _by_users(rows, column, limit=limit)
            points = tuple(zip(map(float, _users(rows)), values, strict=True))
            series[f"Nash, {limit} machines"] = points
        return Chart(name, title, "users", column.replace("_", "-"), series)

    return (
        chart("efficiency", "Efficiency (fig. 2c-d, 5)", "efficiency"),
        chart("uniformity", "Utility uniformity (fig. 2e-f, 5)", "uniformity"),
        chart("envy", "Envy-freeness (fig. 2g-h, 5)", "envy_freeness"),
        chart("rounds", "Rounds until nobody gains a thousandth (fig. 2a-b, 4)", "rounds"),
    )


STUDY = Study(
    title="Users who foresee their effect on prices, with linear utilities",
    paper="The Proportional-Share Allocation Market for Computational Resources, section 7",
    stands_in=(
        "Weights are drawn as in the paper: *uniform* ones from (0, 1), *correlated* ones as "
        "products of profiles of users and machines over three resources, both scaled to the same "
        "sum for every user. There are 100 machines, and budgets are equal. Users bid in turn."
    ),
    run=run,
    full=ProportionalShareSize(20, (5, 10, 20, 30, 40, 60, 100, 150, 250), (5, 20), (5, 40, 100)),
    quick=ProportionalShareSize(1, (5, 30, 80), (5, 20), (5,)),
    claims=(
        Claim(
            "7.1, fig. 2a-b",
            "best responses converge within a few iterations",
            "a few",
            _quick_rounds,
        ),
        Claim("7.1, fig. 2c-d", "efficiency at the equilibrium", "about 0.9", _efficient),
        _beats("uniform", 50),
        _beats("correlated", 30),
        Claim(
            "7.1, fig. 2e-f",
            "utility uniformity at the equilibrium",
            "> 0.7 uniform, > 0.6 correlated",
            _uniform,
        ),
        Claim(
            "7.1, fig. 2e",
            "utility uniformity decreases with the number of users",
            "decreases",
            _uniformity_falls,
        ),
        Claim(
            "7.1, fig. 2e-f",
            "weight-proportional bids have the largest uniformity, the equilibrium is close, the "
            "social optimum has little",
            "that order",
            _fairer,
        ),
        Claim(
            "7.1, fig. 2g-h",
            "the equilibrium is envy-free with uniform preferences, and almost so with correlated "
            "ones",
            "1 and almost 1",
            _envy,
        ),
        Claim(
            "7.1, fig. 2a-b, 3a",
            "local greedy adjustment reaches the welfare of the equilibrium",
            "within 100 rounds",
            _settles,
        ),
        Claim(
            "7.2, fig. 4",
            "users of limited parallelism do not converge where one or two compete for a machine",
            "1 to 2",
            _unsettled,
        ),
        Claim(
            "7.2, fig. 5",
            "many users of limited parallelism are as efficient as unlimited ones",
            "high",
            _limited,
        ),
    ),
    charts=_charts,
    missing=(
        (
            "6.3",
            (
                "local greedy adjustment by users whose utilities are unknown is no mechanism of a "
                "Market; the study `adjustment` compares it with measured speedups, which Walras "
                "uses instead"
            ),
        ),
    ),
)
