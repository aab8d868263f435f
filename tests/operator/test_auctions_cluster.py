"""Jobs with objectives under overload: the real operator on a real API server, killed on the way.

There is no kubelet, and what agents would write is written here: what it is about is what the
operator decides, what it leaves in the cluster, and that the next one goes on from there.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from market_cluster import OURS, MarketCluster
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from worlds import entitlement, job, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_cluster

Document = dict[str, Any]

BUDGETS = {"gold": "4", "silver": "3", "bronze": "1"}
MINIMUM = "0.4"
CORES = 9
FULL = {"gold": "Met", "silver": "Met", "bronze": "Unaffordable"}


class Overloaded:
    """A node that two of three jobs can have their objectives on."""

    def __init__(self, folder: Path) -> None:
        self.cluster = MarketCluster(KUBECONFIG, folder)
        self.name = f"auctions-{time.time_ns() % 10**10}"

    def begin(self) -> None:
        """Create the market and its three jobs, and pods of two of them."""
        self.cluster.namespace(self.name)
        rules = {"mechanism": "Auction", "hysteresis": "0.02"}
        self.cluster.make(
            market(cores=rules, epochSeconds=2),
            entitlement(self.name, namespaces=[self.name]),
            node(self.name, str(CORES)),
            *(
                job(name, self.name, self.name, auction={"budget": each, "minimumUtility": MINIMUM})
                for name, each in BUDGETS.items()
            ),
        )
        self.add("gold")
        self.add("silver")
        self.cluster.agents_live([self.name])
        self.cluster.start_operator()

    def add(self, name: str) -> None:
        self.cluster.make(pod(f"{name}-0", name, self.name, namespace=self.name))

    def remove(self, name: str) -> None:
        self.cluster.delete(f"/api/v1/namespaces/{self.name}/pods/{name}-0")

    def mechanism(self, name: str) -> None:
        spec = {"spec": {"cores": {"mechanism": name}}}
        self.cluster.change(f"{OURS}/markets/default", spec)

    def status(self, name: str) -> Document:
        found = self.cluster.read(f"{OURS}/namespaces/{self.name}/marketjobs/{name}") or {}
        status: Document = found.get("status", {})
        return status

    def objectives(self) -> dict[str, str]:
        """Return the reason why each job's objective is met or not."""
        return {
            name: each["reason"]
            for name in BUDGETS
            for each in self.status(name).get("conditions", ())
            if each["type"] == "ObjectiveMet"
        }

    def cores(self) -> dict[str, int]:
        """Whole cores that pods have for themselves, as the node's plan says."""
        found = self.cluster.read(f"{OURS}/nodeallocations/{self.name}") or {"spec": {}}
        grants = found["spec"].get("grants") or ()
        return {each["name"].partition("-")[0]: int(float(each["cores"])) for each in grants}

    def said(self, **objectives: str) -> bool:
        return self.objectives() == {"bronze": "NoAuction", **objectives}


@pytest.fixture
def overloaded(tmp_path: Path) -> Iterator[Overloaded]:
    made = Overloaded(tmp_path)
    try:
        made.begin()
        yield made
    finally:
        made.cluster.close()


def test_objectives_under_overload_are_kept_whoever_is_killed(
    overloaded: Overloaded,
) -> None:
    assert eventually(lambda: overloaded.said(gold="Met", silver="Met"), 60)

    for delay in (0.0, 0.3, 1.0):
        overloaded.add("bronze")
        time.sleep(delay)
        overloaded.cluster.stop_operator(kill=True)
        overloaded.cluster.start_operator()
        assert eventually(lambda: overloaded.objectives() == FULL, 60), overloaded.objectives()
        assert overloaded.cores() == {"gold": 3, "silver": 3, "bronze": 1}
        reason = overloaded.status("bronze")["pods"][0]["reason"]
        assert "costs more than" in reason

        overloaded.remove("bronze")
        assert eventually(lambda: overloaded.said(gold="Met", silver="Met"), 60)

    overloaded.add("bronze")
    overloaded.remove("silver")
    free = {"gold": "Met", "silver": "NoAuction", "bronze": "Met"}
    assert eventually(lambda: overloaded.objectives() == free, 60), overloaded.objectives()


def test_another_mechanism_on_a_running_cluster_moves_no_more_cores_than_it_must(
    overloaded: Overloaded,
) -> None:
    """A core at most goes from one job to the other, and none with a new operator."""
    assert eventually(lambda: overloaded.said(gold="Met", silver="Met"), 60)
    auctioned = overloaded.cores()
    overloaded.mechanism("AmdahlBidding")
    assert eventually(lambda: overloaded.objectives()["gold"] == "NoAuction", 60), (
        overloaded.objectives()
    )
    assert "auction" not in overloaded.status("gold")
    priced = overloaded.cores()
    assert sum(abs(priced[name] - cores) for name, cores in auctioned.items()) <= 2
    overloaded.cluster.stop_operator(kill=True)
    overloaded.cluster.start_operator()
    assert overloaded.cores() == priced
    overloaded.mechanism("Auction")
    assert eventually(lambda: overloaded.said(gold="Met", silver="Met"), 60)
    again = overloaded.cores()
    assert sum(abs(again[name] - cores) for name, cores in priced.items()) <= 2
