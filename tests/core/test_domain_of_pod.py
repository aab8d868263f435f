"""Every pod is on one domain that has room for what it bought, and they are spread evenly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.analysis.domain_of_pod import TimeDemand, place

TWO = (16, 16)


def spread(was: dict[str, int] | None = None, /, **milli: int) -> dict[str, list[int]]:
    """Return the domains of pods, of two with 16 CPUs each."""
    before = was or {}
    return place(TWO, [TimeDemand(pod, each, before.get(pod)) for pod, each in milli.items()])


def test_the_largest_come_first_and_go_where_most_room_is_left() -> None:
    assert spread(a=10_000, b=9000, c=5000, d=6000) == {"a": [0], "b": [1], "c": [0], "d": [1]}


def test_small_pods_are_not_crowded_into_one_domain_while_the_other_is_empty() -> None:
    found = spread(**{f"pod-{number}": 1000 for number in range(8)})
    assert sorted(found.values()) == [[0]] * 4 + [[1]] * 4


def test_who_fits_where_it_is_stays_there() -> None:
    before = {"a": 1, "b": 0, "c": 1}
    assert spread(before, a=10_000, b=1000, c=6000) == {"a": [1], "b": [0], "c": [1]}
    assert spread(before, a=12_000, b=1000, c=6000) == {"a": [1], "b": [0], "c": [0]}


def test_who_fits_on_no_domain_has_as_few_as_have_room_or_all() -> None:
    assert spread(a=12_000, b=11_000, c=6000) == {"a": [0], "b": [1], "c": [0, 1]}
    assert spread(a=20_000, b=1000)["a"] == [0, 1]
    assert spread(a=40_000, b=1000)["a"] == [0, 1]
    found = place([16, 16, 16], [TimeDemand("large", 20_000), TimeDemand("small", 3000)])
    assert len(found["large"]) == 2


def test_three_rounded_thirds_of_a_domain_fit() -> None:
    assert spread(a=5334, b=5334, c=5334, d=16_000) == {"a": [1], "b": [1], "c": [1], "d": [0]}


def test_partners_share_a_domain_and_a_fraction_is_near_its_own_cpus() -> None:
    demands = [
        TimeDemand("a", 4000, partner="d"),
        TimeDemand("b", 14_000),
        TimeDemand("c", 500, near=0),
        TimeDemand("d", 3000, partner="a"),
    ]
    found = place(TWO, demands)
    assert found == {"a": [1], "b": [0], "c": [0], "d": [1]}
    demands[3] = demands[3]._replace(was=0)
    demands[1] = demands[1]._replace(was=1)
    assert place(TWO, demands) == {"a": [0], "b": [1], "c": [0], "d": [0]}


def test_two_demands_of_one_pod_are_refused() -> None:
    with pytest.raises(ValueError, match="a: two demands"):
        place(TWO, [TimeDemand("a", 1), TimeDemand("a", 2)])


@st.composite
def nodes(draw: st.DrawFn) -> tuple[list[int], list[TimeDemand]]:
    cpus = draw(st.lists(st.integers(0, 20), min_size=1, max_size=4).filter(any))
    number = st.none() | st.integers(0, len(cpus) - 1)
    amounts = draw(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 30_000)))
    partners = st.sampled_from(["", "a", "b"])
    return cpus, [
        TimeDemand(pod, milli, draw(number), draw(number), draw(partners))
        for pod, milli in amounts.items()
    ]


@given(nodes())
def test_every_pod_has_cpus_and_one_domain_if_one_has_room(
    node: tuple[list[int], list[TimeDemand]],
) -> None:
    cpus, demands = node
    found = place(cpus, demands)
    room = [1005 * each for each in cpus]
    several = []
    for demand in demands:
        mine = found[demand.pod]
        assert sum(cpus[domain] for domain in mine)
        if len(mine) == 1 and demand.milli <= room[mine[0]]:
            room[mine[0]] -= demand.milli
        elif len(mine) > 1:
            several.append(demand.milli)
    assert max(room) < min(several, default=10**6)


@given(nodes())
def test_the_result_stays_and_does_not_depend_on_the_order(
    node: tuple[list[int], list[TimeDemand]],
) -> None:
    cpus, demands = node
    found = place(cpus, demands)
    assert place(cpus, demands[::-1]) == found
    settled = [
        each._replace(was=found[each.pod][0] if len(found[each.pod]) == 1 else None)
        for each in demands
    ]
    assert place(cpus, settled) == found
