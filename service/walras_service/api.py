"""Facts and their answer: requests to the API server, and one line for whatever goes wrong.

The synchronous client of `kubernetes`, in threads: its asynchronous twin would load a second tree
of modules, and its requests would wait whenever the event loop is busy. Plain documents go in and
come out; the models of the built-in kinds, some hundred modules, are never loaded. A client may be
used by several threads at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from yaml import YAMLError

from walras_service.api_errors import ApiError, explained, refusal, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from urllib3 import BaseHTTPResponse

    from walras_service.kinds import Kind

Document = dict[str, Any]
Query = Mapping[str, str | int | bool]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
OPERATIONS = "application/json-patch+json"

PATIENCE = 5.0
"""Seconds for a whole request, and for each page of a list six times as many."""

_PAGE = 500
_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def settings(kubeconfig: str | None) -> Configuration:
    """Where the API server is and who the process is there.

    A token from a file is read anew every minute by the client, as the kubelet replaces it.

    Args:
        kubeconfig: A file; without one, what every pod is given with its ServiceAccount.

    Raises:
        ApiError: That cannot be known.
    """
    found = Configuration()
    try:
        if kubeconfig:
            load_kube_config(config_file=kubeconfig, client_configuration=found)
        else:
            load_incluster_config(client_configuration=found)
    except (ConfigException, OSError, YAMLError, ValueError) as error:
        where = kubeconfig or "this is not a pod with a ServiceAccount's token"
        raise ApiError(
            f"{where}: {error}; give the API server by --kubeconfig or KUBECONFIG", "error"
        ) from error
    found.retries = False  # whoever asks tries again, and tells of it
    return found


class Api:
    """Requests to the API server.

    Args:
        found: Where it is.
        program: That asks, for the API server's audit log.
        connections: How many are kept open.

    Attributes:
        found: Where it is.
    """

    def __init__(self, found: Configuration, program: str, connections: int = 4) -> None:
        self.found = found
        found.connection_pool_maxsize = connections
        self._client = ApiClient(found)
        self._program = program

    @property
    def host(self) -> str:
        """Of the API server."""
        return str(self.found.host)

    def request(
        self,
        method: Method,
        path: str,
        body: Document | Sequence[Document] | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float | tuple[float, float] = PATIENCE,
        query: Query | None = None,
    ) -> Document:
        """Ask, and return the answer.

        Args:
            method: Of the request.
            path: Of the object, or of all objects of a kind.
            body: Is sent.
            content_type: Of the body.
            accept: Of the answer.
            timeout: Seconds for all of it, or to connect and for every read.
            query: Is asked.

        Raises:
            ApiError: It is not what was asked for.
        """
        headers = {"Accept": accept, **({} if body is None else {"Content-Type": content_type})}
        with explained(self.host, method, path):
            found = json.loads(self._sent(method, path, headers, timeout, query, body).data)
            if not isinstance(found, dict):
                raise TypeError(f"it answers with a {type(found).__name__}")
            return found

    def find(self, path: str, timeout: float = PATIENCE) -> Document | None:
        """Return an object; None if there is none.

        Args:
            path: Of the object.
            timeout: Seconds for all of it.

        Raises:
            ApiError: It is not known whether there is one.
        """
        try:
            return self.request("GET", path, timeout=timeout)
        except ApiError as error:
            if error.reason != "missing":
                raise
            return None

    def opened(
        self,
        path: str,
        *,
        query: Query | None = None,
        timeout: float | tuple[float, float] = PATIENCE,
    ) -> BaseHTTPResponse:
        """Ask for an answer that is to be read as it comes, such as a watch, or has headers.

        Args:
            path: Of the object, or of all objects of a kind.
            query: Is asked.
            timeout: Seconds for all of it, or to connect and for every read.

        Raises:
            ApiError: It is refused. What reading it raises is for `api_errors.explained`.
        """
        with explained(self.host, "GET", path):
            return self._sent("GET", path, {"Accept": JSON}, timeout, query)

    def names(self, kind: Kind, query: Query) -> Iterator[Mapping[str, Any]]:
        """The metadata of all objects of a kind, in pages, read from the store itself.

        Raises:
            ApiError: They cannot be listed.
        """
        more = ""
        while True:
            page = self.request(
                "GET",
                kind.path(),
                accept=f"{_METADATA},{JSON}",
                timeout=6 * PATIENCE,
                query={**query, "limit": _PAGE, "continue": more},
            )
            for item in page["items"] or ():
                yield item["metadata"]
            more = page["metadata"].get("continue", "")
            if not more:
                return

    def _sent(
        self,
        method: Method,
        path: str,
        headers: dict[str, str],
        timeout: float | tuple[float, float],
        query: Query | None,
        body: Document | Sequence[Document] | None = None,
    ) -> BaseHTTPResponse:
        """The answer, unless it is a refusal; still to be read."""
        headers["User-Agent"] = self._program
        self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        asked = urlencode({key: _text(value) for key, value in (query or {}).items()})
        url = f"{self.host}{path}{'?' if asked else ''}{asked}"
        answer = self._client.call_api(method, url, headers, body, _request_timeout=timeout)
        if not 200 <= answer.status < 300:
            text, wait = said(answer.status, answer.read()), answer.getheader("Retry-After")
            raise refusal(self.host, method, path, answer.status, text, wait)
        response: BaseHTTPResponse = answer.response
        return response


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
