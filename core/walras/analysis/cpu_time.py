"""How the kernel divides the time of CPUs among groups that compete for them.

It knows weights, quotas and CPU sets only, and no market: it is the judge of what pods have of what
they bought. Each group is taken to have threads for all of its CPUs, which always run, and the
kernel's load balancer to be perfect: no group could have more time by its weight unless one that
has less by its own gave way (weighted max-min fairness).
"""

from __future__ import annotations

import math
from collections import Counter, deque
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

ERROR = 1e-9
"""CPUs that do not matter: sums of floating-point numbers differ by less."""


class BusyGroup(NamedTuple):
    """A control group whose threads could use all of its CPUs.

    Attributes:
        cpus: Numbers of the CPUs that it may use.
        weight: Its ``cpu.shares``, or its ``cpu.weight``: the same of all groups; above 0.
        quota: CPUs that it may use at most.
    """

    cpus: Collection[int]
    weight: int
    quota: float = math.inf


def cpu_time(groups: Sequence[BusyGroup]) -> list[float]:
    """Return the CPUs of which each group has the time, in the order of the groups.

    CPUs that the same groups may use are one place. If the time that equal levels of weight promise
    can be had from these places, groups have it. Else those that lack some divide all of the places
    that they may use among themselves, and the others the rest (the decomposition of H. Groenevelt,
    "Two algorithms for maximizing a separable concave function over a polymatroid feasible region",
    1991).
    """
    of_cpu: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        for cpu in group.cpus:
            of_cpu.setdefault(cpu, []).append(number)
    places = Counter(tuple(users) for users in of_cpu.values())
    time = [0.0] * len(groups)
    todo = [(list(range(len(groups))), list(places))]
    while todo:
        members, sites = todo.pop()
        rooms = {site: float(places[site]) for site in sites}
        wanted = _by_weight(groups, members, sum(rooms.values()))
        short = _lacking(wanted, rooms)
        if not short or len(short) == len(members):
            for member in members:
                time[member] = wanted[member]
            continue
        theirs = [site for site in sites if short.intersection(site)]
        rest = [site for site in sites if not short.intersection(site)]
        todo.append(([each for each in members if each in short], theirs))
        todo.append(([each for each in members if each not in short], rest))
    return time


def _by_weight(
    groups: Sequence[BusyGroup], members: Sequence[int], room: float
) -> dict[int, float]:
    """Divide CPUs by weight, where a quota's excess goes to the others."""
    weight = sum(groups[each].weight for each in members)
    wanted: dict[int, float] = {}
    for each in sorted(members, key=lambda each: groups[each].quota / groups[each].weight):
        own = groups[each].weight
        wanted[each] = min(groups[each].quota, room * own / weight)
        room, weight = max(room - wanted[each], 0.0), weight - own
    return wanted


def _lacking(wanted: Mapping[int, float], rooms: Mapping[tuple[int, ...], float]) -> set[int]:
    """Return the groups that together want more than the places they may use have, if any.

    A maximum flow from groups to places: what flows to a full place goes by other ways as long as
    there are some. At the end, what can be reached from groups that lack time is the source's side
    of a minimum cut.
    """
    left = dict(rooms)
    reach = {each: [site for site in rooms if each in site] for each in wanted}
    flow: dict[tuple[int, ...], dict[int, float]] = {site: {} for site in rooms}
    lacking = []
    for group, amount in wanted.items():
        missing = amount
        while missing > ERROR:
            way, _ = _way(group, left, reach, flow)
            if not way:
                lacking.append(group)
                break
            missing -= _send(way, missing, left, flow)
    return set().union(*(_way(each, left, reach, flow)[1] for each in lacking))


_Way = list[tuple[int, tuple[int, ...]]]
"""Groups, and the place to which each sends more; of all but the last, the next one sends less."""


def _way(
    group: int,
    left: Mapping[tuple[int, ...], float],
    reach: Mapping[int, Sequence[tuple[int, ...]]],
    flow: Mapping[tuple[int, ...], Mapping[int, float]],
) -> tuple[_Way, set[int]]:
    """Return the shortest way to a place that has room, or all groups that were passed."""
    came: dict[int, tuple[int, tuple[int, ...]] | None] = {group: None}
    queue = deque([group])
    while queue:
        each = queue.popleft()
        for site in reach[each]:
            if left[site] > ERROR:
                way, at = [(each, site)], came[each]
                while at is not None:
                    way.append(at)
                    at = came[at[0]]
                return way[::-1], set()
            for other, amount in flow[site].items():
                if amount > ERROR and other not in came:
                    came[other] = each, site
                    queue.append(other)
    return [], set(came)


def _send(
    way: _Way,
    most: float,
    left: dict[tuple[int, ...], float],
    flow: dict[tuple[int, ...], dict[int, float]],
) -> float:
    """Send as much as the way takes, and return it."""
    last = way[-1][1]
    amount = min(most, left[last])
    for (_, site), (other, _) in pairwise(way):
        amount = min(amount, flow[site][other])
    left[last] -= amount
    for number, (group, site) in enumerate(way):
        flow[site][group] = flow[site].get(group, 0.0) + amount
        if number + 1 < len(way):
            flow[site][way[number + 1][0]] -= amount
    return amount
