"""Pure: the predictions of progress that a progress check tests, with their stated errors.

Each is in parts of a progress: of what F predicts (Speedup), of that before cores were moved
(Gain), of that alone (Penalty). A check of a pod with several co-runners tests nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from walras.speedup.amdahls_law import speedup
from walras_api.speedup_profile_status import MOST_SCORED, ScoredPrediction
from walras_operator.decide.measuring.co_runners import (
    ALONE,
    error_of,
    error_of_mean,
    predicted_penalty,
)
from walras_operator.decide.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal

    from walras_api.speedup_profile_status import CoRunnerProgress, OnlineCheck, OnlineProfile
    from walras_operator.decide.measuring.co_runners import Observation

LEAST_ERROR = 0.001
"""Error that every prediction has at least, since samples that agree by chance show none."""


def with_tested(
    record: OnlineProfile,
    pod: str,
    look: Observation,
    fraction: float,
    fraction_error: float,
    rate_error: float,
) -> list[ScoredPrediction]:
    """Return the tested predictions of a record, with those that a check tests.

    Args:
        record: Record before the check.
        pod: Name of the pod that was checked.
        look: The check of a pod that is alone, or beside one co-runner.
        fraction: Parallel fraction F by which progress is predicted.
        fraction_error: Standard error of F.
        rate_error: Relative standard error of the rate on one core that predictions start from.
    """
    tested = [
        *_of_speedup(look, fraction, fraction_error, rate_error),
        *_of_gain(record, pod, look, fraction, fraction_error),
        *_of_penalty(record, look),
    ]
    kept = list(record.predictions)
    for each in tested:
        same = [other for other in kept if other.of == each.of]
        if len(same) >= MOST_SCORED // 3:
            kept.remove(same[0])
        kept.append(each)
    return kept


def _of_speedup(
    look: Observation, fraction: float, fraction_error: float, rate_error: float
) -> Iterator[ScoredPrediction]:
    if look.co_runner == ALONE and not look.together:
        by_fraction = _sensitivity(look.cores, fraction) * fraction_error
        yield _tested("Speedup", 1.0, [by_fraction, rate_error, error_of(look)], look.ratio)


def _of_gain(
    record: OnlineProfile, pod: str, look: Observation, fraction: float, fraction_error: float
) -> Iterator[ScoredPrediction]:
    """Yield the gain of a pod whose cores were moved since the last check, if both were alone."""
    before = _last_alone(record.check, record.co_runners, pod, look)
    if before is None or before.cores is None or before.cores == look.cores:
        return
    gain = float(speedup(look.cores, fraction) / speedup(before.cores, fraction))
    grows = _sensitivity(look.cores, fraction) - _sensitivity(before.cores, fraction)
    ratio = float(before.ratio)
    came = gain * look.ratio / ratio
    errors = [
        gain * grows * fraction_error,
        gain * error_of(look) / ratio,
        came * error_of_mean(before) / ratio,
    ]
    yield _tested("Gain", gain, errors, came)


def _last_alone(
    check: OnlineCheck | None,
    observations: Sequence[CoRunnerProgress],
    pod: str,
    look: Observation,
) -> CoRunnerProgress | None:
    """Return the progress in the last check, if it was of the same pod, and both were alone."""
    if check is None or check.pod != pod or look.co_runner != ALONE:
        return None
    for each in observations:
        same = (each.cores, each.finished) == (check.cores, check.finished)
        like = (each.source, each.together) == (look.source, look.together)
        if each.profile is None and same and like and float(each.ratio) > 0:
            return each
    return None


def _of_penalty(record: OnlineProfile, look: Observation) -> Iterator[ScoredPrediction]:
    if look.co_runner != ALONE and not look.together:
        penalty = predicted_penalty(record.co_runners, look)
        if penalty is not None:
            expected, error, came = penalty
            yield _tested("Penalty", expected, [error], came)


def _tested(
    of: Literal["Speedup", "Gain", "Penalty"],
    expected: float,
    errors: Sequence[float],
    came: float,
) -> ScoredPrediction:
    error = max(math.hypot(*errors), LEAST_ERROR)
    return ScoredPrediction(
        of=of, expected=figure(expected), error=figure(error), came=figure(came)
    )


def _sensitivity(cores: int, fraction: float) -> float:
    """Return the relative change of the speedup with F, by Amdahl's law: (ds / dF) / s."""
    return float(speedup(cores, fraction)) * (1 - 1 / cores)
