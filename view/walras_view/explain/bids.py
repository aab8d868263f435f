"""Pure: the bid curve of a user, from the statuses of its jobs."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from walras.analysis.bid_curve import PricedJob, bid_curve
from walras.speedup.amdahls_law import MIN_FRACTION
from walras_view.figures import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras.analysis.bid_curve import BidPoint
    from walras_api.market_job_status import MarketJobStatus, PodOutcome
    from walras_view.facts import ApiObject, Facts

_FROM_ONE = 0.1
"""Cores around one on which speedups hardly depend on the parallel fraction."""


def bids_of(facts: Facts, user: str) -> tuple[BidPoint, ...]:
    """Return the bid curve of an entitlement.

    It is empty unless users buy at prices that they take as given (AmdahlBidding), and if not all
    of the entitlement's pods are visible. The money is its budget, or what it spends today if that
    is more. Cores that pods keep whatever they cost do not count.
    """
    market, entitlement = facts.market, facts.entitlements[user]
    solver = None if market is None else market.status.solver
    if market is None or solver is None or solver.mechanism != "AmdahlBidding":
        return ()
    sizes = {each.node: float(each.cores) for each in market.status.prices}
    jobs = [
        priced
        for job in facts.jobs.values()
        if job.spec.get("entitlement") == user
        for priced in _priced(job, sizes)
    ]
    if not jobs or len(jobs) != entitlement.status.pods:
        return ()
    money = sum(job.price * job.cores for job in jobs)
    cores, utility = entitlement.status.cores, entitlement.status.utility
    if cores is not None:
        money = max(money, float(cores.entitled))
    promised = 0.0 if utility is None else float(utility.at_entitlement)
    return bid_curve(jobs, money, entitled=promised)


def _priced(job: ApiObject[MarketJobStatus], sizes: dict[str, float]) -> Iterator[PricedJob]:
    profile = job.status.profile
    if profile is None:
        return
    least, most = job.spec.get("minCores", 1), job.spec.get("maxCores")
    for pod in job.status.pods:
        if pod.bought is None or pod.price is None:
            continue
        cores, price = float(pod.bought), float(pod.price)
        yield PricedJob(
            cores=cores,
            price=price,
            fraction=_fraction(pod, cores, float(profile.parallel_fraction)),
            work=float(job.spec.get("work", 1)),
            least=float(least) if least > 1 else 0.0,
            most=min(inf if most is None else float(most), sizes.get(pod.node or "", inf)),
        )


def _fraction(pod: PodOutcome, cores: float, measured: float) -> float:
    """Return the fraction with which a pod bid: interference may have lowered the measured one.

    It follows from the predicted speedup, 1/s = 1 - f + f/x.
    """
    speedup = number(pod.speedup)
    if not speedup or cores < 1 + _FROM_ONE:
        return measured
    return min(max((1 / speedup - 1) / (1 / cores - 1), MIN_FRACTION), 1.0)
