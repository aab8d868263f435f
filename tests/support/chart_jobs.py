"""A chart's Jobs and tests where no kubelet runs pods: each runs as a process of this machine.

The process has the arguments of the pod's container and the token of its ServiceAccount, so that
it may do no more than the chart's roles allow. The pod's status then says that it ended as the
process did. Real helm waits for real Jobs meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from real_cluster import KUBECONFIG
from walras_service.api import MERGE, Api, settings
from walras_service.api_errors import ApiError
from walras_service.kinds import PODS

if TYPE_CHECKING:
    from typing import Self

Document = dict[str, Any]

NOWHERE = {"walras.dev/runs-nowhere": "true"}
"""A node selector that keeps every kubelet away from such pods."""

JOBS = "app.kubernetes.io/component in (install, release, check)"


def account_kubeconfig(api: Api, namespace: str, account: str, folder: Path) -> Path:
    """Write a kubeconfig with the token of a ServiceAccount, and return its path."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    token = api.request("POST", path, {"spec": {}})["status"]["token"]
    document = yaml.safe_load(Path(KUBECONFIG).read_text())
    document["users"] = [{"name": account, "user": {"token": token}}]
    document["contexts"][0]["context"]["user"] = account
    document["current-context"] = document["contexts"][0]["name"]
    found = folder / f"{account}.kubeconfig"
    found.write_text(yaml.safe_dump(document))
    return found


class Jobs:
    """Runs the pods of a namespace while its context is open.

    Args:
        namespace: Namespace of the release.
        folder: Folder for files of the test.

    Attributes:
        said: Output of each pod, by its component.
        codes: Exit code of each pod, by its component.
    """

    def __init__(self, namespace: str, folder: Path) -> None:
        self.namespace, self.folder = namespace, folder
        self.said: dict[str, str] = {}
        self.codes: dict[str, int] = {}
        self._api = Api(settings(KUBECONFIG), "tests")
        self._phases: dict[str, str] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.2):
            try:
                self._look()
            except ApiError as error:  # a busy server, or a pod that is gone meanwhile
                if not error.transient and error.reason not in {"missing", "conflict"}:
                    raise

    def _look(self) -> None:
        query = {"labelSelector": JOBS}
        for pod in self._api.request("GET", PODS.path(self.namespace), query=query)["items"]:
            uid = pod["metadata"]["uid"]
            if uid not in self._phases:
                self._phases[uid] = self._played(pod)
            if pod["status"]["phase"] != self._phases[uid]:
                path = PODS.path(self.namespace, pod["metadata"]["name"], "status")
                body = {"status": {"phase": self._phases[uid]}}
                self._api.request("PATCH", path, body, content_type=MERGE)

    def _played(self, pod: Document) -> str:
        """Run a pod's container as a process, and return the phase in which the pod ends."""
        (container,) = pod["spec"]["containers"]
        assert "/walras-operator:" in container["image"], container["image"]
        account = pod["spec"]["serviceAccountName"]
        config = account_kubeconfig(self._api, self.namespace, account, self.folder)
        known = {"KUBECONFIG": str(config), "POD_NAMESPACE": self.namespace}
        done = subprocess.run(
            [sys.executable, "-m", "walras_operator", *container["args"]],
            env=os.environ | known,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        self.said[component], self.codes[component] = done.stdout, done.returncode
        return "Failed" if done.returncode else "Succeeded"
