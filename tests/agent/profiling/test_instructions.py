"""Counters that take turns in the processor: no machine here has any, so pipes answer for them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from walras_agent.profiling.instructions import _VALUE, Instructions, _Value

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def counter(opened: ExitStack, *values: tuple[int, int, int]) -> int:
    """Return a descriptor whose reads give these values in turn, as those of a perf event do."""
    ours, theirs = os.pipe()
    opened.callback(os.close, ours)
    for value in values:
        os.write(theirs, _VALUE.pack(*value))
    os.close(theirs)
    return ours


def counting(opened: ExitStack, *counters: int) -> Instructions:
    return Instructions(dict.fromkeys(counters, _Value(0, 0, 0)), opened.pop_all())


def test_counters_of_all_cpus_are_added(opened: ExitStack) -> None:
    one, two = counter(opened, (10, 5, 5)), counter(opened, (7, 9, 9))
    both = counting(opened, one, two)
    assert both.read() == 17
    both.close()


def test_what_was_counted_half_of_the_time_is_doubled(opened: ExitStack) -> None:
    """Each stretch by its own share: the one before has nothing to do with it."""
    shared = counting(opened, counter(opened, (100, 10, 10), (150, 30, 20), (150, 40, 20)))
    assert shared.read() == 100
    assert shared.read() == 100 + 50 * 20 / 10
    assert shared.read() == 200
    shared.close()
