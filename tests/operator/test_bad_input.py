"""Whatever is wrong is told on the objects to blame, and everybody else's outcome stays as it was.

Every case adds one or several objects to a small cluster with a running market.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

import worlds
from counted_calls import calls_of
from walras_api.model import MOST_ENTRIES
from whole_decisions import decide
from worlds import condition, entitlement, grants, job, market, node, pod, profile, world

if TYPE_CHECKING:
    from walras_operator.decide.world import Document, World

HEALTHY = (
    market(),
    entitlement(),
    job(created="2026-01-01T00:00:00Z"),
    node(),
    pod("train-0"),
    pod("train-1"),
)


@dataclass(frozen=True)
class Case:
    """Objects that are added to a world, and the conditions that follow.

    Attributes:
        title: Sentence about the case.
        added: Objects that are added.
        told: Reason and some words of the message of the condition ``Ready``, by kind, name and
            namespace of the object.
    """

    title: str
    added: tuple[Document, ...]
    told: dict[tuple[str, ...], tuple[str, str]] = field(default_factory=dict)


def bad(name: str = "bad", **spec: Any) -> Document:
    return job(name, **spec)


def labelled(document: Document, labels: dict[str, str]) -> Document:
    return {**document, "metadata": {**document["metadata"], "labels": labels}}


BAD = ("MarketJob", "bad", "lab")
TRAIN = ("MarketJob", "train", "lab")

CASES = [
    Case(
        "an entitlement whose parent does not exist",
        (entitlement("e", parent="nowhere", namespaces=[]),),
        {("Entitlement", "e"): ("ParentMissing", "Entitlement nowhere does not exist; create it")},
    ),
    Case(
        "an entitlement that is its own parent",
        (entitlement("e", parent="e"),),
        {("Entitlement", "e"): ("Cycle", "its own ancestor (e -> e); remove spec.parent")},
    ),
    Case(
        "a cycle of parents, and one below it",
        (
            entitlement("b", parent="c"),
            entitlement("c", parent="b"),
            entitlement("d", parent="c"),
            entitlement("e", parent="d"),
        ),
        {
            ("Entitlement", "b"): ("Cycle", "(b -> c -> b)"),
            ("Entitlement", "c"): ("Cycle", "(b -> c -> b)"),
            ("Entitlement", "d"): ("BelowUnusable", "is below Entitlement c; correct that one"),
            ("Entitlement", "e"): ("BelowUnusable", "is below Entitlement c; correct that one"),
        },
    ),
    Case(
        "a job of an entitlement in a cycle",
        (entitlement("e", parent="e"), bad(entitlement="e")),
        {BAD: ("EntitlementUnusable", "Entitlement e cannot be used: is its own ancestor")},
    ),
    Case(
        "an entitlement that is invalid, one below it, and a job of it",
        (entitlement("e", shares=-1), entitlement("f", parent="e"), bad(entitlement="e")),
        {
            ("Entitlement", "e"): ("Invalid", "spec.shares: is -1; it must be at least 1"),
            ("Entitlement", "f"): ("BelowUnusable", "is below Entitlement e"),
            BAD: ("EntitlementUnusable", "it is invalid, see its conditions"),
        },
    ),
    Case(
        "an entitlement that no namespace may draw on",
        (entitlement("e", namespaces=[]),),
        {("Entitlement", "e"): ("NoNamespaces", "set namespaces or namespaceSelector")},
    ),
    Case(
        "a job of an entitlement that does not exist",
        (bad(entitlement="nobody"), pod("bad-0", "bad", cpu="0")),
        {
            BAD: (
                "Refused",
                "does not exist; create it or name one that admits namespace lab (vision)",
            )
        },
    ),
    Case(
        "a job in a namespace that its entitlement does not admit",
        (job("bad", namespace="other"), pod("bad-0", "bad", namespace="other", cpu="0")),
        {
            ("MarketJob", "bad", "other"): (
                "Refused",
                "does not admit namespace other; have it added",
            )
        },
    ),
    Case(
        "a job that draws on a parent",
        (
            entitlement("parent", shares=1, namespaces=["lab"]),
            entitlement("child", parent="parent"),
            entitlement("hidden", parent="parent", namespaces=["other"]),
            bad(entitlement="parent"),
        ),
        {BAD: ("Refused", "draw on one below it that admits namespace lab (child)")},
    ),
    Case(
        "a job whose profile does not exist",
        (bad(profile="gone"), pod("bad-0", "bad", cpu="0")),
        {
            BAD: (
                "ProfileMissing",
                "waits for SpeedupProfile lab/gone, which does not exist; create",
            )
        },
    ),
    Case(
        "a job whose profile is invalid",
        (bad(profile="p"), profile("p", parallelFraction="NaN")),
        {
            BAD: ("ProfileUnusable", "SpeedupProfile lab/p is invalid, see its conditions"),
            ("SpeedupProfile", "p", "lab"): ("Invalid", "spec.parallelFraction: is 'NaN'"),
        },
    ),
    Case(
        "a job whose profile has times on one core only",
        (bad(profile="p"), profile("p", measurements=[{"cores": 1, "seconds": ["1.5"]}])),
        {
            BAD: ("ProfileUnusable", "times on one core only: measure two or more"),
            ("SpeedupProfile", "p", "lab"): ("Unusable", "times on one core only"),
        },
    ),
    Case(
        "a job that no rule understands",
        (bad(work="NaN"), pod("bad-0", "bad", cpu="0")),
        {BAD: ("Invalid", "spec.work: is 'NaN'; write a plain decimal number")},
    ),
    Case(
        "a job that selects everything",
        (bad(selector={}),),
        {BAD: ("EmptySelector", "spec.selector: is empty, and a job never has all pods")},
    ),
    Case(
        "a job that is for one machine",
        (bad(command=["make"]),),
        {BAD: ("NoSelector", "give selector or targetRef")},
    ),
    Case(
        "a job that selects nothing",
        (bad(),),
        {BAD: ("NoPods", "selects no pod that runs or waits")},
    ),
    Case(
        "a younger job that selects another's pods",
        (bad(selector={"matchLabels": {"app": "train"}}, created="2026-01-02T00:00:00Z"),),
        {
            BAD: ("Overlap", "Pod train-0 is train's, which is older and selects it too"),
            TRAIN: ("Overlap", "Pod train-0 is selected by bad too; this job, the older, has it"),
        },
    ),
    Case(
        "a Market that is not named default",
        (market("spare"),),
        {("Market", "spare"): ("NotUsed", "only the Market named default is used, and not spare")},
    ),
    Case(
        "a profile that nothing is known of",
        (profile("p"),),
        {
            ("SpeedupProfile", "p", "lab"): ("Awaited", "has no measurements yet"),
        },
    ),
    Case(
        "a pod that is not scheduled",
        (bad(), pod("bad-0", "bad", place=None)),
        {BAD: ("Waiting", "Pod bad-0 is not scheduled yet")},
    ),
    Case(
        "a pod on a node that has vanished",
        (bad(), pod("bad-0", "bad", place="gone")),
        {BAD: ("Waiting", "runs on gone, which is not there any more; waits")},
    ),
    Case(
        "a pod on a node that a label takes out of the market",
        (bad(), labelled(node("n2"), {"walras.dev/mode": "off"}), pod("bad-0", "bad", place="n2")),
        {BAD: ("Waiting", "runs on n2, which has the label walras.dev/mode=off; waits until it")},
    ),
    Case(
        "a pod on a node that is not ready",
        (bad(), node("n2", ready=False), pod("bad-0", "bad", place="n2")),
        {BAD: ("Waiting", "runs on n2, which is not ready; waits until it sells cores")},
    ),
    Case(
        "a job whose pods have ended",
        (bad(), pod("a", "bad", phase="Succeeded"), pod("b", "bad", phase="Failed")),
        {BAD: ("NoPods", "selects no pod that runs or waits")},
    ),
    Case(
        "a node whose other pods have requested all of it",
        (bad(), node("n2", "4"), pod("busy", "x", "n2", cpu="4"), pod("bad-0", "bad", "n2")),
        {BAD: ("Waiting", "node n2 sells no cores")},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_what_is_wrong_is_told_and_the_rest_goes_on(case: Case) -> None:
    decision = decide(world(*HEALTHY, *case.added))
    for (kind, name, *namespace), (reason, words) in case.told.items():
        found = condition(decision, kind, name, *namespace)
        assert found[:2] == ("False", reason)
        assert words in found[2]
    assert grants(decision)["n1"] == grants(decide(world(*HEALTHY)))["n1"]
    assert condition(decision, "Market", "default")[1] == "Cleared"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_it_is_told_once_and_told_again_when_it_is_mended(case: Case) -> None:
    broken = world(*HEALTHY, *case.added)
    first = decide(broken)
    again = decide(worlds.outcome(broken, first))
    assert (again.nodes, again.statuses, again.events) == ((), (), ())
    told = {(event.object.kind, event.object.name) for event in first.events}
    assert {(kind, name) for kind, name, *_ in case.told} <= told


def test_a_node_without_a_living_agent_sells_nothing() -> None:
    there = (*HEALTHY, node("n2"), job("far"), pod("far-0", "far", "n2"))
    decision = decide(world(*there, agents={"n1"}))
    _, reason, message = condition(decision, "MarketJob", "far", "lab")
    assert reason == "Waiting"
    assert "n2, which has no agent that reports (its Lease walras-agent-n2 is missing" in message
    assert set(grants(decision)) == {"n1"}


def test_a_node_that_lost_its_agent_is_told_to_let_go() -> None:
    before = world(*HEALTHY)
    running = worlds.outcome(before, decide(before))
    lost = decide(replace(running, agents=frozenset()))
    assert grants(lost) == {"n1": {}}


def test_without_a_market_nodes_are_put_back_and_jobs_wait() -> None:
    before = world(*HEALTHY)
    running = worlds.outcome(before, decide(before))
    decision = decide(replace(running, markets=()))
    (write,) = decision.nodes
    assert (write.spec["mode"], write.spec["grants"]) == ("observe", [])
    assert condition(decision, "MarketJob", "train", "lab")[1] == "NoMarket"


MISTAKEN = [
    market(cores={"mechanism": "Lottery"}),
    market(memory={"sliceSize": "0"}),
]


@pytest.mark.parametrize("mistaken", MISTAKEN)
def test_the_last_good_rules_stay_in_force(mistaken: Document) -> None:
    good = decide(world(market(cores={"reservedCores": 3}), *HEALTHY[1:]))
    decision = decide(world(mistaken, *HEALTHY[1:], carried=good.carried))
    assert grants(decision) == grants(good)
    assert condition(decision, "Market", "default")[:2] == ("False", "Invalid")


@pytest.mark.parametrize("mechanism", ["Greedy", "UpperBound"])
def test_a_market_that_names_a_mechanism_for_comparison_keeps_its_last_rules(
    mechanism: str,
) -> None:
    good = decide(world(market(cores={"reservedCores": 3}), *HEALTHY[1:]))
    there = (market(cores={"mechanism": mechanism}), *HEALTHY[1:])
    kept = decide(world(*there, carried=good.carried))
    assert grants(kept) == grants(good)
    status, reason, message = condition(kept, "Market", "default")
    assert (status, reason) == ("False", "ForComparison")
    assert f"spec.cores.mechanism: {mechanism} is for comparisons by walras what-if" in message
    assert "name AmdahlBidding" in message
    first = decide(world(*there))
    assert (first.nodes, first.rules) == ((), None)
    assert "all nodes stay as they are" in condition(first, "Market", "default")[2]


def test_rules_that_cannot_be_cleared_leave_the_last_good_ones_in_force() -> None:
    vast = worlds.document("Node", "vast", status={"allocatable": {"cpu": "64", "memory": "200Ti"}})
    there = (*HEALTHY[1:2], job(memory={"demand": "4Gi"}), *HEALTHY[3:], vast)
    good = decide(world(market(), *there))
    finest = market(memory={"sliceSize": "1"})
    decision = decide(world(finest, *there, carried=good.carried))
    status, reason, message = condition(decision, "Market", "default")
    assert (status, reason) == ("False", "CannotClear")
    assert "the last rules that could be used are in force" in message
    assert decision.rules == good.rules


def test_rules_that_cannot_be_cleared_leave_all_as_it_is_if_there_were_no_others() -> None:
    vast = worlds.document("Node", "vast", status={"allocatable": {"memory": "200Ti"}})
    finest = market(memory={"sliceSize": "1"})
    decision = decide(
        world(finest, *HEALTHY[1:2], job(memory={"demand": "4Gi"}), *HEALTHY[3:], vast)
    )
    assert decision.nodes == ()
    assert decision.plan is None
    status, reason, message = condition(decision, "Market", "default")
    assert (status, reason) == ("False", "CannotClear")
    assert message.startswith(
        "spec.memory.sliceSize: memory cannot be divided in slices this small"
    )
    assert message.endswith("count for more memory; all nodes stay as they are")


def test_a_new_leader_with_invalid_rules_leaves_all_as_it_is() -> None:
    before = world(*HEALTHY)
    running = worlds.outcome(before, decide(before), leader_changes=True)
    mistaken = world(MISTAKEN[0], *HEALTHY[1:])
    decision = decide(replace(running, markets=(), broken=mistaken.broken))
    assert decision.nodes == ()
    assert decision.plan is None
    assert [each.object.kind for each in decision.statuses] == ["Market"]


def test_more_running_pods_than_cores_share_them_all() -> None:
    pods = [pod(f"p-{number}") for number in range(30)]
    decision = decide(world(market(), entitlement(), job(), node(cpu="4"), *pods))
    parts = [float(cores) for cores in grants(decision)["n1"].values()]
    assert len(parts) == 30
    assert min(parts) >= 0.1
    assert 3.9 <= sum(parts) <= 4


@pytest.mark.parametrize("uid", ["4f5a", "u-lab-train-0"])
def test_nobody_gets_a_grant_in_the_name_of_another_pod(uid: str) -> None:
    """Nothing but an annotation says which pod mirrors a static pod, such as the API server."""
    thief = pod(
        "a-thief",
        annotations={"kubernetes.io/config.hash": uid, "kubernetes.io/config.mirror": uid},
        ownerReferences=[{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "x"}],
    )
    (write,) = decide(world(*HEALTHY, thief)).nodes
    found = {grant["name"]: grant["podUID"] for grant in write.spec["grants"]}
    assert found == {"train-0": "u-lab-train-0", "train-1": "u-lab-train-1"}


def test_a_pod_that_its_kubelet_has_not_admitted_takes_no_cores_from_the_market() -> None:
    """Anybody can create a pod with the name of a node and more requests than that has CPUs."""
    glutton = pod("glutton", "nobodys", phase="Pending", cpu="1000")
    assert grants(decide(world(*HEALTHY, glutton))) == grants(decide(world(*HEALTHY)))
    admitted = pod("starting", "nobodys", phase="Pending", cpu="4")
    admitted["status"]["startTime"] = "2026-01-31T11:59:50Z"
    assert grants(decide(world(*HEALTHY, admitted))) != grants(decide(world(*HEALTHY)))


def test_an_object_of_a_megabyte_of_labels_is_kept_small() -> None:
    """A hundred of them ended the operator by memory, again after every restart."""
    many = {f"l{number:05}": "v" * 60 for number in range(15_000)}
    heavy_job = job("heavy", selector={"matchLabels": {"app": "heavy"}})
    heavy_job["metadata"]["labels"] = many
    known = world(
        *HEALTHY,
        heavy_job,
        pod("p", "heavy", labels={"app": "heavy", **many}),
        pod("q", "train", ownerReferences=[{"kind": "X", "name": f"x{n}"} for n in range(5000)]),
    )
    assert max(len(each.metadata.labels) for each in known.objects.jobs) == MOST_ENTRIES
    assert max(len(each.metadata.labels) for each in known.objects.pods) == MOST_ENTRIES
    assert max(len(each.metadata.owner_references) for each in known.objects.pods) == MOST_ENTRIES
    assert set(grants(decide(known))["n1"]) == {"train-0", "train-1", "p", "q"}


def test_pods_that_are_being_deleted_still_run_and_keep_their_cores() -> None:
    leaving = pod("train-1", deletionTimestamp="2026-01-31T11:59:50Z")
    assert grants(decide(world(*HEALTHY[:5], leaving))) == grants(decide(world(*HEALTHY)))


@pytest.mark.parametrize("junk", [7, None, [], [1], {}, {"a": []}], ids=repr)
@pytest.mark.parametrize("field", ["podUID", "name", "node", "state", "memoryDemand"])
def test_no_status_of_a_pod_holds_anybody_up(field: str, junk: object) -> None:
    """An agent is asked for texts; its schema refuses others, where there is one."""
    running = worlds.enforced(worlds.outcome(before := world(*HEALTHY), decide(before)))
    told = {"podUID": "u-lab-train-0", "name": "train-0", "state": "Enforced", field: junk}

    def spoilt(each: Any) -> Any:
        return each.model_copy(update={"status": {**(each.status or {}), "pods": [told, junk]}})

    objects = replace(running.objects, jobs=[spoilt(each) for each in running.objects.jobs])
    allocations = {name: spoilt(each) for name, each in running.allocations.items()}
    decision = decide(replace(running, objects=objects, allocations=allocations))
    assert decision.plan is not None
    assert {grant.pod for grant in decision.plan.grants} == {"train-0", "train-1"}


def same_selector(size: int) -> World:
    """Return a world with as many jobs as pods, in which each job selects all of the pods."""
    names = [f"j{number:03}" for number in range(size)]
    return world(
        *(market(), entitlement(), node(cpu="8")),
        *(job(name, selector={"matchLabels": {"app": "x"}}) for name in names),
        *(pod(f"p{number:03}", "x", cpu="0") for number in range(size)),
    )


def test_jobs_that_select_the_same_pods_list_the_first_of_them_and_count_the_others() -> None:
    decision = decide(same_selector(12))
    way_out = "correct the selector of one of them"
    listed = "; ".join(
        f"Pod p00{pod} is selected by j001 and j002 and j003 too; this job, the older, has it: "
        f"{way_out}"
        for pod in range(3)
    )
    found = condition(decision, "MarketJob", "j000", "lab")
    assert found == ("False", "Overlap", f"{listed}; and 9 more")
    listed = "; ".join(
        f"Pod p00{pod} is j000's, which is older and selects it too: {way_out}" for pod in range(3)
    )
    for name in ("j001", "j011"):
        found = condition(decision, "MarketJob", name, "lab", type_="Selected")
        assert found == ("False", "Overlap", f"{listed}; and 9 more")


def test_the_work_of_a_decision_does_not_grow_with_the_pairs_of_jobs_and_pods() -> None:
    few, many = same_selector(40), same_selector(160)
    assert calls_of(lambda: decide(many)) < 5 * calls_of(lambda: decide(few))
