"""Study: progress, entitlements and overestimates in the Amdahl market (VI-B to E, fig. 9-12)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from walras_studies.amdahl.populations import STANDS_IN, draw_any
from walras_studies.amdahl.progress import (
    PERCENTS,
    POLICIES,
    ClassProgress,
    Overestimate,
    Population,
    by_class,
    by_policy,
    divide,
    overestimates,
    round_all,
)
from walras_studies.chart import Chart, bars
from walras_studies.study import Claim, Finding, Progress, Study, mean, pick, steps

CLASSES = range(1, 6)
"""Entitlement classes: the budgets of their users."""


@dataclass(frozen=True, slots=True)
class AmdahlSize:
    """Size of the study.

    Attributes:
        populations: Number of populations of each density.
        densities: Densities of the populations: the largest number of jobs of a server.
        largest: Largest number of users of a population.
    """

    populations: int
    densities: tuple[int, ...]
    largest: int


@dataclass(frozen=True, slots=True)
class AmdahlRows:
    """Tables of the study."""

    policies: tuple[Population, ...]
    classes: tuple[ClassProgress, ...]
    overestimates: tuple[Overestimate, ...]

    @property
    def densities(self) -> list[int]:
        """Densities of the populations, in ascending order."""
        return sorted({row.density for row in self.policies})


def run(seed: int, size: AmdahlSize, progress: Progress) -> AmdahlRows:
    """Divide the cores of every population by every policy."""
    policies: list[Population] = []
    classes: list[ClassProgress] = []
    errors: list[Overestimate] = []
    worlds = list(product(size.densities, range(size.populations)))
    for density, number in steps(worlds, progress, "density and population"):
        market = draw_any(seed, number, density, size.largest)
        real = divide(market)
        whole = round_all(market, real)
        policies += by_policy(market, real, whole, density, number)
        classes += by_class(market, real, whole, density, number)
        random = np.random.default_rng([seed, density, number, 2])
        errors += overestimates(market, density, number, random)
    return AmdahlRows(tuple(policies), tuple(classes), tuple(errors))


def _range(values: list[float], form: str = ".2f") -> str:
    return f"{min(values):{form}} to {max(values):{form}}"


def _over_densities(rows: AmdahlRows, column: str, policy: str) -> list[float]:
    return [mean(rows.policies, column, policy=policy, density=each) for each in rows.densities]


def _outperforms(rows: AmdahlRows) -> Finding:
    gains = [row.progress for row in pick(rows.policies, policy="AB")]
    means = _over_densities(rows, "progress", "AB")
    return Finding(
        f"{_range(means)} times PS by density; at least {min(gains):.2f}",
        min(gains) > 1,
    )


def _near_bound(rows: AmdahlRows) -> Finding:
    shares = _over_densities(rows, "of_bound", "AB")
    least = min(row.of_bound for row in pick(rows.policies, policy="AB"))
    return Finding(
        f"{_range(shares, '.1%')} of UB by density; at least {least:.0%}",
        min(shares) > 0.9,
    )


def _bound_grows(rows: AmdahlRows) -> Finding:
    ahead = [1 / share for share in _over_densities(rows, "of_bound", "AB")]
    return Finding(
        f"UB over AB {ahead[0]:.3f} at density {rows.densities[0]}, {ahead[-1]:.3f} at "
        f"{rows.densities[-1]}",
        ahead[-1] > ahead[0],
    )


def _greedy_falls(rows: AmdahlRows) -> Finding:
    greedy = _over_densities(rows, "progress", "G")
    return Finding(f"{greedy[0]:.2f} times PS falling to {greedy[-1]:.2f}", greedy[-1] < greedy[0])


def _comparable(rows: AmdahlRows) -> Finding:
    ours, nash = (_over_densities(rows, "progress", name) for name in ("AB", "BR"))
    apart = max(abs(a / b - 1) for a, b in zip(ours, nash, strict=True))
    return Finding(f"at most {apart:.1%} apart by density", apart < 0.05)


def _approaches(rows: AmdahlRows) -> Finding:
    apart = _over_densities(rows, "from_nash", "AB")
    return Finding(
        f"a job's cores differ by {apart[0]:.2f} falling to {apart[-1]:.2f}", apart[-1] < apart[0]
    )


def _class_means(rows: AmdahlRows, policy: str, column: str) -> list[float]:
    return [mean(rows.classes, column, policy=policy, budget=each) for each in CLASSES]


def _every_class_gains(rows: AmdahlRows) -> Finding:
    real = _class_means(rows, "AB", "real") + _class_means(rows, "BR", "real")
    whole = _class_means(rows, "AB", "whole")
    holds = min(whole) > 1
    reason = (
        ""
        if holds
        else "true before rounding; whole cores leave nothing to jobs worth less than half a core, "
        "of which the lowest class has most at high density (`clear()` puts them into shared pools)"
    )
    return Finding(
        f"{_range(real)} times PS before rounding (AB, BR), {_range(whole)} after (AB)",
        min(real) > 1,
        holds,
        reason=reason,
    )


def _entitled(rows: AmdahlRows) -> Finding:
    violated = {
        policy: mean(rows.policies, "violations", policy=policy) for policy in ("AB", "PS", "G")
    }
    return Finding(
        f"users below: {violated['AB']:.1%} AB, {violated['PS']:.1%} PS, {violated['G']:.0%} G",
        violated["AB"] == 0,
    )


def _who_is_favoured(rows: AmdahlRows) -> Finding:
    greedy, bound = (_class_means(rows, name, "whole") for name in ("G", "UB"))
    return Finding(
        f"class 1 and 5 over PS: G {greedy[0]:.2f} and {greedy[-1]:.2f}, "
        f"UB {bound[0]:.2f} and {bound[-1]:.2f}",
        greedy[0] > 1 > greedy[-1] and bound[-1] > bound[0],
    )


def _errors(rows: AmdahlRows) -> Finding:
    error = {name: mean(rows.policies, "entitlement_error", policy=name) for name in POLICIES}
    return Finding(
        ", ".join(f"{name} {value:.1%}" for name, value in error.items()),
        max(error["AB"], error["BR"]) < error["PS"] < min(error["G"], error["UB"]),
    )


def _errors_fall(rows: AmdahlRows) -> Finding:
    errors = _over_densities(rows, "entitlement_error", "AB")
    return Finding(f"{errors[0]:.0%} falling to {errors[-1]:.0%}", errors[-1] < errors[0])


def _overestimated(rows: AmdahlRows) -> Finding:
    middle = rows.densities[len(rows.densities) // 2]
    moved = [
        mean(rows.overestimates, "cores", density=middle, percent=percent) for percent in PERCENTS
    ]
    return Finding(
        f"{', '.join(f'{each:.2f}' for each in moved)} cores at 5, 10, 15 % (density {middle})",
        moved == sorted(moved) and moved[-1] < 2,
    )


def _charts(rows: AmdahlRows) -> tuple[Chart, ...]:
    def lines(column: str, policies: tuple[str, ...]) -> dict[str, tuple[tuple[float, float], ...]]:
        return {
            policy: tuple(zip(rows.densities, _over_densities(rows, column, policy), strict=True))
            for policy in policies
        }

    others = tuple(name for name in POLICIES if name != "PS")
    return (
        Chart(
            "progress",
            "System progress by workload density (fig. 9)",
            "most jobs of a server",
            "progress / PS",
            lines("progress", POLICIES),
        ),
        Chart(
            "classes",
            "Utility by entitlement class, whole cores (fig. 10)",
            "class",
            "utility / PS",
            {name: bars(_class_means(rows, name, "whole")) for name in others},
            tuple(str(each) for each in CLASSES),
        ),
        Chart(
            "entitlement-errors",
            "Error of users' cores against entitled ones (fig. 11)",
            "most jobs of a server",
            "MAPE, part of entitlement",
            lines("entitlement_error", POLICIES),
        ),
        Chart(
            "overestimates",
            "Cores moved by an overestimated F (fig. 12)",
            "most jobs of a server",
            "mean change, cores",
            {
                f"{percent} %": tuple(
                    (
                        float(density),
                        mean(rows.overestimates, "cores", density=density, percent=percent),
                    )
                    for density in rows.densities
                )
                for percent in PERCENTS
            },
        ),
    )


STUDY = Study(
    title="The Amdahl market, compared with other policies",
    paper="Amdahl's Law in the Datacenter Era: A Market for Fair Processor Allocation, VI-B to E",
    stands_in=STANDS_IN
    + " AB is the equilibrium of the Amdahl market, BR best responses of users who foresee their "
    "effect on prices, PS proportional sharing, G greedy allocation regardless of entitlements, "
    "UB the largest system progress, MAPE the mean absolute percentage error.",
    run=run,
    full=AmdahlSize(50, (4, 8, 12, 16, 20, 24), 1000),
    quick=AmdahlSize(4, (4, 12, 24), 200),
    claims=(
        Claim("VI-B, fig. 9", "AB outperforms PS", "above 1 at every density", _outperforms),
        Claim("VI-B, fig. 9", "AB achieves more than 90 % of UB", "> 90 %", _near_bound),
        Claim("VI-B, fig. 9", "UB's advantage grows with competition", "grows", _bound_grows),
        Claim("VI-B, fig. 9", "G's progress decreases with density", "decreases", _greedy_falls),
        Claim("VI-B, fig. 9", "AB performs comparably with BR", "comparable", _comparable),
        Claim("VI-B", "AB approaches BR as density grows", "approaches", _approaches),
        Claim(
            "VI-C, fig. 10", "every class gains under AB and BR", "all above PS", _every_class_gains
        ),
        Claim("V, VI-C", "AB guarantees entitlements", "guaranteed", _entitled),
        Claim(
            "VI-C, fig. 10",
            "G disadvantages high classes, UB favours them",
            "G below PS for high classes; UB favours them",
            _who_is_favoured,
        ),
        Claim(
            "VI-D, fig. 11",
            "MAPE of users' cores is lower under AB and BR than under PS, and higher under G and "
            "UB",
            "AB, BR < PS < G, UB",
            _errors,
        ),
        Claim("VI-D, fig. 11", "errors fall as density grows", "fall", _errors_fall),
        Claim(
            "VI-E, fig. 12",
            "overestimating F by 5 to 15 % shifts an allocation by a core or two",
            "at most 1 to 2 cores",
            _overestimated,
        ),
    ),
    charts=_charts,
    missing=(
        ("IV, fig. 3", "the variance of F over core counts takes the paper's server of 24 cores"),
    ),
)
