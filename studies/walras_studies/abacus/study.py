"""Study: rounds, truthfulness, deadlines and estimated utilities of auctions (Abacus, sec. 7)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from walras_studies.abacus.runs import (
    ALPHA,
    DEADLINES,
    RESOURCES,
    USERS,
    Balance,
    Estimate,
    Promise,
    Reporting,
    Rounds,
    Spending,
    balances,
    estimate,
    promise,
    reporting,
    rounds,
    spending,
)
from walras_studies.chart import Chart
from walras_studies.study import Claim, Finding, Progress, Study, as_printed, mean, pick, steps

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class AbacusSize:
    """Size of the study.

    Attributes:
        draws: Number of draws of each kind of auction.
        repeats: Number of auctions in a draw, over which its rounds are averaged.
        users: Numbers of users to vary.
        resources: Numbers of resources to vary.
        alphas: Exponents of bids to vary.
        rates: Amounts of work that jobs with deadlines need, relative to the system's capacity.
        promises: Number of draws of jobs with deadlines, for each rate and kind of deadlines.
        jobs: Number of jobs in each of these draws.
        estimates: Number of estimates of a utility, for each number of runs.
    """

    draws: int
    repeats: int
    users: tuple[int, ...]
    resources: tuple[int, ...]
    alphas: tuple[float, ...]
    rates: tuple[float, ...]
    promises: int
    jobs: int
    estimates: int


@dataclass(frozen=True, slots=True)
class AbacusRows:
    """Tables of the study."""

    rounds: tuple[Rounds, ...]
    spending: tuple[Spending, ...]
    reporting: tuple[Reporting, ...]
    balances: tuple[Balance, ...]
    promises: tuple[Promise, ...]
    estimates: tuple[Estimate, ...]


def run(seed: int, size: AbacusSize, progress: Progress) -> AbacusRows:
    """Run all auctions of the study, and estimate utilities."""
    counted: list[Rounds] = []
    for kind, number in steps(list(product(_kinds(size), range(size.draws))), progress, "auctions"):
        counted += rounds(*kind, number, size.repeats, [seed, number])
    promises = [
        promise(deadlines, rate, size.jobs, number, [seed])
        for deadlines, rate, number in product(DEADLINES, size.rates, range(size.promises))
    ]
    estimates = [
        estimate(runs, number, [seed])
        for runs, number in product((3, 5, 10, 20), range(size.estimates))
    ]
    return AbacusRows(
        tuple(counted),
        tuple(spending()),
        tuple(reporting()),
        tuple(balances()),
        tuple(promises),
        tuple(estimates),
    )


def _kinds(size: AbacusSize) -> Iterator[tuple[str, int, int, float]]:
    for users in size.users:
        yield "users", users, RESOURCES, ALPHA
    for resources in size.resources:
        yield "resources", USERS, resources, ALPHA
    for alpha in size.alphas:
        yield "alpha", USERS, RESOURCES, alpha


def _means(
    rows: AbacusRows, varied: str, form: str, method: str = "printed"
) -> list[tuple[float, float]]:
    chosen = pick(rows.rounds, varied=varied, form=form, method=method)
    values = sorted({float(getattr(row, varied)) for row in chosen})
    return [(value, mean(chosen, "mean", **{varied: value})) for value in values]


def _few(rows: AbacusRows) -> Finding:
    log, linear = (_means(rows, "users", form) for form in ("log", "linear"))
    ours = [value for form in ("log", "linear") for _, value in _means(rows, "users", form, "ours")]
    most = max(value for _, value in log + linear)
    close = most <= 5.5
    return Finding(
        f"log {min(v for _, v in log):.1f} to {max(v for _, v in log):.1f}, linear "
        f"{min(v for _, v in linear):.1f} to {max(v for _, v in linear):.1f}; our solver "
        f"{min(ours):.1f} to {max(ours):.1f}",
        most < 20,
        close,
        reason="" if close else "the paper does not print its threshold",
    )


def _ends(rows: AbacusRows, varied: str, *, grows: bool, reason: str) -> Finding:
    told, holds = [], []
    for form in ("linear", "log"):
        points = _means(rows, varied, form)
        told.append(f"{form} {points[0][1]:.1f} to {points[-1][1]:.1f}")
        more = points[-1][1] - points[0][1]
        holds.append(more > 0.05 if grows else more < -0.05)
    return Finding(", ".join(told), all(holds), reason="" if all(holds) else reason)


def _by_users(rows: AbacusRows) -> Finding:
    return _ends(
        rows,
        "users",
        grows=False,
        reason="true with logarithmic utilities; with linear ones, more users means more whose "
        "bids may still move",
    )


def _by_resources(rows: AbacusRows) -> Finding:
    return _ends(
        rows,
        "resources",
        grows=True,
        reason="moves are compared with the whole budget, which more resources divide into smaller "
        "parts",
    )


def _linear_alpha(rows: AbacusRows) -> Finding:
    points = dict(_means(rows, "alpha", "linear"))
    low, high = points[0.5], points[0.9]
    doubled = as_printed(high / low, 1.9, 0.15)
    return Finding(
        f"{low:.1f} at 0.5, {high:.1f} at 0.9, {high / low:.1f} times as many",
        high > low,
        doubled,
        reason="" if doubled else "the paper does not print its threshold",
    )


def _log_alpha(rows: AbacusRows) -> Finding:
    values = [value for _, value in _means(rows, "alpha", "log")]
    holds = max(values) - min(values) <= 2
    return Finding(f"{min(values):.1f} to {max(values):.1f} by alpha", holds)


def _quantiles(rows: AbacusRows) -> Finding:
    printed = pick(rows.rounds, method="printed", varied="users")
    apart = max(
        mean(printed, "quantile_95", users=users, form=form)
        - mean(printed, "mean", users=users, form=form)
        for users, form in {(row.users, row.form) for row in printed}
    )
    return Finding(f"at most {apart:.1f} rounds above the mean", apart <= 5)


def _pays(rows: AbacusRows) -> Finding:
    third = [row.third for row in rows.spending]
    others = [row.first + row.second for row in rows.spending]
    per_dollar = [(b.third - a.third) / (b.budget - a.budget) for a, b in pairwise(rows.spending)]
    return Finding(
        f"its utility {third[0]:.2f} to {third[-1]:.2f} of its most, those of the others "
        f"{others[0]:.2f} to {others[-1]:.2f}",
        third == sorted(third)
        and others == sorted(others, reverse=True)
        and per_dollar == sorted(per_dollar, reverse=True),
    )


def _truth(rows: AbacusRows) -> Finding:
    best = max(rows.reporting, key=lambda row: row.utility)
    told = ", ".join(f"{row.ratio:g}:1 {row.utility:.4f}" for row in rows.reporting)
    lies = best.utility > 1 + 1e-9
    return Finding(
        told,
        best.utility < 1.001,
        reason=f"others respond to a lie, so that a slight one gains {best.utility - 1:.1e}"
        if lies
        else "",
    )


def _apart(rows: AbacusRows) -> Finding:
    ratio = [
        max(row.first, row.second, row.third) / min(row.first, row.second, row.third)
        for row in rows.balances
    ]
    told = ", ".join(
        f"{each:.2f} at {row.alpha:g}" for row, each in zip(rows.balances, ratio, strict=True)
    )
    return Finding(
        f"best-off over worst-off: {told}",
        ratio[0] < 1.01 and ratio == sorted(ratio),
    )


def _profit(rows: AbacusRows) -> Finding:
    ours, theirs = mean(rows.promises, "pool"), mean(rows.promises, "deadline_first")
    close = ours >= 0.9 * theirs
    return Finding(
        f"{ours:.0%} of all budgets; {theirs:.0%} by earliest deadline first",
        close,
        reason=""
        if close
        else "the pool divides all resources by budgets, and not by need; the deadline scheduler "
        "gives each job exactly what it needs",
    )


def _profit_falls(rows: AbacusRows) -> Finding:
    rates = sorted({row.rate for row in rows.promises})
    ours = [mean(rows.promises, "pool", rate=rate) for rate in rates]
    return Finding(
        f"{ours[0]:.0%} at load {rates[0]:g}, {ours[-1]:.0%} at load {rates[-1]:g}",
        ours[-1] < ours[0],
    )


def _ratios(rows: AbacusRows, runs: int) -> list[float]:
    return [row.ratio for row in pick(rows.estimates, runs=runs)]


def _estimated(rows: AbacusRows) -> Finding:
    ratios = _ratios(rows, 5)
    inside = float(np.mean([5 <= ratio <= 9 for ratio in ratios]))
    low, high = np.quantile(ratios, [0.25, 0.75])
    close = inside > 0.5
    return Finding(
        f"{inside:.0%} between 5 and 9; the middle half is {low:.1f} to {high:.1f}",
        low < 6 < high,
        close,
        reason="" if close else "the paper does not print the noise of its runs; here it is 10 %",
    )


def _variance(rows: AbacusRows) -> Finding:
    width = [
        float(np.subtract(*np.quantile(_ratios(rows, runs), [0.9, 0.1]))) for runs in (5, 10, 20)
    ]
    return Finding(
        f"range of 80 % of ratios: {width[0]:.1f}, {width[1]:.1f}, {width[2]:.1f} with 5, 10, 20 "
        "runs",
        width == sorted(width, reverse=True),
    )


def _charts(rows: AbacusRows) -> tuple[Chart, ...]:
    def by(varied: str) -> Chart:
        return Chart(
            f"rounds-by-{varied}",
            f"Rounds of the auction by {varied} (fig. 6)",
            varied,
            "mean rounds",
            {
                f"{form}, {method}": tuple(_means(rows, varied, form, method))
                for form in ("linear", "log")
                for method in ("printed", "ours")
            },
        )

    rates = sorted({row.rate for row in rows.promises})
    return (
        by("users"),
        by("resources"),
        by("alpha"),
        Chart(
            "profit",
            "Profit by load (fig. 14)",
            "work asked for over capacity",
            "part of all budgets",
            {
                name: tuple((rate, mean(rows.promises, column, rate=rate)) for rate in rates)
                for name, column in (("pool", "pool"), ("deadlines first", "deadline_first"))
            },
        ),
    )


STUDY = Study(
    title="Auctions: rounds, truthfulness, deadlines, estimated utilities",
    paper="Auction-based cloud service differentiation with service level objectives, section 7",
    stands_in=(
        "Rounds of Algorithm 2, with its index corrected, are counted until no sub-budget moves by "
        "a hundredth of its budget; the paper does not print its threshold. Utilities are those of "
        "its model, where it ran Hadoop jobs. A scheduler that gives each job exactly what it "
        "needs, earliest deadline first, replaces ARIA. Deadlines have means of 5, and runs from "
        "which utilities are estimated a noise of 10 %; neither is printed."
    ),
    run=run,
    full=AbacusSize(
        20,
        10,
        (4, 8, 16, 32, 64, 128),
        (2, 4, 8, 16),
        (0.1, 0.3, 0.5, 0.7, 0.9),
        (0.5, 0.75, 1.0, 1.5, 2.0, 3.0),
        20,
        20,
        2000,
    ),
    quick=AbacusSize(1, 5, (4, 32), (2, 8), (0.5, 0.9), (0.5, 2.0), 4, 12, 300),
    claims=(
        Claim(
            "7.1.1, fig. 6a",
            "the auction ends within five iterations in most settings",
            "≤ 5",
            _few,
        ),
        Claim(
            "7.1.1, fig. 6a",
            "the auction takes fewer iterations with more users",
            "accelerated",
            _by_users,
        ),
        Claim(
            "7.1.1, fig. 6b",
            "the auction takes slightly more iterations with more resources",
            "slightly more",
            _by_resources,
        ),
        Claim(
            "7.1.1, fig. 6c",
            "with linear utilities, iterations almost double from alpha = 0.5 to 0.9",
            "almost double",
            _linear_alpha,
        ),
        Claim(
            "7.1.1, fig. 6c",
            "with logarithmic utilities, iterations are the same for every alpha",
            "constant",
            _log_alpha,
        ),
        Claim(
            "7.1.1, fig. 7",
            "95 % quantiles of iterations are close to the means",
            "close",
            _quantiles,
            of_spread=True,
        ),
        Claim(
            "7.1.2, fig. 9a",
            "a user that spends more gains, with diminishing returns, and the others lose",
            "rises, concave",
            _pays,
        ),
        Claim(
            "7.1.2, fig. 9b",
            "a user gains most by reporting its true ratio of 6:1",
            "best near the truth",
            _truth,
        ),
        Claim(
            "7.1.2, fig. 9c",
            "a small alpha treats all users alike, a larger one differentiates them",
            "alike, then apart",
            _apart,
        ),
        Claim(
            "7.2.3, fig. 14",
            "the profit is competitive with that of a deadline scheduler",
            "competitive",
            _profit,
        ),
        Claim(
            "7.2.3, fig. 14",
            "the part of all budgets that is earned falls as load grows",
            "falls",
            _profit_falls,
        ),
        Claim(
            "7.1.4, fig. 11a",
            "ratios estimated from five runs, where the true one is 6",
            "usually 5 to 9",
            _estimated,
        ),
        Claim(
            "7.1.4, fig. 11b",
            "the variance of these estimates plunges with more runs",
            "plunges",
            _variance,
        ),
    ),
    charts=_charts,
    missing=(
        (
            "7.1.3, fig. 10; 7.2, fig. 12 and 13",
            (
                "completion times relative to FIFO depend on the costs of switching jobs in "
                "Hadoop, which are not printed"
            ),
        ),
        ("7.1.1, fig. 8", "the study `overheads` has the computation times"),
    ),
)
