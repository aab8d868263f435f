"""Pure: assigns CPUs to jobs by topology, and changes as few assignments as possible.

In four steps: every job keeps its cores as far as its new count allows; jobs that grow take the
nearest free cores; new jobs, largest first, take the narrowest domain that holds all of their cores
(core, last-level cache, NUMA node), and of several the fullest, so that emptier ones stay free for
larger jobs, or, with their partner, the narrowest that holds both; a job that is split over several
domains leaves one of them as soon as free cores in the others can replace it. Cores without an
owner are the shared pool.

A job that outgrows its NUMA node is split rather than moved: its memory stays where it was first
touched, so moving all its threads would make every access remote. For the same reason a split job
leaves the node where it has the fewest cores, and no other job moves to make room for it.
"""

from __future__ import annotations

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
_CACHE, _NUMA = 1, 0


@dataclass(frozen=True, slots=True)
class CoreDemand:
    """The number of cores that one job is to get.

    Attributes:
        key: Name of the job, unique among the demands.
        cores: Number of exclusive cores (or CPUs, see `Unit`), at least 1.
        partner: Key of the job with which it is to share a last-level cache, or else a NUMA node,
            if there is room when it starts; empty for none.

    Raises:
        ValueError: ``cores`` is less than 1.
    """

    key: str
    cores: int
    partner: str = ""

    def __post_init__(self) -> None:
        if self.cores < 1:
            raise ValueError(f"{self.key}: {self.cores} cores are demanded; demand at least 1")


@dataclass(frozen=True, slots=True)
class Assignment:
    """The CPUs of all jobs; every CPU has either one exclusive owner or none.

    Attributes:
        exclusive: CPUs of each job, by key.
        shared: All other CPUs.
    """

    exclusive: Mapping[str, CpuSet]
    shared: CpuSet


@dataclass(frozen=True, slots=True)
class _Place:
    """A unit for sale and its domains, widest first: NUMA node, last-level cache, core.

    A cache is identified together with its node: with sub-NUMA clustering it spans several nodes.
    """

    index: int
    cpus: CpuSet
    domains: tuple[tuple[int, ...], ...]


def assign(
    topology: Topology,
    demands: Iterable[CoreDemand],
    previous: Mapping[str, CpuSet] = _NOTHING,
    unit: Unit = "core",
) -> Assignment:
    """Choose the CPUs of every demand.

    The result does not depend on the order of the demands; identical demands with the previous
    result as ``previous`` give that result again.

    Args:
        topology: CPUs to assign.
        demands: One demand for each job.
        previous: CPUs of each job so far, by key. CPUs that are not in ``topology`` are ignored.
        unit: Whether ``cores`` of a demand counts physical cores or single CPUs.

    Raises:
        ValueError: Two demands have the same key, or the machine has too few cores.
    """
    wanted = sorted(demands, key=lambda demand: demand.key)
    places = _places(topology, unit)
    _check_supply(wanted, len(places), unit)
    free = list(places)
    held: dict[str, list[_Place]] = {}
    for demand in wanted:
        had = previous.get(demand.key, CpuSet())
        still = [place for place in free if place.cpus & had]
        _move(_compact(still, min(demand.cores, len(still))), free, held.setdefault(demand.key, []))
    cores = {demand.key: demand.cores for demand in wanted}

    def turn(demand: CoreDemand) -> tuple[bool, int, str, int]:
        """Who grows comes first, then new jobs, each beside its partner."""
        mine, pair = held[demand.key], [demand.key]
        if not mine and not held.get(demand.partner, [None]):
            pair.append(demand.partner)
        most = max(cores[key] - len(held[key]) for key in pair)
        return bool(not mine), -most, min(pair), -demand.cores

    for demand in sorted(wanted, key=turn):
        if demand.partner in cores and not held[demand.key]:
            beside = _beside(held[demand.partner], cores[demand.partner], demand.cores, free)
            _move(_compact(beside, demand.cores), free, held[demand.key])
        _grow(held[demand.key], demand.cores, free)
    while any(_leave_a_domain(held[demand.key], free) for demand in wanted):
        pass  # what one job gives up may be what another needs
    return Assignment(
        exclusive={key: _union(mine) for key, mine in held.items()},
        shared=_union(free),
    )


def _check_supply(demands: Sequence[CoreDemand], supply: int, unit: Unit) -> None:
    twice = [key for key, times in Counter(d.key for d in demands).items() if times > 1]
    if twice:
        raise ValueError(f"{twice[0]}: two demands have this key; use one for each job")
    asked = sum(demand.cores for demand in demands)
    if asked > supply:
        raise ValueError(f"{asked} exclusive {unit}s are demanded; the machine has {supply}")


def _places(topology: Topology, unit: Unit) -> tuple[_Place, ...]:
    cpu_of = {cpu.id: cpu for cpu in topology.cpus}
    places = []
    for index, cpus in enumerate(topology.cores(unit)):
        cpu = cpu_of[next(iter(cpus))]
        numa, cache, core = (cpu.numa,), (cpu.numa, cpu.l3), (cpu.numa, cpu.l3, cpu.core)
        places.append(_Place(index, cpus, (numa, cache, core)))
    return tuple(places)


def _beside(
    partners: Sequence[_Place], most: int, count: int, free: Sequence[_Place]
) -> list[_Place]:
    """Return free places in the narrowest domain where ``count`` of them and the partner's are.

    None if there is no such domain; a place for the partner, too, if it has none yet.

    Args:
        partners: Places of the partner; none if it starts as well.
        most: Places that the partner is to have.
        count: Places that are sought.
        free: Places without an owner.
    """
    for level in (_CACHE, _NUMA):
        room = Counter(place.domains[level] for place in free)
        there = {place.domains[level] for place in partners}
        fitting = (
            [domain for domain in there if room[domain] >= count]
            if partners
            else [domain for domain in room if room[domain] >= count + most]
        )
        if fitting:
            best = min(fitting, key=lambda domain: (room[domain], domain))
            return [place for place in free if place.domains[level] == best]
    return []


def _grow(mine: list[_Place], count: int, free: list[_Place]) -> None:
    """Add free places to ``mine`` up to ``count``, those nearest to it first."""
    for level in _LEVELS if mine else ():
        around = {place.domains[level] for place in mine}
        near = [place for place in free if place.domains[level] in around]
        _move(_compact(near, min(count - len(mine), len(near))), free, mine)
    _move(_compact(free, count - len(mine)), free, mine)


def _leave_a_domain(mine: list[_Place], free: list[_Place]) -> bool:
    """Replace the job's places in one domain by free places in its larger domains, if these do.

    The widest domains come first. Threads leave a NUMA node only for nodes of which at least one
    holds more of them, since there most of their memory is, and a cache or core only for another
    of the same node.
    """
    for level in reversed(_LEVELS):
        used = Counter(place.domains[level] for place in mine)
        for domain, count in sorted(used.items(), key=lambda item: (item[1], item[0])):
            others = {each for each in used if each != domain and each[:level] == domain[:level]}
            if max((used[each] for each in others), default=0) < count + (level == _NUMA):
                continue
            room = [place for place in free if place.domains[level] in others]
            if len(room) < count:
                continue
            places = sorted([*mine, *free], key=lambda place: place.index)
            mine[:] = [place for place in mine if place.domains[level] != domain]
            _grow(mine, len(mine) + count, room)
            taken = {place.index for place in mine}
            free[:] = [place for place in places if place.index not in taken]
            return True
    return False


def _compact(places: Sequence[_Place], count: int) -> list[_Place]:
    """Choose ``count`` of the places in the narrowest domain that holds them, the fullest of these.

    If no domain holds them all, the NUMA node with the most free places is used up first.
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
    """Choose ``count`` of the places if no single domain of ``level`` holds them.

    Whole domains with the most free places come first, so that few are used; the rest is compact.
    """
    if level not in _LEVELS or len({place.domains[level] for place in places}) == len(places):
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
