"""Fractions are pinned to one shared CPU each as far as they fit, and stay there."""

from itertools import combinations
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from machines import machine
from walras_agent.cpuset import CpuSet
from walras_agent.local.pinned_cpus import Fraction, place_fractions
from walras_agent.topology import Topology


def fractions(**milli: int) -> list[Fraction]:
    return [Fraction(pod, each) for pod, each in milli.items()]


def place(
    cpus: int, wanted: list[Fraction], previous: dict[str, CpuSet] | None = None
) -> dict[str, CpuSet]:
    return place_fractions(machine(cores=cpus), CpuSet(range(cpus)), wanted, previous or {})


def test_pods_that_fit_on_cpus_of_their_own_get_these() -> None:
    placed = place(4, fractions(a=900, b=300, c=200))
    assert placed == {"a": CpuSet([0]), "b": CpuSet([1]), "c": CpuSet([2])}


def test_as_many_as_possible_are_pinned_if_need_be_to_the_fullest_cpus() -> None:
    """The emptiest CPU first would leave 0.2 on both, and 0.3 over."""
    placed = place(2, fractions(a=500, b=400, c=400, d=300, e=300))
    assert placed["a"] == placed["b"] != placed["c"] == placed["d"] == placed["e"]
    assert {len(cpus) for cpus in placed.values()} == {1}


def test_three_rounded_thirds_fit_on_a_cpu() -> None:
    """They may be a thousandth too much, as 0.334, 0.334 and 0.333, which no weight is exact by."""
    halves = {f"half-{number}": 500 for number in range(8)}
    thirds = {f"third-{number}": 334 if number < 4 else 333 for number in range(12)}
    placed = place(8, fractions(**halves, **thirds))
    assert {len(cpus) for cpus in placed.values()} == {1}


def test_what_fits_nowhere_has_as_few_cpus_as_have_room() -> None:
    placed = place(4, fractions(a=900, b=900, c=700, d=700, e=600))
    assert placed["e"] == placed["c"] | placed["d"]


def test_one_that_comes_moves_nobody_but_where_that_pins_more() -> None:
    four = {"a": CpuSet([0]), "b": CpuSet([1]), "c": CpuSet([0]), "d": CpuSet([1])}
    stay = place(2, fractions(a=500, b=500, c=300, d=300, e=200), four)
    assert stay == four | {"e": CpuSet([0])}
    spread = place(2, fractions(a=600, b=600, e=500), {"a": CpuSet([0]), "b": CpuSet([1])})
    assert spread == {"a": CpuSet([0]), "b": CpuSet([1]), "e": CpuSet([0, 1])}
    moved = place(2, fractions(a=500, b=500, e=600), {"a": CpuSet([0]), "b": CpuSet([1])})
    assert len(moved["e"]) == 1
    assert moved["a"] == moved["b"] != moved["e"]


def test_near_its_own_cpus_is_where_a_pod_shares_one() -> None:
    topology = machine(nodes=2, cores=4)
    shared = CpuSet([1, 2, 5, 6])
    wanted = [Fraction("a", 500, CpuSet([4])), Fraction("b", 500, CpuSet([7]))]
    placed = place_fractions(topology, shared, wanted, {})
    assert placed == {"a": CpuSet([5]), "b": CpuSet([6])}


def test_reserved_cpus_are_used_when_the_others_are_full() -> None:
    topology = machine(cores=2)
    wanted = fractions(a=600, b=300, c=300)
    placed = place_fractions(topology, topology.cpuset, wanted, {}, last_choice=CpuSet([0]))
    assert placed == {"a": CpuSet([1]), "b": CpuSet([1]), "c": CpuSet([0])}
    fewer = place_fractions(topology, topology.cpuset, wanted[1:], placed, CpuSet([0]))
    assert fewer == dict.fromkeys("bc", CpuSet([1]))


class Node(NamedTuple):
    topology: Topology
    shared: CpuSet
    wanted: list[Fraction]
    previous: dict[str, CpuSet]
    last_choice: CpuSet

    def place(self) -> dict[str, CpuSet]:
        return place_fractions(*self)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    topology = machine(
        nodes=draw(st.integers(1, 2)),
        cores=draw(st.integers(1, 4)),
        threads=draw(st.integers(1, 2)),
    )
    cpus = st.sets(st.sampled_from(list(topology.cpuset))).map(CpuSet)
    shared = draw(cpus) or topology.cpuset
    amounts = draw(
        st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, 20).map(lambda n: 60 * n))
    )
    wanted = [Fraction(pod, milli, draw(cpus) - shared) for pod, milli in amounts.items()]
    previous = draw(st.dictionaries(st.sampled_from("abcx"), cpus))
    return Node(topology, shared, wanted, previous, draw(cpus))


@given(nodes())
def test_every_pod_has_room_and_one_cpu_if_one_has_room(node: Node) -> None:
    placed = node.place()
    milli = {each.pod: each.milli for each in node.wanted}
    assert placed.keys() == milli.keys()
    room = dict.fromkeys(node.shared, 1000)
    for pod, cpus in placed.items():
        assert cpus
        assert cpus <= node.shared
        if len(cpus) == 1 and milli[pod] <= 1000:
            room[next(iter(cpus))] -= milli[pod]
    if len(node.shared) > 1:
        assert min(room.values()) >= 0
        spread = [milli[pod] for pod, cpus in placed.items() if len(cpus) > 1]
        assert max(room.values()) < min(spread, default=1001)
    if sum(milli.values()) <= 1000 * len(node.shared):
        for count in range(1, len(placed) + 1):
            for some in combinations(placed, count):  # by Hall's theorem all fit at once
                cpus = CpuSet(cpu for pod in some for cpu in placed[pod])
                assert sum(milli[pod] for pod in some) <= 1000 * len(cpus)


@given(nodes())
def test_the_result_stays_and_does_not_depend_on_the_order(node: Node) -> None:
    placed = node.place()
    assert node._replace(previous=placed).place() == placed
    assert node._replace(wanted=node.wanted[::-1]).place() == placed


@given(nodes(), st.data())
def test_when_pods_leave_or_shrink_the_pinned_ones_stay(node: Node, data: st.DataObject) -> None:
    placed = node.place()
    left = data.draw(st.integers(0, len(node.wanted)))
    fewer = [each._replace(milli=each.milli // 2) for each in node.wanted[:left]]
    after = node._replace(wanted=fewer, previous=placed).place()
    pinned = [pod for pod in after if len(placed[pod] - node.last_choice) == 1 == len(placed[pod])]
    assert [after[pod] for pod in pinned] == [placed[pod] for pod in pinned]
