"""Entitlements follow Kueue's queues and ResourceQuotas on a real API server.

Kueue's kinds are definitions of our own, and a part of the tests plays its admission. The operator
is the real one, with no other rights than those that the chart gives it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from installing import install
from kueue import (
    GROUP,
    PLURALS,
    PlayedKueue,
    cluster_queue,
    cohort,
    condition,
    definitions,
    local_queue,
    workload,
)
from market_cluster import DEFINITIONS, OURS, SYSTEM, MarketCluster
from real_cluster import KUBECONFIG, RIGHTS, RealCluster, needs_cluster
from rights import FOLLOWING_RULES, OPERATOR_OWN_RULES, OPERATOR_RULES, QUOTA_RULES
from waiting import eventually
from walras_service.api_errors import ApiError
from worlds import entitlement, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = needs_cluster

Document = dict[str, Any]

A_DECISION = 10
"""Seconds in which what has changed is decided upon on a slow machine; epochs are far longer."""


class Followed:
    """A market whose Entitlements follow quotas, with a node and the namespaces lab and shop."""

    def __init__(self, folder: Path, source: str, version: str = "v1beta2") -> None:
        self.source = source
        self.name = f"follow-{time.time_ns() % 10**10}"
        self.lab, self.shop = f"{self.name}-lab", f"{self.name}-shop"
        self.cluster = MarketCluster(KUBECONFIG, folder)
        self.api = self.cluster.api
        self.account = RealCluster(self.name, folder)
        self.cluster.kubeconfig = str(self.account.kubeconfig())
        self.kueue = PlayedKueue(self.api, version)

    def begin(self) -> None:
        for each in (self.lab, self.shop):
            self.cluster.namespace(each)
        self.cluster.make(
            market(epochSeconds=600, entitlements={"from": self.source}), node(self.name)
        )
        self.cluster.agents_live([self.name])
        self.may(OPERATOR_RULES, "")
        role = self.account.role("Role", OPERATOR_OWN_RULES)
        here = self.account.objects.create_namespaced_custom_object
        here(*RIGHTS, SYSTEM, "roles", role)
        here(*RIGHTS, SYSTEM, "rolebindings", self.account.binding("Role"))
        self.cluster.start_operator()

    def may(self, rules: list[dict[str, list[str]]], suffix: str) -> None:
        """Give the operator more rights in the whole cluster."""
        role, binding = self.account.role("ClusterRole", rules), self.account.binding("ClusterRole")
        for each in (role, binding):
            each["metadata"]["name"] += suffix
        binding["roleRef"]["name"] += suffix
        create = self.account.objects.create_cluster_custom_object
        create(*RIGHTS, "clusterroles", role)
        create(*RIGHTS, "clusterrolebindings", binding)

    def close(self) -> None:
        self.cluster.stop_operator()
        for each in self.api.request("GET", f"{OURS}/entitlements")["items"]:
            self.cluster.delete(f"{OURS}/entitlements/{each['metadata']['name']}")
        for plural, _ in PLURALS.values():
            with suppress(ApiError):
                self.cluster.delete(f"{DEFINITIONS}/{plural}.{GROUP}")
        for kind in ("roles", "rolebindings"):
            with suppress(ApiError):
                path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{SYSTEM}/{kind}/{self.name}"
                self.cluster.delete(path)
        self.cluster.close()
        self.account.close()

    def spec(self, name: str) -> Document:
        """Return the spec of an Entitlement; empty if there is none."""
        found: Document = (self.cluster.read(f"{OURS}/entitlements/{name}") or {}).get("spec", {})
        return found

    def shares(self, *names: str) -> list[int]:
        return [self.spec(name).get("shares", 0) for name in names]

    def status(self, name: str) -> Document:
        found = self.cluster.read(f"{OURS}/entitlements/{name}") or {}
        return dict(found.get("status") or {})

    def reason(self) -> str:
        """Return the reason of the Market's condition."""
        found = self.cluster.read(f"{OURS}/markets/default") or {}
        conditions = {each["type"]: each for each in found["status"]["conditions"]}
        return str(conditions.get("QuotasFollowed", {}).get("reason", ""))

    def log(self) -> str:
        return (self.cluster.folder / "operator.log").read_text()


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Callable[..., Followed]]:
    made: list[Followed] = []

    def begin(source: str, version: str = "v1beta2") -> Followed:
        made.append(Followed(tmp_path, source, version))
        made[-1].begin()
        return made[-1]

    yield begin
    for each in made:
        each.close()


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_entitlements_follow_queues_of_kueue_which_is_installed_later(
    follow: Callable[..., Followed], version: str
) -> None:
    scene = follow("Kueue", version)
    kueue, lab, shop = scene.kueue, scene.lab, scene.shop
    assert eventually(lambda: scene.reason() == "KueueMissing", A_DECISION), scene.log()
    for each in definitions(version):
        install(scene.api, each)
    assert eventually(lambda: scene.reason() == "QuotasForbidden", 60), scene.log()
    scene.may([*FOLLOWING_RULES, *QUOTA_RULES["Kueue"]], "-more")
    assert eventually(lambda: scene.reason() == "Followed", 60), scene.log()

    # Queues of one cohort, and a quota that changes.
    kueue.make(
        cluster_queue("team-a", "6", "2", cohort="all", version=version),
        cluster_queue("team-b", "4", cohort="all", version=version),
        cohort("all", version=version),
        local_queue(lab, "main", "team-a", version=version),
        local_queue(shop, "main", "team-b", version=version),
    )
    wanted = {"shares": 8000, "parent": "cohort-all", "namespaces": [lab]}
    assert eventually(lambda: scene.spec("team-a") == wanted, A_DECISION), scene.log()
    assert eventually(lambda: scene.shares("cohort-all", "team-b") == [12000, 4000], A_DECISION)
    more = cluster_queue("team-b", "8", cohort="all", version=version)
    kueue.change("ClusterQueue", "team-b", {"spec": more["spec"]})
    assert eventually(lambda: scene.shares("cohort-all", "team-b") == [16000, 8000], A_DECISION)

    # What is admitted beyond a quota, what waits, and what is given back.
    kueue.make(
        workload(lab, "large", "main", "3", pods=4, owner="u-large", version=version),
        workload(lab, "next", "main", "5", version=version),
    )
    assert kueue.admit() == ["large"]
    assert eventually(lambda: scene.shares("team-a", "team-b") == [12000, 4000], A_DECISION)
    waits = {"workloads": 1, "cpus": "5"}
    assert eventually(lambda: scene.status("team-a").get("waiting") == waits, A_DECISION)
    ended = {"status": {"conditions": [condition("Finished")]}}
    path = kueue.path("Workload", lab, "large", "status")
    scene.cluster.change(path, ended)
    assert eventually(lambda: scene.shares("team-a", "team-b") == [8000, 8000], A_DECISION)
    kueue.delete("Workload", "large", lab)
    assert kueue.admit() == ["next"]
    assert eventually(lambda: "waiting" not in scene.status("team-a"), A_DECISION)

    # What somebody has written stays, and what follows a queue goes with it.
    scene.cluster.make(entitlement("team-c", shares=7, namespaces=[lab]))
    kueue.make(cluster_queue("team-c", "1", version=version))
    assert eventually(lambda: scene.reason() == "NameTaken", A_DECISION)
    assert scene.shares("team-c") == [7]
    kueue.delete("ClusterQueue", "team-b")
    assert eventually(lambda: not scene.spec("team-b"), A_DECISION)
    assert scene.shares("cohort-all") == [8000]

    # Kueue is removed, and with its definitions all queues.
    kueue.delete("Workload", "next", lab)
    for plural, _ in PLURALS.values():
        scene.cluster.delete(f"{DEFINITIONS}/{plural}.{GROUP}")
    assert eventually(lambda: scene.reason() == "KueueMissing", 60), scene.log()
    assert scene.shares("team-c") == [7]
    assert "not published" not in scene.log()


def test_pods_of_a_namespace_with_a_quota_draw_on_its_entitlement(
    follow: Callable[..., Followed],
) -> None:
    scene = follow("ResourceQuota")
    scene.may([*FOLLOWING_RULES, *QUOTA_RULES["ResourceQuota"]], "-more")
    assert eventually(lambda: scene.reason() == "Followed", 60), scene.log()
    place = f"/api/v1/namespaces/{scene.lab}/resourcequotas"
    quota = {"metadata": {"name": "cpus"}, "spec": {"hard": {"requests.cpu": "12"}}}
    scene.api.request("POST", place, quota)
    wanted = {"shares": 12000, "namespaces": [scene.lab]}
    assert eventually(lambda: scene.spec(scene.lab) == wanted, A_DECISION), scene.log()
    scene.cluster.make(
        pod("p", place=scene.name, namespace=scene.lab, labels={"walras.dev/job": ""})
    )
    assert eventually(lambda: scene.status(scene.lab).get("pods") == 1, A_DECISION), scene.log()
    scene.cluster.change(f"{place}/cpus", {"spec": {"hard": {"requests.cpu": "3500m"}}})
    assert eventually(lambda: scene.shares(scene.lab) == [3500], A_DECISION)
    scene.cluster.delete(f"{place}/cpus")
    assert eventually(lambda: not scene.spec(scene.lab), A_DECISION)
