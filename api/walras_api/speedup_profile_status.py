"""The status of a SpeedupProfile: what follows from measurements, and those of running pods."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from walras_api.node_allocation_status import ProgressSample  # noqa: TC001 - pydantic reads it
from walras_api.speedup_profile import MOST_PENALTIES, MOST_RUN_TIMES
from walras_api.status import ConditionedStatus, Decimals, Status, Time, at_most

MOST_MEASUREMENTS = 3
"""Measurements of running pods that a SpeedupProfile's status keeps."""

MOST_SAMPLES = 300
"""Samples that a SpeedupProfile's status keeps of each measurement."""

MOST_CO_RUNNERS = 100
"""Co-runners for which a SpeedupProfile's status keeps progress checks: the latest."""

MOST_COMPANY = 32
"""Co-runners during a measurement that a SpeedupProfile's status names."""

MOST_SCORED = 12
"""Predictions whose outcome a SpeedupProfile's status keeps, of all kinds: the latest."""

MOST_ERROR = 0.1
"""Error of a measured penalty above which a prediction is better."""


class OnlineMeasurement(Status):
    """A measurement of a running pod.

    Attributes:
        id: Identifier of the request.
        pod: Name of the pod.
        pod_uid: UID of the pod.
        node: Name of the pod's node.
        finished: Time at which the measurement ended.
        source: Progress counter that was used: instructions, cpuTime, file or http.
        samples: Samples in the order in which they were taken.
        memory_bandwidth: Memory bandwidth of the pod on all its cores, in gigabytes (10**9 bytes)
            per second; absent if it was not measured.
        co_runners: Programs of the other pods of the market on the pod's sockets, as
            ``namespace/profile``; empty if the pod was alone there, absent if that is not known.
        warnings: Limits of the measurement, and reasons to doubt its result.
    """

    id: str
    pod: str
    pod_uid: Annotated[str, Field(alias="podUID")]
    node: str
    finished: Time
    source: Literal["instructions", "cpuTime", "file", "http"]
    samples: list[ProgressSample] = at_most(MOST_SAMPLES)
    memory_bandwidth: Decimals | None = None
    co_runners: Annotated[list[str], Field(max_length=MOST_COMPANY)] | None = None
    warnings: list[str] = at_most(32)


class OnlineRequest(Status):
    """A measurement that was requested from a node's agent.

    Attributes:
        id: Identifier of the request in the node's NodeAllocation.
        pod: Name of the pod.
        pod_uid: UID of the pod.
        node: Name of the pod's node.
        purpose: Kind of measurement: Speedup varies the pod's cores; Progress does not.
        since: Time at which the measurement was requested.
        until: Time at which the request is dropped if the node's agent has not answered.
    """

    id: str
    pod: str
    pod_uid: Annotated[str, Field(alias="podUID")]
    node: str
    purpose: Literal["Speedup", "Progress"]
    since: Time
    until: Time


class OnlineFailure(Status):
    """The failure of the last attempts to measure.

    Attributes:
        reason: Machine-readable reason, in one CamelCase word; NotMeasured if the attempts failed
            for different reasons.
        message: Explanation of the last failure, for people.
        times: Number of consecutive failures.
        finished: Time at which the last attempt ended.
    """

    reason: Annotated[str, Field(pattern=r"^[A-Za-z]{1,63}$")]
    message: Annotated[str, Field(max_length=4096)]
    times: int
    finished: Time


class OnlineCheck(Status):
    """The last progress check: whether a job runs as fast as its profile predicts.

    Attributes:
        pod: Name of the pod that was checked.
        cores: Number of cores that the pod had.
        finished: Time at which the check ended.
        departure: Relative deviation of measured from predicted progress; absent if they cannot be
            compared.
        departures: Number of consecutive checks whose deviation was too large.
    """

    pod: str
    cores: int
    finished: Time
    departure: Decimals | None = None
    departures: int = 0


class CoRunnerProgress(Status):
    """Measured against predicted progress on one number of cores, alone or beside one co-runner.

    Attributes:
        profile: Name of the SpeedupProfile of the only co-runner on the socket; absent for pods
            that ran alone there.
        namespace: Namespace of the co-runner's SpeedupProfile; absent for pods that ran alone.
        cores: Number of cores that the pod used.
        source: Progress counter: instructions, cpuTime, file or http.
        together: Whether the prediction is from a measurement of a pod that was not alone. Such
            progress shows whether the program has changed, but no penalties.
        ratio: Ratio of measured to predicted progress, as the mean of the last checks.
        deviation: Standard deviation of a single check; absent if it is not known.
        looks: Number of checks that the mean is of.
        finished: Time at which the last check ended.
    """

    profile: str | None = None
    namespace: str | None = None
    cores: int | None = None
    source: Literal["instructions", "cpuTime", "file", "http"] | None = None
    together: bool = False
    ratio: Decimals
    deviation: Decimals | None = None
    looks: int
    finished: Time


class ScoredPrediction(Status):
    """A prediction of progress, and what a progress check then found.

    Attributes:
        of: What was predicted: Speedup (progress of a pod that is alone on its socket, where 1 is
            what F predicts), Gain (progress of such a pod after its cores were moved, where 1 is
            that before) or Penalty (throughput lost beside the only co-runner on the socket, where
            1 is all that the program has alone).
        expected: What was predicted.
        error: Standard error that was stated, with that of the check.
        came: What the check found.
    """

    of: Literal["Speedup", "Gain", "Penalty"]
    expected: Decimals
    error: Decimals
    came: Decimals


class OnlineProfile(Status):
    """Results of measurements of running pods, and the state of the current one.

    Attributes:
        request: Measurement that is in progress.
        measurements: Measurements that F follows from, each of one pod, oldest first.
        failure: Failure of measurements; absent after a successful measurement, or when the job was
            found to have changed.
        look_failure: Failure of progress checks; absent after a successful check.
        check: Last progress check; absent until the first check after the last measurement.
        co_runners: Progress since the last measurement of pods that were alone on their socket or
            beside one other pod of the market, by co-runner and number of cores. Measurements of
            pods that were alone count, too.
        predictions: Predictions that progress checks have tested, the latest last.
    """

    request: OnlineRequest | None = None
    measurements: list[OnlineMeasurement] = at_most(MOST_MEASUREMENTS)
    failure: OnlineFailure | None = None
    look_failure: OnlineFailure | None = None
    check: OnlineCheck | None = None
    co_runners: list[CoRunnerProgress] = at_most(MOST_CO_RUNNERS)
    predictions: list[ScoredPrediction] = at_most(MOST_SCORED)


class FractionAt(Status):
    """The parallel fraction F that follows from one core count (Karp and Flatt).

    Attributes:
        cores: Core count.
        value: F at this core count.
    """

    cores: int
    value: Decimals


class TimeModelReport(Status):
    """How the run time grows with the data at one core count.

    Attributes:
        cores: Core count.
        form: Form of the model.
        coefficients: Coefficients of the model, constant first.
        residual_seconds: Root mean square of the model's residuals, in seconds.
    """

    cores: int
    form: str
    coefficients: Annotated[list[Decimals], Field(max_length=8)]
    residual_seconds: Decimals


class ProfileFinding(Status):
    """A remark on the quality of a profile.

    Attributes:
        code: Machine-readable code of the remark.
        message: Explanation for people.
    """

    code: str
    message: str


class MeasuredPenalty(Status):
    """The throughput that a program was measured to lose beside another program.

    Attributes:
        profile: Name of the other program's SpeedupProfile.
        namespace: Namespace of the other program's SpeedupProfile.
        penalty: 1 - throughput together / throughput alone.
        error: Standard error of the penalty, including that of comparing different numbers of
            cores.
        cores: Number of cores on which the program ran beside the other one.
        source: Progress counter that measures throughput: instructions, cpuTime, file or http. A
            penalty by cpuTime is reported, but predictions are used: CPU time cannot see that
            memory is slow.
        looks: Number of progress checks that the penalty is the mean of.
        finished: Time at which the last of these checks ended.
    """

    profile: str
    namespace: str
    penalty: Decimals
    error: Decimals | None = None
    cores: int | None = None
    source: Literal["instructions", "cpuTime", "file", "http"]
    looks: int
    finished: Time

    @property
    def counted(self) -> float | None:
        """The part of the penalty that is not within its error; None if it does not count at all.

        A penalty counts if it is better than a prediction: not if it is by CPU time, which cannot
        see that memory is slow, and not if it is too uncertain.
        """
        penalty, error = float(self.penalty), float(self.error or 0)
        if self.source == "cpuTime" or not 0 <= error <= MOST_ERROR:
            return None
        return min(math.copysign(max(abs(penalty) - error, 0.0), penalty), 1.0)


class SpeedupProfileStatus(ConditionedStatus):
    """Results of a profile's measurements, and measurements of running pods.

    Attributes:
        source: Origin of F: Written (the spec's ``parallelFraction``), Measured (the spec's
            measurements) or Online (samples of a running pod).
        parallel_fraction: Parallel fraction F, as the mean over core counts.
        whole_data_parallel_fraction: F on all of the data, if it depends on their size.
        raw_parallel_fraction: F before it was clipped to the range from 0 to 1.
        variance: Variance of F over core counts, which is small where Amdahl's law fits.
        parallel_fraction_by_cores: F at each core count.
        time_models: Model of run time over data size, at each core count.
        memory_bandwidth: Memory bandwidth of the program when it runs alone, in gigabytes (10**9
            bytes) per second.
        penalties: Throughput that the program loses beside programs of other profiles, from
            progress checks of running pods.
        online: Measurements of running pods, and their state.
        findings: Remarks on the quality of the profile.
        conditions: Condition ``Ready``: whether the profile can be used; if not, why not, or what
            is awaited.
    """

    source: Literal["Written", "Measured", "Online"] | None = None
    parallel_fraction: Decimals | None = None
    whole_data_parallel_fraction: Decimals | None = None
    raw_parallel_fraction: Decimals | None = None
    variance: Decimals | None = None
    parallel_fraction_by_cores: list[FractionAt] = at_most(MOST_RUN_TIMES)
    time_models: list[TimeModelReport] = at_most(MOST_RUN_TIMES)
    memory_bandwidth: Decimals | None = None
    penalties: list[MeasuredPenalty] = at_most(MOST_PENALTIES)
    online: OnlineProfile | None = None
    findings: list[ProfileFinding] = at_most(32)
