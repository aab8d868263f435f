"""Problems that `walras check` finds in the objects of a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from walras_cli.cluster.check.check_command import CheckPage
from walras_cli.cluster.check.findings import ENFORCE, findings
from walras_cli.cluster.check.seen import Seen
from worlds import document, entitlement, job, market, pod

if TYPE_CHECKING:
    from walras_operator.decide.world import Document

TRAIN = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "train"}


def market_job(cores: str = "8") -> Document:
    """Return a MarketJob of the Deployment train, whose pod has a grant."""
    made = job("train", targetRef=TRAIN)
    held = {"podUID": "u-lab-p", "name": "p", "state": "Enforced", "cores": "8"}
    made["status"] = {"pods": [held | {"held": cores}]}
    return made


def autoscaler(**target: Any) -> Document:
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    spec = {"scaleTargetRef": TRAIN, "metrics": [metric]}
    return document("HorizontalPodAutoscaler", "grow", "lab", spec=spec)


def namespace(name: str, **labels: str) -> Document:
    return document("Namespace", name, metadata={"labels": labels})


def agents(ready: int = 1, where: str = "walras-system") -> Document:
    status = {"desiredNumberScheduled": 1, "numberReady": ready}
    return document("DaemonSet", "walras-agent", where, status=status)


GOOD = Seen(
    jobs=[market_job()],
    entitlements=[entitlement("vision")],
    namespaces=[
        namespace("lab", **{"walras.dev/entitlement": "vision"}),
        namespace("walras-system"),
    ],
    pods=[pod("p", cpu="8")],
    agents=[agents()],
    autoscalers=[autoscaler(averageUtilization=80)],
)


def said(seen: Seen) -> list[tuple[str, str, str]]:
    return [(each.level, each.object, each.message) for each in findings(seen)]


def test_a_tenants_daemonset_is_no_agent_whatever_its_labels() -> None:
    restricted = [namespace(each, **{ENFORCE: "restricted"}) for each in ("lab", "market")]
    forged = replace(GOOD, namespaces=restricted, agents=[agents(), agents(0, "lab")])
    assert said(forged) == []
    there = {**market(), "status": {"operatorNamespace": "market"}}
    elsewhere = replace(forged, markets=[there], agents=[agents(0, "lab"), agents(0, "market")])
    assert [each[:2] for each in said(elsewhere)] == [
        ("error", "Namespace market"),
        ("warning", "DaemonSet market/walras-agent"),
    ]


def test_a_good_cluster_has_no_findings() -> None:
    assert said(GOOD) == []
    (line,) = CheckPage((), ()).render(wide=False)
    assert "no problems found" in str(line)


def on_kernel(node: str, mode: str, *, assumed: bool = False) -> Document:
    """Return what the agent of a node reports of its kernel."""
    kernel = {"release": "7.3.4", "cgroupMode": mode, "assumed": assumed}
    return document("NodeAllocation", node, status={"kernel": kernel})


CASES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "the agents' namespace is not privileged": (
        {"namespaces": [namespace("walras-system", **{ENFORCE: "baseline"})]},
        "error",
        "Namespace walras-system",
        (
            "enforces the Pod Security level baseline, so no agent can start; label it: "
            f"kubectl label namespace walras-system {ENFORCE}=privileged"
        ),
    ),
    "agents are not ready": (
        {"agents": [agents(ready=0)]},
        "warning",
        "DaemonSet walras-system/walras-agent",
        "0 of 1 agents are ready",
    ),
    "a node cannot enforce grants": (
        {
            "allocations": [
                document(
                    "NodeAllocation",
                    "n1",
                    status={
                        "conditions": [
                            {"type": "Ready", "reason": "Failed", "message": "the static policy"}
                        ]
                    },
                )
            ]
        },
        "error",
        "NodeAllocation n1",
        "the static policy",
    ),
    "a kernel counts weights by threads": (
        {"allocations": [on_kernel("n1", "concur"), on_kernel("n2", "smp")]},
        "warning",
        "Node n1",
        "echo smp > /sys/kernel/debug/sched/cgroup_mode",
    ),
    "kernels have another mode": (
        {"allocations": [on_kernel("n1", "tasks"), on_kernel("n2", "tasks")]},
        "warning",
        "Nodes n1, n2",
        "7.3.4 counts a pod's weight by what its threads do (cgroup_mode tasks)",
    ),
    "an agent cannot see how its kernel counts weights": (
        {"allocations": [on_kernel("n1", "concur", assumed=True)]},
        "warning",
        "Node n1",
        "(cgroup_mode concur, by default: the agent cannot read what is set)",
    ),
    "an agent refuses to write": (
        {
            "allocations": [
                document(
                    "NodeAllocation",
                    "n1",
                    status={
                        "conditions": [
                            {"type": "Ready", "reason": "Refused", "message": "no configuration"}
                        ]
                    },
                )
            ]
        },
        "error",
        "NodeAllocation n1",
        "no configuration",
    ),
    "a namespace's entitlement does not admit it": (
        {"namespaces": [namespace("web", **{"walras.dev/entitlement": "vision"})]},
        "warning",
        "Namespace web",
        "label walras.dev/entitlement: entitlement vision does not admit namespace web; have it",
    ),
    "a namespace's entitlement does not exist": (
        {"namespaces": [namespace("web", **{"walras.dev/entitlement": "none"})]},
        "warning",
        "Namespace web",
        "label walras.dev/entitlement: entitlement none does not exist; create it",
    ),
    "an autoscaler sees a use above requests": (
        {"pods": [pod("p", cpu="2")]},
        "warning",
        "HorizontalPodAutoscaler lab/grow",
        "a pod of MarketJob lab/train holds 4 times its request: it will add pods; scale on",
    ),
    "a recommender restarts pods": (
        {
            "recommenders": [
                document("VerticalPodAutoscaler", "fit", "lab", spec={"targetRef": TRAIN})
            ]
        },
        "warning",
        "VerticalPodAutoscaler lab/fit",
        "in mode Auto, it restarts pods of MarketJob lab/train",
    ),
    "a pod holds less than it requests": (
        {"jobs": [market_job("0.5")], "autoscalers": []},
        "warning",
        "MarketJob lab/train",
        "a pod that requests 8 CPUs holds 0.5)",
    ),
}


@pytest.mark.parametrize(("change", "level", "name", "message"), CASES.values(), ids=CASES.keys())
def test_what_works_against_the_market_is_named(
    change: dict[str, Any], level: str, name: str, message: str
) -> None:
    ((found_level, found_name, text),) = said(replace(GOOD, **change))
    assert (found_level, found_name) == (level, name)
    assert message in text


def test_an_autoscaler_on_an_average_value_is_no_matter() -> None:
    seen = replace(GOOD, pods=[pod("p", cpu="2")], autoscalers=[autoscaler(averageValue="2")])
    assert said(seen) == []


@pytest.mark.system  # the page's output loads the client of the API server
def test_what_may_not_be_seen_is_said() -> None:
    page = CheckPage((), ("list nodes",))
    assert "you have no right to list nodes" in str(page.render(wide=False)[1])
    assert page.document() == {"findings": [], "withheld": ["list nodes"]}
    blind = replace(GOOD, entitlements=[], withheld=["list entitlements.walras.dev"])
    assert said(blind) == []


def test_a_core_of_two_hyperthreads_is_two_of_the_cpus_that_a_pod_requests() -> None:
    """Sold by the core, four cores are the eight CPUs of the request; sold by the thread, four."""
    made = market_job("4")
    made["status"]["pods"][0]["node"] = "n1"
    topology = {"cores": 8, "threads": 16, "sockets": 1}
    node = document("NodeAllocation", "n1", status={"topology": topology})
    seen = replace(GOOD, jobs=[made], allocations=[node], markets=[market()])
    assert said(seen) == []
    ((_, about, message),) = said(replace(seen, markets=[market(cores={"unit": "thread"})]))
    assert about == "MarketJob lab/train"
    assert "requests 8 CPUs holds 4)" in message
