"""A real API server by plain requests, so that tests see exactly what is sent and answered."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kubernetes import client, config

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Document = dict[str, Any]


@dataclass
class RefusedError(Exception):
    """An answer of the API server with another status than 2xx."""

    code: int
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True)
class API:
    """A client of a real API server, with an administrator's rights."""

    _client: client.ApiClient

    DEFINITIONS: ClassVar[str] = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    _TABLE: ClassVar[str] = "application/json;as=Table;v=v1;g=meta.k8s.io"

    @classmethod
    def connect(cls, kubeconfig: str | None = None) -> API:
        """Return a client of the cluster in a kubeconfig, or else in the one of KUBECONFIG."""
        return cls(config.new_client_from_config(kubeconfig))

    def call(
        self,
        method: str,
        path: str,
        body: Document | None = None,
        *,
        accept: str = "application/json",
        kind: str | None = None,
    ) -> Document:
        """Make a request; a patch is merged, unless ``kind`` names another content type.

        Raises:
            RefusedError: The API server refused it.
        """
        merge = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = self._client.param_serialize(
            method,
            path,
            header_params={"Accept": accept, "Content-Type": kind or merge},
            body=body,
            auth_settings=["BearerToken"],
        )
        answer = self._client.call_api(*request)
        text = answer.read().decode()
        if answer.status >= 300:
            said = text if text[:1] != "{" else json.loads(text)["message"]
            raise RefusedError(answer.status, said)
        made: Document = json.loads(text)
        return made

    def table(self, path: str) -> Document:
        """Return the table of objects that kubectl prints."""
        return self.call("GET", path, accept=self._TABLE)

    def apply(self, path: str, document: Document, manager: str) -> Document:
        """Apply a document for a field manager (server-side apply)."""
        whole = f"{path}?fieldManager={manager}"
        return self.call("PATCH", whole, document, kind="application/apply-patch+yaml")

    @contextmanager
    def made(self, path: str, document: Document) -> Iterator[Document]:
        """Create an object, and remove it at the end."""
        name = document["metadata"]["name"]
        with suppress(RefusedError):
            self.call("DELETE", f"{path}/{name}")
        try:
            yield self.call("POST", path, document)
        finally:
            with suppress(RefusedError):
                self.call("DELETE", f"{path}/{name}")

    @contextmanager
    def installed(self, definitions: Iterable[Document]) -> Iterator[None]:
        """Install definitions; at the end, remove those that were not there before."""
        added = []
        for definition in definitions:
            name = definition["metadata"]["name"]
            try:
                self.call("POST", self.DEFINITIONS, definition)
                added.append(name)
            except RefusedError as refused:
                if refused.code != 409:
                    raise
                self.call("PATCH", f"{self.DEFINITIONS}/{name}", definition)
            self._wait_for(definition)
        try:
            yield
        finally:
            for name in added:
                self.call("DELETE", f"{self.DEFINITIONS}/{name}")
            for name in added:
                self._wait_until_gone(f"{self.DEFINITIONS}/{name}")

    def _wait_for(self, definition: Document) -> None:
        spec = definition["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        for _ in range(600):
            with suppress(RefusedError):
                self.call("GET", path)
                return
            time.sleep(0.1)
        raise TimeoutError(f"{definition['metadata']['name']} is not served after 60 s")

    def _wait_until_gone(self, path: str) -> None:
        """Wait for a deletion; otherwise, later tests might find the object and keep it."""
        for _ in range(600):
            try:
                self.call("GET", path)
            except RefusedError as refused:
                if refused.code != 404:
                    raise
                return
            time.sleep(0.1)
        raise TimeoutError(f"{path} is still there after 60 s")
