"""Pure: on how many CPUs a pod can run at once, as far as looks at it show.

A pod that does not wait has what it can use. One that waits can use more, at least as many CPUs as
it used and waited for on average. Where the kernel tells only whether any of its threads waits, and
one always does, nobody knows how many do: it may then want twice as much, and if it gets that and
still waits, twice as much again. What threads do between looks is seen by short glances (`seen`).

A program may start as many threads as it finds CPUs, and then none waits. So one that fills CPUs of
its own is held back by them, and its threads tell nothing of what it could use elsewhere.

Figures are rounded so that a status changes seldom.
"""

from __future__ import annotations

from bisect import bisect_right
from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from walras_agent.correction import CpuRate

WINDOW = 1800.0
"""Seconds after which what was seen is forgotten, in two steps; the operator remembers it."""

_FREE = 0.05  # of what a pod uses, or of a CPU, for which one that is not held back may wait
_ALWAYS = 0.9  # of the time, in which some thread waits of a pod that could use far more
_SEVERAL = 1.25  # CPUs used and waited for, by more than one thread for certain
_GROWN, _FALLEN = 1.03, 0.8  # of what is shown, beyond which something else is
_SECONDS = (0, 20, 60, 240, 900, 3600, 14400, 86400)  # of being seen that are told apart
_DIGITS = 2


class CpuDemand(NamedTuple):
    """What has been seen of a pod.

    Attributes:
        at_once: CPUs that it ran on at once, at most.
        threads: Largest number of its threads; None if unknown.
        free: Seconds in which nothing held it back.
        held_back: Seconds in which something did.
        wanted: CPUs that it may want, as it always waits; 0 if it has used as many, or need not
            wait.
    """

    at_once: float = 0.0
    threads: int | None = None
    free: float = 0.0
    held_back: float = 0.0
    wanted: float = 0.0


class Watched(NamedTuple):
    """The state of watching a pod.

    Attributes:
        now: What was seen in the present window, and for how long ever.
        before: The same of the window before.
        since: Start of the present window, in monotonic seconds.
        shown: What the status shows.
    """

    now: CpuDemand
    before: CpuDemand
    since: float
    shown: CpuDemand

    @property
    def at_once(self) -> float:
        """CPUs on which it ran at once in both windows, at most."""
        return max(self.now.at_once, self.before.at_once)

    @property
    def threads(self) -> int | None:
        """Largest number of its threads in both windows; None if unknown."""
        return max(self.now.threads or 0, self.before.threads or 0) or None


def begin(now: float) -> Watched:
    """Return the state of a pod that has not been looked at."""
    return Watched(CpuDemand(), CpuDemand(), now, CpuDemand())


def looked(state: Watched, rate: CpuRate, now: float, own: float = inf) -> Watched:
    """Return the state after a look at what a pod used in an interval.

    Args:
        state: State before it.
        rate: What the pod used.
        now: Monotonic time in seconds.
        own: CPUs of its own to which it was confined; infinity if it shared a domain.
    """
    if now - state.since >= WINDOW:
        anew = state.now._replace(at_once=0.0, threads=None)
        state = Watched(anew, state.now, now, state.shown)
    last, waited = state.now, rate.waited or 0.0
    if filled := max(last.at_once, rate.used) > own - 1:
        rate = rate._replace(threads=None)
    waits = rate.waited is None or waited > _FREE * max(rate.used, 1.0)
    free = not (waits or filled)
    wanted = _capped(rate.used + waited, rate.threads)
    several = wanted > _SEVERAL and _ALWAYS < waited <= 1 + _FREE
    twice = _capped(2 * wanted, rate.threads) if several else 0.0
    seen = CpuDemand(
        max(last.at_once, wanted),
        last.threads if rate.threads is None else max(last.threads or 0, rate.threads),
        last.free + (rate.seconds if free else 0.0),
        last.held_back + (0.0 if free else rate.seconds),
        twice if twice > max(wanted, state.at_once) else 0.0,
    )
    return _shown(Watched(seen, state.before, state.since, state.shown))


def glanced(state: Watched, used: float) -> Watched:
    """Return the state after a glance, a look that is shorter than bursts.

    The kernel counts the time of a running thread at its ticks, so that a glance is off by some of
    them: only whole CPUs count.
    """
    at_once = _capped(float(round(used)), state.threads)
    if at_once <= state.now.at_once + 0.5:
        return state
    return _shown(state._replace(now=state.now._replace(at_once=at_once)))


def _capped(cpus: float, threads: int | None) -> float:
    return cpus if threads is None else min(cpus, float(threads))


def _shown(state: Watched) -> Watched:
    """Return a state that shows what was seen if that is visibly different from what it shows."""
    seen, shown = state.now, state.shown
    after = CpuDemand(
        _visible(state.at_once, shown.at_once),
        state.threads,
        _rounded(seen.free),
        _rounded(seen.held_back),
        _visible(seen.wanted, shown.wanted),
    )
    return state if after == shown else state._replace(shown=after)


def _visible(value: float, shown: float) -> float:
    if value == shown or (shown and _FALLEN * shown <= value <= _GROWN * shown):
        return shown
    return round(value, _DIGITS)


def _rounded(seconds: float) -> float:
    return _SECONDS[bisect_right(_SECONDS, seconds) - 1]
