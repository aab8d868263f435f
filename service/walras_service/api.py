"""Effects: a client of the API server, which sends and returns plain documents.

It uses the synchronous client of `kubernetes`, in threads: the asynchronous client would load a
second tree of modules, and its requests would wait whenever the event loop is busy. The models of
the built-in kinds, some hundred modules, are never loaded. A client is safe for concurrent use.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from urllib3 import HTTPHeaderDict
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
MERGE = "application/merge-patch+json"
OPERATIONS = "application/json-patch+json"

PATIENCE = 5.0
"""Timeout of a request in seconds; a page of a list gets six times as much."""

_PAGE = 500
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
"""Content type of a list that has only the metadata of its objects."""
ONE_METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
"""Content type of an object with its metadata alone."""


def settings(kubeconfig: str | None) -> Configuration:
    """Return the address of the API server and the credentials of this process.

    The client rereads a token file every minute, since the kubelet replaces it.

    Args:
        kubeconfig: Path of a kubeconfig file; if empty, use the pod's ServiceAccount.

    Raises:
        ApiError: The file or the ServiceAccount's token is missing or invalid.
    """
    configuration = Configuration()
    try:
        if kubeconfig:
            load_kube_config(config_file=kubeconfig, client_configuration=configuration)
        else:
            load_incluster_config(client_configuration=configuration)
    except (ConfigException, OSError, YAMLError, ValueError) as error:
        where = kubeconfig or "this is not a pod with a ServiceAccount's token"
        raise ApiError(
            f"{where}: {error}; give the API server by --kubeconfig or KUBECONFIG", "error"
        ) from error
    configuration.retries = False  # callers retry, and report it
    return configuration


class Api:
    """A client of the API server.

    Args:
        configuration: Address and credentials (`settings`).
        program: Name of the program, sent as User-Agent for the API server's audit log.
        connections: Maximum number of connections that are kept open.
        headers: Headers of every request, such as those of impersonation; names may be repeated.

    Attributes:
        configuration: Address and credentials.
    """

    def __init__(
        self,
        configuration: Configuration,
        program: str,
        connections: int = 4,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.configuration = configuration
        configuration.connection_pool_maxsize = connections
        self._client = ApiClient(configuration)
        self._program, self._headers = program, tuple(headers)
        self._server_time: tuple[float, float] | None = None

    @property
    def host(self) -> str:
        """URL of the API server."""
        return str(self.configuration.host)

    def server_time(self) -> float | None:
        """Return the API server's time in seconds since 1970, as far as it has said; else None."""
        if self._server_time is None:
            return None
        date, received = self._server_time
        return date + time.monotonic() - received

    def ahead(self) -> float:
        """Return by how many seconds this machine's clock is ahead of the API server's; or 0."""
        there = self.server_time()
        return 0.0 if there is None else time.time() - there

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
        """Send a request, and return the document in the response.

        Args:
            method: HTTP method.
            path: Path of an object, or of all objects of a kind.
            body: Document to send; None for none.
            content_type: Content type of the body.
            accept: Content type of the response.
            timeout: Timeout of the request in seconds, or of the connection and of every read.
            query: Query parameters.

        Raises:
            ApiError: The request failed, or the response is not a document.
        """
        headers = {"Accept": accept, **({} if body is None else {"Content-Type": content_type})}
        with explained(self.host, method, path):
            answer = json.loads(self._sent(method, path, headers, timeout, query, body).data)
            if not isinstance(answer, dict):
                raise TypeError(f"the response is a {type(answer).__name__}")
            return answer

    def find(self, path: str, timeout: float = PATIENCE) -> Document | None:
        """Return an object; None if it does not exist.

        Args:
            path: Path of the object.
            timeout: Timeout in seconds.

        Raises:
            ApiError: The request failed for any other reason.
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
        accept: str = JSON,
        timeout: float | tuple[float, float] = PATIENCE,
    ) -> BaseHTTPResponse:
        """Send a GET request, and return the response unread, for a watch or for its headers.

        Args:
            path: Path of an object, or of all objects of a kind.
            query: Query parameters.
            accept: Content type of the response.
            timeout: Timeout of the request in seconds, or of the connection and of every read.

        Raises:
            ApiError: The request failed. Wrap reads in `api_errors.explained`.
        """
        with explained(self.host, "GET", path):
            return self._sent("GET", path, {"Accept": accept}, timeout, query)

    def names(self, kind: Kind, query: Query) -> Iterator[Mapping[str, Any]]:
        """Yield the metadata of all objects of a kind, by a consistent read in pages.

        Raises:
            ApiError: The objects cannot be listed.
        """
        more = ""
        while True:
            page = self.request(
                "GET",
                kind.path(),
                accept=f"{METADATA},{JSON}",
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
        """Return the unread response.

        Raises:
            ApiError: The status of the response is not 2xx.
        """
        headers["User-Agent"] = self._program
        self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        sent = HTTPHeaderDict(headers)
        for name, value in self._headers:
            sent.add(name, value)
        asked = urlencode({key: _text(value) for key, value in (query or {}).items()})
        url = f"{self.host}{path}{'?' if asked else ''}{asked}"
        answer = self._client.call_api(method, url, sent, body, _request_timeout=timeout)
        with suppress(TypeError, ValueError):  # there is none, or it is malformed
            date = parsedate_to_datetime(answer.getheader("Date"))
            self._server_time = date.timestamp(), time.monotonic()
        if not 200 <= answer.status < 300:
            text, wait = said(answer.status, answer.read()), answer.getheader("Retry-After")
            raise refusal(self.host, method, path, answer.status, text, wait)
        response: BaseHTTPResponse = answer.response
        return response


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
