"""Pure choice: how much memory a pod could use now, of what the kernel says of its groups.

What a program has is not what it could use: one that is held to a limit has no more than that,
however much it lacks. So demand is estimated from two sides:

* *From below*, what it uses: its working set, which is all but the file cache that was not used of
  late, and a headroom for it to grow in.
* *From the limit*: where a program is held back (it waits for memory, reads back what was taken
  from it, or comes up against a limit without cache to give), it could use more than it is held
  to; how much more nobody can know beforehand. So the estimate grows by a quarter, and again after
  a while if that did not help, up to twice of what it may have now.

The limit that counts is the one that holds it back. The kernel tells the pod's group of all that
happens below, so a single container at a limit of its own makes the whole pod look short of memory:
it is that container's want then, by its limit, and not the pod's by the pod's. (A grant above a
container's own limit lifts that, see `course`, so more does help it.) Where no limit is near, more
would help nobody: the node itself is short of memory, or a group inside the container is.

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
    from collections.abc import Mapping

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
class Want:
    """What is known of one group.

    Attributes:
        amount: Bytes that it could use.
        sample: The last look.
        seen: When that was, seconds.
        grown: When the amount last grew since the group was held back.
    """

    amount: int
    sample: Sample
    seen: float
    grown: float = -inf


@dataclass(frozen=True, slots=True)
class Demand:
    """What is known of one pod's demand.

    Attributes:
        amount: Bytes that it could use.
        told: The same as it is told: never less, at most a quarter more, and seldom another.
        pod: Of its own group.
        containers: Of those of its containers, by name.
    """

    amount: int
    told: int
    pod: Want
    containers: Mapping[str, Want]


def estimate(
    pod: Sample,
    before: Demand | None,
    now: float,
    containers: Mapping[str, Sample] | None = None,
    recalled: int = 0,
) -> Demand:
    """Return a pod's demand.

    Args:
        pod: Its own group, now.
        before: What was known; None at first.
        now: Seconds, on a clock that does not run backwards.
        containers: The groups of its containers, by name.
        recalled: Bytes that were told of it before anything of this was known; 0 if nothing was.
    """
    known = {} if before is None else before.containers
    wants: dict[str, Want] = {}
    squeezed = False
    for name, sample in (containers or {}).items():
        last = known.get(name)
        held = last is not None and _held_back(sample, last, now)
        wants[name] = _want(sample, last, now, held=held)
        squeezed = squeezed or held
    last = None if before is None else before.pod
    held = last is not None and not squeezed and _held_back(pod, last, now)
    own = _want(pod, last, now, held=held, recalled=recalled)
    beyond = sum(each.amount - _used(each.sample) for each in wants.values())
    amount = max(own.amount, _used(pod) + beyond)
    told = _rounded(amount) if before is None else _told(amount, before.told)
    return Demand(amount, told, own, wants)


def _want(
    sample: Sample, before: Want | None, now: float, *, held: bool, recalled: int = 0
) -> Want:
    used = _used(sample)
    has = max(used, _limit(sample))
    known = max(used, min(recalled, 2 * has))
    if before is None:
        return Want(known, sample, now)
    amount, grown = max(known, before.amount), before.grown
    if not held:
        kept = 0.5 ** ((now - before.seen) / HALF_LIFE)
        amount = max(used, used + round((amount - used) * kept))
    elif now - grown >= PAUSE:
        amount = max(used, min(round(max(amount, has) * GROWTH), 2 * has))
        grown = now
    return Want(amount, sample, now, grown)


def _held_back(sample: Sample, before: Want, now: float) -> bool:
    """Say whether a group could use more than its own limits let it have."""
    limit = _limit(sample)
    near = 0 < limit < sample.usage + headroom(sample.usage)
    return near and held_back(sample, before.sample, now - before.seen)


def held_back(sample: Sample, before: Sample, seconds: float) -> bool:
    """Say whether a program could use more than it is held to."""
    if strain(sample, before, seconds):
        return True
    # A group beyond ``memory.high`` is slowed down (``memory.events``, high), as it is meant to be
    # where it has cache to give.
    gives = sample.inactive_file >= headroom(sample.working_set)
    near = sample.working_set + headroom(sample.working_set) > sample.limits.soft
    return sample.slowed > before.slowed and near and not gives


def _used(sample: Sample) -> int:
    return sample.working_set + headroom(sample.working_set)


def _limit(sample: Sample) -> int:
    limit = min(sample.limits.hard, sample.limits.soft)
    return limit if limit < UNLIMITED else 0


def _told(amount: int, before: int) -> int:
    return before if SLACK * before <= amount <= before else _rounded(amount)


def _rounded(amount: int) -> int:
    """Round up to a sixteenth of the power of two below."""
    step = max(1 << (amount.bit_length() - 1), _STEPS) // _STEPS
    return -(-amount // step) * step
