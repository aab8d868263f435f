"""The policy that binds agents to their nodes, by the engine of a real API server.

helm asks that server whether to bring it. Agents have the roles of the chart and the tokens of
their pods, by which the server knows the node.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from admission import read_definitions
from chart import CHART, helm, needs_helm, of_kind
from live_api import API, RefusedError
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [needs_helm, needs_cluster]

Document = dict[str, Any]

NAMESPACE = "walras-policy-test"
ALLOCATIONS = "/apis/walras.dev/v1alpha1/nodeallocations"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
RIGHTS, POLICIES = "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
WHERE = {
    "ClusterRole": f"{RIGHTS}/clusterroles",
    "ClusterRoleBinding": f"{RIGHTS}/clusterrolebindings",
    "Role": f"{RIGHTS}/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"{RIGHTS}/namespaces/{NAMESPACE}/rolebindings",
    "ServiceAccount": f"{CORE}/serviceaccounts",
    "ValidatingAdmissionPolicy": f"{POLICIES}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{POLICIES}/validatingadmissionpolicybindings",
}
"""Paths of the objects that limit agents; the policies come last, since only they refuse."""


def lease(name: str, holder: str) -> Document:
    head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
    return {**head, "spec": {"holderIdentity": holder}}


class Agent:
    """Somebody who writes what an agent does."""

    def __init__(self, api: API) -> None:
        self._api = api

    def answer(self, node: str) -> Document:
        """Write the status of a node's NodeAllocation."""
        return self._api.call("PATCH", f"{ALLOCATIONS}/{node}/status", {"status": {"epoch": 1}})

    def renew(self, name: str, holder: str) -> Document:
        """Make or change a Lease."""
        return self._api.apply(f"{LEASES}/{name}", lease(name, holder), "agent")


class Cluster:
    """Two nodes with an agent each, whom the chart gives rights and binds by its policy."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self.folder = folder
        self.api, self._opened = API.connect(KUBECONFIG), opened
        opened.enter_context(self.api.installed(read_definitions().values()))
        self._make("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        where = ["--namespace", NAMESPACE, "--dry-run=server", "--set", "image.registry=localhost"]
        text = helm("template", "walras", str(CHART), *where)
        documents = [each for each in yaml.safe_load_all(text) if each]
        for kind, path in WHERE.items():
            for name, each in of_kind(kind, documents).items():
                if name == "walras-agent":
                    self._make(path, each)
        for node in "ab":
            self._make("/api/v1/nodes", {"metadata": {"name": node}})
            self._make(f"{CORE}/pods", _pod(node))
            spec = {"epoch": 1, "grants": []}
            head = {"apiVersion": "walras.dev/v1alpha1", "kind": "NodeAllocation"}
            self._make(ALLOCATIONS, {**head, "metadata": {"name": node}, "spec": spec})

    def _make(self, path: str, document: Document) -> None:
        self._opened.enter_context(self.api.made(path, document))

    def agent(self, node: str) -> Agent:
        """Return the agent of a node; if empty, one whose token is bound to no node."""
        reference = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": f"agent-{node}"}}
        body = {"spec": {"audiences": [], **(reference if node else {})}}
        path = f"{CORE}/serviceaccounts/walras-agent/token"
        token = self.api.call("POST", path, body)["status"]["token"]
        document = yaml.safe_load(Path(KUBECONFIG).read_text())
        document["users"] = [
            {"name": each["name"], "user": {"token": token}} for each in document["users"]
        ]
        file = self.folder / f"agent-{time.monotonic_ns()}"
        file.write_text(yaml.safe_dump(document))
        return Agent(API.connect(str(file)))

    def is_guarded(self) -> bool:
        """Return whether the policy is in force, so that it refuses what is always refused."""
        try:
            self.agent("").answer("a")
        except RefusedError as refused:
            return "ValidatingAdmissionPolicy" in refused.message
        return False


def _pod(node: str) -> Document:
    containers = [{"name": "agent", "image": "none"}]
    spec = {"nodeName": node, "serviceAccountName": "walras-agent", "containers": containers}
    return {"metadata": {"name": f"agent-{node}"}, "spec": spec}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ExitStack() as opened:
        made = Cluster(tmp_path_factory.mktemp("policy"), opened)
        assert eventually(made.is_guarded, 60, pause=0.2)
        yield made


def test_what_is_its_own_nodes_an_agent_may_write(cluster: Cluster) -> None:
    agent = cluster.agent("a")
    assert agent.answer("a")["status"]["epoch"] == 1
    for _ in range(2):  # it is made, then changed
        assert agent.renew("walras-agent-a", "a")["spec"]["holderIdentity"] == "a"


def test_the_status_of_another_node_it_may_not_write(cluster: Cluster) -> None:
    with pytest.raises(RefusedError, match="agent of a may write only the status of its own") as no:
        cluster.agent("a").answer("b")
    assert no.value.code == 403


@pytest.mark.parametrize(
    ("name", "holder"), [("walras-agent-b", "b"), ("walras-agent-a", "b"), ("walras-operator", "a")]
)
def test_no_other_lease_and_no_other_holder(cluster: Cluster, name: str, holder: str) -> None:
    with pytest.raises(RefusedError, match="agent of a may write only the Lease") as no:
        cluster.agent("a").renew(name, holder)
    assert no.value.code == 403


def test_a_token_that_is_bound_to_no_node_may_write_nothing(cluster: Cluster) -> None:
    agent = cluster.agent("")
    with pytest.raises(RefusedError, match="this token is not bound to a node; use the token of"):
        agent.answer("a")
    with pytest.raises(RefusedError, match="this token is not bound to a node; use the token of"):
        agent.renew("walras-agent-a", "a")


def test_others_are_not_its_concern(cluster: Cluster) -> None:
    administrator = Agent(cluster.api)
    assert administrator.answer("b")["status"]["epoch"] == 1
    assert administrator.renew("walras-operator", "x")["spec"]["holderIdentity"] == "x"
