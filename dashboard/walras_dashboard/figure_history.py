"""Facts: how something changed, from whichever source has it.

What the operator or Prometheus has kept comes first; what this server has seen since then follows.
"""

from __future__ import annotations

import time
from itertools import chain
from typing import TYPE_CHECKING, Literal

from walras_dashboard.models import FigureSeries, RecordedFigures
from walras_dashboard.samples import FIELDS, Samples
from walras_dashboard.session import MOST_JOBS
from walras_service.api_errors import ApiError
from walras_service.failures import Failure

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from walras.outcome.history import History
    from walras_dashboard.samples import FigureSample, Kind
    from walras_dashboard.viewers import Viewer

MOST_USERS = 30
MOST_NODES = 20
POINTS = 200

SESSION = "there are only figures since this server was started"


def history_of(
    viewer: Viewer,
    kind: Literal["user", "job", "node", "cluster"],
    name: str,
    since: int,
    step: int,
) -> RecordedFigures:
    """Return how something changed, at most one value in each step.

    Args:
        viewer: Viewer who asks.
        kind: Kind of what changed.
        name: Name of it; empty for the cluster.
        since: Seconds before now.
        step: Seconds between values.
    """
    views = viewer.views()
    # A parent has what those below it have: with both, a stack would count that twice.
    parents = {row.parent for row in views.user_rows if row.parent is not None}
    if course := views.state.course:
        return of_course(course, kind, name, since, step, parents)
    now = time.time()
    viewer.session.take(now, views)
    try:
        recorded = viewer.recorded(since, step)
    except (ApiError, Failure) as error:
        recorded, notes = None, [str(error)]
    else:
        notes = [] if recorded is None else list(recorded.notes)
    kept = None if recorded is None else of_recorded(recorded, kind, name, parents)
    from_then = kept.times[-1] + step if kept else now - since
    samples = in_steps(viewer.session.samples(max(from_then, now - since)), step)
    seen = of_session(samples, kind, name, step, parents)
    if kept is None:
        return seen.model_copy(update={"notes": [*notes, *seen.notes]})
    return joined(kept, seen)


def of_course(
    course: Sequence[FigureSample],
    kind: Literal["user", "job", "node", "cluster"],
    name: str,
    since: int,
    step: int,
    without: Collection[str] = (),
) -> RecordedFigures:
    """Return the last seconds of what a file has recorded, up to its own end (pure).

    A run may be shorter than a step: there are at least as many steps as a chart shows points.
    """
    begin = max(course[0].time, course[-1].time - since)
    finer = max(1, min(step, int((course[-1].time - begin) / POINTS)))
    samples = in_steps([each for each in course if each.time >= begin], finer)
    recorded = of_session(samples, kind, name, finer, without)
    if not recorded.series:
        return recorded.model_copy(update={"notes": []})
    return recorded.model_copy(update={"source": "record", "notes": []})


def of_recorded(
    recorded: History,
    kind: Literal["user", "job", "node", "cluster"],
    name: str,
    without: Collection[str] = (),
) -> RecordedFigures | None:
    """Return what was recorded, up to the last figure; None if nothing was (pure)."""
    series = _series(recorded, kind, name, without)
    sampled = [
        place for each in series for place, value in enumerate(each.values) if value is not None
    ]
    if recorded.source == "none" or not sampled:
        return None
    length = max(sampled) + 1
    return RecordedFigures(
        source=recorded.source,
        step=recorded.step,
        times=[float(each) for each in recorded.times[:length]],
        series=[each.model_copy(update={"values": each.values[:length]}) for each in series],
        notes=list(recorded.notes),
    )


def _series(
    record: History | Samples,
    kind: Literal["user", "job", "node", "cluster"],
    name: str,
    without: Collection[str],
) -> list[FigureSeries]:
    """Return all figures of one, or of the cluster the cores and credits of users, and prices."""
    if kind != "cluster":
        return list(_of_one(record, kind, name).values())
    users = _with_most(record, "user", "held", MOST_USERS, without)
    nodes = _with_most(record, "node", "sold", MOST_NODES)
    return [
        series[field].model_copy(update={"name": name})
        for rows, field in ((users, "held"), (users, "credits"), (nodes, "price"))
        for name, series in rows.items()
        if any(value is not None for value in series[field].values)
    ]


def _of_one(record: History | Samples, kind: Kind, name: str) -> dict[str, FigureSeries]:
    series = {each.name: list(each.values) for each in record.series(kind, name)}
    return {
        field: FigureSeries(name=field, unit=unit, values=series[field])
        for field, unit in FIELDS[kind]
        if field in series
    }


def _with_most(
    record: History | Samples, kind: Kind, field: str, most: int, without: Collection[str] = ()
) -> dict[str, dict[str, FigureSeries]]:
    """Return the figures of the users or nodes with most of a figure over time, most first."""
    rows = {name: _of_one(record, kind, name) for name in record.names(kind) if name not in without}
    sums = {name: sum(each or 0.0 for each in row[field].values) for name, row in rows.items()}
    order = sorted(sums, key=lambda name: (-sums[name], name))
    return {name: rows[name] for name in order[:most]}


def joined(first: RecordedFigures, then: RecordedFigures) -> RecordedFigures:
    """Return one history after the other, without values where one has no such figure (pure)."""
    names = dict.fromkeys((each.name, each.unit) for each in chain(first.series, then.series))
    return first.model_copy(
        update={
            "times": [*first.times, *then.times],
            "series": [
                FigureSeries(
                    name=name,
                    unit=unit,
                    values=[*_values(first, name, unit), *_values(then, name, unit)],
                )
                for name, unit in names
            ],
        }
    )


def _values(history: RecordedFigures, name: str, unit: str) -> Iterable[float | None]:
    for each in history.series:
        if (each.name, each.unit) == (name, unit):
            return each.values
    return [None] * len(history.times)


def in_steps(samples: Sequence[FigureSample], step: int) -> list[FigureSample]:
    """Return the last sample in each step (pure)."""
    last = {int(each.time // step): each for each in samples}
    return list(last.values())


def of_session(
    samples: Sequence[FigureSample],
    kind: Literal["user", "job", "node", "cluster"],
    name: str,
    step: int,
    without: Collection[str] = (),
) -> RecordedFigures:
    """Return the history in samples; that of the cluster without some users (pure)."""
    series = _series(Samples(samples), kind, name, without)
    notes = [SESSION]
    if kind == "job" and not any(each.figures["job"] for each in samples):
        notes.append(f"figures of jobs are kept for up to {MOST_JOBS} jobs only")
    return RecordedFigures(
        source="session" if series else "none",
        step=step,
        times=[each.time for each in samples],
        series=series,
        notes=notes,
    )
