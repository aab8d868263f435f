"""Nodes as clouds make them sell what their system pods leave, in thousandths of a core.

Allocatable CPUs and the requests of system pods are those of the clouds' documentation.
"""

from __future__ import annotations

import pytest

from walras_api.assembly import Objects, assemble
from walras_api.cluster import NodeObject, Pod

NODES = {
    "EKS, m5.xlarge": ("3920m", {"aws-node": "50m", "kube-proxy": "100m", "coredns": "100m"}, 3.67),
    "GKE, e2-standard-4": ("3920m", {"fluentbit-gke": "105m", "kube-proxy": "100m"}, 3.715),
    "GKE, e2-medium": ("940m", {"fluentbit-gke": "105m", "netd": "2m"}, 0.833),
    "AKS, D4s": ("3860m", {"azure-npm": "250m", "kube-proxy": "100m"}, 3.51),
    "kubeadm": ("4", {"coredns": "100m", "kube-proxy": None}, 3.9),
    "all in use": ("1930m", {"big": "1930m"}, 0),
}


@pytest.mark.parametrize(("cpus", "pods", "sold"), NODES.values(), ids=NODES.keys())
def test_a_node_sells_what_its_system_pods_leave(
    cpus: str, pods: dict[str, str | None], sold: float
) -> None:
    node = {"allocatable": {"cpu": cpus, "memory": "14Gi", "pods": "58"}}
    resources = {name: {"requests": {"cpu": cpu}} if cpu else {} for name, cpu in pods.items()}
    snapshot, notes, *_ = assemble(
        Objects(
            nodes=[
                NodeObject.model_validate(
                    {"kind": "Node", "metadata": {"name": "n"}, "status": node}
                )
            ],
            pods=[
                Pod.model_validate(
                    {
                        "kind": "Pod",
                        "metadata": {"name": name, "namespace": "kube-system"},
                        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": each}]},
                        "status": {"phase": "Running"},
                    }
                )
                for name, each in resources.items()
            ],
        )
    )
    (found,) = snapshot.nodes
    assert found.cores == sold
    assert notes == (
        () if sold else ("Node n: other pods and the reserved cores use all 1.93 CPUs",)
    )
