"""On how many CPUs a pod is said to run at once, by what looks and glances at it show."""

from __future__ import annotations

import pytest

from walras.market.demand import Demand, Seen, bound_of, learn
from walras_agent.correction import CpuRate
from walras_agent.cpu_demand import WINDOW, CpuDemand, Watched, begin, glanced, looked


def look(*rates: CpuRate, pause: float = 10.0) -> Watched:
    """Return the state after looks, each at the end of its interval."""
    state = begin(0.0)
    for number, rate in enumerate(rates, 1):
        state = looked(state, rate, number * pause)
    return state


def rate(used: float, waited: float | None = 0.0, threads: int | None = 20) -> CpuRate:
    return CpuRate(10.0, used, waited, threads)


@pytest.mark.parametrize("used", [0.0, 0.4, 1.0, 7.99])
def test_a_pod_that_does_not_wait_has_what_it_can_use(used: float) -> None:
    shown = look(rate(used), rate(used)).shown
    assert shown == CpuDemand(used, 20, 20.0)


def test_a_pod_that_waits_could_have_used_what_it_waited_for() -> None:
    shown = look(rate(0.7, 0.3), rate(0.7, 0.3)).shown
    assert shown == CpuDemand(1.0, 20, 0.0, 20.0)


def test_a_pod_that_always_waits_may_want_twice_as_much_but_no_more_than_its_threads() -> None:
    assert look(rate(1.0, 1.0)).now.wanted == 4.0
    assert look(rate(1.0, 1.0, threads=3)).now.wanted == 3.0
    assert look(rate(1.0, 1.0, threads=3)).now.at_once == 2.0


def test_a_thread_alone_wants_one_cpu_however_long_it_waits() -> None:
    assert look(rate(0.05, 0.95)).now == CpuDemand(1.0, 20, 0.0, 10.0)


def test_what_it_may_want_ends_with_its_waiting() -> None:
    state = look(rate(1.0, 1.0), rate(2.1, 0.0))
    assert state.now.wanted == 0.0
    assert state.now.at_once == pytest.approx(2.1)


def test_a_pod_of_which_nobody_knows_whether_it_waits_is_not_taken_to_be_free() -> None:
    assert look(rate(0.5, None), rate(0.5, None)).shown == CpuDemand(0.5, 20, 0.0, 20.0)


def test_bursts_that_are_glanced_at_count_in_whole_cpus_that_threads_can_run_on() -> None:
    state = glanced(look(rate(0.08, threads=9)), 7.7)
    assert state.shown.at_once == 8.0
    assert glanced(state, 8.4) == state
    assert glanced(state, 31.0).shown.at_once == 9.0


def test_a_pod_that_fills_cpus_of_its_own_is_held_back_by_them() -> None:
    """It has started as many threads as it found CPUs, and none of them waits."""
    state = looked(begin(0.0), rate(2.0, threads=3), 10.0, own=2)
    assert state.now == CpuDemand(2.0, None, 0.0, 10.0)
    half_idle = looked(begin(0.0), rate(1.0, threads=3), 10.0, own=2)
    assert half_idle.now == CpuDemand(1.0, 3, 10.0)
    burst = looked(glanced(half_idle, 2.0), rate(1.0, threads=3), 20.0, own=2)
    assert burst.now == CpuDemand(2.0, 3, 10.0, 10.0)


@pytest.mark.parametrize("used", [0.1, 1.0, 4.0])
def test_a_pod_that_is_measured_is_held_back(used: float) -> None:
    state = looked(begin(0.0), rate(used, threads=5), 10.0, own=0)
    assert state.now == CpuDemand(used, None, 0.0, 10.0)


@pytest.mark.parametrize(("threads", "looks"), [(2, 3), (8, 3), (64, 6)])
def test_a_pod_that_waited_for_data_and_then_computes_soon_has_its_purchase_again(
    threads: int, looks: int
) -> None:
    """All others compute, too, so it has only what it buys, and only PSI tells that it waits.

    It begins in the middle of an interval. A look and the decision after it take 5 to 15 seconds.
    """
    state, demand = look(*[rate(0.01, threads=threads + 1)] * 6), Demand()
    bounds, part = [0.0], 0.5
    for number in range(7, 20):
        held = max(bounds[-1], 1.0)
        waits = 1 - (held / threads) ** threads
        state = looked(
            state, rate(part * min(held, threads), part * waits, threads + 1), 10.0 * number
        )
        shown, part = state.shown, 1.0
        seen = Seen(shown.at_once, shown.threads or 0, shown.free, shown.wanted)
        demand = learn(demand, [seen], 10.0 * number)
        bounds.append(min(bound_of(demand, 10.0 * number).cpus, float(threads)))
    assert bounds[1] == 1, "what it was seen to use while it waited for data"
    assert next(i for i, each in enumerate(bounds) if each > 0.95 * threads) == looks
    assert bounds[looks:] == sorted(bounds[looks:])


def test_what_was_seen_is_forgotten_after_two_windows() -> None:
    busy, idle = rate(8.0), rate(0.1)
    looks = int(WINDOW / 10)
    assert look(busy, *[idle] * (looks + 1)).shown.at_once == 8.0
    assert look(busy, *[idle] * (2 * looks + 1)).shown.at_once == 0.1


def test_small_changes_are_not_shown_so_that_statuses_stay_the_same() -> None:
    assert look(rate(4.0), rate(4.1)).shown.at_once == 4.0
    assert look(rate(4.0), rate(4.3)).shown.at_once == 4.3
    changes = [look(*[rate(4.0)] * number).shown for number in range(2, 360)]
    assert len(set(changes)) == 4, "after 20, 60, 240 and 900 seconds"
