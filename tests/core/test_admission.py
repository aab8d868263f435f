"""Admission of jobs, and division of the cluster among the tree of entitlements."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.market.admission import (
    SMALLEST_PART,
    AccessPolicy,
    EntitlementError,
    admit,
    check_tree,
    divide_by_shares,
)
from walras.market.snapshot import Entitlement, Job, Node, Snapshot

COMPANY = (
    Entitlement("engineering", 3),
    Entitlement("research", 1),
    Entitlement("vision", 2, parent="engineering"),
    Entitlement("speech", 1, parent="engineering"),
    Entitlement("training", 3, parent="vision"),
    Entitlement("serving", 1, parent="vision"),
)
LEAVES = ("research", "speech", "training", "serving")


def test_shares_divide_the_parents_part_at_every_level() -> None:
    parts = divide_by_shares(COMPANY, LEAVES)
    assert parts == pytest.approx(
        {
            "research": 1 / 4,
            "speech": 3 / 4 * 1 / 3,
            "training": 3 / 4 * 2 / 3 * 3 / 4,
            "serving": 3 / 4 * 2 / 3 * 1 / 4,
        }
    )


@pytest.mark.parametrize(
    ("active", "expected"),
    [
        ({"research", "speech", "training"}, {"training": 1 / 2, "speech": 1 / 4}),
        ({"research", "speech"}, {"speech": 3 / 4, "research": 1 / 4}),
        ({"research"}, {"research": 1}),
        ({"serving", "speech"}, {"serving": 2 / 3, "speech": 1 / 3}),
    ],
    ids=[
        "a sibling's part goes to its sibling",
        "a branch's part stays in engineering while anybody there is active",
        "the last one active gets the whole",
        "an idle team's part goes to the other teams",
    ],
)
def test_idle_parts_go_to_the_nearest_relatives(
    active: set[str], expected: dict[str, float]
) -> None:
    parts = divide_by_shares(COMPANY, active)
    assert parts.keys() == active
    assert {name: parts[name] for name in expected} == pytest.approx(expected)


def test_no_part_is_too_small_for_a_budget() -> None:
    vast = 2**31 - 1
    parts = divide_by_shares(
        [
            Entitlement("rich", vast),
            Entitlement("poor", 1),
            Entitlement("richer", vast, "poor"),
            Entitlement("poorer", 1, "poor"),
        ],
        ["rich", "richer", "poorer"],
    )
    assert parts["poorer"] == pytest.approx(SMALLEST_PART)
    assert parts["richer"] == pytest.approx(1 / vast)
    assert sum(parts.values()) == pytest.approx(1, abs=1e-15)


def test_nobody_active_divides_nothing() -> None:
    assert divide_by_shares(COMPANY, []) == {}


@st.composite
def trees(draw: st.DrawFn) -> tuple[tuple[Entitlement, ...], set[str]]:
    """Draw a tree, each entitlement below an earlier one or at the top, and its active leaves."""
    size = draw(st.integers(1, 12))
    tree: list[Entitlement] = []
    for number in range(size):
        above = draw(st.integers(-1, number - 1))
        parent = None if above < 0 else f"e{above}"
        tree.append(Entitlement(f"e{number}", draw(st.integers(1, 9)), parent))
    leaves = sorted({each.name for each in tree} - {each.parent for each in tree})
    active = draw(st.sets(st.sampled_from(leaves), min_size=1))
    return tuple(draw(st.permutations(tree))), active


@given(trees())
def test_parts_add_up_to_the_whole_and_keep_proportions_among_siblings(
    drawn: tuple[tuple[Entitlement, ...], set[str]],
) -> None:
    tree, active = drawn
    parts = divide_by_shares(tree, active)
    assert parts.keys() == active
    assert sum(parts.values()) == pytest.approx(1)
    by_name = {each.name: each for each in tree}
    for one in active:
        for other in active:
            if by_name[one].parent == by_name[other].parent:
                ratio = by_name[one].shares / by_name[other].shares
                assert parts[one] / parts[other] == pytest.approx(ratio)


@given(trees())
def test_who_leaves_takes_from_nobody(drawn: tuple[tuple[Entitlement, ...], set[str]]) -> None:
    tree, active = drawn
    before = divide_by_shares(tree, active)
    for gone in active if len(active) > 1 else ():
        after = divide_by_shares(tree, active - {gone})
        assert all(after[name] >= before[name] * (1 - 1e-12) for name in after)


@pytest.mark.parametrize(
    ("entitlements", "message"),
    [
        ([Entitlement("a", 1), Entitlement("a", 2)], "entitlement a is defined twice"),
        ([Entitlement("a", 1, parent="b")], "entitlement a has parent b, which does not exist"),
        ([Entitlement("a", 1, parent="a")], r"a is its own ancestor \(a -> a\)"),
        (
            [
                Entitlement("a", 1, parent="b"),
                Entitlement("b", 1, parent="c"),
                Entitlement("c", 1, parent="b"),
            ],
            r"b is its own ancestor \(b -> c -> b\)",
        ),
    ],
    ids=["a name twice", "an unknown parent", "its own parent", "a cycle further up"],
)
def test_entitlements_that_form_no_tree_are_named(
    entitlements: list[Entitlement], message: str
) -> None:
    with pytest.raises(EntitlementError, match=message):
        check_tree(entitlements)


class CountedName(str):
    """A name that counts how often it is compared or looked up."""

    __slots__ = ()
    uses = 0

    def __eq__(self, other: object) -> bool:
        CountedName.uses += 1
        return super().__eq__(other)

    def __hash__(self) -> int:
        CountedName.uses += 1
        return super().__hash__()


def uses_of_names(depth: int) -> int:
    """Return how often the check of a chain of entitlements compares or looks up a name."""
    chain = [
        Entitlement(CountedName(f"e{i}"), 1, CountedName(f"e{i - 1}") if i else None)
        for i in range(depth)
    ]
    before = CountedName.uses
    check_tree(chain)
    check_tree(chain[::-1])
    return CountedName.uses - before


def test_the_check_of_a_tree_grows_with_its_size_alone() -> None:
    assert uses_of_names(200) < 5 * uses_of_names(50)


def job(name: str, entitlement: str, namespace: str = "a", **labels: str) -> Job:
    return Job(namespace, name, entitlement, "node", 0.9, namespace_labels=labels)


def snapshot(entitlements: list[Entitlement], *jobs: Job, cores: int = 4) -> Snapshot:
    return Snapshot(tuple(entitlements), (Node("node", cores),), jobs)


def test_only_admitted_jobs_make_an_entitlement_active() -> None:
    open_to_a = frozenset({"a"})
    result = admit(
        snapshot(
            [Entitlement("x", 1, namespaces=open_to_a), Entitlement("y", 1, namespaces=open_to_a)],
            job("runs", "x"),
            job("elsewhere", "y", namespace="b"),
        )
    )
    assert [each.name for each in result.jobs] == ["runs"]
    assert [each.name for each in result.refused] == ["elsewhere"]


REFUSALS = {
    "an unknown entitlement": (
        job("j", "z"),
        "entitlement z does not exist; create it or name one that admits namespace a (list)",
    ),
    "an unknown entitlement, where no other would do": (
        job("j", "z", namespace="b"),
        "entitlement z does not exist; create it or name one that admits namespace b (none does)",
    ),
    "an entitlement that is divided further": (
        job("j", "group"),
        (
            "entitlement group is divided among its children; "
            "draw on one below it that admits namespace a (none does)"
        ),
    ),
    "an entitlement that is divided further, also for the job": (
        job("j", "group", namespace="c"),
        (
            "entitlement group is divided among its children; "
            "draw on one below it that admits namespace c (deep, leaf)"
        ),
    ),
    "a namespace that is not listed": (
        job("j", "list", namespace="b"),
        (
            "entitlement list does not admit namespace b; "
            "have it added to the entitlement's spec.namespaces"
        ),
    ),
    "a namespace without the label": (
        job("j", "tags", namespace="b", team="sight"),
        (
            "entitlement tags does not admit namespace b; "
            "have it labelled as the entitlement's spec.namespaceSelector asks"
        ),
    ),
    "an entitlement open to nobody": (
        job("j", "leaf"),
        (
            "entitlement leaf does not admit namespace a; "
            "have it added to the entitlement's spec.namespaces"
        ),
    ),
    "a node that is not there": (
        Job("a", "j", "list", "lost", 0.9),
        "node lost sells no cores; the job waits until it does",
    ),
}


@pytest.mark.parametrize(("refused", "reason"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_says_why_and_what_to_do(refused: Job, reason: str) -> None:
    entitlements = [
        Entitlement("group", 1),
        Entitlement("leaf", 1, parent="group", namespaces=frozenset({"c"})),
        Entitlement("middle", 1, parent="group", namespaces=frozenset({"c"})),
        Entitlement("deep", 1, parent="middle", namespaces=frozenset({"c"})),
        Entitlement("other", 1, namespaces=frozenset({"c"})),
        Entitlement("list", 1, namespaces=frozenset({"a"})),
        Entitlement("tags", 1, namespace_labels={"team": "vision"}),
    ]
    result = admit(snapshot(entitlements, refused))
    assert result.jobs == ()
    assert [(each.name, each.reason) for each in result.refused] == [("j", reason)]


@given(trees(), st.data())
def test_a_refusal_names_no_entitlement_of_others(
    drawn: tuple[tuple[Entitlement, ...], set[str]], data: st.DataObject
) -> None:
    def whoever(each: Entitlement) -> Entitlement:
        name = f"entitlement-{each.name}."
        parent = None if each.parent is None else f"entitlement-{each.parent}."
        admitted = frozenset(data.draw(st.sets(st.sampled_from("ab"))))
        labels = {"secret": "label"} if data.draw(st.booleans()) else None
        names = None if labels else admitted
        return replace(each, name=name, parent=parent, namespaces=names, namespace_labels=labels)

    tree = [whoever(each) for each in drawn[0]]
    asked = data.draw(st.sampled_from([*(each.name for each in tree), "nobody"]))
    for refused in admit(snapshot(tree, job("j", asked))).refused:
        assert "secret" not in refused.reason
        for each in tree:
            if each.name != asked and "a" not in (each.namespaces or ()):
                assert each.name not in refused.reason


def test_a_refusal_for_a_parent_in_a_cycle_comes_to_an_end() -> None:
    tree = [
        Entitlement("a", 1, parent="b"),
        Entitlement("b", 1, parent="a"),
        Entitlement("c", 1, parent="b", namespaces=frozenset({"a"})),
        Entitlement("d", 1),
        Entitlement("e", 1, parent="d"),
    ]
    access = AccessPolicy(tree)
    assert "(c)" in (access.denial("a", "a", {}) or "")
    assert "(none does)" in (access.denial("d", "a", {}) or "")


def test_a_node_with_nothing_left_to_sell_takes_no_jobs() -> None:
    entitlements = [Entitlement("x", 1, namespaces=frozenset({"a"}))]
    result = admit(snapshot(entitlements, job("j", "x"), cores=0))
    assert result.refused[0].reason.startswith("node node sells no cores")


def test_labels_admit_every_namespace_that_carries_them_all() -> None:
    entitlements = [Entitlement("x", 1, namespace_labels={"team": "vision", "stage": "dev"})]
    result = admit(
        snapshot(
            entitlements,
            job("both", "x", team="vision", stage="dev", more="yes"),
            job("one", "x", team="vision"),
        )
    )
    assert [each.name for each in result.jobs] == ["both"]


def test_looking_up_what_admits_each_namespace_takes_linear_time() -> None:
    """As many entitlements as namespaces, as where they follow ResourceQuotas."""
    looks = 0

    class Counted(frozenset[str]):
        def __contains__(self, each: object) -> bool:
            nonlocal looks
            looks += 1
            return super().__contains__(each)

    names = [f"n{number}" for number in range(300)]
    by_label = Entitlement("all", 1, namespace_labels={"team": "vision"})
    access = AccessPolicy(
        [*(Entitlement(each, 1, namespaces=Counted({each})) for each in names), by_label]
    )
    assert [access.only_entitlement(each, {}) for each in names] == names
    assert access.only_entitlement("n1", {"team": "vision"}) is None, "two admit it"
    assert access.only_entitlement("other", {"team": "vision"}) == "all"
    assert looks <= 2 * len(names)
