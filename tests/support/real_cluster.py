"""A real API server, and what tests of the node agent need there.

``KUBECONFIG`` names an administrator's file. ``WALRAS_KUBE`` names a program that restarts the
server (``restart apiserver``), of which ``apiserver.pid`` beside that file has the process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml
from kubernetes.client import (
    ApiClient,
    ApiException,
    AuthenticationV1TokenRequest,
    CoreV1Api,
    CustomObjectsApi,
    V1Namespace,
    V1ObjectMeta,
    V1ServiceAccount,
    V1TokenRequestSpec,
)

from installing import served
from rights import AGENT_LEASE_RULES, AGENT_RULES
from waiting import eventually
from walras_service.api import Api, settings
from walras_service.kinds import OURS

if TYPE_CHECKING:
    from collections.abc import Callable

    from rights import Rule

KUBECONFIG = os.environ.get("KUBECONFIG", "")
KUBE = os.environ.get("WALRAS_KUBE", "")

needs_cluster = pytest.mark.api_server
needs_outage = pytest.mark.skipif(
    not KUBE, reason="kills the API server; set WALRAS_KUBE to the program that restarts it"
)

CRD = Path(__file__).parents[2] / "crds" / "walras.dev_nodeallocations.yaml"
PLANS = ("walras.dev", "v1alpha1", "nodeallocations")
DEFINITIONS = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
RIGHTS = ("rbac.authorization.k8s.io", "v1")
LEASES = ("coordination.k8s.io", "v1")


def ignoring(status: int, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, and return None if the API server answers with a certain status."""
    try:
        return call(*arguments)
    except ApiException as error:
        if error.status != status:
            raise
        return None


def kill_server() -> None:
    """End the API server as a crash does."""
    pid = int((Path(KUBECONFIG).parent / "apiserver.pid").read_text())
    os.kill(pid, signal.SIGKILL)


def start_server() -> None:
    """Start the API server again; it may not answer yet."""
    environment = os.environ | {"KUBE_RUN": str(Path(KUBECONFIG).parent)}
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run([KUBE, "restart", "apiserver"], check=True, env=environment, timeout=120)


class EtcdCopy:
    """A copy of what the API server's etcd has on disk, as a snapshot that can be restored.

    ``etcd.pid`` beside the kubeconfig has its process, which is started again as it was.
    """

    def __init__(self, folder: Path) -> None:
        self._copy = folder / "etcd"
        process = self._process()
        process.suspend()  # so that nothing changes meanwhile
        try:
            shutil.copytree(self._data(process), self._copy)
        finally:
            process.resume()

    @property
    def _pid_file(self) -> Path:
        return Path(KUBECONFIG).parent / "etcd.pid"

    def _process(self) -> psutil.Process:
        return psutil.Process(int(self._pid_file.read_text()))

    def _data(self, process: psutil.Process) -> Path:
        words = process.cmdline()
        return Path(words[words.index("--data-dir") + 1])

    def restore(self) -> None:
        """Put the copy in the place of the data, as an administrator does after a disaster."""
        process = self._process()
        command, data = process.cmdline(), self._data(process)
        kill_server()
        process.kill()
        process.wait()
        shutil.rmtree(data)
        shutil.copytree(self._copy, data)
        start = '"$@" >>"${0%.pid}.log" 2>&1 </dev/null & echo $! >"$0"'
        subprocess.run(["setsid", "sh", "-c", start, self._pid_file, *command], check=True)
        start_server()


class RealCluster:
    """A namespace of its own for one test, in which an agent has its rights, and one node's plan.

    Attributes:
        name: Name of the namespace and of the node; that node need not exist.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.client = ApiClient(settings(KUBECONFIG))
        self.objects = CustomObjectsApi(self.client)
        self._api = Api(settings(KUBECONFIG), "test")
        self.installed = self.install()
        self.core = CoreV1Api(self.client)
        self.core.create_namespace(V1Namespace(metadata=V1ObjectMeta(name=name)))
        self.core.create_namespaced_service_account(
            name, V1ServiceAccount(metadata=V1ObjectMeta(name="a"))
        )

    def close(self) -> None:
        """Remove all that was created."""
        self.delete()
        for kind in ("clusterroles", "clusterrolebindings"):
            ignoring(404, self.objects.delete_cluster_custom_object, *RIGHTS, kind, self.name)
        self.core.delete_namespace(self.name)
        if self.installed:
            self.uninstall()

    def install(self) -> bool:
        """Install the kind's definition, and return whether it was missing."""
        document = yaml.safe_load(CRD.read_text())
        made = ignoring(409, self.objects.create_cluster_custom_object, *DEFINITIONS, document)
        assert eventually(self.knows_the_kind)
        return made is not None

    def uninstall(self) -> None:
        """Remove the kind, and all of its objects."""
        self.objects.delete_cluster_custom_object(*DEFINITIONS, "nodeallocations.walras.dev")
        assert eventually(lambda: not self.knows_the_kind())

    def knows_the_kind(self) -> bool:
        return served(self._api, OURS["NodeAllocation"].path())

    def grant(self) -> None:
        """Give the agent its rights."""
        create, create_here = (
            self.objects.create_cluster_custom_object,
            self.objects.create_namespaced_custom_object,
        )
        create(*RIGHTS, "clusterroles", self.role("ClusterRole", AGENT_RULES))
        create(*RIGHTS, "clusterrolebindings", self.binding("ClusterRole"))
        create_here(*RIGHTS, self.name, "roles", self.role("Role", AGENT_LEASE_RULES))
        create_here(*RIGHTS, self.name, "rolebindings", self.binding("Role"))

    def role(self, kind: str, rules: list[Rule]) -> dict[str, Any]:
        head = {"apiVersion": "/".join(RIGHTS), "kind": kind, "metadata": {"name": self.name}}
        return {**head, "rules": rules}

    def binding(self, kind: str) -> dict[str, Any]:
        head = {"apiVersion": "/".join(RIGHTS), "metadata": {"name": self.name}}
        subject = {"kind": "ServiceAccount", "name": "a", "namespace": self.name}
        role = {"apiGroup": RIGHTS[0], "kind": kind, "name": self.name}
        return {**head, "kind": f"{kind}Binding", "subjects": [subject], "roleRef": role}

    def kubeconfig(self) -> Path:
        """Write a kubeconfig with the token of the agent's ServiceAccount, and return its path."""
        request = AuthenticationV1TokenRequest(spec=V1TokenRequestSpec(audiences=[]))
        answer = self.core.create_namespaced_service_account_token("a", self.name, request)
        token = answer.status.token if answer.status else ""
        document = yaml.safe_load(Path(KUBECONFIG).read_text())
        document["users"] = [{"name": "a", "user": {"token": token}}]
        document["contexts"][0]["context"]["user"] = "a"
        document["current-context"] = document["contexts"][0]["name"]
        found = self.folder / "kubeconfig"
        found.write_text(yaml.safe_dump(document))
        return found

    def want(self, epoch: int, **cores: str) -> None:
        """Create or change the NodeAllocation of the node, whose pods are isolated."""
        grants = [
            {"podUID": pod, "name": f"pod-{pod}", "cores": each, "isolated": True}
            for pod, each in cores.items()
        ]
        spec = {"epoch": epoch, "grants": grants}
        head = {"apiVersion": "walras.dev/v1alpha1", "kind": "NodeAllocation"}
        document = {**head, "metadata": {"name": self.name}, "spec": spec}
        patch = self.objects.patch_cluster_custom_object
        if ignoring(404, patch, *PLANS, self.name, {"spec": spec}) is None:
            self.objects.create_cluster_custom_object(*PLANS, document)

    def delete(self) -> None:
        ignoring(404, self.objects.delete_cluster_custom_object, *PLANS, self.name)

    def allocation(self) -> dict[str, Any]:
        found: Any = self.objects.get_cluster_custom_object(*PLANS, self.name)
        assert isinstance(found, dict)
        return found

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.allocation().get("status", {})
        return status

    def condition(self, kind: str) -> dict[str, Any]:
        found = [each for each in self.status().get("conditions", ()) if each["type"] == kind]
        return found[0] if found else {}

    def lease(self) -> dict[str, Any] | None:
        read = self.objects.get_namespaced_custom_object
        arguments = (*LEASES, self.name, "leases", f"walras-agent-{self.name}")
        found: dict[str, Any] | None = ignoring(404, read, *arguments)
        return found

    def kill_server(self) -> None:
        """End the API server as a crash does."""
        kill_server()
        assert eventually(lambda: not self.answers())

    def restart_server(self) -> None:
        """Start the API server again, and wait until it answers."""
        start_server()
        assert eventually(self.answers)

    def answers(self) -> bool:
        try:
            return self.knows_the_kind()
        except Exception:  # noqa: BLE001 - whatever it is, there is no answer
            return False
