"""Chooses (pure): what a SpeedupProfile keeps of measurements of running pods, and what follows.

All that must outlive an operator is in ``status.online``: what a node is asked for, what came of
that, and why nothing did. Every function takes such a record and returns the next one.

A request ends in exactly one of `succeeded`, `failed`, `checked` and `withdrawn`, each of which
removes it from the record: what an agent says of it later has nobody to hear it.
"""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, ValidationError, model_validator

from walras.diagnosis import diagnose
from walras.profile import fit_profile
from walras.rates import TELLING, Progress, rate_on_one_core, times_of
from walras.resources.statuses import (
    MOST_MEASUREMENTS,
    Finding,
    FractionAt,
    OnlineCheck,
    OnlineFailure,
    OnlineMeasurement,
    OnlineProfile,
    OnlineSample,
    SpeedupProfileStatus,
)
from walras.speedup import speedup
from walras_operator.measuring.companies import noted_beside, penalties_of, surprise
from walras_operator.measuring.times import later
from walras_operator.status.conditions import MAX_REASON, clipped
from walras_operator.status.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from walras.profile import Sample, SpeedupFit
    from walras.resources.statuses import OnlineRequest
    from walras_operator.measuring.companies import Company
    from walras_operator.measuring.reports import Counted
    from walras_operator.status.conditions import Problem
    from walras_operator.world import Document

_DAY = 86400

DEPARTURES = 2
"""Looks in a row that must find progress depart before a job is measured again."""


class Kept(OnlineMeasurement):
    """A measurement whose samples are not looked at until something is worked out from them.

    There are thousands in a large cluster, and most decisions need none.
    """

    samples: Any = ()


class Record(OnlineProfile):
    """What a profile keeps.

    Its schema takes numbers of failures, and times, that nobody can reckon with. Of samples only
    that there is a list of them is checked, see `Kept`.
    """

    measurements: list[Kept] = Field(default_factory=list)  # type: ignore[assignment] # never added to

    @model_validator(mode="after")
    def _can_be_reckoned_with(self) -> Self:
        failures = [each for each in (self.failure, self.look_failure) if each is not None]
        if any(each.times < 1 for each in failures):
            raise ValueError("has failed less than once")
        if not all(isinstance(each.samples, list) for each in self.measurements):
            raise ValueError("has samples that are no list")
        for each in (*failures, self.check, *self.measurements):
            if each is not None:
                later(each.finished, _DAY)
        return self


EMPTY = Record()


def online_of(status: Mapping[str, Any] | None) -> Record:
    """Return a profile's record; an empty one where there is none that can be understood."""
    told = (status or {}).get("online")
    if told is None:
        return EMPTY
    try:
        return Record.read(told)
    except ValidationError:
        return EMPTY


def asked(record: Record, request: OnlineRequest) -> Record:
    """Note what a node is asked for."""
    return record.model_copy(update={"request": request})


def withdrawn(record: Record) -> Record:
    """Note that nothing is asked for any more."""
    return record.model_copy(update={"request": None})


def succeeded(record: Record, measured: Kept) -> Record:
    """Take a measurement in. After a departure it is the only one; else one of several pods'.

    It changes what progress is predicted, so looks that were compared with the former prediction
    say nothing beside those to come: they are forgotten.
    """
    others = () if departed(record) else record.measurements
    kept = [each for each in others if each.pod_uid != measured.pod_uid]
    return Record(measurements=[*kept, measured][-MOST_MEASUREMENTS:])


def failed(record: Record, problem: Problem, now: str) -> Record:
    """Note that a request came to nothing.

    Looks are counted apart: what keeps a further pod from being measured does not keep those that
    were measured from being looked at, and a look that goes well does not have it tried sooner.
    """
    look = record.request is not None and record.request.purpose == "Progress"
    before = record.look_failure if look else record.failure
    # Pods may fail for different reasons, in turn; that is no news each time.
    other = before is not None and before.reason != problem.reason
    failure = OnlineFailure(
        reason="NotMeasured" if other else problem.reason,
        message=clipped(problem.message, MAX_REASON),
        times=1 if before is None else before.times + 1,
        finished=now,
    )
    return record.model_copy(
        update={"request": None, "look_failure" if look else "failure": failure}
    )


def checked(
    record: Record,
    request: OnlineRequest,
    counted: Counted,
    threshold: Decimal,
    now: str,
    company: Company | None = None,
) -> Record:
    """Note how a pod's progress compares with the prediction.

    What cannot be compared, since something else is counted by now, counts as a departure. Looks at
    a pod alone on its node, and at one beside a single other, are kept by company (`companies`),
    which the progress in it is compared with from then on. One that departs says nothing of a
    company: the job may have changed.
    """
    departure = _departure(record, counted)
    far = departure is None or abs(surprise(record.companies, company, departure)) > threshold
    before = 0 if record.check is None else record.check.departures
    check = OnlineCheck(
        pod=request.pod,
        cores=counted.samples[-1].cores,
        finished=now,
        departure=None if departure is None else figure(departure),
        departures=min(before + 1, DEPARTURES) if far else 0,
    )
    companies = record.companies
    if company is not None and departure is not None and not far:
        companies = noted_beside(companies, company, 1 + departure, now)
    # What could not be measured before the job changed was another program.
    failure = None if check.departures >= DEPARTURES else record.failure
    return record.model_copy(
        update={
            "request": None,
            "failure": failure,
            "look_failure": None,
            "check": check,
            "companies": companies,
        }
    )


def departed(record: Record) -> bool:
    """Whether the job does not get on any more as its profile says."""
    return record.check is not None and record.check.departures >= DEPARTURES


def samples_of(measured: Kept) -> list[Progress]:
    """Return a measurement's samples as numbers.

    Raises:
        ValueError: they are none.
    """
    samples = map(OnlineSample.read, measured.samples)
    return [Progress(each.cores, float(each.seconds), float(each.progress)) for each in samples]


def shown(record: Record) -> Document:
    """Return a profile's status, but for its conditions: the record, and what follows from it.

    Rates are compared within each measurement only, so that pods on unlike processors, or with
    counters of unlike units, can be taken together.

    Raises:
        ValueError: there are measurements, and they show no speedup.
    """
    online = {"online": record.document()} if record != EMPTY else {}
    if not record.measurements:
        return online
    fit = _fit(record)
    bandwidths = [float(each.memory_bandwidth or 0) for each in record.measurements]
    found = SpeedupProfileStatus(
        source="Online",
        parallel_fraction=figure(fit.fraction),
        raw_parallel_fraction=figure(fit.raw_fraction),
        variance=figure(fit.variance),
        parallel_fraction_by_cores=[
            FractionAt(cores=cores, value=figure(value)) for cores, value in fit.by_cores.items()
        ],
        memory_bandwidth=figure(fmean(bandwidths)) if all(bandwidths) else None,
        penalties=penalties_of(record.companies, record.measurements[-1].source),
        findings=[
            Finding(code=each.code.value, message=each.message)
            for each in diagnose(_times(record), fit)
            if each.code in TELLING
        ],
    )
    return {**found.document(), **online}


def noted(status: Mapping[str, Any] | None, record: Record) -> Document:
    """Return a profile's status with another record, of the same measurements."""
    kept = {key: value for key, value in (status or {}).items() if key != "online"}
    return {**kept, "online": record.document()} if record != EMPTY else kept


def _departure(record: Record, counted: Counted) -> float | None:
    """Return (measured - predicted) / predicted progress a second, on the cores that the pod has.

    The prediction is Amdahl's law from the rate on one core: of this very pod if it was measured,
    else of the pod that was measured last. None where that one counted something else.
    """
    now, samples = counted.measurement, counted.samples
    own = [each for each in record.measurements if each.pod_uid == now.pod_uid]
    (reference,) = (own or record.measurements)[-1:] or (None,)
    if reference is None or reference.source != now.source:
        return None
    cores = samples[-1].cores
    predicted = rate_on_one_core(samples_of(reference)) * speedup(cores, _fit(record).fraction)
    return median(each.rate for each in samples if each.cores == cores) / predicted - 1


def _times(record: Record) -> list[Sample]:
    return [time for each in record.measurements for time in times_of(samples_of(each))]


def _fit(record: Record) -> SpeedupFit:
    return fit_profile(_times(record))
