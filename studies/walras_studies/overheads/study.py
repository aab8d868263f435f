"""Study: times that decisions take, compared with those that the papers print."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.abacus.auction import run_auction
from walras.mechanisms.abacus.estimation import estimate_utility
from walras.mechanisms.amdahl.best_response import find_nash_equilibrium
from walras.mechanisms.cooper.bulk import marry_types, part_randomly
from walras.mechanisms.karma.ledger import Ledger
from walras.mechanisms.karma.quantum import allocate
from walras.mechanisms.price_anticipating.nash import find_share_market_equilibrium
from walras_studies.abacus.runs import draw_auction
from walras_studies.amdahl.paper_bidding import bid
from walras_studies.amdahl.populations import draw_population
from walras_studies.amdahl.whole_cores import round_cores
from walras_studies.amdahl.without_bounds import find_equilibrium
from walras_studies.cooper.policies import colocate
from walras_studies.cooper.prediction import predict
from walras_studies.cooper.worlds import BANDWIDTH, JOBS, losses
from walras_studies.karma.demands import FAIR_SHARE, draw_demands
from walras_studies.karma.trace import simulate
from walras_studies.proportional_share.runs import draw as draw_shares
from walras_studies.study import Claim, Finding, Progress, Study, pick, steps

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class OverheadSize:
    """Size of the study.

    Attributes:
        repeats: Number of times that each decision is timed.
        users: Number of users of the market for cores.
        agents: Number of agents that are paired.
        many: Number of agents that are paired in bulk; a tenth of it are users with credits.
    """

    repeats: int
    users: int
    agents: int
    many: int


@dataclass(frozen=True, slots=True)
class Timing:
    """CPU time of all threads for a decision from arrays to arrays.

    Attributes:
        decision: Name of the decision.
        least: Least time, in milliseconds.
        typical: Median time, in milliseconds.
    """

    decision: str
    least: float
    typical: float


@dataclass(frozen=True, slots=True)
class OverheadRows:
    """Tables of the study."""

    timings: tuple[Timing, ...]


def run(seed: int, size: OverheadSize, progress: Progress) -> OverheadRows:
    """Time every decision, after a first one that is not counted since it may have to compile."""
    decisions = {**_amdahl(seed, size), **_cooper(seed, size), **_others(seed, size)}
    timings = []
    for name in steps(list(decisions), progress, "timing"):
        decisions[name]()
        taken = [_milliseconds(decisions[name]) for _ in range(size.repeats)]
        timings.append(Timing(name, min(taken), median(taken)))
    return OverheadRows(tuple(timings))


def _milliseconds(work: Work) -> float:
    started = time.process_time()
    work()
    return 1e3 * (time.process_time() - started)


def _amdahl(seed: int, size: OverheadSize) -> dict[str, Work]:
    market = draw_population(size.users, 1.0, 11, [seed])
    _ = market.by_user, market.by_server

    def clear() -> None:
        cores = find_equilibrium(market).cores
        round_cores(cores, market.capacities, market.by_server)

    return {
        "market cleared and rounded": clear,
        "bidding to 1 %": lambda: bid(market, step=1e-2),
        "best response": lambda: find_nash_equilibrium(market),
    }


def _cooper(seed: int, size: OverheadSize) -> dict[str, Work]:
    random = np.random.default_rng(seed)
    job = random.integers(0, JOBS, size.agents)
    by_job = losses("pressure", random)
    disutility, bandwidth = by_job[np.ix_(job, job)], BANDWIDTH[job]
    measured = np.where(random.random(disutility.shape) < 0.25, disutility, np.nan)
    counts = np.bincount(random.integers(0, JOBS, size.many), minlength=JOBS)
    return {
        "penalties predicted": lambda: predict(measured),
        "random marriage": lambda: colocate("StableMarriageRandom", disutility, bandwidth, seed),
        "roommates": lambda: colocate("StableRoommates", disutility, bandwidth, seed),
        "random marriage in bulk": lambda: marry_types(by_job, *part_randomly(counts, seed)),
    }


def _others(seed: int, size: OverheadSize) -> dict[str, Work]:
    random = np.random.default_rng(seed)
    auction = draw_auction(128, 4, 0.5, random, logarithmic=False)
    shares = random.uniform(0.1, 0.9, (20, 2))
    utilities = shares @ np.array([6.0, 1.0]) * (1 + 0.1 * random.standard_normal(20))
    demands = draw_demands(100, 900, random)
    ledger = Ledger.open(map(str, range(100)))
    crowd = Ledger.open(map(str, range(size.many // 10)))
    wanted = random.poisson(FAIR_SHARE, len(crowd.users))
    market = draw_shares("uniform", 250, 100, [seed])
    return {
        "auction, 128 users": lambda: run_auction(auction, tolerance=1e-2),
        "utility estimated, 20 runs": lambda: estimate_utility(shares, utilities),
        "credits, 900 quanta of 100": lambda: simulate(ledger, demands, 100 * FAIR_SHARE),
        "credits, one large quantum": lambda: allocate(
            crowd, wanted, len(crowd.users) * FAIR_SHARE
        ),
        "price-anticipating, 250 users": lambda: find_share_market_equilibrium(market),
    }


def _took(decision: str, printed: float, also: str = "") -> Callable[[OverheadRows], Finding]:
    """Return a judge of a decision's time by the printed one.

    Args:
        decision: Name of the decision.
        printed: Time that the paper prints, in milliseconds.
        also: Text to add to our figure.
    """

    def judge(rows: OverheadRows) -> Finding:
        (row,) = pick(rows.timings, decision=decision)
        return Finding(
            f"{row.typical:.3g} ms (least {row.least:.3g}){also}",
            row.typical <= printed,
            better=row.typical <= printed / 2,
            reason="" if row.typical <= printed else "slower on this machine",
        )

    return judge


def _ratio(rows: OverheadRows) -> Finding:
    (ours,) = pick(rows.timings, decision="market cleared and rounded")
    (nash,) = pick(rows.timings, decision="best response")
    (bidding,) = pick(rows.timings, decision="bidding to 1 %")
    ratio = nash.typical / bidding.typical
    return Finding(
        f"{ratio:.2g} times as long as bidding to 1 %, {nash.typical / ours.typical:.2g} times the "
        "certified solver",
        ratio <= 22,
        better=ratio <= 22,
        reason="best responses have a closed form here, no interior-point method",
    )


def _bulk(rows: OverheadRows) -> Finding:
    (row,) = pick(rows.timings, decision="random marriage in bulk")
    (large,) = pick(rows.timings, decision="credits, one large quantum")
    return Finding(
        f"a million agents of 20 types take {row.typical:.3g} ms; a quantum of credits for 100 000 "
        f"users takes {large.typical:.3g} ms",
        row.typical < 1000,
        judged=False,
        reason="the paper prints nothing to compare",
    )


STUDY = Study(
    title="How long decisions take",
    paper="VI-F of the Amdahl market; 7.1.1 and 7.1.4 of Abacus; IV and VI-D of Cooper",
    stands_in=(
        "Times are medians of CPU times of all threads, from arrays to arrays, without a network; "
        "the papers' are wall-clock times on machines of the 2010s."
    ),
    run=run,
    full=OverheadSize(9, 1000, 1000, 1_000_000),
    quick=OverheadSize(2, 100, 100, 10_000),
    claims=(
        Claim(
            "Amdahl VI-F",
            "the equilibrium of a market of up to 1000 users",
            "12.35 ms, network included",
            _took("market cleared and rounded", 12.35),
        ),
        Claim("Amdahl VI-F", "best response takes 22 times as long as bidding", "22 times", _ratio),
        Claim(
            "Abacus 7.1.1, fig. 8a",
            "an auction of 128 users and 4 resources",
            "7 ms",
            _took("auction, 128 users", 7),
        ),
        Claim(
            "Abacus 7.1.4, fig. 11c",
            "the estimate of a utility from runs",
            "3 ms",
            _took("utility estimated, 20 runs", 3),
        ),
        Claim(
            "Cooper IV",
            "the prediction of the penalties of 1000 agents",
            "< 100 ms",
            _took("penalties predicted", 100),
        ),
        Claim(
            "Cooper IV-C",
            "the colocation of 1000 agents by stable marriage",
            "1 to 5 s",
            _took("random marriage", 1000),
        ),
        Claim(
            "Cooper IV-C",
            "the colocation of 1000 agents by stable roommates",
            "1 to 5 s",
            _took("roommates", 1000),
        ),
        Claim("Cooper VI-D", "the colocation of far more than 1000 agents", "not tried", _bulk),
    ),
    charts=lambda _: (),
    measured=True,
)
