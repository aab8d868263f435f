"""How many CPUs a program can use at once, learned from what its pods used.

A node tells three things of a pod: on how many CPUs it ran at once, how many threads it has, and
for how long nothing held it back. As long as something does, it might use as many CPUs as it has
threads. Once nothing did for a while, threads that never ran count no longer.

What is learned belongs to the program and outlives its pods. It grows at once and falls slowly:
the most of any time counts for `HOLD` seconds, longer than a weekend, and halves once a day after
that. So a service that idles at night, or has an idle replica, can use by day what it used
yesterday.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

HOLD = 3 * 86400.0
"""Seconds for which the most of any time counts in full."""

STEP = 6 * 3600.0
"""Seconds after which a peak is dated anew, and by which it falls: each is a write of a status."""

_STEPS_OF_HALF = 4  # steps in which a peak that is too old falls to its half

ENOUGH = 20.0
"""Seconds without anything that holds a pod back, from which on threads that never ran do not
count."""

LOOK = 10.0
"""Seconds of one look at a pod."""

MEASURED = 0.02
"""Part of what a pod uses by which a look may be wrong."""

MOST_PEAKS = 16
"""Peaks that are kept of a program."""

LEAST = 1.0
"""CPUs that every program can use at once: it has a thread."""


class Peak(NamedTuple):
    """The largest amount of some time.

    Attributes:
        amount: The amount.
        at: Time in seconds; the amount may have been seen up to `STEP` seconds later, too.
    """

    amount: float
    at: float


class Seen(NamedTuple):
    """What is seen of a pod now.

    Attributes:
        at_once: CPUs that it used at once, or would have if nobody else had.
        threads: Number of its threads; infinity if that is unknown.
        seconds: How long it was seen while nothing held it back.
        wanted: CPUs that it may want while it waits; 0 if it does not want more than it has used.
    """

    at_once: float
    threads: float = math.inf
    seconds: float = 0.0
    wanted: float = 0.0


class Demand(NamedTuple):
    """What is known of a program.

    Attributes:
        at_once: Peaks of the CPUs that a pod used at once, the oldest and largest first.
        threads: Peaks of its number of threads.
        seconds: Longest time for which a pod was seen while nothing held it back.
        wanted: CPUs that a pod may want now that it waits.
    """

    at_once: tuple[Peak, ...] = ()
    threads: tuple[Peak, ...] = ()
    seconds: float = 0.0
    wanted: float = 0.0


class Bound(NamedTuple):
    """The most CPUs that a pod of a program can use at once.

    Attributes:
        cpus: The CPUs; infinity if nothing is known.
        error: CPUs by which that may be wrong.
        age: Seconds since a pod last used, or had threads for, so many.
    """

    cpus: float = math.inf
    error: float = math.inf
    age: float = 0.0


def learn(before: Demand, seen: Iterable[Seen], now: float) -> Demand:
    """Return what is known of a program after looks at its pods.

    Args:
        before: What was known before.
        seen: What is seen of each of its pods now.
        now: Time in seconds.
    """
    at_once, threads, seconds, wanted = before.at_once, before.threads, before.seconds, 0.0
    for each in seen:
        at_once = _raised(at_once, each.at_once, now)
        if math.isfinite(each.threads):
            threads = _raised(threads, each.threads, now)
        seconds = max(seconds, each.seconds)
        wanted = max(wanted, each.wanted)
    return Demand(_still_counting(at_once, now), _still_counting(threads, now), seconds, wanted)


def bound_of(demand: Demand, now: float) -> Bound:
    """Return the most CPUs that a pod of a program can use at once.

    The error adds what one more look can be expected to add to the most of those so far, by
    Laplace's rule of succession: the chance that it shows more than all n before is 1 / (n + 2).
    """
    used, threads = _highest(demand.at_once, now), _highest(demand.threads, now)
    if demand.seconds < ENOUGH or used is None:
        if threads is None:
            return Bound()
        unseen = threads.amount - (0.0 if used is None else used.amount)
        return Bound(max(threads.amount, LEAST), max(unseen, 0.0), now - threads.at)
    most = max(used.amount, demand.wanted, LEAST)
    if threads is not None:
        most = min(most, max(threads.amount, LEAST))
    unused = max(threads.amount - most, 0.0) if threads is not None else most
    error = MEASURED * most + unused / (demand.seconds / LOOK + 2)
    return Bound(most, error, max(now - used.at, 0.0))


def merged(demands: Iterable[Demand], now: float) -> Demand:
    """Return what is known of a program of which several have parts."""
    at_once: tuple[Peak, ...] = ()
    threads: tuple[Peak, ...] = ()
    seconds = wanted = 0.0
    for each in demands:
        at_once, threads = (*at_once, *each.at_once), (*threads, *each.threads)
        seconds, wanted = max(seconds, each.seconds), max(wanted, each.wanted)
    return Demand(_still_counting(at_once, now), _still_counting(threads, now), seconds, wanted)


def level(peak: Peak, now: float) -> float:
    """Return what a peak still counts for."""
    steps = max(now - peak.at - HOLD, 0.0) // STEP
    return peak.amount * math.exp2(-steps / _STEPS_OF_HALF)


def _highest(peaks: tuple[Peak, ...], now: float) -> Peak | None:
    """Return the peak that counts for most now, with that amount."""
    counting = (Peak(level(peak, now), peak.at) for peak in peaks)
    return max(counting, default=None)


def _raised(peaks: tuple[Peak, ...], amount: float, now: float) -> tuple[Peak, ...]:
    """Return peaks with an amount of now, unless one of late is as high."""
    if any(peak.amount >= amount and now - peak.at < STEP for peak in peaks):
        return peaks
    return (*peaks, Peak(amount, now))


def _still_counting(peaks: Iterable[Peak], now: float) -> tuple[Peak, ...]:
    """Return the peaks that are, or may come to be, the highest: no later one is as high."""
    kept: list[Peak] = []
    for peak in sorted(peaks, key=lambda each: (-each.at, -each.amount)):
        at = min(peak.at, now)
        if not kept or level(peak, now) > level(kept[-1], now):
            kept.append(Peak(peak.amount, at))
    while len(kept) > MOST_PEAKS:  # the highest counts as if it had been as late as the next
        kept[-2:] = [Peak(kept[-1].amount, kept[-2].at)]
    return tuple(reversed(kept))
