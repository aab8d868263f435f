"""Cpusets change in an order that never gives a CPU two owners, wherever it is cut off."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from walras_agent.cpuset import CpuSet
from walras_agent.transition import CpusetChange, CpusetWrite, transition

CPUS = 6
NOTHING = CpuSet()


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def change(group: str, before: str, after: str, own: str = "") -> CpusetChange:
    """Return a change of a group's CPUs; the first letter of its name is the name of its pod."""
    return CpusetChange(group, group[0], cpus(before), cpus(after), cpus(own))


def writes(*changes: CpusetChange, shared: str = "") -> list[str]:
    done = transition(changes, cpus(shared))
    assert not done.stuck
    return [f"{write.group}:{write.cpus}" for write in done.writes]


def test_nothing_is_written_where_nothing_changes() -> None:
    assert writes(change("a", "0-1", "0-1"), change("s", "2-3", "2-3"), shared="2-3") == []


def test_losers_give_up_before_gainers_gain() -> None:
    assert writes(change("a", "0", "0-1"), change("b", "1-3", "2-3")) == ["b:2-3", "a:0-1"]


def test_first_owner_waits_for_all_who_share() -> None:
    made = writes(
        change("a", "", "0-1"), change("x", "0-3", "2-3"), change("y", "0-3", "2-3"), shared="2-3"
    )
    assert made == ["x:2-3", "y:2-3", "a:0-1"]


def test_owned_cpu_is_shared_only_after_its_owner_has_left() -> None:
    made = writes(change("x", "2-3", "1-3"), change("z", "0-1", "0", own="0-1"), shared="1-3")
    assert made == ["z:0", "x:1-3"]
    made = writes(change("x", "2-3", "0-3"), change("z", "0-1", "2-3", own="0-1"), shared="0-3")
    assert made == ["z:2-3", "x:0-3"]


def test_chain_moves_from_its_free_end() -> None:
    made = writes(change("a", "0", "1"), change("b", "1", "2"), change("c", "2", "3"))
    assert made == ["c:3", "b:2", "a:1"]


def test_ring_is_opened_by_one_that_waits_on_shared_cpus() -> None:
    ring = change("a", "0", "1", own="0"), change("b", "1", "0", own="1")
    assert writes(*ring, change("s", "2", "2"), shared="2") == ["a:2", "b:0", "a:1"]


def test_ring_without_any_shared_cpu_is_left_as_it_is() -> None:
    ring = [change("a", "0", "1", own="0"), change("b", "1", "0", own="1")]
    done = transition(ring, NOTHING)
    assert done.writes == ()
    assert done.stuck == ("a", "b")


def test_cpus_of_a_group_that_cannot_be_moved_are_given_to_nobody() -> None:
    fixed = CpusetChange("b", "b", cpus("1-2"), cpus("2"), fixed=True)
    done = transition([change("a", "0", "0-1"), fixed, change("c", "4", "3")], NOTHING)
    assert done.writes == (CpusetWrite("c", cpus("3")),)
    assert done.stuck == ("a",)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[CpusetChange], CpuSet]:
    """Groups of up to five pods, from any state to one where every CPU has an owner or is shared.

    Before, anything may be: drift, a crash, a plan of long ago.
    """
    pods = draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=5, unique=True))
    owned = draw(st.lists(st.sampled_from([*pods, ""]), min_size=CPUS, max_size=CPUS))
    target = draw(st.lists(st.sampled_from([*pods, ""]), min_size=CPUS, max_size=CPUS))
    shared = CpuSet(cpu for cpu, pod in enumerate(target) if not pod)
    changes = []
    for pod in pods:
        own = CpuSet(cpu for cpu, owner in enumerate(target) if owner == pod)
        after = own | shared if draw(st.booleans()) or not own else own
        if after:
            for number in range(draw(st.integers(1, 2))):
                before = CpuSet(draw(st.sets(st.integers(0, CPUS - 1))))
                fixed = draw(st.integers(0, 9)) == 0
                had = CpuSet(cpu for cpu, owner in enumerate(owned) if owner == pod) & before
                changes.append(CpusetChange(f"{pod}{number}", pod, before, after, had, fixed))
    return changes, shared


def prefixes(
    changes: list[CpusetChange], made: tuple[CpusetWrite, ...]
) -> Iterator[tuple[CpusetWrite, dict[str, CpuSet]]]:
    """Yield each write, with the CPUs of all groups before it."""
    state = {each.group: each.before for each in changes}
    for write in made:
        yield write, dict(state)
        state[write.group] = write.cpus


def check(changes: list[CpusetChange], shared: CpuSet, made: tuple[CpusetWrite, ...]) -> None:
    """Check that no group comes to a CPU before its old owner has left it, unless both share it."""
    by_group = {each.group: each for each in changes}
    for write, state in prefixes(changes, made):
        assert write.cpus
        for cpu in write.cpus - state[write.group]:
            for group, held in state.items():
                there = by_group[group]
                if cpu in held & there.exclusive and there.pod != by_group[write.group].pod:
                    assert cpu in there.after & shared, f"{write}: CPU {cpu} is {there.pod}'s"


def check_owned(changes: list[CpusetChange], shared: CpuSet, made: tuple[CpusetWrite, ...]) -> None:
    """Check that a CPU is free when a pod becomes its owner."""
    owner = {cpu: each.pod for each in changes for cpu in each.after - shared}
    pod_of = {each.group: each.pod for each in changes}
    for write, state in prefixes(changes, made):
        for cpu in write.cpus - state[write.group]:
            if owner.get(cpu) == pod_of[write.group]:
                there = {pod_of[group] for group, held in state.items() if cpu in held}
                assert not there - {owner[cpu]}, f"{write}: CPU {cpu} is not free yet"


@given(worlds())
@example(
    (
        [
            CpusetChange("a0", "a", cpus("0"), cpus("1")),
            CpusetChange("b0", "b", cpus("1"), cpus("0")),
        ],
        NOTHING,
    )
)
def test_no_write_gives_a_cpu_two_owners(world: tuple[list[CpusetChange], CpuSet]) -> None:
    changes, shared = world
    done = transition(changes, shared)
    check(changes, shared, done.writes)
    if all(each.before & each.after for each in changes):  # so nobody has to wait elsewhere
        check_owned(changes, shared, done.writes)
    state = {each.group: each.before for each in changes}
    state |= {write.group: write.cpus for write in done.writes}
    for each in changes:
        if each.fixed:
            assert state[each.group] == each.before
        elif each.group not in done.stuck:
            assert state[each.group] == each.after
    assert len(done.writes) <= 3 * len(changes)


def test_a_ring_is_opened_by_one_that_stays_where_others_share() -> None:
    ring = change("a", "0,2", "1", own="0"), change("b", "1-2", "0", own="1")
    assert writes(*ring, shared="2") == ["a:2", "b:0", "a:1"]


@given(worlds())
def test_a_ring_is_stuck_only_where_no_shared_cpu_is_without_an_owner_that_leaves(
    world: tuple[list[CpusetChange], CpuSet],
) -> None:
    changes, shared = world
    for each in changes:
        shared -= each.exclusive - each.after
    if shared and all(each.before and not each.fixed for each in changes):
        assert transition(changes, world[1]).stuck == ()


@given(worlds())
def test_stopped_anywhere_the_rest_of_the_way_is_safe_again(
    world: tuple[list[CpusetChange], CpuSet],
) -> None:
    changes, shared = world
    leaving = CpuSet(cpu for each in changes for cpu in each.exclusive - each.after)
    whole = transition(changes, shared)
    state = {each.group: each.before for each in changes}
    for write in whole.writes:
        state[write.group] = write.cpus
        again = [replace(each, before=state[each.group]) for each in changes]
        rest = transition(again, shared)
        check(again, shared, rest.writes)
        if not whole.stuck and shared - leaving and all(each.before for each in changes):
            assert rest.stuck == ()


@given(worlds(), st.randoms())
def test_order_of_changes_does_not_matter(
    world: tuple[list[CpusetChange], CpuSet], random: Random
) -> None:
    changes, shared = world
    shuffled = random.sample(changes, len(changes))
    assert transition(shuffled, shared) == transition(changes, shared)
