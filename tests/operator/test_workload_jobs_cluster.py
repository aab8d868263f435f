"""Labelled workloads have MarketJobs on a real API server, and owners above owners are found.

There is no kubelet, and where controllers run, they know nothing of the kinds that are made here.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from installing import install
from market_cluster import OURS, MarketCluster
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from walras_service.api_errors import ApiError
from worlds import entitlement, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_cluster

Document = dict[str, Any]
RAY = "/apis/ray.io/v1"


def definition(kind: str) -> Document:
    """A kind of Ray's, whose objects may have any content."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.ray.io"},
        "spec": {
            "group": "ray.io",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


class Workloads:
    """A namespace with a node, in which workloads are made."""

    def __init__(self, folder: Path) -> None:
        self.cluster = MarketCluster(KUBECONFIG, folder)
        self.api = self.cluster.api
        self.name = f"workloads-{time.time_ns() % 10**10}"

    def begin(self) -> None:
        self.cluster.namespace(self.name)
        for kind in ("RayJob", "RayCluster"):
            install(self.api, definition(kind))
        self.cluster.make(
            market(epochSeconds=5),
            entitlement(self.name, namespaces=[self.name]),
            node(self.name),
        )
        self.cluster.agents_live([self.name])
        self.cluster.start_operator()

    def close(self) -> None:
        """Remove all objects, owners first, since there is no controller that removes them."""
        self.cluster.stop_operator()
        places = {"batch/v1": ("jobs",), "ray.io/v1": ("rayjobs", "rayclusters")}
        for group, plurals in {**places, "walras.dev/v1alpha1": ("marketjobs",)}.items():
            for plural in plurals:
                with suppress(ApiError):
                    path = f"/apis/{group}/namespaces/{self.name}/{plural}"
                    self.api.request("DELETE", path)
        self.cluster.close()

    def create(self, base: str, plural: str, document: Document) -> Document:
        return self.api.request("POST", f"{base}/namespaces/{self.name}/{plural}", document)

    def pod(self, name: str, owner: Document, *, controller: bool, label: str | None) -> None:
        made = pod(name, "any", self.name, namespace=self.name)
        reference = {**reference_to(owner), "controller": controller}
        made["metadata"]["ownerReferences"] = [reference]
        if label is not None:
            made["metadata"]["labels"]["walras.dev/job"] = label
        self.cluster.make(made)

    def job(self, name: str) -> Document:
        return self.cluster.read(f"{OURS}/namespaces/{self.name}/marketjobs/{name}") or {}

    def granted(self, name: str, workload: str, pods: int = 1) -> bool:
        """Whether a MarketJob says that all its pods have a grant."""
        status = self.job(name).get("status", {})
        return bool(
            status.get("workload") == f"auto ({workload})"
            and status.get("counts", {}).get("granted") == pods
        )


def reference_to(owner: Document) -> Document:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }


@pytest.fixture
def workloads(tmp_path: Path) -> Iterator[Workloads]:
    made = Workloads(tmp_path)
    try:
        made.begin()
        yield made
    finally:
        made.close()


def ray(kind: str, name: str, *owners: Document) -> Document:
    metadata = {"name": name, "ownerReferences": list(owners)}
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata}


def test_the_pods_of_a_rayjob_are_one_job(workloads: Workloads) -> None:
    top = workloads.create(RAY, "rayjobs", ray("RayJob", "night"))
    above = {**reference_to(top), "controller": True}
    middle = workloads.create(RAY, "rayclusters", ray("RayCluster", "night-x7", above))
    workloads.pod("head", middle, controller=True, label="")
    assert eventually(lambda: workloads.granted("night", "RayJob/night"), 30)
    (owner,) = workloads.job("night")["metadata"]["ownerReferences"]
    assert owner["uid"] == top["metadata"]["uid"]
    head = workloads.cluster.read(f"/api/v1/namespaces/{workloads.name}/pods/head")
    assert head is not None
    workloads.pod("helper", {**head, "apiVersion": "v1", "kind": "Pod"}, controller=True, label="")
    assert eventually(lambda: workloads.granted("night", "RayJob/night", pods=2), 30)
