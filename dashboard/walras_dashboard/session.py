"""Figures over time that a server has seen since it began, where nothing else keeps them.

Samples are taken when something changes, at most every ten seconds. When there are too many, every
second one is dropped, so that the first is kept for as long as the server runs.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from walras_dashboard.samples import FigureSample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_dashboard.models import UserSummary
    from walras_dashboard.samples import Figures
    from walras_dashboard.views import Views

LEAST_SECONDS = 10.0
MOST_SAMPLES = 720
MOST_JOBS = 2_000
"""Jobs above which their figures are not kept: they would take hundreds of megabytes."""


class Session:
    """The samples; it may be used by several threads at once."""

    def __init__(self) -> None:
        self._samples: list[FigureSample] = []
        self._spacing = LEAST_SECONDS
        self._lock = threading.Lock()

    def take(self, time: float, views: Views) -> None:
        """Take a sample, if the last one is long enough ago.

        Args:
            time: Seconds since 1970.
            views: Views at that time.
        """
        with self._lock:
            if self._samples and time - self._samples[-1].time < self._spacing:
                return
            self._samples.append(sample_of(time, views))
            if len(self._samples) > MOST_SAMPLES:
                del self._samples[1::2]
                self._spacing *= 2

    def samples(self, since: float) -> Sequence[FigureSample]:
        """Return the samples from a time on."""
        with self._lock:
            return [each for each in self._samples if each.time >= since]


def sample_of(time: float, views: Views) -> FigureSample:
    """Return what is seen as a sample (pure)."""
    overview, rows = views.overview, views.job_rows
    return FigureSample(
        time,
        {
            "user": {each.name: _of_user(each) for each in overview.users},
            "node": {each.name: (each.price, each.sold) for each in overview.nodes},
            "job": {
                f"{row.namespace}/{row.name}": (
                    row.held,
                    row.bought,
                    row.used,
                    row.price,
                    row.speedup,
                )
                for row in (rows if len(rows) <= MOST_JOBS else ())
            },
        },
    )


def _of_user(user: UserSummary) -> Figures:
    return (
        user.cores.entitled,
        user.cores.bought,
        user.cores.held,
        user.cores.used,
        user.lent,
        user.borrowed,
        user.credits_above_mean,
        user.price,
    )
