"""Chooses the domain of a node on which each pod runs.

A domain is a set of CPUs that pods share: those of a NUMA node, or of the whole node if it is
small. What one pod leaves there, the kernel gives to another within microseconds, but not what is
left in another domain. So pods are spread evenly, the largest first.

A pod runs on one domain if one has room for what it bought: it stays where it was; otherwise it
goes where its partner is, or near its own CPUs, or where most room is left. A pod that fits in none
gets as few as have room together, or all.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_SHARED = 16
"""CPUs of the largest node that is one domain, whatever NUMA nodes it has."""

_ROOM = 1005  # thousandths of a CPU that fit on one: three rounded thirds may be one too many


class TimeDemand(NamedTuple):
    """Time on shared CPUs that one pod is to have.

    Attributes:
        pod: UID of the pod.
        milli: Time in thousandths of a CPU, more than 0.
        was: Number of the domain that it was on; None for none, or for several.
        near: Number of the domain where it is to be if there is room; None for any.
        partner: UID of the pod whose domain it is to share if there is room; empty for none.
    """

    pod: str
    milli: int
    was: int | None = None
    near: int | None = None
    partner: str = ""


def place(cpus: Iterable[int], demands: Iterable[TimeDemand]) -> dict[str, list[int]]:
    """Return the numbers of the domains that each pod runs on, by UID.

    The result does not depend on the order of the demands; whoever was there before stays.

    Args:
        cpus: CPUs of each domain that pods share, at least one in all.
        demands: At most one for each pod.

    Raises:
        ValueError: Two demands are of the same pod.
    """
    largest_first = sorted(demands, key=lambda each: (-each.milli, each.pod))
    by_pod = sorted(each.pod for each in largest_first)
    if twice := [one for one, other in pairwise(by_pod) if one == other]:
        raise ValueError(f"{twice[0]}: two demands are of this pod")
    placing = _Placing([_ROOM * each for each in cpus])
    moving = [each for each in largest_first if not placing.keep(each)]
    left = {each.pod: each.milli for each in moving}
    spanning = [each for each in moving if not placing.settle(each, left.get(each.partner, 0))]
    for each in spanning:
        placing.spread(each)
    return placing.chosen


class _Placing:
    """The domains of pods so far, and the room that these leave, in thousandths of a CPU."""

    def __init__(self, room: list[int]) -> None:
        self.chosen: dict[str, list[int]] = {}
        self._room = room

    def keep(self, demand: TimeDemand) -> bool:
        """Leave a pod on the domain that it was on, if that has room."""
        stays = demand.was is not None and self._room[demand.was] >= demand.milli
        if stays and demand.was is not None:
            self._fill(demand, [demand.was])
        return stays

    def settle(self, demand: TimeDemand, partners: int) -> bool:
        """Place a pod on the best domain that has room for it, if one has.

        Args:
            demand: What the pod is to have.
            partners: Thousandths of a CPU that its partner is to have, if that is not placed yet.
        """
        fitting = [number for number, room in enumerate(self._room) if room >= demand.milli]
        beside = self.chosen.get(demand.partner, [])

        def rank(number: int) -> tuple[bool, bool, int]:
            room = self._room[number]
            alone = room < demand.milli + partners or bool(beside and number not in beside)
            return alone, number != demand.near, -room

        if fitting:
            self._fill(demand, [min(fitting, key=rank)])
        return bool(fitting)

    def spread(self, demand: TimeDemand) -> None:
        """Give a pod as few domains as have room for it, or all of them if they have too little."""
        roomiest = sorted(range(len(self._room)), key=lambda number: -self._room[number])
        chosen: list[int] = []
        while roomiest and sum(self._room[number] for number in chosen) < demand.milli:
            chosen.append(roomiest.pop(0))
        self._fill(demand, chosen)

    def _fill(self, demand: TimeDemand, chosen: Sequence[int]) -> None:
        left = demand.milli
        for number in chosen:
            taken = min(left, self._room[number])
            self._room[number] -= taken
            left -= taken
        self.chosen[demand.pod] = sorted(chosen)
