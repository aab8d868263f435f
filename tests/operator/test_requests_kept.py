"""Requests that the market keeps: for which pods, in which unit, and what the operator says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from whole_decisions import decide
from worlds import condition, entitlement, job, market, node, outcome, pod, status, world

if TYPE_CHECKING:
    from walras_operator.decide.world import Document
    from whole_decisions import Decision

FLOORS = ["None", "Guaranteed", "Requests"]


def guaranteed(document: Document) -> Document:
    """Limit the containers of a pod to what they request."""
    for container in document["spec"]["containers"]:
        container["resources"]["limits"] = container["resources"]["requests"]
    return document


def crowd() -> list[Document]:
    """Return seven pods of another user, each with a job of its own and a small request."""
    names = [f"other-{number}" for number in range(7)]
    jobs = [job(name, "other") for name in names]
    return [
        entitlement("other", shares=7),
        *jobs,
        *(pod(f"{name}-0", name, cpu="10m") for name in names),
    ]


def decided(train: Document, floor: str | None, cpu: str = "8", **cores: Any) -> Decision:
    rules = cores if floor is None else {"floor": floor, **cores}
    mine = [entitlement(), job("train"), train]
    return decide(world(market(cores=rules), node(cpu=cpu), *mine, *crowd()))


def granted(decision: Decision) -> tuple[float, str]:
    (told,) = status(decision, "MarketJob", "train", "lab")["pods"]
    return float(told["held"]), told["reason"]


@pytest.mark.parametrize("floor", [None, *FLOORS])
@pytest.mark.parametrize("class_", ["Guaranteed", "Burstable"])
def test_the_market_says_which_pods_keep_their_requests(floor: str | None, class_: str) -> None:
    train = pod("train-0", cpu="4")
    decision = decided(guaranteed(train) if class_ == "Guaranteed" else train, floor)
    cores, reason = granted(decision)
    if floor in {None, "Requests"} or (class_ == "Guaranteed" and floor == "Guaranteed"):
        assert cores == 4
        assert "buys 4.00 cores" in reason
        assert "no less than it requested" in reason
    else:
        assert cores == 1
        assert "less than its request of 4 cores, which spec.cores.floor of the Market" in reason


@pytest.mark.parametrize(("pods", "request_"), [(7, "1010m"), (5, "1500m"), (3, "2500m")])
def test_requests_that_are_not_whole_take_nothing_from_others(pods: int, request_: str) -> None:
    mine = [pod(f"train-{each}", "train", cpu=request_) for each in range(pods)]
    decision = decide(
        world(
            market(),
            node(cpu="16"),
            entitlement(),
            entitlement("other"),
            job("train"),
            job("rival", "other"),
            *mine,
            pod("rival-0", "rival", cpu="0"),
        )
    )
    assert decision.plan is not None
    held = {user.name: user.held for user in decision.plan.users}
    assert held == pytest.approx({"vision": 8, "other": 8}, abs=1e-3)
    assert all(grant.keeps_request for grant in decision.plan.grants)


def test_the_class_in_the_status_counts_where_it_is_known() -> None:
    """The API server states it; a pod in a file may not."""
    known = pod("train-0", cpu="4")
    known["status"]["qosClass"] = "Guaranteed"
    assert granted(decided(known, "Guaranteed"))[0] == 4
    known = guaranteed(pod("train-0", cpu="4"))
    known["status"]["qosClass"] = "Burstable"
    assert granted(decided(known, "Guaranteed"))[0] == 1


def test_a_pod_that_no_kubelet_has_admitted_keeps_nothing() -> None:
    """Anybody can create a pod with a nodeName and a request as large as the node."""
    forged = guaranteed(pod("train-0", cpu="8", phase="Pending"))
    assert granted(decided(forged, None))[0] <= 1


def test_a_request_counts_in_the_unit_of_sale() -> None:
    """Eight CPUs are four cores of two threads, and a request of four CPUs is two cores."""
    train = guaranteed(pod("train-0", cpu="4"))
    before = world(market(), node(), entitlement(), job("train"), train, *crowd())
    running = outcome(before, decide(before))
    status = {"topology": {"cores": 4, "threads": 8, "sockets": 1}}
    reported = running.allocations["n1"].model_copy(update={"status": status})
    cores, reason = granted(decide(replace(running, allocations={"n1": reported})))
    assert cores == 2
    assert "no less than it requested" in reason


def test_requests_that_do_not_fit_are_a_condition() -> None:
    """The Market keeps 5 of 8 cores for others, and the pod requested 4."""
    train = guaranteed(pod("train-0", cpu="4"))
    decision = decided(train, None, reservedCores=5)
    state, reason, message = condition(decision, "MarketJob", "train", "lab", type_="RequestsKept")[
        :3
    ]
    assert (state, reason) == ("False", "Overcommitted")
    assert "Pod train-0 requested 4 cores of n1 and keeps 2" in message
    assert "reservedCores" in message
    kept = status(decided(train, None), "MarketJob", "train", "lab")
    assert "RequestsKept" not in {each["type"] for each in kept["conditions"]}
