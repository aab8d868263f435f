"""Pure: the record of online measurements in a SpeedupProfile, and what follows from it.

Everything that must survive an operator is in ``status.online``: requests, results, and why there
are none. Each function takes a record and returns the next one.

`with_measurement`, `with_failure`, `with_check` and `without_request` end a request: they remove it
from the record, so later reports about it are ignored.
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, ValidationError, model_validator

from walras.speedup.amdahls_law import speedup
from walras.speedup.diagnosis import diagnose
from walras.speedup.profile import fit_profile
from walras.speedup.rates import RUNTIME_FINDINGS, rate_on_one_core, samples_of_progress
from walras_api.speedup_profile_status import (
    MOST_COMPANY,
    MOST_MEASUREMENTS,
    FractionAt,
    OnlineCheck,
    OnlineFailure,
    OnlineProfile,
    ProfileFinding,
    SpeedupProfileStatus,
)
from walras_operator.decide.conditions import MAX_REASON, clipped
from walras_operator.decide.measuring.co_runners import (
    ALONE,
    UNKNOWN_DEVIATION,
    CoRunner,
    Observation,
    penalties_of,
    relative_departure,
    with_observation,
)
from walras_operator.decide.measuring.counted_progress import (
    CountedProgress,
    StoredMeasurement,
    observation_of,
    relative_error,
    samples_of,
)
from walras_operator.decide.measuring.tested_predictions import with_tested
from walras_operator.decide.measuring.times import later
from walras_operator.decide.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from decimal import Decimal

    from walras.speedup.profile import Sample, SpeedupFit
    from walras_api.speedup_profile_status import CoRunnerProgress, OnlineRequest
    from walras_operator.decide.conditions import Problem
    from walras_operator.decide.world import Document

_DAY = 86400

BY_CPU_TIME = ProfileFinding(
    code="PenaltiesByCPUTime",
    message=(
        "penalties were measured by CPU time, which cannot see that memory is slow, so predictions "
        "are used instead: let the job count its own progress, or let the agent count "
        "instructions (agent.profiling.instructions)"
    ),
)

DEPARTURES = 2
"""Checks in a row that must find a deviation before a job is measured again."""


class ProfileRecord(OnlineProfile):
    """The content of ``status.online``, with checks beyond those of its schema.

    Samples are only checked to be lists, see `StoredMeasurement`.
    """

    measurements: list[StoredMeasurement] = Field(default_factory=list)  # type: ignore[assignment] # never appended to

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        failures = [each for each in (self.failure, self.look_failure) if each is not None]
        if any(each.times < 1 for each in failures):
            raise ValueError("has a failure that never happened")
        if not all(isinstance(each.samples, list) for each in self.measurements):
            raise ValueError("has samples that are not a list")
        for each in (*failures, self.check, *self.measurements):
            if each is not None:
                later(each.finished, _DAY)
        return self


EMPTY = ProfileRecord()


def read_record(status: Mapping[str, Any] | None) -> ProfileRecord:
    """Return a profile's record; an empty one if it is missing or malformed."""
    stored = (status or {}).get("online")
    if stored is None:
        return EMPTY
    try:
        return ProfileRecord.read(stored)
    except ValidationError:
        return EMPTY


def with_request(record: ProfileRecord, request: OnlineRequest) -> ProfileRecord:
    """Return the record with a request."""
    return record.model_copy(update={"request": request})


def without_request(record: ProfileRecord) -> ProfileRecord:
    """Return the record without a request."""
    return record.model_copy(update={"request": None})


def with_measurement(
    record: ProfileRecord, measured: StoredMeasurement, company: Sequence[CoRunner] | None = None
) -> ProfileRecord:
    """Return the record with a new measurement.

    If the job has changed, it replaces all others; otherwise it is added to those of other pods. It
    changes the predicted progress, so observations beside co-runners are forgotten. What remains is
    the progress of pods that were alone, on every number of cores at which they were measured.

    Args:
        record: Record so far.
        measured: The new measurement.
        company: Programs of the other pods on the pod's sockets; None if they are not known.
    """
    names = None if company is None else sorted({f"{n}/{p}" for n, p in company})[:MOST_COMPANY]
    new = measured.model_copy(update={"co_runners": names})
    others = () if has_changed(record) else record.measurements
    kept = [each for each in others if each.pod_uid != measured.pod_uid]
    result = ProfileRecord(
        measurements=[*kept, new][-MOST_MEASUREMENTS:], predictions=record.predictions
    )
    seen: list[CoRunnerProgress] = []
    for each in result.measurements:
        for look in _looks_alone(result, each):
            seen = with_observation(seen, look, each.finished)
    return result.model_copy(update={"co_runners": seen})


def _looks_alone(record: ProfileRecord, measured: StoredMeasurement) -> Iterator[Observation]:
    """Yield the progress of a measured pod on each number of cores, if it was alone."""
    if measured.co_runners != []:
        return
    samples = samples_of(measured)
    one, fraction = rate_on_one_core(samples), _fit(record).fraction
    for cores in sorted({each.cores for each in samples}):
        at = [each for each in samples if each.cores == cores]
        yield observation_of(ALONE, measured.source, at, one * speedup(cores, fraction))


def with_failure(record: ProfileRecord, problem: Problem, now: str) -> ProfileRecord:
    """Return the record after a request that failed.

    Failures of checks and of measurements are counted separately, so that neither delays or speeds
    up the other.
    """
    is_check = record.request is not None and record.request.purpose == "Progress"
    before = record.look_failure if is_check else record.failure
    # Pods may fail for different reasons in turn, which should not be an Event each time.
    differs = before is not None and before.reason != problem.reason
    failure = OnlineFailure(
        reason="NotMeasured" if differs else problem.reason,
        message=clipped(problem.message, MAX_REASON),
        times=1 if before is None else before.times + 1,
        finished=now,
    )
    return record.model_copy(
        update={"request": None, "look_failure" if is_check else "failure": failure}
    )


def with_check(
    record: ProfileRecord,
    request: OnlineRequest,
    counted: CountedProgress,
    threshold: Decimal,
    now: str,
    co_runner: CoRunner | None = None,
) -> ProfileRecord:
    """Return the record after a check of a pod's progress against the prediction.

    If the progress counter has changed, the check counts as a deviation. Checks of a pod that is
    alone, or beside one co-runner, are kept by co-runner and number of cores; later checks are
    compared with them. A deviation is not kept, since the job may have changed.
    """
    own = _reference(record, counted)
    look = None if own is None else _look(record, own, counted, co_runner or ALONE)
    departure = None if look is None else look.ratio - 1
    deviates = (
        look is None
        or departure is None
        or abs(relative_departure(record.co_runners, look, departure)) > threshold
    )
    before = 0 if record.check is None else record.check.departures
    check = OnlineCheck(
        pod=request.pod,
        cores=counted.samples[-1].cores,
        finished=now,
        departure=None if departure is None else figure(departure),
        departures=min(before + 1, DEPARTURES) if deviates else 0,
    )
    tested = record.predictions
    if co_runner is not None and look is not None and own is not None:
        tested = with_tested(record, request.pod, look, *_predicted_by(record, own))
    co_runners = record.co_runners
    if co_runner is not None and look is not None and not deviates:
        for each in _looks(record, look, counted, co_runner):
            co_runners = with_observation(co_runners, each, now)
    # A failure from before the job changed was that of another program.
    failure = None if check.departures >= DEPARTURES else record.failure
    return record.model_copy(
        update={
            "request": None,
            "failure": failure,
            "look_failure": None,
            "check": check,
            "co_runners": co_runners,
            "predictions": tested,
        }
    )


def has_changed(record: ProfileRecord) -> bool:
    """Return whether the job no longer progresses as its profile predicts."""
    return record.check is not None and record.check.departures >= DEPARTURES


def measured_status(record: ProfileRecord) -> Document:
    """Return a profile's status without conditions: the record, and what follows from it.

    Rates are compared within a measurement only, so that pods on different processors, or with
    counters of different units, can be combined.

    Raises:
        ValueError: No speedup can be fitted to the measurements.
    """
    online = {"online": record.document()} if record != EMPTY else {}
    if not record.measurements:
        return online
    fit = _fit(record)
    penalties = penalties_of(record.co_runners)
    bandwidths = [float(each.memory_bandwidth or 0) for each in record.measurements]
    status = SpeedupProfileStatus(
        source="Online",
        parallel_fraction=figure(fit.fraction),
        raw_parallel_fraction=figure(fit.raw_fraction),
        variance=figure(fit.variance),
        parallel_fraction_by_cores=[
            FractionAt(cores=cores, value=figure(value)) for cores, value in fit.by_cores.items()
        ],
        memory_bandwidth=figure(fmean(bandwidths)) if all(bandwidths) else None,
        penalties=penalties,
        findings=[
            *(
                ProfileFinding(code=each.code.value, message=each.message)
                for each in diagnose(_times(record), fit)
                if each.code in RUNTIME_FINDINGS
            ),
            *([BY_CPU_TIME] if any(each.source == "cpuTime" for each in penalties) else []),
        ],
    )
    return {**status.document(), **online}


def with_record(status: Mapping[str, Any] | None, record: ProfileRecord) -> Document:
    """Return a profile's status with another record of the same measurements."""
    kept = {key: value for key, value in (status or {}).items() if key != "online"}
    return {**kept, "online": record.document()} if record != EMPTY else kept


def _reference(
    record: ProfileRecord, counted: CountedProgress, *, alone: bool = False
) -> StoredMeasurement | None:
    """Return the measurement whose rate on one core a check is compared with.

    That of this pod if there is one, else of the pod that was measured last; None if that one used
    another counter.

    Args:
        record: Record with the measurements.
        counted: The check.
        alone: Whether to use measurements of pods that were alone only.
    """
    now = counted.measurement
    able = [each for each in record.measurements if not alone or each.co_runners == []]
    own = [each for each in able if each.pod_uid == now.pod_uid]
    (reference,) = (own or able)[-1:] or (None,)
    return None if reference is None or reference.source != now.source else reference


def _look(
    record: ProfileRecord,
    reference: StoredMeasurement,
    counted: CountedProgress,
    co_runner: CoRunner,
) -> Observation:
    """Return a check as the ratio of measured and predicted progress per second.

    The prediction follows Amdahl's law from the rate of the reference on one core.
    """
    samples = counted.samples
    cores = samples[-1].cores
    predicted = rate_on_one_core(samples_of(reference)) * speedup(cores, _fit(record).fraction)
    at = [each for each in samples if each.cores == cores]
    return observation_of(
        co_runner, reference.source, at, predicted, together=reference.co_runners != []
    )


def _looks(
    record: ProfileRecord, look: Observation, counted: CountedProgress, co_runner: CoRunner
) -> Iterator[Observation]:
    """Yield a check, and, if it is not so already, as compared with a pod that was alone."""
    yield look
    reference = _reference(record, counted, alone=True) if look.together else None
    if reference is not None:
        yield _look(record, reference, counted, co_runner)


def _predicted_by(
    record: ProfileRecord, reference: StoredMeasurement
) -> tuple[float, float, float]:
    """Return F, its standard deviation over core counts, and the error of the rate on one core.

    The latter is relative. It is part of what F errs by, too, so it stands for that of the rates on
    more cores, which is about as large.
    """
    fit, samples = _fit(record), samples_of(reference)
    error = relative_error([each for each in samples if each.cores == 1])
    return fit.fraction, math.sqrt(fit.variance), UNKNOWN_DEVIATION if error is None else error


def _times(record: ProfileRecord) -> list[Sample]:
    return [time for each in record.measurements for time in samples_of_progress(samples_of(each))]


def _fit(record: ProfileRecord) -> SpeedupFit:
    return fit_profile(_times(record))
