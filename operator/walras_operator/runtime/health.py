"""Pure choice: what the operator's probes answer, and why.

Alive is about the process, and a restart is the remedy: its threads take their turns, and while it
leads, its decisions come through. Whether the API server answers is not about the process; it
matters to `ready`.
"""

from __future__ import annotations

from dataclasses import dataclass

_TURN = 60.0  # seconds without a turn after which a thread counts as stuck
_ROUNDS = 3  # epochs without success, besides


@dataclass(frozen=True, slots=True)
class Pulse:
    """How the operator is at a moment; all times by one monotonic clock.

    Attributes:
        now: The moment.
        beat: When the event loop took its last turn.
        tried: When an attempt at the lease last ended, well or not.
        answered: When the API server last answered one.
        patience: Seconds after which a lease that was not seen says nothing any more.
        complete: Whether all objects are known.
        problem: What is in the way of that; empty if nothing.
        leading_since: Since when this operator leads and decides; None if it does not.
        succeeded: When a decision last came through; None before the first.
        epoch_seconds: Longest time between two decisions.
    """

    now: float
    beat: float
    tried: float
    answered: float
    patience: float
    complete: bool
    problem: str
    leading_since: float | None
    succeeded: float | None
    epoch_seconds: float


def ailments(pulse: Pulse) -> list[str]:
    """Why the process should be started anew; nothing if it is well."""
    found = []
    if pulse.now - pulse.beat > _TURN:
        found.append(f"the event loop took no turn for {pulse.now - pulse.beat:.0f} s")
    if pulse.now - pulse.tried > _TURN:
        found.append(f"the lease was not tried for {pulse.now - pulse.tried:.0f} s")
    if pulse.leading_since is not None:
        since = max(pulse.leading_since, pulse.succeeded or pulse.leading_since)
        if pulse.now - since > _TURN + _ROUNDS * pulse.epoch_seconds:
            found.append(f"no decision came through for {pulse.now - since:.0f} s")
    return found


def hindrances(pulse: Pulse) -> list[str]:
    """Why it can neither lead nor take over at once; nothing if it can."""
    found = []
    if not pulse.complete:
        found.append(pulse.problem or "not all objects are known yet")
    if pulse.now - pulse.answered > pulse.patience:
        found.append(f"the lease was not seen for {pulse.now - pulse.answered:.0f} s")
    return found
