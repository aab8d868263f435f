"""Pure choice: which CPUs each job gets, so that as little as possible moves.

In three steps: every job keeps what it had as far as its new count allows; jobs that grow take
the nearest free units; new jobs, largest first, take the narrowest domain that holds them whole
(core, last-level cache, NUMA node), and of several the fullest, so that the roomy ones stay
whole for larger jobs. What nobody owns is the shared pool.

A job that grows out of its NUMA node is split rather than moved: its memory stays where it was
first touched, so moving all its threads would make every access remote.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras_agent.topology import Topology, Unit

_NOTHING: Mapping[str, CpuSet] = MappingProxyType({})

# Indices into `_Place.domains`, narrowest domain first: core, last-level cache, NUMA node.
_LEVELS = (2, 1, 0)


@dataclass(frozen=True, slots=True)
class Demand:
    """What one job is to hold.

    Attributes:
        key: The job, unique among the demands.
        cores: Exclusive units; 0 is a place in the shared pool.
        weight: Its weight in the shared pool, against the others there (any positive scale).

    Raises:
        ValueError: ``cores`` is negative, or ``weight`` is not a positive number.
    """

    key: str
    cores: int
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.cores < 0:
            raise ValueError(f"{self.key}: {self.cores} cores were asked for; 0 or more can be")
        if not (self.weight > 0 and math.isfinite(self.weight)):
            raise ValueError(f"{self.key}: the weight {self.weight} is not a positive number")


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who holds which CPUs; no CPU has two exclusive owners or is both exclusive and shared.

    Attributes:
        exclusive: The CPUs of each job that asked for units of its own.
        shared: All other CPUs.
        shared_keys: The jobs in the shared pool, sorted.
    """

    exclusive: Mapping[str, CpuSet]
    shared: CpuSet
    shared_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """A unit for sale and the domains around it, widest first: NUMA node, cache, core.

    Caches are told apart within their node: with sub-NUMA clustering one cache spans several.
    """

    index: int
    cpus: CpuSet
    domains: tuple[tuple[int, ...], ...]


def assign(
    topology: Topology,
    demands: Iterable[Demand],
    previous: Mapping[str, CpuSet] = _NOTHING,
    unit: Unit = "core",
) -> Assignment:
    """Choose the CPUs of every demand.

    The result depends on the demands and not on their order; identical demands with the
    previous result as ``previous`` give that result again.

    Args:
        topology: The CPUs to hand out.
        demands: One per job.
        previous: What each job held until now. CPUs that are gone are ignored.
        unit: What ``Demand.cores`` counts.

    Raises:
        ValueError: Two demands have one key, the machine has too few units, or none would be
            left for the jobs in the shared pool.
    """
    wanted = sorted(demands, key=lambda demand: demand.key)
    places = _places(topology, unit)
    _check_supply(wanted, len(places), unit)
    exclusive = [demand for demand in wanted if demand.cores > 0]
    free = list(places)
    held: dict[str, list[_Place]] = {}
    for demand in exclusive:
        had = previous.get(demand.key, CpuSet())
        still = [place for place in free if place.cpus & had]
        _move(_compact(still, min(demand.cores, len(still))), free, held.setdefault(demand.key, []))
    for demand in sorted(exclusive, key=lambda d: (not held[d.key], len(held[d.key]) - d.cores)):
        _grow(held[demand.key], demand.cores, free)
    return Assignment(
        exclusive={key: _union(mine) for key, mine in held.items()},
        shared=_union(free),
        shared_keys=tuple(demand.key for demand in wanted if demand.cores == 0),
    )


def _check_supply(demands: Sequence[Demand], supply: int, unit: Unit) -> None:
    twice = [key for key, times in Counter(d.key for d in demands).items() if times > 1]
    if twice:
        raise ValueError(f"{twice[0]}: two demands have this key; give each job its own")
    asked = sum(demand.cores for demand in demands)
    if asked > supply:
        raise ValueError(f"{asked} exclusive {unit}s are demanded of a machine with {supply}")
    sharing = sum(demand.cores == 0 for demand in demands)
    if sharing and asked == supply:
        raise ValueError(
            f"{asked} exclusive {unit}s of {supply} leave none for {sharing} sharing job(s); "
            f"demand at most {supply - 1}"
        )


def _places(topology: Topology, unit: Unit) -> tuple[_Place, ...]:
    cpu_of = {cpu.id: cpu for cpu in topology.cpus}
    places = []
    for index, cpus in enumerate(topology.cores(unit)):
        cpu = cpu_of[next(iter(cpus))]
        numa, cache, core = (cpu.numa,), (cpu.numa, cpu.l3), (cpu.numa, cpu.l3, cpu.core)
        places.append(_Place(index, cpus, (numa, cache, core)))
    return tuple(places)


def _grow(mine: list[_Place], count: int, free: list[_Place]) -> None:
    """Add free places to ``mine`` up to ``count``, those nearest to it first."""
    for level in _LEVELS:
        around = {place.domains[level] for place in mine}
        near = [place for place in free if place.domains[level] in around]
        _move(_compact(near, min(count - len(mine), len(near))), free, mine)
    _move(_compact(free, count - len(mine)), free, mine)


def _compact(places: Sequence[_Place], count: int) -> list[_Place]:
    """Choose ``count`` of the places in as narrow a domain as holds them, the fullest of such.

    Where no domain holds them all, the roomiest NUMA node is used up first.
    """
    if count == 0:
        return []
    if count == len(places):
        return list(places)
    room = Counter(domain for place in places for domain in place.domains)
    for level in _LEVELS:
        fitting = [place for place in places if room[place.domains[level]] >= count]
        if fitting:
            # `min` takes the first of equals: ties go to the lowest in assignment order.
            best = min(fitting, key=lambda p: [room[d] for d in p.domains[: level + 1]])
            inside = [p for p in places if p.domains[level] == best.domains[level]]
            return _fill(inside, count, level + 1)
    return _fill(places, count, 0)


def _fill(places: Sequence[_Place], count: int, level: int) -> list[_Place]:
    """Choose ``count`` of the places where no single domain of ``level`` holds them.

    Whole domains, roomiest first, so that few are touched; the rest as compact as can be.
    """
    if level not in _LEVELS:
        return list(places[:count])
    by_domain: dict[tuple[int, ...], list[_Place]] = defaultdict(list)
    for place in places:
        by_domain[place.domains[level]].append(place)
    roomiest, whole = max(by_domain.items(), key=lambda item: len(item[1]))
    rest = [place for place in places if place.domains[level] != roomiest]
    return whole + _compact(rest, count - len(whole))


def _move(chosen: Sequence[_Place], free: list[_Place], mine: list[_Place]) -> None:
    taken = {place.index for place in chosen}
    free[:] = [place for place in free if place.index not in taken]
    mine.extend(chosen)


def _union(places: Iterable[_Place]) -> CpuSet:
    return CpuSet(cpu for place in places for cpu in place.cpus)
