"""Chooses (pure): the status of a SpeedupProfile: what follows from its measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walras.resources.statuses import Finding, FractionAt, SpeedupProfileStatus, TimeModel
from walras.resources.terms import measured_online
from walras_operator.conditions import Problem, Verdict, conditions, fails, holds
from walras_operator.figures import figure
from walras_operator.measuring.reasons import told_of
from walras_operator.measuring.record import online_of, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.resources.kinds import SpeedupProfile
    from walras_operator.world import Document

AWAITED = Problem(
    "Awaited",
    "has no measurements yet; they come while a pod runs if the Market has profiling.automatic, or "
    "from `walras profile`",
)

MOST_ENTRIES = 1000
"""Of each list in a status, as its schema has it."""

MOST_FINDINGS = 32
"""Likewise."""


def profile_status(profile: SpeedupProfile, before: Mapping[str, Any], now: str) -> Document:
    """Return the status of a profile.

    Args:
        profile: the profile; its status says what was measured while its program ran.
        before: its status as it was written last.
        now: the time.
    """
    known = profile.status or {}
    try:
        found, verdict = _found(profile, known)
    except (ValueError, ArithmeticError) as error:
        found = _online_of(known)
        verdict = fails(Problem("Unusable", f"{error}; correct it, or profile the program anew"))
    judged = conditions({"Ready": verdict}, before, now, profile.metadata.generation)
    return {**found, "conditions": [each.document() for each in judged]}


def _found(profile: SpeedupProfile, known: Mapping[str, Any]) -> tuple[Document, Verdict]:
    if profile.spec.measurements:
        counts = len({each.cores for each in profile.spec.measurements})
        verdict = holds("Measured", f"F follows from measurements at {counts} core counts")
        return {**_measured(profile).document(), **_online_of(known)}, verdict
    if profile.spec.parallel_fraction is not None:
        fraction = figure(float(profile.spec.parallel_fraction))
        status = SpeedupProfileStatus(source="Written", parallel_fraction=fraction)
        verdict = holds("Written", f"F is {fraction}, as spec.parallelFraction says")
        return {**status.document(), **_online_of(known)}, verdict
    if measured_online(known) is not None:
        kept = {key: value for key, value in known.items() if key != "conditions"}
        return kept, holds("Online", "F was measured while a pod ran")
    record = online_of(known)
    if record.measurements:
        return shown(record), holds("Online", "F was measured while a pod ran")
    return _online_of(known), fails(told_of(record) or AWAITED)


def _measured(profile: SpeedupProfile) -> SpeedupProfileStatus:
    """Return what the measurements show.

    Raises:
        ValueError: they show no speedup.
    """
    fit, bandwidth = profile.fit, profile.spec.memory_bandwidth
    relative = all(each.data_size.endswith("%") for each in profile.spec.measurements or ())
    return SpeedupProfileStatus(
        source="Measured",
        parallel_fraction=figure(fit.fraction),
        whole_data_parallel_fraction=figure(fit.fraction_at(1.0)) if relative else None,
        raw_parallel_fraction=figure(fit.raw_fraction),
        variance=figure(fit.variance),
        parallel_fraction_by_cores=[
            FractionAt(cores=cores, value=figure(fraction))
            for cores, fraction in list(fit.by_cores.items())[:MOST_ENTRIES]
        ],
        time_models=[
            TimeModel(
                cores=cores,
                form=model.form.value,
                coefficients=[figure(each) for each in model.coefficients],
                residual_seconds=figure(model.residual),
            )
            for cores, model in list(fit.time_models.items())[:MOST_ENTRIES]
        ],
        memory_bandwidth=None if bandwidth is None else figure(float(bandwidth)),
        findings=[
            Finding(code=each.code.value, message=each.message)
            for each in profile.findings[:MOST_FINDINGS]
        ],
    )


def _online_of(known: Mapping[str, Any]) -> Document:
    return {"online": known["online"]} if "online" in known else {}
