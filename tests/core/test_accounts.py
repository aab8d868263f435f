"""Accounts: sums are exact, gaps stay gaps, and no day is larger than its bound."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.outcome.history import FIELDS, MarketSample, stored
from walras.outcome.hourly_accounts import (
    ACCOUNTS,
    COLUMNS,
    DAY,
    HOUR,
    LARGEST_DAY,
    LONGEST,
    OTHERS,
    STEPS,
    Day,
    HourSums,
    coarser,
    continued,
    observed,
    read_day,
    stored_day,
)

if TYPE_CHECKING:
    from walras.outcome.blocks import Table

START = 20_700 * DAY
NUMBER = START // DAY
HELD = [each.name for each in COLUMNS].index("held")

VALUES = st.tuples(*(st.one_of(st.none(), st.integers(0, 10**15)) for _ in COLUMNS)).filter(
    lambda row: any(value is not None for value in row)
)
HOURS = st.builds(
    HourSums,
    st.integers(0, HOUR),
    st.dictionaries(st.sampled_from(["ann", "bob", "cyd", ""]), VALUES),
)


@st.composite
def days(draw: st.DrawFn) -> Day:
    step = draw(st.sampled_from(STEPS))
    starts = st.sampled_from(range(START, START + DAY, step))
    return Day(NUMBER, draw(st.dictionaries(starts, HOURS, max_size=24)), step)


def total(day: Day) -> tuple[int, list[int]]:
    """Seconds, and the sum over all users, of all hours."""
    rows = [values for hour in day.hours.values() for values in hour.users.values()]
    sums = [sum(row[place] or 0 for row in rows) for place in range(len(COLUMNS))]
    return sum(hour.seconds for hour in day.hours.values()), sums


def sample(time: int, held: float, user: str = "ann") -> MarketSample:
    row = tuple(held if each.name == "held" else None for each in FIELDS["user"])
    return MarketSample(time, {"user": {user: stored(row, "user")}})


@given(days())
def test_a_day_comes_back_as_it_was(day: Day) -> None:
    assert read_day(NUMBER, stored_day(day)) == day


@given(days(), st.integers(150, 1000))
def test_a_day_that_is_summed_further_has_the_same_sums(day: Day, largest: int) -> None:
    data = stored_day(day, largest)
    assert len(data) <= largest
    if data:
        assert total(read_day(NUMBER, data)) == total(day)


@given(days(), days(), days())
def test_sums_do_not_depend_on_who_added_what_first(one: Day, two: Day, three: Day) -> None:
    assert total(one + two + three) == total(three + (two + one))
    assert (one + two) + three == one + (two + three)
    assert total(coarser(one, DAY)) == total(one)


def test_all_accounts_fit_in_26_mib() -> None:
    assert ACCOUNTS <= 26 * 2**20
    assert LARGEST_DAY < 2**20


def test_a_sample_counts_until_the_next_one() -> None:
    (day,) = observed(sample(START + 60, 2.5), START + 120)
    assert day.number == NUMBER
    assert day.hours[START].seconds == 60
    assert day.hours[START].users["ann"][HELD] == 60 * 2500


def test_the_time_at_midnight_belongs_to_two_days() -> None:
    before, after = observed(sample(START - 20, 1.0), START + 40)
    assert (before.number, after.number) == (NUMBER - 1, NUMBER)
    assert before.hours[START - HOUR].seconds == 20
    assert after.hours[START].seconds == 40


def test_a_gap_is_counted_for_nobody() -> None:
    assert list(observed(sample(START, 1.0), START + LONGEST + 1)) == []
    assert list(observed(sample(START, 1.0), START)) == []
    assert list(observed(sample(START + 60, 1.0), START)) == [], "somebody has set the clock"


def test_what_was_never_known_stays_unknown() -> None:
    (day,) = observed(sample(START, 1.0), START + 60)
    row = day.hours[START].users["ann"]
    assert [value for place, value in enumerate(row) if place != HELD] == [None] * (
        len(COLUMNS) - 1
    )


def test_the_smallest_users_are_summed_where_a_day_has_no_room() -> None:
    users: Table = {f"user-{n:03}": (n * 7919,) * len(COLUMNS) for n in range(1, 300)}
    day = Day(NUMBER, {START: HourSums(HOUR, users)})
    back = read_day(NUMBER, stored_day(day, 1500))
    (hour,) = back.hours.values()
    kept = sorted(set(hour.users) - {OTHERS})
    assert kept == sorted(users)[-len(kept) :], "those who held most"
    assert back.without == len(users) - len(kept)
    assert total(back) == total(day)


def written(users: list[Table], largest: int) -> Day:
    """Return a day after a write for the users of each time."""
    data = stored_day(Day(NUMBER))
    for n, each in enumerate(users):
        added = Day(NUMBER, {START + n % 24 * HOUR: HourSums(60, each)})
        data = stored_day(continued(read_day(NUMBER, data), added), largest)
    return read_day(NUMBER, data)


@pytest.mark.parametrize("seed", range(5))
def test_each_row_has_all_sums_of_its_user_however_often_a_day_is_written(seed: int) -> None:
    """Users come and go, and are small at one time and large at another."""
    rng = random.Random(seed)
    users: list[Table] = [
        {
            f"user-{n}": tuple(rng.randrange(10 ** rng.randrange(1, 12)) for _ in COLUMNS)
            for n in rng.sample(range(60), rng.randrange(5, 40))
        }
        for _ in range(12)
    ]
    day = written(users, 1200)
    true = HourSums()
    for each in users:
        true += HourSums(60, each)
    (hour,) = day.hours.values()
    rows = {name: row for name, row in hour.users.items() if name != OTHERS}
    assert 0 < len(rows) < len(true.users)
    assert rows == {name: true.users[name] for name in rows}
    assert total(day) == total(Day(NUMBER, {START: true}))
    assert 0 < day.without <= len(true.users) - len(rows)


def test_users_without_a_row_are_counted_once_however_often_a_day_is_written() -> None:
    users: Table = {f"user-{n:03}": (n * 7919,) * len(COLUMNS) for n in range(1, 300)}
    day = written([users] * 6, 1500)
    rows = {name for hour in day.hours.values() for name in hour.users} - {OTHERS}
    assert day.without == len(users) - len(rows)


def test_who_comes_after_the_smallest_were_summed_has_no_row_on_that_day() -> None:
    users: Table = {f"user-{n:03}": (n * 7919,) * len(COLUMNS) for n in range(1, 300)}
    late: Table = {**users, "user-001": (10**9,) * len(COLUMNS), "zoe": (10**9,) * len(COLUMNS)}
    (hour,) = written([users, late], 1500).hours.values()
    assert "user-299" in hour.users
    assert not {"user-001", "zoe"} & hour.users.keys()


def test_an_earlier_turn_of_the_ring_is_no_sum_of_this_day() -> None:
    data = stored_day(Day(NUMBER, {START: HourSums(HOUR, {"ann": (1,) * len(COLUMNS)})}))
    assert read_day(NUMBER + 401, data) == Day(NUMBER + 401)
