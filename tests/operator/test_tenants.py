"""One tenant cannot take from another, whatever it writes.

Bob may do what RBAC's role `edit` lets a user do in a namespace: write pods, MarketJobs and
SpeedupProfiles, with any content that the API server stores. He may not write statuses, choose
UIDs, or write in other namespaces. Alice wrote honest objects. What she is due is computed here,
from the budgets and the sizes of nodes, and not taken from the decision.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import ALL
from walras.market.snapshot import FOR_COMPARISON, CoreMechanism
from walras_api.contract import (
    COLOCATION_GATE,
    ENTITLEMENT_LABEL,
    JOB_LABEL,
    JOB_SETTINGS,
    PARTNER_ANNOTATION,
    STATIC_POD_ANNOTATION,
)
from walras_api.market_job import LONGEST_METRIC, LONGEST_PATH
from walras_api.supply import MOST_CORES
from whole_decisions import decide
from worlds import document, entitlement, job, market, node, outcome, pod, profile, world

if TYPE_CHECKING:
    from walras_operator.decide.world import Document, World
    from whole_decisions import Decision

WORLDS = 100_000 if ALL else 60
NODES = ["n0", "n1", "n2"]
OWNERS = {"alice": "train", "bob": "evil"}
APPS = ["a0", "a1", "a2"]
GIB = 1 << 30
LARGEST = 64 << 10
"""Bytes that no plan and no status of these small clusters needs."""
LONG = "x" * 1_000_000
ENTITLES = ["AmdahlBidding", "ProportionalSharing"]
"""Mechanisms in which every user has at least the utility of its entitlement."""
IN_PRODUCTION = [each for each in get_args(CoreMechanism) if each not in FOR_COMPARISON]


class Tenancy(NamedTuple):
    """A cluster of two tenants.

    Attributes:
        mechanism: Mechanism that divides cores.
        shares: Shares of alice and of bob.
        sizes: CPUs of each node.
        speedups: Parallel fraction of alice's job on each node where she has a pod.
        demand: Bytes of memory that each of her jobs demands.
        taken: CPUs and bytes requested by bob's admitted pods, by node.
        documents: Objects of administrators and of alice.
        attack: Objects that bob wrote.
    """

    mechanism: str
    shares: tuple[int, int]
    sizes: dict[str, int]
    speedups: dict[str, float]
    demand: int
    taken: dict[str, tuple[Fraction, int]]
    documents: list[Document]
    attack: list[Document]

    @property
    def budget(self) -> Fraction:
        """Alice's part of all shares."""
        return Fraction(self.shares[0], sum(self.shares))


def drawn(seed: int) -> Tenancy:
    """Return a cluster, whatever the seed."""
    lots = Random(seed)
    shares = lots.randint(1, 9), lots.randint(1, 9)
    sizes = {name: lots.choice([4, 8, 32]) for name in NODES[: lots.randint(1, 3)]}
    hers = lots.sample(list(sizes), lots.randint(1, len(sizes)))
    speedups = {name: lots.choice([0.5, 0.9, 0.99]) for name in hers}
    demand = lots.choice([1, 4]) * GIB
    mechanism = lots.choice([*ENTITLES, *ENTITLES, *IN_PRODUCTION])
    documents: list[Document] = [
        market(
            cores={"mechanism": mechanism},
            memory={"mechanism": lots.choice(["Karma", "MaxMin", "Strict"]), "sliceSize": "64Mi"},
            colocation={"policy": lots.choice(["None", "StableRoommates"])},
            jobs={"create": lots.choice(["Labelled", "Entitled", "Never"])},
        ),
        entitlement("alice", shares=shares[0], namespaces=["alice"]),
        entitlement("bob", shares=shares[1], namespaces=["bob"]),
        *(node(name, str(cpus)) for name, cpus in sizes.items()),
    ]
    for name, fraction in speedups.items():
        fields = {"parallelFraction": str(fraction), "memory": {"demand": str(demand)}}
        documents.append(job(f"train-{name}", "alice", "alice", **fields))
        documents.append(pod(f"train-{name}-0", f"train-{name}", name, namespace="alice"))
    pods, taken = _pods(lots, sizes, list(speedups))
    attack = [*pods, *_jobs(lots, sizes), *_profiles(lots)]
    return Tenancy(mechanism, shares, sizes, speedups, demand, taken, documents, attack)


def _pods(
    lots: Random, sizes: dict[str, int], hers: list[str]
) -> tuple[list[Document], dict[str, tuple[Fraction, int]]]:
    """Return pods of bob, and the requests of those that kubelets have admitted."""
    found = []
    taken: defaultdict[str, tuple[Fraction, int]] = defaultdict(lambda: (Fraction(0), 0))
    left = dict.fromkeys(sizes, 2)  # CPUs that the scheduler found free, and as many GiB
    for number in range(lots.randint(0, 8)):
        place, cpus = lots.choice(list(sizes)), lots.choice([0, 1, 1, 2, 10**6])
        admitted = cpus <= left[place]
        if admitted:
            left[place] -= cpus
            before = taken[place]
            taken[place] = before[0] + cpus, before[1] + GIB * cpus
        made = pod(
            lots.choice([f"evil-{number}", f"train-{hers[0]}-0"]) + f"-{number}" * (number > 0),
            lots.choice(APPS),
            place,
            namespace="bob",
            phase="Running" if admitted else "Pending",
            annotations=_annotations(lots, hers),
            labels={
                "app": lots.choice(APPS),
                "pod-template-hash": lots.choice(["", "x", "0"]),
                **lots.choice(
                    [{}, {JOB_LABEL: ""}, {JOB_LABEL: "false", ENTITLEMENT_LABEL: "alice"}]
                ),
            },
            ownerReferences=_owners(lots, hers),
        )
        made["metadata"]["uid"] = f"bob-{number}"  # the API server's choice
        requests = {"cpu": str(cpus), "memory": f"{cpus}Gi"}
        limits = lots.choice([{}, {"cpu": "9e99"}, {"memory": "1"}]) if not admitted else {}
        made["spec"]["containers"] = [{"name": "main", "resources": {"requests": requests}}]
        if limits:
            made["spec"]["containers"][0]["resources"]["limits"] = limits
        if not admitted and lots.random() < 0.3:
            del made["spec"]["nodeName"]
            made["spec"] |= lots.choice(
                [
                    {"schedulingGates": [{"name": COLOCATION_GATE}]},
                    {"schedulerName": COLOCATION_GATE},
                    {"affinity": {"nodeAffinity": {}}, "tolerations": [{"operator": "Exists"}]},
                ]
            )
        found.append(made)
    return found, taken


def _annotations(lots: Random, hers: list[str]) -> Document:
    return lots.choice(
        [
            {},
            {PARTNER_ANNOTATION: f"u-alice-train-{hers[0]}-0"},
            {STATIC_POD_ANNOTATION: f"u-alice-train-{hers[0]}-0"},
            {"x" * 60: "y" * 10_000},
            {ENTITLEMENT_LABEL: lots.choice(["alice", "bob", "../alice", ""])},
            {key: lots.choice(["9" * 400, "-1", "alice", "2"]) for key in JOB_SETTINGS},
        ]
    )


def _owners(lots: Random, hers: list[str]) -> list[Document]:
    kinds = [("Node", lots.choice(NODES)), ("Pod", f"train-{hers[0]}-0"), ("ReplicaSet", "a0-x")]
    return [
        {"apiVersion": "v1", "kind": kind, "name": name, "uid": "not checked"}
        for kind, name in lots.sample(kinds, lots.randint(0, 3))
    ]


def _jobs(lots: Random, sizes: dict[str, int]) -> list[Document]:
    huge = "9" * 12
    found = []
    for app in APPS[: lots.randint(0, 3)]:
        spec: dict[str, Any] = {
            **lots.choice(
                [
                    {"selector": {"matchLabels": {"app": app}}},
                    {"targetRef": {"apiVersion": "v1", "kind": "Pod", "name": "evil-0"}},
                    {"targetRef": {"apiVersion": "v1", "kind": "Node", "name": "n0"}},
                ]
            ),
            **lots.choice(
                [
                    {"parallelFraction": lots.choice(["0.999", "1", "0.000001"])},
                    {"profile": lots.choice(["lie", "train-n0", "none"])},
                    {"auto": True, "progress": {"http": {"port": 10250, "path": "/"}}},
                    {"auto": True, "progress": {"file": "/proc/1/environ"}},
                ]
            ),
            "work": lots.choice(["1", huge, "0.000000000001"]),
            "minCores": lots.choice([1, max(sizes.values()), MOST_CORES, 2**31 - 1]),
            **lots.choice([{}, {"maxCores": 2**31 - 1}]),
            **lots.choice(
                [
                    {},
                    {"memory": {"demand": "8Ei", "min": "8Ei"}},
                    {"memory": {"demand": "1Gi", "min": "1Gi"}},
                    {"memory": {"demand": "measured"}},
                ]
            ),
            **lots.choice(
                [
                    {},
                    {"colocation": {"avoid": [{"namespace": "alice"}]}},
                    {"colocation": {"participate": False}},
                ]
            ),
            **lots.choice(
                [
                    {},
                    {"deadline": "2h", "progress": {"file": f"/{LONG}", "total": "5"}},
                    {"deadline": "2h", "progress": {"file": f"/{LONG}"[:LONGEST_PATH]}},
                ]
            ),
            "created": lots.choice(["2020-01-01T00:00:00Z", None]),
        }
        found.append(job(app, lots.choice(["bob", "bob", "bob", "alice", "none"]), "bob", **spec))
    return found


def _profiles(lots: Random) -> list[Document]:
    seconds = lots.choice(["0.000000000001", "1", "999999999999"])
    return [
        profile("lie", "bob", parallelFraction=lots.choice(["1", "0.999", "-1", "NaN"])),
        profile(
            "train-n0",
            "bob",
            measurements=[{"cores": c, "seconds": [seconds], "dataSize": "100%"} for c in (1, 2)],
            penalties=[{"profile": lots.choice(["lie", "train-n0"]), "penalty": "0.99"}],
        ),
        document("SpeedupProfile", "status", "bob", spec={}, status={"online": "yes"}),
    ][: lots.randint(0, 3)]


def speedup(fraction: float, cores: float) -> float:
    """Return the speedup by Amdahl's law."""
    return cores / (fraction + (1 - fraction) * cores) if cores > 0 else 0.0


def cores_of(decision: Decision) -> dict[str, float]:
    """Return alice's cores on each node before rounding."""
    assert decision.plan is not None
    return {each.node: each.bought for each in decision.plan.grants if each.namespace == "alice"}


def rounds(known: World, number: int) -> list[Decision]:
    """Return some decisions, each on the outcome of the one before."""
    found = []
    for turn in range(number):
        decision = decide(replace(known, now=f"2026-01-31T12:00:{10 * turn:02d}Z"))
        known = outcome(known, decision)
        found.append(decision)
    return found


tenancies = st.integers(0, 2**48).map(drawn)


@pytest.mark.long
@settings(max_examples=WORLDS)
@given(tenancies)
def test_nothing_that_a_tenant_writes_takes_from_another(cluster: Tenancy) -> None:
    known = world(*cluster.documents, *cluster.attack)
    uids = {
        (each["metadata"]["namespace"], each["metadata"]["name"]): each["metadata"]["uid"]
        for each in (*cluster.documents, *cluster.attack)
        if each["kind"] == "Pod"
    }
    for decision in rounds(known, 2):
        plan = decision.plan
        assert plan is not None
        assert {each.object.namespace for each in decision.jobs} <= {"bob"}
        assert largest(decision) <= LARGEST
        for write in decision.nodes:
            for grant in write.spec["grants"]:
                named = grant["namespace"], grant["name"]
                assert uids[named] == grant["podUID"], "of the pod that it names"
        held = cores_of(decision)
        assert held.keys() == cluster.speedups.keys()
        for each in plan.grants:
            if each.namespace == "alice":
                assert each.memory is None or each.memory >= least_memory(cluster, each.node)
        if cluster.mechanism not in ENTITLES:
            continue
        due = {name: float(cluster.budget * for_sale(cluster, name)) for name in cluster.speedups}
        kept = {each.node: each.floor for each in plan.grants if each.namespace == "alice"}
        if any(kept[name] > due[name] for name in due):
            continue  # what her own pod requested there costs her cores on other nodes
        has = math.fsum(speedup(f, held[name]) for name, f in cluster.speedups.items())
        entitled = math.fsum(speedup(f, due[name]) for name, f in cluster.speedups.items())
        # Where prices decide, she leaves what she has next to no use for (`amdahl.satiation`).
        part = 0.99 if cluster.mechanism == "AmdahlBidding" else 1.0
        assert has >= part * entitled * (1 - 1e-5)


def largest(decision: Decision) -> int:
    """Return the bytes of the largest plan of a node, or status, that a decision writes."""
    written = [each.spec for each in decision.nodes] + [each.status for each in decision.statuses]
    return max((len(json.dumps(each)) for each in written), default=0)


LONGEST = {"file": f"/{LONG}"[:LONGEST_PATH]}
LONGEST_PAGE = {
    "http": {"port": 1, "path": f"/{LONG}"[:LONGEST_PATH], "metric": LONG[:LONGEST_METRIC]}
}


@pytest.mark.parametrize(
    ("spec", "counters"),
    [
        ({"progress": {**LONGEST, "total": "5"}}, 2),
        ({"progress": {**LONGEST_PAGE, "total": "5"}}, 2),
        ({"progress": {"file": f"/{LONG}", "total": "5"}}, 1),
        ({"progress": {"http": {"port": 1, "path": f"/{LONG}"}, "total": "5"}}, 1),
        ({"progress": {"http": {"port": 1, "metric": LONG}, "total": "5"}}, 1),
        ({"selector": {"matchLabels": {f"label-{n}": LONG[:10_000] for n in range(100)}}}, 1),
    ],
    ids=["longest file", "longest page", "long file", "long path", "long metric", "long labels"],
)
def test_no_text_of_a_tenant_makes_a_plan_or_a_status_too_large(
    spec: dict[str, Any], counters: int
) -> None:
    deadline = {"deadline": "2h", "created": "2026-01-31T11:30:00Z"}
    hers = {"progress": {"file": "/progress", "total": "5"}, **deadline}
    known = world(
        market(),
        *(entitlement(name, namespaces=[name]) for name in ("alice", "bob")),
        node("n0"),
        job("train", "alice", "alice", **hers),
        job("evil", "bob", "bob", **{**deadline, **spec}),
        *(pod(f"{app}-0", app, "n0", namespace=user) for user, app in OWNERS.items()),
    )
    pods = [
        each.model_copy(update={"status": each.status.model_copy(update={"pod_ip": "10.0.0.1"})})
        for each in known.objects.pods
    ]
    decision = decide(replace(known, objects=replace(known.objects, pods=pods)))
    (plan,) = decision.nodes
    assert len(plan.spec["counters"]) == counters
    assert largest(decision) <= LARGEST


def for_sale(cluster: Tenancy, name: str) -> int:
    """Return the whole cores that a node sells at least."""
    return cluster.sizes[name] - math.ceil(cluster.taken.get(name, (Fraction(0), 0))[0])


def least_memory(cluster: Tenancy, name: str) -> int:
    """Return the bytes that alice is due on a node: half of her share, in whole slices."""
    slice_, taken = 64 << 20, cluster.taken.get(name, (Fraction(0), 0))[1]
    own = int(cluster.budget * (16 * GIB - taken) / 2 / slice_) - 1
    return max(0, min(cluster.demand, own * slice_))
