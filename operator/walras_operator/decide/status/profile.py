"""Pure: compute the status of a SpeedupProfile: what follows from its measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walras_api.job_inputs import ASSUMED_FRACTION, measured_online
from walras_api.speedup_profile import MOST_RUN_TIMES
from walras_api.speedup_profile_status import (
    FractionAt,
    ProfileFinding,
    SpeedupProfileStatus,
    TimeModelReport,
)
from walras_operator.decide.conditions import ConditionState, Problem, conditions, fails, holds
from walras_operator.decide.measuring.measurement_record import measured_status, read_record
from walras_operator.decide.measuring.reasons import record_problem
from walras_operator.decide.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_api.kinds import SpeedupProfile
    from walras_operator.decide.measuring.measurement_record import ProfileRecord
    from walras_operator.decide.world import Document

AWAITED = Problem(
    "Awaited",
    "has no measurements yet; they come while a pod runs if the Market has profiling.automatic, or "
    "from `walras profile`",
)

"""Most entries of a list in the status, as in the CustomResourceDefinition."""

_FROM_F = ("source", "parallel_fraction", "whole_data_parallel_fraction", "raw_parallel_fraction")
"""Fields of the status that say what F is, and where it is from."""

MAX_FINDINGS = 32
"""Most findings in the status, as in the CustomResourceDefinition."""


def profile_status(profile: SpeedupProfile, before: Mapping[str, Any], now: str) -> Document:
    """Return the status of a profile.

    Args:
        profile: The profile; its status contains what was measured while its program ran.
        before: Status as last written.
        now: Current time (RFC 3339).
    """
    known = profile.status or {}
    try:
        learned, ready = _learned(profile, known)
    except (ValueError, ArithmeticError) as error:
        learned = _online_of(known)
        ready = fails(Problem("Unusable", f"{error}; correct it, or profile the program anew"))
    states = conditions({"Ready": ready}, before, now, profile.metadata.generation)
    return {**learned, "conditions": [each.document() for each in states]}


def _learned(profile: SpeedupProfile, known: Mapping[str, Any]) -> tuple[Document, ConditionState]:
    why = profile.refused
    if profile.spec.measurements and not why:
        counts = len({each.cores for each in profile.spec.measurements})
        ready = holds("Measured", f"F follows from measurements at {counts} core counts")
        return {**_measured(profile).document(), **_online_of(known)}, ready
    if profile.spec.parallel_fraction is not None:
        fraction = figure(float(profile.spec.parallel_fraction))
        status = SpeedupProfileStatus(source="Written", parallel_fraction=fraction)
        ready = holds("Written", f"F is {fraction}, as spec.parallelFraction says")
        return {**status.document(), **_online_of(known)}, ready
    but = why and f"; the measurements of the spec are not used, since {why}"
    if measured_online(known) is not None:
        kept = {key: value for key, value in known.items() if key != "conditions"}
        return kept, holds("Online", f"F was measured while a pod ran{but}")
    record = read_record(known)
    if record.measurements:
        return measured_status(record), holds("Online", f"F was measured while a pod ran{but}")
    if why:
        unfit = _measured(profile).model_copy(update=dict.fromkeys(_FROM_F))
        return {**unfit.document(), **_online_of(known)}, fails(_refused(why, record))
    return _online_of(known), fails(record_problem(record) or AWAITED)


def _refused(why: str, record: ProfileRecord) -> Problem:
    measuring = record_problem(record)
    now = measuring.message if measuring else "measure anew, or let the Market measure a pod"
    return Problem(
        "TooNoisy",
        f"{why}, so F counts as not measured, and is assumed to be {ASSUMED_FRACTION:g}; {now}",
    )


def _measured(profile: SpeedupProfile) -> SpeedupProfileStatus:
    """Return the status that follows from the measurements in the spec.

    Raises:
        ValueError: No speedup can be fitted to them.
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
            for cores, fraction in list(fit.by_cores.items())[:MOST_RUN_TIMES]
        ],
        time_models=[
            TimeModelReport(
                cores=cores,
                form=model.form.value,
                coefficients=[figure(each) for each in model.coefficients],
                residual_seconds=figure(model.residual),
            )
            for cores, model in list(fit.time_models.items())[:MOST_RUN_TIMES]
        ],
        memory_bandwidth=None if bandwidth is None else figure(float(bandwidth)),
        findings=[
            ProfileFinding(code=each.code.value, message=each.message)
            for each in profile.findings[:MAX_FINDINGS]
        ],
    )


def _online_of(known: Mapping[str, Any]) -> Document:
    return {"online": known["online"]} if "online" in known else {}
