"""Pure: estimates how much memory a pod could use, from samples of its groups.

A limited program uses no more than its limit, however much it could use. So demand is estimated
from two sides:

* *From usage*: the working set, which is all but the inactive file cache, and a headroom.
* *From the limit*: a program that is held back (it waits for memory, reads back reclaimed memory,
  or reaches a limit without reclaimable cache) could use more than its limit, by an unknown amount.
  So the estimate grows by a quarter, and again after a while if that did not help, up to twice what
  the program may have now.

The limit that counts is the one that holds the program back. The kernel reports everything below
the pod's group there too, so a single container at its own limit makes the whole pod look short of
memory: then the container's demand grows by its limit, and not the pod's. (A grant above a
container's own limit raises that limit, see `limit_steps`, so more memory does help.) If no limit
is near, a larger grant would not help: the node is short of memory, or a child group of the
container is.

When nothing holds the program back, the estimate falls towards its usage, by half in every
`HALF_LIFE`, so that grants do not follow every fluctuation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from walras_agent.memory.pressure import headroom, memory_shortage
from walras_agent.memory.stats import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_agent.memory.stats import MemorySample

GROWTH = 1.25
"""Factor by which demand grows while a program is held back."""

PAUSE = 2.0
"""Seconds between two growths of demand; the kernel averages pressure over two seconds."""

HALF_LIFE = 10.0
"""Seconds in which demand above usage falls by half."""

SLACK = 0.8
"""Share of the last reported demand below which a lower demand is reported."""

_STEPS = 16  # values between two powers of two to which a reported demand is rounded


@dataclass(frozen=True, slots=True)
class GroupDemand:
    """The memory demand of one group.

    Attributes:
        amount: Bytes that the group could use.
        sample: Last sample of the group.
        seen: Time of that sample in seconds.
        grown: Time when the amount last grew because the group was held back, in seconds.
    """

    amount: int
    sample: MemorySample
    seen: float
    grown: float = -inf


@dataclass(frozen=True, slots=True)
class PodDemand:
    """The memory demand of one pod.

    Attributes:
        amount: Bytes that the pod could use.
        reported: Amount to report: at least the amount, at most a quarter more, rarely changed.
        pod: Demand of the pod's own group.
        containers: Demand of its containers, by group.
    """

    amount: int
    reported: int
    pod: GroupDemand
    containers: Mapping[str, GroupDemand]

    @property
    def is_settled(self) -> bool:
        """Whether it stays as it is until a sample differs."""
        return all(
            each.amount == _used(each.sample) for each in (self.pod, *self.containers.values())
        )

    def seen_again(self, now: float) -> PodDemand:
        """Return the same demand, if it is settled, after a look at the same samples."""
        containers = {name: replace(each, seen=now) for name, each in self.containers.items()}
        return replace(self, pod=replace(self.pod, seen=now), containers=containers)


def estimate(
    pod: MemorySample,
    before: PodDemand | None,
    now: float,
    containers: Mapping[str, MemorySample] | None = None,
    prior: int = 0,
) -> PodDemand:
    """Return a pod's memory demand.

    Args:
        pod: Present sample of the pod's own group.
        before: Previous demand; None at first.
        now: Monotonic time in seconds.
        containers: Present samples of its containers, by group.
        prior: Bytes that a previous agent reported; 0 if none did.
    """
    earlier = {} if before is None else before.containers
    demands: dict[str, GroupDemand] = {}
    container_held = False
    for name, sample in (containers or {}).items():
        last = earlier.get(name)
        held = last is not None and _held_back(sample, last, now)
        demands[name] = _group_demand(sample, last, now, held=held)
        container_held = container_held or held
    last = None if before is None else before.pod
    held = last is not None and not container_held and _held_back(pod, last, now)
    own = _group_demand(pod, last, now, held=held, prior=prior)
    beyond = sum(each.amount - _used(each.sample) for each in demands.values())
    amount = max(own.amount, _used(pod) + beyond)
    reported = _rounded(amount) if before is None else _reported(amount, before.reported)
    return PodDemand(amount, reported, own, demands)


def _group_demand(
    sample: MemorySample, before: GroupDemand | None, now: float, *, held: bool, prior: int = 0
) -> GroupDemand:
    used = _used(sample)
    has = max(used, _limit(sample))
    least = max(used, min(prior, 2 * has))
    if before is None:
        return GroupDemand(least, sample, now)
    amount, grown = max(least, before.amount), before.grown
    if not held:
        kept = 0.5 ** ((now - before.seen) / HALF_LIFE)
        amount = max(used, used + round((amount - used) * kept))
    elif now - grown >= PAUSE:
        amount = max(used, min(round(max(amount, has) * GROWTH), 2 * has))
        grown = now
    return GroupDemand(amount, sample, now, grown)


def _held_back(sample: MemorySample, before: GroupDemand, now: float) -> bool:
    """Whether a group could use more than its own limits allow."""
    limit = _limit(sample)
    near = 0 < limit < sample.usage + headroom(sample.usage)
    return near and held_back(sample, before.sample, now - before.seen)


def held_back(sample: MemorySample, before: MemorySample, seconds: float) -> bool:
    """Whether a program could use more memory than it has."""
    if memory_shortage(sample, before, seconds):
        return True
    # A group above ``memory.high`` is throttled (``memory.events``, high), which is no shortage if
    # it has reclaimable cache.
    gives = sample.inactive_file >= headroom(sample.working_set)
    near = sample.working_set + headroom(sample.working_set) > sample.limits.soft
    return sample.slowed > before.slowed and near and not gives


def _used(sample: MemorySample) -> int:
    return sample.working_set + headroom(sample.working_set)


def _limit(sample: MemorySample) -> int:
    limit = min(sample.limits.hard, sample.limits.soft)
    return limit if limit < UNLIMITED else 0


def _reported(amount: int, before: int) -> int:
    return before if SLACK * before <= amount <= before else _rounded(amount)


def _rounded(amount: int) -> int:
    """Return the amount rounded up to a sixteenth of the power of two below it."""
    step = max(1 << (amount.bit_length() - 1), _STEPS) // _STEPS
    return -(-amount // step) * step
