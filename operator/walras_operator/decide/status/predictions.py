"""Pure: how good the predictions were that came true, by kind, for the status of the Market."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from walras.analysis.predictions import Prediction, score
from walras_api.finish_predictions import came_true
from walras_api.market_status import PredictionReport
from walras_operator.decide.conditions import listed
from walras_operator.decide.node_gains import came_true as gains_that_came
from walras_operator.decide.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras_api.job_inputs import Name
    from walras_api.kinds import MarketJob, SpeedupProfile
    from walras_api.market_status import NodeGain
    from walras_operator.decide.job_outcomes import DeadlineResult

OF_PROGRESS = ("Gain", "Penalty", "Speedup")
"""Kinds of predictions that progress checks test."""


def prediction_reports(
    jobs: Iterable[MarketJob],
    decided: Mapping[Name, DeadlineResult],
    profiles: Iterable[SpeedupProfile],
    gains: Iterable[NodeGain],
) -> list[PredictionReport]:
    """Return how good the predictions of each kind were that came true; no report where none has.

    Args:
        jobs: All MarketJobs, with their last statuses.
        decided: What this decision says of deadlines.
        profiles: All SpeedupProfiles, with the progress checks that this decision has read.
        gains: What nodes brought that were added.
    """
    statuses = (
        {"deadline": decided[key].document} if key in decided else job.status
        for job in jobs
        for key in ((job.metadata.namespace, job.metadata.name),)
    )
    tested = _of_progress(profiles)
    kinds = {
        "Finish": came_true(statuses),
        **{each: tested[each] for each in OF_PROGRESS},
        "Node": gains_that_came(gains),
    }
    return [
        PredictionReport(
            of=of,
            number=scores.number,
            coverage=figure(scores.coverage),
            width=figure(scores.width),
            crps=figure(scores.crps),
            widening=figure(scores.widening),
        )
        for of, predictions in kinds.items()
        if (scores := score(predictions)) is not None
    ]


def _of_progress(profiles: Iterable[SpeedupProfile]) -> Mapping[str, Sequence[Prediction]]:
    """Return the predictions that progress checks have tested; what cannot be read is left out."""
    by_method: defaultdict[str, list[Prediction]] = defaultdict(list)
    for profile in profiles:
        online = (profile.status or {}).get("online")
        if not isinstance(online, dict):
            continue
        for each in listed(online, "predictions"):
            try:
                numbers = [float(each[field]) for field in ("expected", "error", "came")]
            except (KeyError, TypeError, ValueError):
                continue
            expected, error, came = numbers
            if all(map(math.isfinite, numbers)) and error > 0:
                by_method[str(each.get("of"))].append(Prediction(1.0, expected, error, came))
    return by_method
