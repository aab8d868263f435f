"""Terms on which a MarketJob enters the market: its speedup, demand for memory, and bid."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import ValidationError

from walras.market import snapshot as core
from walras.speedup.amdahls_law import market_fraction
from walras_api.auction_weights import recorded_runs, weights_of
from walras_api.fields import DECIMAL
from walras_api.market_job import full_size
from walras_api.speedup_profile_status import MeasuredPenalty
from walras_api.supply import MOST_MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from walras_api.kinds import CoresPolicy, MarketJob, MarketSpec, SpeedupProfile
    from walras_api.market_job import MarketJobSpec

ASSUMED_FRACTION = 0.8
"""Parallel fraction assumed for a job that has no profile and no reliable measurement."""

Name = tuple[str, str]
"""Namespace and name."""


class Speedup(NamedTuple):
    """A job's speedup, and its origin.

    Attributes:
        source: Given (by the job), Written (in a profile), Measured (by a profile's measurements),
            Online (while it ran, as its profile's status says) or Assumed.
        profile: Name of the profile that it is from, or whose measurements are refused; empty if
            none.
        beside: Programs beside which all its online measurements were made; None if that is not
            known.
        refused: Why the measurements of its profile are not used, as a sentence; empty if they are,
            or if there are none.
    """

    fraction: float
    source: Literal["Given", "Written", "Measured", "Online", "Assumed"]
    profile: str = ""
    beside: frozenset[str] | None = frozenset()
    refused: str = ""


def holds_whole_cores(job: MarketJobSpec, rules: CoresPolicy) -> bool:
    """Return whether each pod of a job is to hold a whole number of cores."""
    return rules.whole_cores if job.whole_cores is None else job.whole_cores


def has_own_cpus(job: MarketJobSpec, rules: CoresPolicy) -> bool:
    """Return whether the whole cores of a job's pods are CPUs that no other pod uses."""
    isolated = rules.isolated if job.isolated is None else job.isolated
    return isolated or holds_whole_cores(job, rules)


def bid_of(resource: MarketJob, rules: MarketSpec) -> core.Bid:
    """Return the bid of a MarketJob in auctions under the rules of a Market."""
    auction = resource.spec.auction
    least = auction.minimum_utility
    weights = weights_of(resource, recorded_runs(resource, rules, resource.status))
    return core.Bid(
        budget=float(auction.budget),
        utility=auction.utility,
        cores=weights.cores.value,
        memory=weights.memory.value,
        minimum_utility=None if least is None else float(least),
    )


def profile_of(job: MarketJob, profiles: Mapping[Name, SpeedupProfile]) -> SpeedupProfile | None:
    """Return the profile of a job; None if it does not exist, and the job does not name it.

    Raises:
        ValueError: The profile that the job names does not exist.
    """
    namespace = job.metadata.namespace
    profile = profiles.get((namespace, job.profile_name))
    if job.spec.profile is not None and profile is None:
        raise ValueError(
            f"MarketJob {namespace}/{job.metadata.name}: spec.profile: there is no SpeedupProfile "
            f"{namespace}/{job.spec.profile}; add it, or remove the field"
        )
    return profile


def speedup_of(job: MarketJob, profiles: Mapping[Name, SpeedupProfile]) -> Speedup:
    """Return a job's speedup: given, profiled, or assumed.

    Measurements in a profile after which F is as uncertain as before (`SpeedupProfile.refused`)
    count as none: F is that of running pods once these were measured, and assumed before.

    Raises:
        ValueError: Its profile does not exist or cannot be used.
    """
    profile = profile_of(job, profiles)
    if job.spec.parallel_fraction is not None:
        return Speedup(float(job.spec.parallel_fraction), "Given")
    if profile is None:
        return Speedup(ASSUMED_FRACTION, "Assumed")
    name = profile.metadata.name
    if profile.spec.parallel_fraction is not None:
        return Speedup(float(profile.spec.parallel_fraction), "Written", name)
    title = f"SpeedupProfile {profile.metadata.namespace}/{name}"
    try:
        why = profile.refused
        if profile.spec.measurements and not why:
            return Speedup(profile.fit.fraction_at(full_size(job.spec.data)), "Measured", name)
    except ValueError as error:
        raise ValueError(f"{title}: {error}") from error
    online = measured_online(profile.status)
    refused = why and f"the measurements of {title} are not used, since {why}"
    if online is not None:
        return online._replace(profile=name, refused=refused)
    return Speedup(ASSUMED_FRACTION, "Assumed", name if why else "", refused=refused)


def measured_online(status: Mapping[str, Any] | None) -> Speedup | None:
    """Return the speedup that a profile's status has from running pods; None if it has none."""
    reported = status or {}
    text = reported.get("parallelFraction")
    if reported.get("source") != "Online" or not isinstance(text, str):
        return None
    if re.fullmatch(DECIMAL, text) is None:
        return None
    return Speedup(market_fraction(float(text)), "Online", beside=_measured_beside(reported))


def _measured_beside(status: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the programs beside which all of a profile's measurements were made, if known."""
    measurements = _online(status).get("measurements")
    company: list[frozenset[str]] = []
    for each in measurements if isinstance(measurements, list) else ():
        names = each.get("coRunners") if isinstance(each, dict) else None
        if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            return None
        company.append(frozenset(names))
    return frozenset.intersection(*company) if company else None


def measured_penalties(status: Mapping[str, Any] | None) -> Iterator[tuple[str, float]]:
    """Yield the co-runners in a profile's status, as ``namespace/profile``, and penalties.

    Only those that count, each without its error (`MeasuredPenalty.counted`).
    """
    reported = (status or {}).get("penalties")
    for each in reported if isinstance(reported, list) else ():
        try:
            penalty = MeasuredPenalty.read(each)
        except ValidationError:
            continue
        if penalty.counted is not None:
            yield f"{penalty.namespace}/{penalty.profile}", penalty.counted


def shows_penalties(status: Mapping[str, Any] | None) -> bool:
    """Return whether progress checks of a profile's pods can show penalties.

    They cannot if its progress is counted as CPU time. Nothing is known before the first
    measurement.
    """
    recorded = _online(status).get("measurements")
    measurements = recorded if isinstance(recorded, list) else ()
    sources = [each.get("source") for each in measurements if isinstance(each, dict)]
    return not sources or sources[-1] != "cpuTime"


def was_seen_alone(status: Mapping[str, Any] | None) -> bool:
    """Return whether a profile's status has the progress of a pod that was alone on its socket."""
    co_runners = _online(status).get("coRunners")
    observations = co_runners if isinstance(co_runners, list) else ()
    return any(
        isinstance(each, dict) and not each.get("profile") and not each.get("together")
        for each in observations
    )


def bandwidth_of(profile: SpeedupProfile) -> float | None:
    """Return the memory bandwidth of a program alone in GB/s; None if it is not known.

    The profile's spec counts, or else the measurements of running pods in its status.
    """
    if profile.spec.memory_bandwidth is not None:
        return float(profile.spec.memory_bandwidth)
    text = (profile.status or {}).get("memoryBandwidth")
    if not isinstance(text, str) or re.fullmatch(DECIMAL, text) is None:
        return None
    return float(text) or None


def most_cpus(status: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the most CPUs that a pod of a job can use at once, by its images, as far as known."""
    learned = (status or {}).get("demand")
    return {
        str(each.get("images", "")): float(text)
        for each in (learned if isinstance(learned, list) else ())
        if isinstance(each, dict)
        and isinstance(text := each.get("cpus"), str)
        and re.fullmatch(DECIMAL, text)
        and float(text) > 0
    }


def _online(status: Mapping[str, Any] | None) -> Mapping[str, Any]:
    online = (status or {}).get("online")
    return online if isinstance(online, dict) else {}


def memory_of(
    job: MarketJob, requested: int, measured: int | None = None
) -> core.MemoryDemand | None:
    """Return a pod's demand for memory; None if its job does not take part in that market.

    Args:
        job: MarketJob that owns the pod.
        requested: Bytes that the pod requests, used until its demand is measured.
        measured: Bytes that the pod could use, as its node's agent reported last; None if never.
    """
    memory = job.spec.memory
    if memory is None:
        return None
    least = min(memory.min or 0, MOST_MEMORY)
    needed = requested if measured is None else measured
    demand = max(needed, least) if memory.demand == "measured" else memory.demand
    most = MOST_MEMORY if memory.max is None else min(memory.max, MOST_MEMORY)
    return core.MemoryDemand(min(demand, most), least, None if memory.max is None else most)
