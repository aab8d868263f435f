"""The watcher of a real node sees what must never be: these are its rules on made-up sights."""

from __future__ import annotations

import pytest

from node_rules import Held, Judge, Plan, Sight

BOTH = frozenset({0, 1})
A, B, SHARER = "pod-a", "pod-b", "pod-c"


def sight(**cpus: set[int]) -> Sight:
    """Return the CPUs of containers, each named as its pod: a, b or c."""
    return {name: Held(f"pod-{name}", frozenset(each)) for name, each in cpus.items()}


def plan(generation: int, owner: str, *, settled: bool = True) -> Plan:
    return Plan(generation, settled, {owner: 1}, frozenset({A, B, SHARER}))


A_OWNS = sight(a={0}, b={1}, c={1})
B_OWNS = sight(a={1}, b={0}, c={1})


def problems(*steps: Sight | Plan | None) -> list[str]:
    """Return the violations that a judge finds in looks and plans, one after the other."""
    judge = Judge(BOTH)
    found: list[str] = []
    for step in steps:
        found += judge.see(step) if isinstance(step, dict) else judge.hear(step)
    return found


def settled(generation: int, owner: str, now: Sight) -> list[Sight | Plan | None]:
    """Return a look at the cgroups between two answers that the same plan is settled."""
    return [plan(generation, owner), now, plan(generation, owner)]


def test_a_move_by_way_of_the_shared_cpu_is_right() -> None:
    begun = plan(2, B, settled=False)
    between = sight(a={1}, b={1}, c={1})
    assert not problems(*settled(1, A, A_OWNS), begun, between, *settled(2, B, B_OWNS))


def test_an_old_and_a_new_owner_at_once_are_seen() -> None:
    (found,) = problems(*settled(1, A, A_OWNS), sight(a={0}, b={0}, c={1}), *settled(2, B, B_OWNS))
    assert found == "CPU 0 had its old owner pod-a and its new one pod-b at once"


def test_a_plan_between_that_nobody_saw_settled_may_have_had_them_share() -> None:
    shared = sight(a={0, 1}, b={0, 1}, c={0, 1})
    assert not problems(*settled(1, A, A_OWNS), shared, *settled(3, B, B_OWNS))


def test_another_pod_on_an_owned_cpu_is_seen_when_its_owner_stays() -> None:
    (found,) = problems(
        *settled(1, A, A_OWNS), sight(a={0}, b={1}, c={0, 1}), *settled(1, A, A_OWNS)
    )
    assert found == "CPU 0 of pod pod-a was also used by ['pod-c']"


def test_one_guest_without_weight_may_be_on_an_owned_cpu() -> None:
    def guests(*pods: str, weightless: bool = True) -> Sight:
        more = {pod[-1]: Held(pod, BOTH, weightless=weightless) for pod in pods}
        return A_OWNS | more

    def seen(now: Sight) -> list[str]:
        return problems(*settled(1, A, A_OWNS), now, *settled(1, A, A_OWNS))

    assert not seen(guests(B))
    assert seen(guests(B, weightless=False))
    assert seen(guests(B, SHARER))
    assert seen(A_OWNS | {"d": Held("pod-d", BOTH, weightless=True)}) == []  # it has just begun


def test_a_guest_owns_what_it_has_alone() -> None:
    both = Plan(1, settled=True, whole={A: 1, B: 1}, granted=frozenset({A, B}))
    guest = {"a": Held(A, frozenset({0})), "b": Held(B, BOTH, weightless=True)}
    assert not problems(both, guest, both)
    assert problems(both, {**guest, "b": Held(B, BOTH)}, both)
    alone = {**guest, "a": Held(A, frozenset({0, 1}))}
    (found,) = problems(both, alone, both)
    assert found == "pod pod-b has 0 CPUs of its own and was granted 1 cores"


def test_a_container_that_has_just_begun_may_be_anywhere() -> None:
    begun = {**A_OWNS, "d": Held("pod-d", BOTH)}
    assert not problems(*settled(1, A, A_OWNS), begun, *settled(1, A, A_OWNS))
    light = {**A_OWNS, "a": Held(A, frozenset({0}), weightless=True)}
    assert not problems(*settled(1, A, light), *settled(1, A, {**light, "d": begun["d"]}))


def test_a_plan_between_that_was_never_settled_excuses_its_owner() -> None:
    assert not problems(*settled(1, A, A_OWNS), B_OWNS, *settled(3, A, A_OWNS))


def test_two_owners_of_a_settled_plan_are_seen() -> None:
    both = Plan(1, settled=True, whole={A: 1, B: 1}, granted=frozenset({A, B}))
    (found, *_) = problems(both, sight(a={0}, b={0}), both)
    assert found == "CPU 0 is owned by the pods pod-a and pod-b"


def test_a_settled_plan_whose_pod_has_less_than_its_grant_is_seen() -> None:
    two = Plan(1, settled=True, whole={A: 2}, granted=frozenset({A}))
    (found,) = problems(two, sight(a={0}), two)
    assert found == "pod pod-a has 1 CPUs of its own and was granted 2 cores"


def test_a_pod_whose_containers_are_still_to_be_made_holds_nothing() -> None:
    assert not problems(*settled(1, A, sight(b={0, 1}, c={0, 1})))


def test_a_cpu_that_is_not_online_is_seen() -> None:
    (found,) = problems(*settled(1, A, sight(a={7}, b={1})))
    assert found == "pods own CPUs [7], which are not online"


@pytest.mark.parametrize("busy", [True, False])
def test_a_container_without_a_cpu_is_seen_if_anything_runs_in_it(*, busy: bool) -> None:
    nothing = {"a": Held(A, frozenset(), busy)}
    assert bool(problems(plan(1, A), nothing)) is busy


def test_a_kill_for_want_of_memory_is_seen_once() -> None:
    killed = {"a": Held(A, BOTH, oom_kills=1)}
    (found,) = problems({"a": Held(A, BOTH)}, killed, {**killed, "b": Held(B, BOTH)})
    assert found == "pod pod-a: the kernel killed a process for want of memory"


def test_nothing_is_owned_once_the_plan_is_gone() -> None:
    gone: list[Sight | Plan | None] = [None, sight(a={0, 1}, b={0, 1}, c={0, 1})]
    assert not problems(*settled(1, A, A_OWNS), *gone, *settled(1, B, B_OWNS))
