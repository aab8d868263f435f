"""Pure: decide what the operator's liveness and readiness probes answer.

Liveness is about what a restart can cure: threads that are stuck, and a leader whose decisions
fail. An unreachable API server is not cured by a restart; it only affects readiness. Nor is an
object that cannot be written; metrics tell of it.
"""

from __future__ import annotations

from dataclasses import dataclass

_TURN = 60.0  # seconds without activity after which a thread counts as stuck
_WATCH_TURN = 180.0  # the same for a watch, which waits 90 s for the API server at most
_ROUNDS = 3  # additional epochs without a successful decision


@dataclass(frozen=True, slots=True)
class HealthInputs:
    """The state of the operator at a moment; all times by one monotonic clock.

    Attributes:
        now: Current time.
        active: When the watch that has done nothing for longest was last active.
        tried: When the last attempt to get or renew the Lease ended, successful or not.
        answered: When the API server last answered such an attempt.
        patience: Seconds after which an unseen Lease counts as unknown.
        complete: Whether the mirror contains all objects.
        problem: Why it does not; empty if nothing is wrong.
        leading_since: When this operator began to lead and decide; None if it does not.
        completed: When a decision last ended while this operator led, even if some objects could
            not be written; None before the first.
        epoch_seconds: Longest time between two decisions.
    """

    now: float
    active: float
    tried: float
    answered: float
    patience: float
    complete: bool
    problem: str
    leading_since: float | None
    completed: float | None
    epoch_seconds: float


def liveness_problems(inputs: HealthInputs) -> list[str]:
    """Return why the process should be restarted; empty if it is healthy."""
    problems = []
    if inputs.now - inputs.active > _WATCH_TURN:
        problems.append(f"a watch was blocked for {inputs.now - inputs.active:.0f} s")
    if inputs.now - inputs.tried > _TURN:
        problems.append(f"no attempt to renew the Lease for {inputs.now - inputs.tried:.0f} s")
    if inputs.leading_since is not None:
        since = max(inputs.leading_since, inputs.completed or inputs.leading_since)
        if inputs.now - since > _TURN + _ROUNDS * inputs.epoch_seconds:
            problems.append(f"no decision was completed for {inputs.now - since:.0f} s")
    return problems


def readiness_problems(inputs: HealthInputs) -> list[str]:
    """Return why the process can neither lead nor take over; empty if it is ready."""
    problems = []
    if not inputs.complete:
        problems.append(inputs.problem or "the initial lists are not complete yet")
    if inputs.now - inputs.answered > inputs.patience:
        problems.append(f"the Lease could not be read for {inputs.now - inputs.answered:.0f} s")
    return problems
