"""What a program can use at once, from looks at its pods over minutes and days."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from walras.market.demand import (
    ENOUGH,
    HOLD,
    MOST_PEAKS,
    STEP,
    Bound,
    Demand,
    Seen,
    bound_of,
    learn,
    merged,
)

HOUR = 3600.0
DAY = 24 * HOUR


def free(at_once: float, threads: float = 256, seconds: float = HOUR) -> Seen:
    """Return what is seen of a pod that nothing held back."""
    return Seen(at_once, threads, seconds)


def course(*seen: tuple[float, Seen]) -> Demand:
    """Return what is known after looks at given times."""
    demand = Demand()
    for at, each in seen:
        demand = learn(demand, [each], at)
    return demand


def test_nothing_is_known_of_a_program_that_was_never_seen() -> None:
    assert bound_of(Demand(), 0.0) == Bound()
    assert bound_of(learn(Demand(), [], 5.0), 5.0).cpus == math.inf


def test_a_pod_that_always_waits_may_use_as_many_cpus_as_it_has_threads() -> None:
    assert bound_of(course((0.0, Seen(0.7, 8))), 0.0).cpus == 8
    assert bound_of(course((0.0, Seen(0.4, 1))), 0.0).cpus == 1


def test_threads_that_never_ran_do_not_count_once_nothing_held_the_pod_back() -> None:
    assert bound_of(course((0.0, free(2.0, 64, ENOUGH))), 0.0).cpus == 2
    idle = bound_of(course((0.0, free(0.01, 64))), 0.0)
    assert idle.cpus == 1, "it can run one thread at any time"


def test_threads_that_are_spawned_and_do_nothing_raise_nothing() -> None:
    honest, spawned = (course((0.0, free(2.0, threads))) for threads in (3, 4000))
    assert bound_of(honest, 0.0).cpus == bound_of(spawned, 0.0).cpus == 2


def test_more_is_believed_at_once_and_less_after_days() -> None:
    grown = course((0.0, free(2.0)), (60.0, free(8.0)), (120.0, free(1.0)))
    assert bound_of(grown, 120.0).cpus == 8
    assert bound_of(grown, 60.0 + HOLD).cpus == 8
    a_day_later = bound_of(grown, 60.0 + HOLD + DAY)
    assert a_day_later.cpus == 4
    assert a_day_later.age == HOLD + DAY


def test_by_day_a_service_that_idles_at_night_can_use_what_it_used_yesterday() -> None:
    """On Monday it used most; a weekend of nothing follows on every week."""
    demand = Demand()
    used: dict[int, float] = {}
    for hour in range(6 * 7 * 24):
        now, day = hour * HOUR, hour // 24
        weekend, at_work = day % 7 > 4, 8 <= hour % 24 < 18
        if at_work and not weekend:
            yesterday = max(used.get(day - each, 0.0) for each in (1, 2, 3))
            assert bound_of(demand, now).cpus >= min(yesterday, 5.0) or day == 0
        cpus = (12.0 if day % 7 == 0 else 5.0) if at_work and not weekend else 0.1
        used[day] = max(used.get(day, 0.0), cpus)
        demand = learn(demand, [free(cpus)], now)
        assert bound_of(demand, now).cpus >= cpus


def test_an_idle_replica_or_a_pod_that_starts_anew_does_not_make_it_forget() -> None:
    known = course((0.0, free(8.0)))
    after = learn(known, [free(0.1), Seen(0.0, 1, 0.0)], 10.0)
    assert bound_of(after, 10.0).cpus == 8
    scaled_to_zero = learn(after, [], DAY)
    assert bound_of(scaled_to_zero, DAY).cpus == 8


def test_a_pod_that_waits_again_may_want_more_as_long_as_it_does() -> None:
    known = course((0.0, free(2.0, 16)))
    waits = learn(known, [Seen(2.0, 16, HOUR, wanted=6.0)], 10.0)
    assert bound_of(waits, 10.0).cpus == 6
    assert bound_of(learn(waits, [free(3.0, 16)], 20.0), 20.0).cpus == 3


def test_no_pod_runs_on_more_cpus_than_it_has_threads() -> None:
    assert bound_of(course((0.0, free(4.4, 4))), 0.0).cpus == 4


def test_the_error_falls_with_the_time_for_which_it_was_seen() -> None:
    errors = [
        bound_of(course((0.0, free(2.0, 16, seconds))), 0.0).error for seconds in (20, 900, DAY)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] < 14 < bound_of(course((0.0, Seen(2.0, 16))), 0.0).error + 1
    assert errors[-1] < 0.05


def test_looks_that_show_the_same_change_nothing_for_hours() -> None:
    first = course((0.0, free(8.0)))
    for minutes in range(1, int(STEP / 60)):
        assert learn(first, [free(8.0)], 60.0 * minutes) == first
    later = learn(first, [free(8.0)], STEP)
    assert later != first
    assert len(later.at_once) == 1


def test_what_several_jobs_of_a_program_know_counts_together() -> None:
    one, other = course((0.0, free(8.0, 9))), course((HOUR, free(3.0, 40)))
    both = merged([one, other], HOUR)
    assert bound_of(both, HOUR).cpus == 8
    assert merged([both, one], HOUR) == both


@given(
    st.lists(
        st.tuples(st.floats(0, 3 * DAY), st.floats(0, 256), st.booleans()), min_size=1, max_size=60
    )
)
def test_the_bound_is_never_below_what_was_used_of_late(
    looks: list[tuple[float, float, bool]],
) -> None:
    demand, now = Demand(), 0.0
    late: list[tuple[float, float]] = []
    for passed, used, is_free in looks:
        now += passed
        demand = learn(demand, [free(used) if is_free else Seen(used, 256)], now)
        late = [(at, cpus) for at, cpus in [*late, (now, used)] if now - at <= HOLD - STEP]
        assert bound_of(demand, now).cpus >= max(cpus for _, cpus in late) * (1 - 1e-12)
        assert max(len(demand.at_once), len(demand.threads)) <= MOST_PEAKS
        assert learn(demand, [], now) == demand
