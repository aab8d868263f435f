"""The history of a dashboard: what was recorded, and then what its server has seen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dashboards import EXAMPLE
from walras.outcome.history import (
    FIELDS,
    SLOT,
    STEP,
    MarketSample,
    history_of_parts,
    part_of,
    stored,
)
from walras_dashboard.dump import Dump
from walras_dashboard.figure_history import history_of, of_course, of_session
from walras_dashboard.samples import FIELDS as SESSION_FIELDS
from walras_dashboard.samples import FigureSample
from walras_dashboard.viewers import Viewer
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from walras.outcome.history import History

STEPS = 10
REST = [None] * (len(FIELDS["user"]) - 3)


def recorded(since: int, step: int) -> History:
    """Samples of a user and a node, once a minute until a slot ago."""
    now = int(time.time())
    last = (now // SLOT - 1) * SLOT
    times = range(last, last + STEPS * STEP, STEP)
    samples = [
        MarketSample(
            each,
            {
                "user": {"ada": stored([2.0, 1.5, number / 8, *REST], "user")},
                "node": {"n1": stored([0.5 + number, 4.0], "node")},
            },
        )
        for number, each in enumerate(times)
    ]
    return history_of_parts([part_of(last // SLOT, samples)], now, since, step)


def viewer() -> Viewer:
    return Viewer(Dump.of([EXAMPLE]), recorded)


def test_recorded_figures_come_before_those_that_the_server_saw() -> None:
    found = history_of(viewer(), "user", "ada", 4 * SLOT, STEP)
    assert found.source == "operator"
    assert found.times == sorted(found.times)
    assert len(found.times) >= STEPS
    held = next(each for each in found.series if each.name == "held")
    assert held.unit == "cores"
    known = [value for value in held.values if value is not None]
    assert known[:STEPS] == [number / 8 for number in range(STEPS)]
    assert all(len(each.values) == len(found.times) for each in found.series)


def test_the_cluster_has_a_series_for_each_user_and_price() -> None:
    found = history_of(viewer(), "cluster", "", 4 * SLOT, STEP)
    units = {(each.name, each.unit) for each in found.series}
    assert {("ada", "cores"), ("n1", "price")} <= units
    price = next(each for each in found.series if each.name == "n1")
    assert [value for value in price.values if value is not None][:STEPS] == [
        0.5 + number for number in range(STEPS)
    ]


def test_what_was_never_recorded_has_only_the_session() -> None:
    found = history_of(viewer(), "user", "nobody", 4 * SLOT, STEP)
    assert (found.source, found.series) == ("none", [])


def test_a_record_that_cannot_be_read_is_said_and_the_session_shown() -> None:
    def broken(since: int, step: int) -> History:
        raise ApiError("https://cluster: does not answer", "unreachable")

    someone = Viewer(Dump.of([EXAMPLE]), broken)
    (name, *_) = [each.name for each in someone.views().overview.users]
    found = history_of(someone, "user", name, SLOT, STEP)
    assert found.source == "session"
    assert "https://cluster: does not answer" in found.notes


def sample(at: float, **held: float) -> FigureSample:
    rest = [None] * (len(SESSION_FIELDS["user"]) - 3)
    users = {name: (1.0, 1.0, cores, *rest) for name, cores in held.items()}
    return FigureSample(at, {"user": users, "job": {}, "node": {}})


def test_the_cluster_has_its_largest_users_first_and_no_parents() -> None:
    samples = [sample(1.0, all=9.0, a=1.0, b=5.0), sample(2.0, all=8.0, c=6.5)]
    found = of_session(samples, "cluster", "", 1, {"all"})
    assert [each.name for each in found.series] == ["c", "b", "a"]


def test_a_record_ends_when_its_run_did_and_is_as_fine_as_it_is_short() -> None:
    samples = [sample(1000.0 + second, a=float(second)) for second in range(120)]
    found = of_course(samples, "user", "a", 3600, 15)
    assert (found.times[0], found.times[-1]) == (1000.0, 1119.0)
    assert len(found.times) == 120
    assert of_course(samples, "user", "a", 60, 15).times[0] == 1059.0
