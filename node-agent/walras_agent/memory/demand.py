"""Pure choice: how much memory a pod could use now, of what the kernel says of its group.

What a program has is not what it could use: one that is held to a limit has no more than that,
however much it lacks. So demand is estimated from two sides:

* *From below*, what it uses: its working set, which is all but the file cache that was not used of
  late, and a headroom for it to grow in.
* *From the limit*: where a program is held back (it waits for memory, reads back what was taken
  from it, or comes up against a limit without cache to give), it could use more than it is held
  to; how much more nobody can know beforehand. So the estimate grows by a quarter, and again after
  a while if that did not help, up to twice of what it may have now.

When nothing holds it back the estimate comes down to what it uses, by half in every `HALF_LIFE`,
so that memory does not go to and fro with every breath of a program.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from walras_agent.memory.pressure import UNLIMITED
from walras_agent.memory.strain import headroom, strain

if TYPE_CHECKING:
    from walras_agent.memory.pressure import Sample

GROWTH = 1.25
"""By which demand grows while a program is held back."""

PAUSE = 2.0
"""Seconds between two such steps: the kernel averages pressure over as long."""

HALF_LIFE = 10.0
"""Seconds in which half of what a program does not use any more is forgotten."""

SLACK = 0.8
"""Part of the demand that was told last below which it is worth telling that it is less."""

_STEPS = 16  # in which every doubling of a demand is told


@dataclass(frozen=True, slots=True)
class Demand:
    """What is known of one pod's demand.

    Attributes:
        amount: Bytes that it could use.
        told: The same as it is told: never less, at most a quarter more, and seldom another.
        sample: The last look.
        seen: When that was, seconds.
        grown: When the amount last grew since the pod was held back.
    """

    amount: int
    told: int
    sample: Sample
    seen: float
    grown: float = -inf


def estimate(sample: Sample, before: Demand | None, now: float) -> Demand:
    """Return a pod's demand.

    Args:
        sample: Of the pod's own group, now.
        before: What was known; None at first.
        now: Seconds, on a clock that does not run backwards.
    """
    used = sample.working_set + headroom(sample.working_set)
    if before is None:
        return Demand(used, _rounded(used), sample, now)
    grown = before.grown
    if held_back(sample, before.sample, now - before.seen):
        has = max(used, _limit(sample))
        amount = max(used, before.amount)
        if now - grown >= PAUSE:
            amount = min(round(max(amount, has) * GROWTH), 2 * has)
            grown = now
        amount = max(used, amount)
    else:
        kept = 0.5 ** ((now - before.seen) / HALF_LIFE)
        amount = max(used, used + round((before.amount - used) * kept))
    return Demand(amount, _told(amount, before.told), sample, now, grown)


def held_back(sample: Sample, before: Sample, seconds: float) -> bool:
    """Say whether a program could use more than it is held to."""
    if strain(sample, before, seconds):
        return True
    # A group beyond ``memory.high`` is slowed down (``memory.events``, high), as it is meant to be
    # where it has cache to give.
    gives = sample.inactive_file >= headroom(sample.working_set)
    near = sample.working_set + headroom(sample.working_set) > sample.limits.soft
    return sample.slowed > before.slowed and near and not gives


def _limit(sample: Sample) -> int:
    limit = min(sample.limits.hard, sample.limits.soft)
    return limit if limit < UNLIMITED else 0


def _told(amount: int, before: int) -> int:
    return before if SLACK * before <= amount <= before else _rounded(amount)


def _rounded(amount: int) -> int:
    """Round up to a sixteenth of the power of two below."""
    step = max(1 << (amount.bit_length() - 1), _STEPS) // _STEPS
    return -(-amount // step) * step
