"""A snapshot is assembled from what kubectl prints: jobs' pods, nodes' supply, and notes."""

from __future__ import annotations

from dataclasses import fields, replace
from decimal import Decimal
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counted_calls import calls_of
from walras.clearing import clear
from walras.market.snapshot import Bid, Job, MemoryDemand, Policy
from walras_api.api_object import quantity
from walras_api.assembly import Assembled, Objects, assemble, policy_of
from walras_api.cluster import Namespace, NodeObject, Pod
from walras_api.job_inputs import ASSUMED_FRACTION, speedup_of
from walras_api.jobs_of_pods import as_pod
from walras_api.kinds import EntitlementObject, Market, MarketJob, MarketSpec, SpeedupProfile
from walras_api.parse import ResourceError, parse_object
from walras_api.selection import MOST_KEPT, Overlap, select
from walras_api.supply import MOST_MEMORY, ProcessorCounts

GIB = 1024**3
T = TypeVar("T")


def node(name: str = "n1", cpu: Any = "8", memory: Any = "16Gi", **more: Any) -> NodeObject:
    parsed = parse_object(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": "1", "labels": more.pop("labels", {})},
            "spec": more.pop("spec", {"podCIDR": "10.0.0.0/24"}),
            "status": {
                "allocatable": {"cpu": cpu, "memory": memory, "pods": "110"},
                "conditions": [{"type": "Ready", "status": more.pop("ready", "True")}],
                "nodeInfo": {"kernelVersion": "6.1"},
            },
        }
    )
    assert isinstance(parsed, NodeObject)
    return parsed


def pod(name: str, place: str | None = "n1", cpu: str = "1", **more: Any) -> Pod:
    spec = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
        **({"nodeName": place} if place else {}),
        **more.pop("spec", {}),
    }
    parsed = parse_object(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "lab", **more},
            "spec": spec,
            "status": {"phase": "Running"},
        }
    )
    assert isinstance(parsed, Pod)
    return parsed


def entitlement(**spec: Any) -> EntitlementObject:
    parsed = parse_object(
        {
            "apiVersion": "walras.dev/v1alpha1",
            "kind": "Entitlement",
            "metadata": {"name": "vision"},
            "spec": {"shares": 1, "namespaces": ["lab"], **spec},
        }
    )
    assert isinstance(parsed, EntitlementObject)
    return parsed


def job(name: str = "train", *, created: str | None = None, **spec: Any) -> MarketJob:
    if not {"selector", "targetRef"} & set(spec):
        spec["selector"] = {"matchLabels": {"app": name}}
    parsed = parse_object(
        {
            "apiVersion": "walras.dev/v1alpha1",
            "kind": "MarketJob",
            "metadata": {"name": name, "namespace": "lab", "creationTimestamp": created},
            "spec": {"entitlement": "vision", **spec},
        }
    )
    assert isinstance(parsed, MarketJob)
    return parsed


def profile(name: str, **spec: Any) -> SpeedupProfile:
    parsed = parse_object(
        {
            "apiVersion": "walras.dev/v1alpha1",
            "kind": "SpeedupProfile",
            "metadata": {"name": name, "namespace": "lab"},
            "spec": spec,
        }
    )
    assert isinstance(parsed, SpeedupProfile)
    return parsed


def made(*things: Any, rules: MarketSpec | None = None) -> Assembled:
    def those(kind: type[T]) -> list[T]:
        return [thing for thing in things if isinstance(thing, kind)]

    return assemble(
        Objects(
            entitlements=those(EntitlementObject),
            jobs=those(MarketJob),
            profiles=those(SpeedupProfile),
            nodes=those(NodeObject),
            pods=those(Pod),
            namespaces=those(Namespace),
            rules=rules or MarketSpec(),
        )
    )


QUANTITIES = {
    "4": 4,
    "3920m": Decimal("3.92"),
    "0.5": Decimal("0.5"),
    "16Gi": 16 * GIB,
    "16393244Ki": 16393244 * 1024,
    "2e3": 2000,
    "1E": 10**18,
    "1Ei": 2**60,
    "500u": Decimal("0.0005"),
}


@pytest.mark.parametrize(("text", "value"), QUANTITIES.items())
def test_quantities_are_read_exactly(text: str, value: Decimal) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize("text", ["", "four", "4 Gi", "1e999", "--1", "4gi", True, None])
def test_other_text_is_no_quantity(text: Any) -> None:
    with pytest.raises(ValueError, match="write a quantity"):
        quantity(text)


def test_a_pod_is_the_jobs_that_its_labels_or_its_owner_say() -> None:
    def owned(kind: str, name: str) -> list[dict[str, str]]:
        return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u"}]

    def ref(kind: str, name: str) -> Any:
        return {"targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": name}}

    snapshot, notes, *_ = made(
        node(),
        job("by-label", parallelFraction="0.9"),
        job("by-job", **ref("Job", "j"), parallelFraction="0.9"),
        job("by-deployment", **ref("Deployment", "web"), parallelFraction="0.9"),
        job("by-set", **ref("StatefulSet", "db"), parallelFraction="0.9"),
        job(
            "by-pod",
            targetRef={"apiVersion": "v1", "kind": "Pod", "name": "lone"},
            parallelFraction="0.9",
        ),
        pod("a", labels={"app": "by-label"}),
        pod("b", ownerReferences=owned("Job", "j")),
        pod(
            "c",
            labels={"pod-template-hash": "7d9"},
            ownerReferences=owned("ReplicaSet", "web-7d9"),
        ),
        pod("d", ownerReferences=owned("StatefulSet", "db")),
        pod("lone"),
        pod("nobodys", ownerReferences=owned("ReplicaSet", "web-other-7d9")),
    )
    assert {each.pod: each.name for each in snapshot.jobs} == {
        "a": "by-label",
        "b": "by-job",
        "c": "by-deployment",
        "d": "by-set",
        "lone": "by-pod",
    }
    assert notes == ()


def test_a_pod_of_two_jobs_is_the_firsts_by_name_and_that_is_noted() -> None:
    both: Any = {"selector": {"matchLabels": {"app": "x"}}, "parallelFraction": "0.9"}
    snapshot, notes, *_ = made(
        node(), job("b", **both), job("a", **both), pod("p", labels={"app": "x"})
    )
    assert [each.name for each in snapshot.jobs] == ["a"]
    assert "Pod lab/p: is selected by MarketJobs a and b" in notes[0]
    assert "MarketJob lab/b: no pods of it are there" in notes[1]


def test_a_job_takes_no_pods_from_an_older_one() -> None:
    made_of = made(
        node(),
        job("a", created="2026-02-01T00:00:00Z", selector={"matchLabels": {"x": "1"}}),
        job("b", created="2026-01-01T00:00:00Z", selector={"matchLabels": {"x": "1", "y": "2"}}),
        pod("both", labels={"x": "1", "y": "2"}),
        pod("one", labels={"x": "1"}),
    )
    assert {number: job.metadata.name for number, job in made_of.selection.job.items()} == {
        0: "b",
        1: "a",
    }
    assert [each.metadata.name for each in made_of.selection.contested[0]] == ["b", "a"]


LABEL_SETS = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("12"), max_size=3)


@given(st.lists(LABEL_SETS.filter(bool), max_size=20), st.lists(LABEL_SETS, max_size=20))
def test_a_selection_names_the_first_jobs_of_each_pod_and_counts_the_pods_of_each_job(
    selectors: list[dict[str, str]], labels: list[dict[str, str]]
) -> None:
    jobs = [
        job(f"j{number:02}", selector={"matchLabels": each})
        for number, each in enumerate(selectors)
    ]
    pods = [pod(f"p{-number % 7}-{number:02}", labels=each) for number, each in enumerate(labels)]
    selection = select(jobs, pods)
    mine = [
        [job for job, wanted in zip(jobs, selectors, strict=True) if wanted.items() <= own.items()]
        for own in labels
    ]
    several = [number for number, found in enumerate(mine) if len(found) > 1]
    by_name = sorted(several, key=lambda number: pods[number].metadata.name)
    assert selection.job == {number: found[0] for number, found in enumerate(mine) if found}
    assert selection.contested == {number: tuple(mine[number][:MOST_KEPT]) for number in several}
    assert selection.overlaps == {
        ("lab", each.metadata.name): Overlap(len(of_job), tuple(of_job[:MOST_KEPT]))
        for each in jobs
        if (of_job := [number for number in by_name if each in mine[number]])
    }


def contested(size: int) -> tuple[list[MarketJob], list[Pod]]:
    """Return jobs that all select the same pods, as many of both."""
    jobs = [job(f"j{number}", selector={"matchLabels": {"app": "x"}}) for number in range(size)]
    return jobs, [pod(f"p{number}", labels={"app": "x"}) for number in range(size)]


def test_the_work_of_a_selection_does_not_grow_with_the_pairs_of_jobs_and_pods() -> None:
    few, many = contested(40), contested(160)
    assert calls_of(lambda: select(*many)) < 5 * calls_of(lambda: select(*few))


@pytest.mark.parametrize(
    ("things", "cores"),
    [
        ((entitlement(), job(parallelFraction="0.9")), 8),
        ((entitlement(namespaces=["other"]), job(parallelFraction="0.9")), 6),
        ((job(parallelFraction="0.9"),), 6),
        ((entitlement(), job(parallelFraction="0.9", entitlement="unknown")), 6),
    ],
    ids=["admitted", "namespace not admitted", "no entitlement", "unknown entitlement"],
)
def test_pods_of_jobs_that_may_not_draw_keep_what_they_requested(
    things: tuple[Any, ...], cores: int
) -> None:
    (sold,) = made(node(), *things, pod("p", cpu="2", labels={"app": "train"})).snapshot.nodes
    assert sold.cores == cores


@pytest.mark.parametrize(
    ("unit", "topology", "cores"),
    [
        ("core", ProcessorCounts(cores=4, threads=8, sockets=1), 1.75),
        (
            "core",
            ProcessorCounts(cores=6, threads=8, sockets=1),
            3.125,
        ),  # two of its cores have one thread
        ("core", ProcessorCounts(cores=0, threads=0, sockets=0), 4.5),
        ("core", None, 4.5),
        ("thread", ProcessorCounts(cores=4, threads=8, sockets=1), 4.5),
    ],
)
def test_a_core_is_worth_its_threads(
    unit: str, topology: ProcessorCounts | None, cores: float
) -> None:
    rules = MarketSpec.model_validate({"cores": {"reservedCores": 1, "unit": unit}})
    there = {} if topology is None else {"n1": topology}
    objects = Objects(nodes=[node()], pods=[pod("other", cpu="2500m")], topologies=there)
    (sold,) = assemble(replace(objects, rules=rules)).snapshot.nodes
    assert sold.cores == cores


def test_no_amount_of_memory_is_too_large_to_reckon_with() -> None:
    memory = {"min": "8Ei", "max": "9Ei", "demand": "9Ei"}
    snapshot = made(
        node(memory="9E"),
        entitlement(),
        job(parallelFraction="0.9", memory=memory),
        pod("p", labels={"app": "train"}),
    ).snapshot
    plan = clear(snapshot, Policy(memory="Karma"))
    assert plan.grants[0].memory == MOST_MEMORY


@pytest.mark.parametrize(
    ("status", "source"),
    [
        ({"source": "Online", "parallelFraction": "0.75"}, "Online"),
        ({"source": "Written", "parallelFraction": "0.75"}, "Assumed"),
        ({"source": "Online", "parallelFraction": "NaN"}, "Assumed"),
        ({"source": "Online"}, "Assumed"),
        ({}, "Assumed"),
    ],
)
def test_a_profile_without_a_word_in_its_spec_counts_as_measured_online(
    status: dict[str, Any], source: str
) -> None:
    measured = profile("train").model_copy(update={"status": status})
    speedup = speedup_of(job(), {("lab", "train"): measured})
    assert speedup.source == source
    assert speedup.fraction == (0.75 if source == "Online" else ASSUMED_FRACTION)


def test_measurements_that_tell_nothing_of_f_are_not_used() -> None:
    """Half the runs on four cores took as long as those on one: F is 0.8, or 0."""
    times = [{"cores": 1, "seconds": ["10", "10.1"]}, {"cores": 4, "seconds": ["4", "10"]}]
    noisy = profile("train", measurements=times)
    named = job(profile="train")
    found = speedup_of(named, {("lab", "train"): noisy})
    assert (found.fraction, found.source, found.profile) == (ASSUMED_FRACTION, "Assumed", "train")
    assert "SpeedupProfile lab/train are not used, since " in found.refused
    assert "F on 4 cores is uncertain by ±" in found.refused
    online = {"source": "Online", "parallelFraction": "0.75"}
    measured = speedup_of(named, {("lab", "train"): noisy.model_copy(update={"status": online})})
    assert (measured.fraction, measured.source) == (0.75, "Online")
    assert measured.refused == found.refused
    (note,) = (each for each in made(noisy, named, pod("train-0")).notes if "uncertain" in each)
    assert note.startswith("MarketJob lab/train: F is too uncertain by the measurements")
    written = profile(
        "train",
        measurements=[{**each, "error": "0.2"} for each in times[:1]]
        + [{"cores": 4, "seconds": ["4"]}],
    )
    assert speedup_of(named, {("lab", "train"): written}).source == "Assumed", "a stated error"
    sure = profile("train", measurements=[times[0], {"cores": 4, "seconds": ["4", "4.1"]}])
    assert speedup_of(named, {("lab", "train"): sure})[1::3] == ("Measured", "")


def test_a_node_sells_what_reserve_and_other_pods_leave() -> None:
    rules = MarketSpec.model_validate({"cores": {"reservedCores": 1}})
    (sold,) = made(
        node(cpu="7910m"),
        entitlement(),
        job(parallelFraction="0.9"),
        pod("mine", labels={"app": "train"}),
        pod("other", cpu="1500m"),
        pod("tiny", cpu="100m"),
        rules=rules,
    ).snapshot.nodes
    # 7.91 CPUs, less 1 reserved and 1.6 requested: a core in part is sold, too.
    assert sold.cores == 5.31
    assert sold.memory == 14 * GIB


def test_requests_count_as_the_scheduler_counts_them() -> None:
    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("1"), {"resources": {"limits": {"cpu": "500m"}}}],
        "initContainers": [container("4"), container("250m", restartPolicy="Always")],
        "overhead": {"cpu": "250m"},
    }
    assert pod("p", spec=spec).request("cpu") == Decimal("4.25")
    spec["initContainers"] = [container("1"), container("250m", restartPolicy="Always")]
    assert pod("p", spec=spec).request("cpu") == Decimal(2)


def test_unready_nodes_and_those_that_are_off_sell_nothing_and_their_pods_are_noted() -> None:
    snapshot, notes, *_ = made(
        node("off", labels={"walras.dev/mode": "off"}),
        node("away", ready="Unknown"),
        node("well"),
        job(parallelFraction="0.9"),
        pod("p", "away", labels={"app": "train"}),
        pod("q", "well", labels={"app": "train"}),
    )
    assert [each.name for each in snapshot.nodes] == ["well"]
    assert [each.pod for each in snapshot.jobs] == ["q"]
    assert notes == (
        "Node off: has the label walras.dev/mode=off; it sells nothing",
        "Node away: is not ready; it sells nothing",
        "Pod lab/p: runs on away, which sells nothing",
    )


def test_finished_pods_take_nothing_and_pending_ones_wait() -> None:
    done = pod("done", cpu="8").model_copy(update={"status": pod("x").status})
    done = Pod.model_validate({**done.model_dump(by_alias=True), "status": {"phase": "Succeeded"}})
    gated = {"schedulingGates": [{"name": "walras.dev/colocation"}]}
    snapshot, notes, *_ = made(
        node(),
        job(parallelFraction="0.9"),
        done,
        pod("gated", None, labels={"app": "train"}, spec=gated),
        pod("pending", None, labels={"app": "train"}),
    )
    assert snapshot.nodes[0].cores == 8
    assert [(each.pod, each.node) for each in snapshot.jobs] == [("gated", "")]
    assert notes == ("Pod lab/pending: is not scheduled yet",)


def test_speedups_come_from_the_job_its_profile_or_are_assumed_and_noted() -> None:
    def measured(*seconds: str) -> dict[str, Any]:
        return {"measurements": [{"cores": 1 << k, "seconds": [t]} for k, t in enumerate(seconds)]}

    snapshot, notes, *_ = made(
        node(),
        profile("named", parallelFraction="0.7"),
        profile("same", **measured("10", "6")),
        job("given", parallelFraction="0.9"),
        job("by-name", profile="named"),
        job("same"),
        job("unknown"),
        *(pod(name, labels={"app": name}) for name in ("given", "by-name", "same", "unknown")),
    )
    fractions = {each.name: each.fraction for each in snapshot.jobs}
    assert fractions == {
        "given": 0.9,
        "by-name": 0.7,
        "same": pytest.approx(0.8),
        "unknown": 0.8,
    }
    (note,) = notes
    assert note == (
        "MarketJob lab/unknown: speedup is not known; a parallel fraction of 0.8 is assumed, "
        "give parallelFraction or a profile"
    )


def test_a_profile_that_is_named_must_be_there() -> None:
    with pytest.raises(ValueError, match="there is no SpeedupProfile lab/gone"):
        made(node(), job(profile="gone"))


@pytest.mark.parametrize(
    ("labels", "reported", "sockets"),
    [({}, 2, 2), ({"walras.dev/sockets": "4"}, 2, 4), ({"walras.dev/sockets": "4"}, None, 4)],
    ids=["as its agent reports", "as its label says", "before its agent reports"],
)
def test_the_label_of_a_node_overrides_the_sockets_that_its_agent_reports(
    labels: dict[str, str], reported: int | None, sockets: int
) -> None:
    topology = None if reported is None else ProcessorCounts(4, 8, reported)
    topologies = {} if topology is None else {"n1": topology}
    objects = Objects(nodes=[node(labels=labels)], topologies=topologies)
    assert assemble(objects).snapshot.nodes[0].sockets == sockets


def test_memory_bids_penalties_and_bandwidths_are_carried_over() -> None:
    snapshot, *_ = made(
        node(labels={"walras.dev/sockets": "2"}),
        profile("p", memoryBandwidth="3.5", penalties=[{"profile": "q", "penalty": "0.2"}]),
        job(
            profile="p",
            memory={"min": "2Gi", "max": "6Gi", "demand": "measured"},
            auction={"budget": "2", "utility": "Log", "minimumUtility": "0.5"},
        ),
        pod("small", labels={"app": "train"}),
    )
    (only,) = snapshot.jobs
    assert only.memory == MemoryDemand(2 * GIB, 2 * GIB, 6 * GIB)
    assert only.bid == Bid(2.0, "Log", minimum_utility=0.5)
    assert (only.program, only.bandwidth) == ("lab/p", 3.5)
    assert snapshot.penalties == {("lab/p", "lab/q"): 0.2}
    assert snapshot.nodes[0].sockets == 2


ALONE: Any = [
    {"ratio": "1", "looks": 3, "cores": 4, "source": "file", "finished": "2026-01-31T12:00:00Z"}
]
BESIDE: Any = [{**ALONE[0], "profile": "q", "namespace": "lab"}]


@pytest.mark.parametrize(
    ("spec", "status", "observed", "seen_alone", "bandwidth"),
    [
        ({}, {}, True, False, None),
        ({"parallelFraction": "0.9"}, {}, False, False, None),
        ({"memoryBandwidth": "3.5"}, {"memoryBandwidth": "9"}, True, False, 3.5),
        ({}, {"memoryBandwidth": "9"}, True, False, 9.0),
        ({}, {"memoryBandwidth": "much"}, True, False, None),
        ({}, {"memoryBandwidth": "0"}, True, False, None),
        ({}, {"online": {"coRunners": ALONE}}, True, True, None),
        ({}, {"online": {"coRunners": BESIDE}}, True, False, None),
        ({}, {"online": {"coRunners": [{**ALONE[0], "together": True}]}}, True, False, None),
        ({}, {"online": {"measurements": [{"source": "cpuTime"}]}}, False, False, None),
        ({}, {"online": {"measurements": [{"source": "file"}]}}, True, False, None),
        ({}, {"online": {"measurements": 7, "coRunners": 7}}, True, False, None),
        ({}, {"online": []}, True, False, None),
    ],
)
def test_a_job_says_what_can_be_learned_of_its_losses(
    spec: Any, status: Any, observed: bool, seen_alone: bool, bandwidth: float | None
) -> None:
    known = profile("train", **spec).model_copy(update={"status": status})
    snapshot, *_ = made(node(), known, job(), pod("p", labels={"app": "train"}))
    (only,) = snapshot.jobs
    assert (only.observed, only.seen_alone, only.bandwidth) == (observed, seen_alone, bandwidth)


def test_namespaces_lend_their_labels() -> None:
    namespace = parse_object(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab", "labels": {"t": "v"}}}
    )
    snapshot, *_ = made(
        node(), namespace, job(parallelFraction="0.9"), pod("p", labels={"app": "train"})
    )
    assert snapshot.jobs[0].namespace_labels == {"t": "v"}


def test_the_rules_of_a_market_become_a_policy() -> None:
    market = parse_object(
        {
            "apiVersion": "walras.dev/v1alpha1",
            "kind": "Market",
            "metadata": {"name": "default"},
            "spec": {
                "cores": {"mechanism": "Auction"},
                "memory": {"mechanism": "MaxMin", "guaranteedFraction": "0.3", "sliceSize": "1Gi"},
                "colocation": {"policy": "StableRoommates", "seed": 7},
                "auction": {"exponent": "0.25"},
            },
        }
    )
    assert isinstance(market, Market)
    policy = policy_of(market.spec)
    assert (policy.cores, policy.memory, policy.colocation, policy.seed) == (
        "Auction",
        "MaxMin",
        "StableRoommates",
        7,
    )
    assert policy.guaranteed_fraction * 10 == 3  # exactly
    assert (policy.slice_bytes, policy.exponent) == (GIB, 0.25)


def test_objects_of_other_kinds_have_no_part_and_broken_ones_are_named() -> None:
    assert parse_object({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}) is None
    with pytest.raises(ResourceError, match=r"Node n1: status.allocatable.cpu: is 'lots'"):
        node(cpu="lots")


def test_the_job_of_a_pod_has_all_fields_of_its_marketjob() -> None:
    """The copy is made field by field, for speed: a new field must not be left at its default."""
    values: dict[str, Any] = {each.name: object() for each in fields(Job)}
    job, memory = Job(**values), MemoryDemand(1, 2)
    assert as_pod(job, "n1", "p-0", memory, 3.5, 2.0, 1.0, learned=True) == replace(
        job,
        learned=True,
        node="n1",
        pod="p-0",
        memory=memory,
        max_cores=3.5,
        requested=2.0,
        floor=1.0,
    )


@pytest.mark.parametrize(
    ("limit", "max_cores", "threads", "most"),
    [
        ("50m", None, 8, 0.05),
        ("2500m", 8, 8, 2.5),
        ("4", 3, 8, 3),
        ("3", None, 16, 1.5),
        ("0.1m", None, 8, 0.001),
        (None, 3, 8, 3),
    ],
)
def test_a_cpu_limit_is_the_most_that_a_pod_buys_in_thousandths(
    limit: str | None, max_cores: int | None, threads: int, most: float
) -> None:
    resources = {"requests": {"cpu": "20m"}} | ({"limits": {"cpu": limit}} if limit else {})
    containers = [{"name": "main", "resources": resources}]
    limited = pod("train-0", labels={"app": "train"}, spec={"containers": containers})
    bound: dict[str, Any] = {} if max_cores is None else {"maxCores": max_cores}
    objects = Objects(
        entitlements=[entitlement()],
        jobs=[job("train", **bound)],
        nodes=[node(cpu=str(threads))],
        pods=[limited],
        topologies={"n1": ProcessorCounts(8, threads, 1)},
    )
    (made_job,) = assemble(objects).snapshot.jobs
    assert made_job.max_cores == most
    (grant,) = clear(assemble(objects).snapshot, policy_of(objects.rules)).grants
    assert grant.held == pytest.approx(most, abs=1e-3)
