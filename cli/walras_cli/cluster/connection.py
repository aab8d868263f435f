"""Facts: a cluster's objects as its API server gives them, page by page, and whose clock it has."""

from __future__ import annotations

import json
import os
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walras_service.api_errors import ApiError, explained
from walras_service.failures import BadInput, Failure
from walras_service.kinds import OURS, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kubernetes.client import Configuration

    from walras_cli.cluster.options import Target

ENTITLEMENTS = OURS["Entitlement"]
JOBS = OURS["MarketJob"]
MARKETS = OURS["Market"]
NODE_ALLOCATIONS = OURS["NodeAllocation"]
PROFILES = OURS["SpeedupProfile"]


Document = dict[str, Any]

PATIENCE = (5.0, 60.0)
"""Seconds to connect, and for each read: a page of a large cluster takes its time."""

PAGE = 500
CONNECTIONS = 8

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Cluster:
    """Requests that read. It may be used by several threads at once.

    Args:
        configuration: Address and credentials of the API server.
        namespace: Default namespace of requests.
        headers: Headers of every request, such as those of impersonation.
        connections: Maximum number of connections that are kept open.

    Attributes:
        api: Connections to the API server.
        now: The API server's time when it answered last, so that this machine's may be wrong.
        notes: Lines for people about what it answers.
    """

    def __init__(
        self,
        configuration: Configuration,
        namespace: str,
        headers: Sequence[tuple[str, str]] = (),
        connections: int = CONNECTIONS,
    ) -> None:
        self.namespace = namespace
        self.notes: tuple[str, ...] = ()
        self.now = datetime.now(UTC)
        from walras_service.api import Api  # a third of a second, which many commands never need

        self.api = Api(configuration, "walras", connections, headers)

    @property
    def host(self) -> str:
        """URL of the API server."""
        return self.api.host

    def get(self, path: str, query: Mapping[str, str | int] | None = None) -> Document:
        """Ask for an object, or for a page of a list.

        Raises:
            ApiError: It is not there, or may not be had.
        """
        answer = self.api.opened(path, timeout=PATIENCE, query=query)
        with closing(answer), explained(self.host, "GET", path):
            document: Document = json.loads(answer.data)
        self._set_clock(answer.headers.get("Date"))
        return document

    def every(self, kind: Kind, namespace: str = "", **selectors: str) -> Iterator[Document]:
        """Yield all objects of a kind, as a watch or kubectl would show them.

        Args:
            kind: Kind to list.
            namespace: Namespace of the objects; empty for all namespaces.
            selectors: ``labelSelector`` and ``fieldSelector``; empty ones are left out.

        Raises:
            ApiError: They cannot be listed.
        """
        for page in self._pages(kind, namespace, selectors):
            yield from _items(kind, page)

    def _pages(
        self, kind: Kind, namespace: str, selectors: Mapping[str, str]
    ) -> Iterator[Document]:
        asked: dict[str, str | int] = {key: text for key, text in selectors.items() if text}
        more = ""
        while True:
            query = {**asked, "limit": PAGE, **({"continue": more} if more else {})}
            page = self.get(kind.path(namespace), query)
            yield page
            more = page["metadata"].get("continue", "")
            if not more:
                return

    def _set_clock(self, date: str | None) -> None:
        if date:
            self.now = parsedate_to_datetime(date)


def _items(kind: Kind, page: Document) -> Iterator[Document]:
    head = {"apiVersion": kind.api_version, "kind": str(page["kind"]).removesuffix("List")}
    for item in page["items"] or ():
        yield {**head, **item}  # lists of built-in kinds leave these out


def connect(target: Target, connections: int = CONNECTIONS) -> Cluster:
    """Find the cluster that is meant.

    Args:
        target: Kubeconfig, context and namespace from the command line.
        connections: Maximum number of connections that are kept open.

    Raises:
        BadInput: There is no such file or context.
        Failure: This is a pod without a ServiceAccount.
    """
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, load_kube_config
    from yaml import YAMLError

    file = target.kubeconfig or os.environ.get("KUBECONFIG") or str(Path("~/.kube/config"))
    exists = any(Path(each).expanduser().is_file() for each in file.split(os.pathsep))
    if not exists and not target.kubeconfig and "KUBERNETES_SERVICE_HOST" in os.environ:
        return _in_pod(target, connections)
    if not exists:
        raise BadInput(f"{file}: the kubeconfig does not exist; set --kubeconfig or KUBECONFIG")
    configuration = Configuration()
    try:
        namespace = _namespace_of_context(file, target.context)
        load_kube_config(file, target.context, client_configuration=configuration)
    except (ConfigException, OSError, YAMLError, ValueError, TypeError) as error:
        why = " ".join(str(error).removeprefix("Invalid kube-config file. ").split())
        raise BadInput(f"{file}: the kubeconfig is invalid: {why}; correct it") from error
    return _cluster(configuration, target.namespace or namespace, connections)


def _namespace_of_context(file: str, wanted: str | None) -> str:
    from kubernetes.config import list_kube_config_contexts

    contexts, current = list_kube_config_contexts(file)
    by_name = {each["name"]: each for each in contexts}
    if wanted is not None and wanted not in by_name:
        names = ", ".join(sorted(by_name)) or "none"
        raise BadInput(f"{file}: has no context {wanted}; choose one of: {names}")
    chosen = current if wanted is None else by_name[wanted]
    return str((chosen.get("context") or {}).get("namespace") or "default")


def _in_pod(target: Target, connections: int) -> Cluster:
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, load_incluster_config

    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)
        namespace = _OWN_NAMESPACE.read_text().strip()
    except (ConfigException, OSError) as error:
        raise Failure(
            f"this pod has no ServiceAccount token: {error}; mount one, or set --kubeconfig"
        ) from error
    return _cluster(configuration, target.namespace or namespace, connections)


def _cluster(configuration: Configuration, namespace: str, connections: int) -> Cluster:
    configuration.retries = False  # a person sees the error sooner, and asks again
    return Cluster(configuration, namespace, connections=connections)


def require_namespace(cluster: Cluster, namespace: str) -> None:
    """See that there is a namespace, as far as one may know.

    Raises:
        BadInput: There is none of this name.
    """
    try:
        cluster.get(f"/api/v1/namespaces/{namespace}")
    except ApiError as error:
        if error.reason == "missing":
            raise BadInput(
                f"namespace {namespace} does not exist; choose another with -n"
            ) from error
        if error.reason != "forbidden":
            raise


@contextmanager
def connected(target: Target, find: Callable[[Target], Cluster] = connect) -> Iterator[Cluster]:
    """Connect to the cluster that is meant.

    Args:
        target: Kubeconfig, context and namespace from the command line.
        find: Finds the cluster.

    Raises:
        Failure: it cannot be asked, with what the API server says and the way out.
    """
    try:
        yield find(target)
    except ApiError as error:
        raise Failure(str(error)) from error
