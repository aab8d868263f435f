"""The watcher of a real node sees what must never be: these are its rules on made-up sights."""

from __future__ import annotations

import pytest

from node_rules import Held, Judge, Plan, Sight, Spent, TimeJudge

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
        found += judge.see(step) if isinstance(step, dict) else judge.receive(step)
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


def test_a_container_that_has_just_begun_may_be_anywhere() -> None:
    begun = {**A_OWNS, "d": Held("pod-d", BOTH)}
    assert not problems(*settled(1, A, A_OWNS), begun, *settled(1, A, A_OWNS))


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


HALF = Spent(1.0, bought=0.5, used=0.5, waited=1.0)


def short_of_time(*intervals: Spent) -> list[str]:
    judge = TimeJudge()
    return [problem for each in intervals for problem in judge.see(A, each)]


def test_a_busy_pod_that_lacks_more_than_a_twentieth_in_a_minute_is_seen() -> None:
    lacks, fair = HALF._replace(used=0.46), HALF._replace(used=0.48)
    (found,) = short_of_time(*[lacks] * 60)
    assert found == f"pod {A} was busy and had 27.6 CPU seconds of the 30.0 that it bought"
    assert not short_of_time(*[lacks] * 59)
    assert not short_of_time(*[fair] * 100)
    assert not short_of_time(*[lacks._replace(used=0.4)] * 10, *[HALF] * 110)
    assert short_of_time(*[HALF] * 90, *[lacks._replace(used=0.3)] * 10), "later ones count, too"


def test_a_pod_that_wants_less_or_cannot_use_more_is_not_short() -> None:
    sleeps = HALF._replace(used=0.1, waited=0.1)
    assert not short_of_time(*[sleeps] * 100)
    assert not short_of_time(*([HALF._replace(used=0.3)] * 50 + [sleeps]) * 3)
    one_thread = Spent(1.0, bought=1.5, used=1.0, waited=0.0)
    assert not short_of_time(*[one_thread] * 100)


def test_what_programs_outside_take_is_not_owed() -> None:
    assert not short_of_time(*[HALF._replace(used=0.4, outside=0.2)] * 100)
    assert short_of_time(*[HALF._replace(used=0.4, outside=0.1)] * 100)
