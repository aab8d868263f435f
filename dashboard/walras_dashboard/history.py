"""Facts: how something changed, from whichever source has it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from walras_dashboard.models import History, Series
from walras_dashboard.session import FIELDS, MOST_JOBS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from walras_dashboard.session import Kind, Sample
    from walras_dashboard.viewers import Viewer

MOST_USERS = 30
MOST_NODES = 20

SESSION = "only what this server has seen since it began is known"


def history_of(
    viewer: Viewer,
    kind: Literal["user", "job", "node", "cluster"],
    name: str,
    since: int,
    step: int,
) -> History:
    """Return how something changed, at most one value in each step.

    Args:
        viewer: Who asks.
        kind: What changed.
        name: Name of it; empty for the cluster.
        since: Seconds before now.
        step: Seconds between values.
    """
    now = time.time()
    viewer.session.take(now, viewer.views())
    samples = in_steps(viewer.session.samples(now - since), step)
    return of_session(samples, kind, name, step)


def in_steps(samples: Sequence[Sample], step: int) -> list[Sample]:
    """Return the last sample in each step (pure)."""
    last = {int(each.time // step): each for each in samples}
    return list(last.values())


def of_session(
    samples: Sequence[Sample],
    kind: Literal["user", "job", "node", "cluster"],
    name: str,
    step: int,
) -> History:
    """Return the history in samples (pure)."""
    series = list(_of_cluster(samples) if kind == "cluster" else _of_one(samples, kind, name))
    notes = [SESSION]
    if kind == "job" and not any(each.figures["job"] for each in samples):
        notes.append(f"figures of jobs are kept for up to {MOST_JOBS} jobs only")
    return History(
        source="session" if series else "none",
        step=step,
        times=[each.time for each in samples],
        series=series,
        notes=notes,
    )


def _of_one(samples: Sequence[Sample], kind: Kind, name: str) -> Iterator[Series]:
    rows = [each.figures[kind].get(name) for each in samples]
    if all(row is None for row in rows):
        return
    for index, (field, unit) in enumerate(FIELDS[kind]):
        values = [None if row is None else row[index] for row in rows]
        yield Series(name=field, unit=unit, values=values)


def _of_cluster(samples: Sequence[Sample]) -> Iterator[Series]:
    """Yield the cores that users hold and their credits, and the prices of nodes."""
    for name in _largest(samples, "user", "held", MOST_USERS):
        yield _series(samples, "user", name, "held")
    for name in _largest(samples, "user", "held", MOST_USERS):
        credits_ = _series(samples, "user", name, "credits")
        if any(value is not None for value in credits_.values):
            yield credits_
    for name in _largest(samples, "node", "sold", MOST_NODES):
        yield _series(samples, "node", name, "price")


def _largest(samples: Sequence[Sample], kind: Kind, field: str, most: int) -> list[str]:
    """Return the names with the largest last figures, by name."""
    if not samples:
        return []
    index = [each for each, _ in FIELDS[kind]].index(field)
    last = samples[-1].figures[kind]
    order = sorted(last, key=lambda name: (-(last[name][index] or 0.0), name))
    return sorted(order[:most])


def _series(samples: Sequence[Sample], kind: Kind, name: str, field: str) -> Series:
    fields = [each for each, _ in FIELDS[kind]]
    index = fields.index(field)
    unit = FIELDS[kind][index][1]
    rows = [each.figures[kind].get(name) for each in samples]
    return Series(
        name=name, unit=unit, values=[None if row is None else row[index] for row in rows]
    )
