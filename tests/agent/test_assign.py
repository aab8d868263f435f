"""assign() on machines from 1 to 64 cores: worked examples, then random machines and histories."""

from collections.abc import Iterable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machines import machine
from walras_agent.assign import Assignment, CoreDemand, assign
from walras_agent.cpuset import CpuSet
from walras_agent.topology import Topology, Unit


def units_on(topology: Topology, unit: Unit, node: int, cpus: CpuSet) -> int:
    """Count the whole units of a NUMA node among the CPUs."""
    units = [each for each in topology.cores(unit) if each <= cpus]
    return sum(nodes_of(topology, each) == {node} for each in units)


def demands(**cores: int) -> list[CoreDemand]:
    return [CoreDemand(key, count) for key, count in cores.items()]


def nodes_of(topology: Topology, cpus: CpuSet) -> set[int]:
    return {cpu.numa for cpu in topology.cpus if cpu.id in cpus}


def cores_of(topology: Topology, cpus: CpuSet) -> set[CpuSet]:
    return {core for core in topology.cores("core") if core & cpus}


def caches_of(topology: Topology, cpus: CpuSet) -> set[tuple[int, int]]:
    return {(cpu.numa, cpu.l3) for cpu in topology.cpus if cpu.id in cpus}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cores", [1, 2, 8, 64])
def test_the_whole_machine_can_be_one_jobs(cores: int, threads: int) -> None:
    topology = machine(cores=cores, threads=threads)

    given = assign(topology, demands(a=cores))

    assert given == Assignment({"a": topology.cpuset}, CpuSet())


def test_a_core_is_given_with_both_its_siblings() -> None:
    given = assign(machine(cores=8, threads=2), demands(a=3, b=2))

    assert all((cpu + 8) % 16 in given.exclusive["a"] for cpu in given.exclusive["a"])
    assert len(given.exclusive["a"]) == 6
    assert len(given.exclusive["b"]) == 4


def pair(first: int, second: int) -> list[CoreDemand]:
    return [CoreDemand("x", first, "y"), CoreDemand("y", second, "x")]


def test_partners_that_start_together_share_a_socket_where_one_has_room() -> None:
    """Each alone takes the fullest socket: the larger one fits on that of a, the other does not."""
    topology = machine(nodes=2, cores=12)
    before = assign(topology, demands(a=4))
    apart = assign(topology, demands(a=4, x=5, y=4), before.exclusive).exclusive
    assert nodes_of(topology, apart["x"]) != nodes_of(topology, apart["y"])

    given = assign(topology, [*demands(a=4), *pair(5, 4)], before.exclusive).exclusive

    assert given["a"] == before.exclusive["a"]
    assert nodes_of(topology, given["x"]) == nodes_of(topology, given["y"]) == {1}
    again = assign(topology, [*demands(a=4), *pair(5, 4)], given).exclusive
    assert again == given


def test_a_partner_that_comes_later_is_seated_beside_the_first() -> None:
    topology = machine(nodes=2, cores=8)
    first = assign(topology, [*demands(b=6), CoreDemand("x", 3, "y")]).exclusive
    assert nodes_of(topology, first["x"]) == {1}
    alone = assign(topology, [*demands(b=6, y=2), CoreDemand("x", 3)], first).exclusive
    assert nodes_of(topology, alone["y"]) == {0}, "the fullest socket with room"

    given = assign(topology, [*demands(b=6), *pair(3, 2)], first).exclusive

    assert nodes_of(topology, given["y"]) == {1}
    assert {key: given[key] for key in first} == first, "nobody else moves"


def test_partners_share_a_cache_before_a_node_and_are_apart_where_neither_has_room() -> None:
    topology = machine(nodes=2, caches=2, cores=4)
    given = assign(topology, pair(2, 2)).exclusive
    assert len(caches_of(topology, given["x"] | given["y"])) == 1
    given = assign(topology, pair(3, 2)).exclusive
    assert len(caches_of(topology, given["x"] | given["y"])) == 2
    assert len(nodes_of(topology, given["x"] | given["y"])) == 1
    full = assign(topology, demands(a=6, b=6)).exclusive
    given = assign(topology, [*demands(a=6, b=6), *pair(2, 2)], full).exclusive
    assert nodes_of(topology, given["x"]) != nodes_of(topology, given["y"])


def test_a_partner_that_is_not_there_changes_nothing() -> None:
    topology = machine(nodes=2, cores=8)
    known = assign(topology, demands(a=3, b=2))
    alone = [CoreDemand("a", 3, "gone"), CoreDemand("b", 2, "gone")]
    assert assign(topology, alone) == known


def test_a_job_takes_the_fullest_node_in_which_it_fits() -> None:
    topology = machine(nodes=2, cores=8)
    before = assign(topology, demands(big=6))

    after = assign(topology, demands(big=6, small=2), before.exclusive)

    assert nodes_of(topology, after.exclusive["small"]) == nodes_of(
        topology, after.exclusive["big"]
    )


def test_a_job_larger_than_a_cache_touches_as_few_as_can_be() -> None:
    topology = machine(nodes=2, caches=4, cores=4)

    given = assign(topology, demands(a=6))

    assert len(caches_of(topology, given.exclusive["a"])) == 2
    assert len(nodes_of(topology, given.exclusive["a"])) == 1


def test_a_job_larger_than_a_node_uses_one_up_and_part_of_another() -> None:
    topology = machine(nodes=4, cores=4)

    given = assign(topology, demands(a=6))

    assert len(nodes_of(topology, given.exclusive["a"])) == 2


def test_threads_fill_whole_cores_first() -> None:
    topology = machine(cores=4, threads=2)

    given = assign(topology, demands(a=3, b=1), unit="thread")

    cores = [core for core in topology.cores("core") if core <= given.exclusive["a"]]
    assert len(cores) == 1
    assert len(given.exclusive["a"]) == 3
    assert given.shared == CpuSet([2, 3, 6, 7])


def test_a_job_that_outgrows_its_node_keeps_what_it_has() -> None:
    topology = machine(nodes=2, cores=4)
    before = {"a": CpuSet([0, 1]), "b": CpuSet([2, 3])}

    after = assign(topology, demands(a=4, b=2), before)

    assert before["a"] <= after.exclusive["a"]
    assert after.exclusive["b"] == before["b"]


def test_a_shrinking_job_gives_up_its_second_node_first() -> None:
    topology = machine(nodes=2, cores=4)

    after = assign(topology, demands(a=4), {"a": CpuSet([0, 1, 2, 3, 5])})

    assert after.exclusive["a"] == CpuSet([0, 1, 2, 3])


def test_a_split_job_leaves_the_other_node_when_a_core_of_its_own_is_free() -> None:
    topology = machine(nodes=2, cores=4)

    after = assign(topology, demands(a=4, b=1), {"a": CpuSet([0, 1, 2, 6]), "b": CpuSet([7])})

    assert after.exclusive == {"a": CpuSet([0, 1, 2, 3]), "b": CpuSet([7])}


def test_no_other_job_moves_to_make_room_for_a_split_one() -> None:
    topology = machine(nodes=2, cores=4)
    before = {"a": CpuSet([0, 1, 2, 6]), "b": CpuSet([3])}

    assert assign(topology, demands(a=4, b=1), before).exclusive == before


def test_a_job_whose_memory_may_be_on_either_node_leaves_neither() -> None:
    topology = machine(nodes=2, cores=4)
    before = {"a": CpuSet([0, 1, 4, 5])}

    assert assign(topology, demands(a=4), before).exclusive == before


def test_threads_gather_on_one_core_once_its_sibling_is_free() -> None:
    topology = machine(cores=4, threads=2)

    after = assign(topology, demands(a=2), {"a": CpuSet([0, 1])}, unit="thread")

    assert after.exclusive == {"a": CpuSet([1, 5])}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (demands(a=3, b=2), "5 exclusive cores are demanded; the machine has 4"),
        ([CoreDemand("a", 1), CoreDemand("a", 2)], "a: two demands have this key"),
    ],
    ids=["more than the machine", "one key twice"],
)
def test_what_cannot_be_is_refused_with_its_figures(asked: list[CoreDemand], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assign(machine(cores=4), asked)


@pytest.mark.parametrize("cores", [0, -1])
def test_a_demand_of_no_cores_is_refused(cores: int) -> None:
    with pytest.raises(ValueError, match=f"a: {cores} cores are demanded; demand at least 1"):
        CoreDemand("a", cores)


machines = st.builds(
    machine,
    nodes=st.integers(1, 3),
    caches=st.integers(1, 3),
    cores=st.integers(1, 5),
    threads=st.integers(1, 2),
)


@st.composite
def cut_machines(draw: st.DrawFn) -> Topology:
    """A machine of which only some CPUs are allowed, so that cores may be cut in half."""
    whole = draw(machines)
    allowed = draw(st.sets(st.sampled_from(sorted(whole.cpuset)), min_size=1))
    return Topology(tuple(cpu for cpu in whole.cpus if cpu.id in allowed))


topologies = st.one_of(machines, cut_machines())
units: st.SearchStrategy[Unit] = st.sampled_from(["core", "thread"])


@st.composite
def histories(draw: st.DrawFn) -> tuple[Topology, Unit, list[list[CoreDemand]]]:
    """A machine and demands of the same few jobs over several rounds, each within its supply."""
    topology, unit = draw(topologies), draw(units)
    supply = len(topology.cores(unit))
    rounds = []
    for _ in range(draw(st.integers(1, 4))):
        left, asked = supply, []
        for key in draw(st.permutations("abcdef")):
            cores = draw(st.integers(0, min(left, 6)))
            if cores > 0:
                asked.append(CoreDemand(key, cores))
                left -= cores
        rounds.append(asked)
    return topology, unit, rounds


def replay(topology: Topology, unit: Unit, rounds: Iterable[list[CoreDemand]]) -> list[Assignment]:
    results: list[Assignment] = []
    for asked in rounds:
        previous = results[-1].exclusive if results else {}
        results.append(assign(topology, asked, previous, unit))
    return results


@given(histories())
def test_every_cpu_has_one_holder_and_every_job_its_whole_units(
    history: tuple[Topology, Unit, list[list[CoreDemand]]],
) -> None:
    topology, unit, rounds = history
    for asked, result in zip(rounds, replay(*history), strict=True):
        held = [*result.exclusive.values(), result.shared]
        assert sum(len(cpus) for cpus in held) == len(topology.cpuset)
        assert CpuSet(cpu for cpus in held for cpu in cpus) == topology.cpuset
        for demand in asked:
            cpus = result.exclusive[demand.key]
            touched = [core for core in topology.cores(unit) if core & cpus]
            assert all(core <= cpus for core in touched)
            assert len(touched) == demand.cores


@given(histories())
def test_cores_move_beyond_what_the_counts_demand_only_out_of_a_whole_domain(
    history: tuple[Topology, Unit, list[list[CoreDemand]]],
) -> None:
    topology = history[0]
    results = replay(*history)
    for before, after in pairwise(results):
        for key, cpus in after.exclusive.items():
            had = before.exclusive.get(key, CpuSet())
            if had <= cpus or cpus <= had:
                continue
            left = [
                domains_of(topology, had) - domains_of(topology, cpus)
                for domains_of in (nodes_of, caches_of, cores_of)
            ]
            assert any(left)


@given(histories())
def test_no_job_keeps_a_few_cores_on_a_node_that_free_cores_of_its_others_could_replace(
    history: tuple[Topology, Unit, list[list[CoreDemand]]],
) -> None:
    topology, unit, _ = history
    for result in replay(*history):
        for mine in result.exclusive.values():
            nodes = nodes_of(topology, mine)
            held = {node: units_on(topology, unit, node, mine) for node in nodes}
            free = {node: units_on(topology, unit, node, result.shared) for node in nodes}
            for node in nodes:
                room = sum(free.values()) - free[node]
                assert room < held[node] or held[node] == max(held.values())


@given(histories())
def test_the_same_demands_again_move_nothing(
    history: tuple[Topology, Unit, list[list[CoreDemand]]],
) -> None:
    topology, unit, rounds = history
    last = replay(*history)[-1]

    assert assign(topology, rounds[-1], last.exclusive, unit) == last


@given(histories(), st.randoms())
def test_the_order_of_demands_does_not_matter(
    history: tuple[Topology, Unit, list[list[CoreDemand]]], random: Random
) -> None:
    topology, unit, rounds = history
    previous = replay(*history)[-1].exclusive
    shuffled = random.sample(rounds[0], k=len(rounds[0]))

    assert assign(topology, shuffled, previous, unit) == assign(topology, rounds[0], previous, unit)


@given(histories())
def test_a_new_job_is_split_only_where_no_domain_could_hold_it(
    history: tuple[Topology, Unit, list[list[CoreDemand]]],
) -> None:
    topology, unit, rounds = history
    result = assign(topology, rounds[0], {}, unit)
    for domains_of in (nodes_of, caches_of):
        for demand in rounds[0]:
            mine = result.exclusive[demand.key]
            domains = domains_of(topology, mine)
            if len(domains) < 2:
                continue
            reachable = [c for c in topology.cores(unit) if c <= mine or c <= result.shared]
            for domain in domains_of(topology, mine | result.shared):
                inside = [c for c in reachable if domain in domains_of(topology, c)]
                assert len(inside) < demand.cores
