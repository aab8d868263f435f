"""Study: memory divided by credits, max-min fairness and fixed shares (Karma, section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from walras_studies.chart import Chart, bars
from walras_studies.karma.demands import STANDS_IN, draw_demands
from walras_studies.karma.runs import Demands, Mixture, Scheme, by_scheme, mixture
from walras_studies.study import Claim, Finding, Progress, Study, as_printed, pick, steps

SCHEMES = ("Karma", "max-min", "strict")
"""Schemes that divide memory: by credits, by max-min fairness, and into fixed shares."""

_NOT_THE_TRACE = "the demands are not the trace's"

READING = 0.2
"""Relative error with which figures are read off the paper's plots."""


@dataclass(frozen=True, slots=True)
class KarmaSize:
    """Size of the study.

    Attributes:
        populations: Number of populations.
        users: Number of users of each.
        quanta: Number of quanta.
        conformant: Parts of the users that are conformant, to vary.
        alphas: Guaranteed fractions to vary.
        gainers: Number of users that become conformant, one at a time, in each mixture.
    """

    populations: int
    users: int
    quanta: int
    conformant: tuple[float, ...]
    alphas: tuple[str, ...]
    gainers: int


@dataclass(frozen=True, slots=True)
class KarmaRows:
    """Tables of the study."""

    schemes: tuple[Scheme, ...]
    mixtures: tuple[Mixture, ...]
    demands: tuple[Demands, ...]


def run(seed: int, size: KarmaSize, progress: Progress) -> KarmaRows:
    """Divide slices among the users of every population by every scheme."""
    schemes: list[Scheme] = []
    mixtures: list[Mixture] = []
    burstiness: list[Demands] = []
    for number in steps(range(size.populations), progress, "population"):
        random = np.random.default_rng([seed, number])
        demands = draw_demands(size.users, size.quanta, random)
        schemes += by_scheme(number, demands, size.alphas)
        mixtures += (
            mixture(number, demands, part, size.gainers, random) for part in size.conformant
        )
        spread = demands.std(axis=0) / np.maximum(demands.mean(axis=0), 1e-9)
        above = float((spread >= 0.5).mean()), float((spread >= 1).mean())
        burstiness.append(Demands(number, *above, float(spread.max())))
    return KarmaRows(tuple(schemes), tuple(mixtures), tuple(burstiness))


def _median(rows: KarmaRows, column: str, scheme: str, alpha: str | None = None) -> float:
    alpha = ("0.5" if scheme == "Karma" else "") if alpha is None else alpha
    chosen = pick(rows.schemes, scheme=scheme, alpha=alpha)
    return float(np.median([getattr(row, column) for row in chosen]))


def _mixed(rows: KarmaRows, column: str) -> dict[float, float]:
    parts = sorted({row.conformant for row in rows.mixtures})
    return {
        part: float(
            np.median([getattr(row, column) for row in pick(rows.mixtures, conformant=part)])
        )
        for part in parts
    }


def _three(rows: KarmaRows, column: str, form: str = ".1f") -> tuple[str, list[float]]:
    values = [_median(rows, column, scheme) for scheme in SCHEMES]
    named = zip(SCHEMES, values, strict=True)
    return ", ".join(f"{name} {value:{form}}" for name, value in named), values


def _both(rows: KarmaRows, column: str, form: str = ".1f") -> tuple[str, list[float]]:
    """Return a figure of throughput by scheme, and in words also that with one query in flight.

    Args:
        rows: Rows of a run.
        column: End of the columns' names after ``throughput`` and ``closed``; empty for throughput
            itself.
        form: Format of the figures.
    """
    told, values = _three(rows, f"throughput{column}", form)
    closed, _ = _three(rows, f"closed{column or '_throughput'}", form)
    return f"{told}; one query: {closed}", values


def _welfare(rows: KarmaRows) -> Finding:
    told, values = _three(rows, "welfare_ratio")
    return as_all_printed(told, values, (1.5, 4.0))


def _throughput_ratio(rows: KarmaRows) -> Finding:
    return as_all_printed(*_both(rows, "_ratio"), (1.8, 4.3, 7.8))


def as_all_printed(told: str, values: list[float], printed: tuple[float, ...]) -> Finding:
    """Judge ratios between users by those printed for Karma, max-min and strict, if all are."""
    ours, max_min, strict = values
    close = all(as_printed(*pair, READING) for pair in zip(values, printed, strict=False))
    return Finding(told, ours < max_min < strict, close, reason="" if close else _NOT_THE_TRACE)


def _reduced(rows: KarmaRows) -> Finding:
    told, (ours, max_min, _) = _both(rows, "_disparity")
    by = max_min / ours
    close = as_printed(by, 2.4, READING)
    return Finding(
        f"{by:.1f} times less ({told})", by > 1, close, reason="" if close else _NOT_THE_TRACE
    )


def _used(rows: KarmaRows) -> Finding:
    told, (ours, max_min, strict) = _three(rows, "utilisation", ".1%")
    return Finding(told, ours == max_min > strict, 0.9 < ours < 1)


def _faster(rows: KarmaRows) -> Finding:
    told, (ours, max_min, _) = _both(rows, "", ".2f")
    close = as_printed(ours, 1.4, READING)
    return Finding(
        f"relative to strict: {told}",
        ours > 1 and abs(ours / max_min - 1) < 0.15,
        close,
        reason="" if close else _NOT_THE_TRACE,
    )


def _conforming_faster(rows: KarmaRows) -> Finding:
    faster = list(_mixed(rows, "throughput").values())
    return Finding(
        f"{faster[0]:.2f} times strict with none rising to {faster[-1]:.2f} with all",
        all(a <= b for a, b in pairwise(faster)) and abs(faster[0] - 1) < 0.02,
    )


def _same_speed(rows: KarmaRows) -> Finding:
    speed = [_median(rows, "throughput", "Karma", alpha) for alpha in _alphas(rows)]
    level = _median(rows, "throughput", "max-min")
    return Finding(
        f"{min(speed):.2f} to {max(speed):.2f} times strict for all alpha; max-min {level:.2f}",
        max(abs(each / level - 1) for each in speed) < 0.05,
    )


def _conforming(rows: KarmaRows) -> Finding:
    used = list(_mixed(rows, "utilisation").values())
    strict = _median(rows, "utilisation", "strict")
    return Finding(
        f"{used[0]:.0%} with none rising to {used[-1]:.0%} with all; strict has {strict:.0%}",
        all(a <= b for a, b in pairwise(used)) and abs(used[0] - strict) < 0.01,
    )


def _gains(rows: KarmaRows) -> Finding:
    gains = {part: gain for part, gain in _mixed(rows, "gain").items() if part < 1}
    told = ", ".join(f"{gain:.2f} at {part:.0%}" for part, gain in gains.items())
    values = list(gains.values())
    close = values[-1] >= 1.1
    return Finding(
        told,
        min(values) > 1 and values[-1] < max(values),
        close,
        reason=""
        if close
        else "where most users are conformant already, little is left to gain on these demands",
    )


def _alphas(rows: KarmaRows) -> list[str]:
    return sorted({row.alpha for row in rows.schemes if row.alpha}, key=float)


def _same_use(rows: KarmaRows) -> Finding:
    used = [_median(rows, "utilisation", "Karma", alpha) for alpha in _alphas(rows)]
    return Finding(
        f"{min(used):.1%} to {max(used):.1%} for all alpha; max-min "
        f"{_median(rows, 'utilisation', 'max-min'):.1%}",
        max(used) - min(used) < 1e-9,
    )


def _fair_alphas(rows: KarmaRows) -> list[float]:
    return [1 / _median(rows, "welfare_ratio", "Karma", alpha) for alpha in _alphas(rows)]


def _smaller_alpha(rows: KarmaRows) -> Finding:
    fair, alphas = _fair_alphas(rows), _alphas(rows)
    return Finding(
        f"fairness {fair[0]:.2f} at alpha {alphas[0]}, {fair[-1]:.2f} at {alphas[-1]}",
        fair[0] > fair[-1],
    )


def _even_one(rows: KarmaRows) -> Finding:
    ours, theirs = _fair_alphas(rows)[-1], 1 / _median(rows, "welfare_ratio", "max-min")
    return Finding(f"fairness {ours:.2f}, max-min {theirs:.2f}", ours > theirs)


def _charts(rows: KarmaRows) -> tuple[Chart, ...]:
    alphas = _alphas(rows)
    flat = 1 / _median(rows, "welfare_ratio", "max-min")
    gains = {part: gain for part, gain in _mixed(rows, "gain").items() if part < 1}
    return (
        Chart(
            "ratios",
            "Best-off user over worst-off (fig. 6)",
            "",
            "ratio",
            {
                scheme: bars(
                    _median(rows, column, scheme)
                    for column in ("welfare_ratio", "throughput_ratio", "throughput_disparity")
                )
                for scheme in SCHEMES
            },
            ("welfare", "throughput", "median / least throughput"),
            log_y=True,
        ),
        Chart(
            "conformance",
            "Utilisation by conformant users (fig. 7a)",
            "part of users that is conformant",
            "utilisation",
            {"Karma": tuple(_mixed(rows, "utilisation").items())},
        ),
        Chart(
            "gains",
            "Gain of becoming conformant (fig. 7c)",
            "part of users that already is",
            "welfare over before",
            {"Karma": tuple(gains.items())},
        ),
        Chart(
            "alpha",
            "Fairness by guaranteed fraction (fig. 8c)",
            "alpha",
            "least welfare / largest",
            {
                "Karma": tuple(zip(map(float, alphas), _fair_alphas(rows), strict=True)),
                "max-min": tuple((float(alpha), flat) for alpha in alphas),
            },
        ),
    )


STUDY = Study(
    title="Memory divided by credits, for users with bursty demands",
    paper="Karma: Resource Allocation for Dynamic Demands, section 5",
    stands_in=STANDS_IN,
    run=run,
    full=KarmaSize(
        20, 100, 900, (0.0, 0.25, 0.5, 0.75, 1.0), ("0", "0.2", "0.4", "0.5", "0.6", "0.8", "1"), 20
    ),
    quick=KarmaSize(6, 100, 600, (0.0, 0.75, 1.0), ("0", "0.5", "1"), 8),
    claims=(
        Claim(
            "5.1, fig. 6e",
            "ratio of the largest welfare of a user to the least",
            "Karma 1.5, max-min 4",
            _welfare,
        ),
        Claim(
            "5.1, fig. 6a",
            "ratio of the largest throughput of a user to the least",
            "Karma 1.8, max-min 4.3, strict 7.8",
            _throughput_ratio,
        ),
        Claim(
            "5.1, fig. 6d",
            "the disparity of throughput is less than under max-min",
            "2.4 times less",
            _reduced,
        ),
        Claim("5.1", "utilisation is the same as under max-min", "about 95 %", _used),
        Claim(
            "5.1, fig. 6f",
            "system throughput, relative to strict partitioning, is about that of max-min",
            "1.4 times",
            _faster,
        ),
        Claim(
            "5.2, fig. 7a",
            "utilisation rises with the part of users that is conformant, from that of strict",
            "rises",
            _conforming,
        ),
        Claim(
            "5.2, fig. 7b",
            "system throughput rises with the part of users that is conformant",
            "rises",
            _conforming_faster,
        ),
        Claim(
            "5.2, fig. 7c",
            "users gain by becoming conformant, less where most users are conformant",
            "1.17 to 1.6 times",
            _gains,
        ),
        Claim("5.3, fig. 8a", "utilisation does not depend on alpha", "independent", _same_use),
        Claim(
            "5.3, fig. 8b",
            "system throughput does not depend on alpha",
            "that of max-min",
            _same_speed,
        ),
        Claim("5.3, fig. 8c", "a smaller alpha is fairer", "improves", _smaller_alpha),
        Claim(
            "5.3, fig. 8c",
            "Karma is fairer than max-min even at alpha = 1",
            "significantly",
            _even_one,
        ),
    ),
    charts=_charts,
    missing=(
        (
            "5.1, fig. 6b",
            ("average latencies are the reciprocals of throughputs with one query, as in fig. 6d"),
        ),
        ("5.1, fig. 6c", "tail latencies are those of Amazon S3, of which we have no model"),
    ),
)
