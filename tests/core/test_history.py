"""The ring of samples: it never exceeds its bounds, and gives back what was put into it."""

from __future__ import annotations

import json
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.outcome.blocks import CorruptBlockError, block_of, pack, unpack
from walras.outcome.history import (
    FIELDS,
    KINDS,
    LARGEST_PART,
    LENGTH,
    RING,
    SLOT,
    SLOTS,
    STEP,
    Kind,
    MarketSample,
    Part,
    history_of_parts,
    merged,
    part_of,
    place_of,
    samples_of,
    slot_of,
    stored,
)

if TYPE_CHECKING:
    from walras.outcome.blocks import Table

START = 1_790_000_000 // SLOT * SLOT
NAMES = st.text(min_size=1, max_size=12)
NUMBERS = st.one_of(st.none(), st.integers(-(10**12), 10**12))


def tables(kind: Kind) -> st.SearchStrategy[Table]:
    row = st.tuples(*(NUMBERS for _ in FIELDS[kind]))
    return st.dictionaries(NAMES, row.filter(lambda row: any(x is not None for x in row)))


@st.composite
def samples(draw: st.DrawFn, most: int = 12) -> list[MarketSample]:
    """Samples of one slot, in the order of time."""
    times = draw(st.lists(st.integers(START, START + SLOT - 1), max_size=most, unique=True))
    return [
        MarketSample(time, {kind: table for kind in KINDS if (table := draw(tables(kind)))})
        for time in sorted(times)
    ]


def sampled(number: int, held: float | None, jobs: int = 1) -> MarketSample:
    table = {f"lab/job-{job:05}": stored((held, held, 1.0), "job") for job in range(jobs)}
    return MarketSample(START + STEP * number, {"job": table})


def same(one: list[MarketSample], other: list[MarketSample]) -> bool:
    """Return whether samples are the same, apart from those without any table."""
    return [each for each in one if each.tables] == [each for each in other if each.tables]


@given(samples())
def test_what_fits_comes_back_as_it_was(given: list[MarketSample]) -> None:
    part = part_of(slot_of(START), given)
    back, notes = samples_of(part)
    assert same(back, given)
    assert notes == []


@given(samples(), st.integers(0, 2000))
def test_no_part_is_larger_than_its_bound_and_the_rest_is_in_order(
    given: list[MarketSample], largest: int
) -> None:
    part = part_of(slot_of(START), given, largest)
    assert part.size <= largest
    back, _ = samples_of(part)
    assert [each.time for each in back] == sorted({each.time for each in back})
    known = {each.time: each for each in given}
    for each in back:
        for kind, table in each.tables.items():
            assert table.items() <= known[each.time].tables[kind].items()
    assert part == part_of(slot_of(START), reversed(given), largest), "order has no influence"


def test_the_ring_fits_in_32_mib() -> None:
    assert RING <= 32 * 2**20
    assert LARGEST_PART < 2**20
    now = slot_of(START)
    day = range(now - LENGTH // SLOT, now + 1)
    assert len({place_of(slot) for slot in day}) == len(day) == SLOTS, "none replaces another"


def test_what_does_not_fit_is_thinned_evenly_and_the_newest_stays() -> None:
    given = [
        MarketSample(
            START + STEP * number,
            {"job": {f"lab/{job}": (job * number**3, number, 7) for job in range(200)}},
        )
        for number in range(20)
    ]
    whole = part_of(slot_of(START), given).size
    part = part_of(slot_of(START), given, whole // 3)
    times = [each.time for each in samples_of(part)[0]]
    steps = {later - earlier for earlier, later in pairwise(times)}
    assert len(steps) == 1
    assert steps < {2 * STEP, 4 * STEP, 8 * STEP}
    assert times[-1] == given[-1].time
    assert unpack(part.blocks["job"]).step == steps.pop()


def test_users_stay_when_there_is_no_room_for_jobs_and_small_jobs_go_first() -> None:
    user = stored([1.0] * len(FIELDS["user"]), "user")
    jobs = {f"lab/{job:04}": stored((float(job), 1.0, 1.0), "job") for job in range(1000)}
    given = MarketSample(START, {"user": {"ann": user}, "job": jobs})
    part = part_of(slot_of(START), [given], 3000)
    (back,), _ = samples_of(part)
    assert back.tables["user"] == {"ann": user}
    kept = sorted(back.tables["job"])
    assert kept == sorted(jobs)[-len(kept) :], "those with most cores"
    history = history_of_parts([part], START + STEP, 3600, STEP)
    assert history.notes == (f"the history has no room for {1000 - len(kept)} jobs with few cores",)


@given(samples(), samples())
def test_a_second_leader_continues_the_part_of_the_first(
    first: list[MarketSample], second: list[MarketSample]
) -> None:
    slot = slot_of(START)
    stored_samples, _ = samples_of(part_of(slot, first))
    both, _ = samples_of(part_of(slot, [*stored_samples, *second]))
    assert same(both, merged([*first, *second]))


def valid() -> bytes:
    return pack(block_of([START], [{"ann": (1, 2)}], ["held", "bought"], STEP))


def changed(**fields: Any) -> bytes:
    document = json.loads(zlib.decompress(valid()))
    return zlib.compress(json.dumps({**document, **fields}).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no zlib",
        valid()[:-5],
        zlib.compress(b"[1"),
        zlib.compress(b"[1]"),
        zlib.compress(b"[" * 100_000),
        zlib.compress(b" " * (65 * 2**20)),
        changed(version=2),
        changed(times=[2, 1], columns={}),
        changed(times=[True]),
        changed(times="now"),
        changed(step=0),
        changed(names=["ann", "ann"]),
        changed(names=[{}]),
        changed(names=None),
        changed(columns={"held": [[1, 2]], "bought": [[1]]}),
        changed(columns={"held": [[1.5]]}),
        changed(columns={"held": [["1"]]}),
        changed(columns={"held": [[10**40]]}),
        changed(columns={"held": []}),
        changed(columns=None),
        changed(seconds=[1, 2]),
    ],
)
def test_what_is_no_block_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptBlockError):
        unpack(data)


@given(st.binary(max_size=300))
def test_no_data_do_more_than_be_refused(data: bytes) -> None:
    for each in (data, zlib.compress(data)):
        with pytest.raises(CorruptBlockError):
            unpack(each)


def test_columns_of_other_versions_are_ignored_or_unknown() -> None:
    block = unpack(changed(columns={"later": [[1]], "held": [[5]]}))
    assert block.tables(["held", "bought"]) == [{"ann": (5, None)}]
    assert block.values("ann", "bought") == [None]
    assert block.values("bob", "held") == [None]


def test_a_corrupt_block_is_left_out_with_a_note() -> None:
    good = part_of(slot_of(START), [sampled(0, 3.0)])
    blocks = {**good.blocks, "user": b"broken"}
    history = history_of_parts([Part(good.slot, blocks)], START + STEP, 3600, STEP)
    assert history.names("job") == ("lab/job-00000",)
    assert history.names("user") == ()
    (note,) = history.notes
    assert note.startswith("users of 20 minutes of the history cannot be read: ")


def held(history: Any, name: str = "lab/job-00000") -> dict[int, float]:
    series = {each.name: each for each in history.series("job", name)}
    return {
        time - START: value
        for time, value in zip(history.times, series["held"].values, strict=True)
        if value is not None
    }


def test_series_are_at_equal_steps_and_unknown_where_nothing_was_sampled() -> None:
    given = [sampled(0, 2.0), sampled(1, 3.0), sampled(2, None), sampled(4, 5.5)]
    part = part_of(slot_of(START), given)
    now = START + 5 * STEP
    history = history_of_parts([part], now, 600, STEP)
    assert history.source == "operator"
    assert history.times == tuple(range(START - 300, now + 1, STEP))
    assert held(history) == {0: 2.0, 60: 3.0, 240: 5.5}
    assert held(history_of_parts([part], now, 600, 120)) == {0: 3.0, 240: 5.5}
    assert history.series("job", "lab/other") == ()
    assert [each.unit for each in history.series("job", "lab/job-00000")] == [
        "cores",
        "cores",
        "times",
    ]


def test_a_thinned_sample_holds_until_the_next_one() -> None:
    given = [sampled(number, float(number), jobs=1) for number in range(20)]
    block = block_of(
        [START + 60, START + 180],
        [{"lab/job-00000": (1000, 1, 1)}, {"lab/job-00000": (3000, 1, 1)}],
        [each.name for each in FIELDS["job"]],
        2 * STEP,
    )
    part = Part(slot_of(given[0].time), {"job": pack(block)})
    history = history_of_parts([part], START + 600, 600, STEP)
    assert held(history) == {60: 1.0, 120: 1.0, 180: 3.0, 240: 3.0}


def test_parts_of_another_day_and_samples_of_another_slot_are_no_history() -> None:
    old = part_of(slot_of(START), [sampled(0, 2.0)])
    later = START + LENGTH + 2 * SLOT
    assert history_of_parts([old], later, LENGTH, STEP).names("job") == ()
    moved = Part(slot_of(later), old.blocks)
    history = history_of_parts([moved], later, LENGTH, STEP)
    assert history.names("job") == ()
    assert history.notes == ("jobs of 20 minutes of the history are of another time",)


def test_what_is_no_number_is_unknown() -> None:
    assert stored((float("nan"), float("inf"), 1.0004), "job") == (None, None, 1000)
