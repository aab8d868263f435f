"""Facts: configure Kopf to pass on every event, and to do nothing else.

Only `on.event` handlers are used: they write neither finalizers nor annotations. Kopf's indexes are
not used, because they keep every document of every kind in memory until all kinds are listed. Its
peering, which pauses peers of equal priority, its probes and its Events are not used either.

Kopf remembers each object to compute differences, which nobody needs here, and copies objects for
that, so Kopf gets storages that keep nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import kopf
from kubernetes.client.rest import should_bypass_proxies

if TYPE_CHECKING:
    from kubernetes.client import Configuration

    from walras_operator.watch.kinds import Watched

Heard = Callable[[str, Mapping[str, Any]], None]

_PAGE = 100
"""Objects per page of a list; to parse them blocks the event loop for hundredths of a second."""


class _NoDifferences(kopf.DiffBaseStorage):
    """A storage for which all objects are alike."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        pass


class _NoProgress(kopf.ProgressStorage):
    """A storage of no progress; event handlers make none."""

    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        pass

    def purge(self, **_: Any) -> None:
        pass

    def touch(self, **_: Any) -> None:
        pass

    def clear(self, *, essence: Any) -> Any:
        return essence


def kopf_settings() -> kopf.OperatorSettings:
    """Return Kopf's settings."""
    found = kopf.OperatorSettings()
    found.posting.enabled = False
    found.persistence.diffbase_storage = _NoDifferences()
    found.persistence.progress_storage = _NoProgress()
    found.scanning.disabled = True  # the kinds are known, and there before Kopf is started
    found.watching.chunk_size = _PAGE
    found.queueing.idle_timeout = 0.5  # a worker keeps the last document of its object
    return found


def handlers(found: Configuration, kinds: Mapping[str, Watched], heard: Heard) -> Any:
    """Return a registry of handlers for one run of Kopf.

    Args:
        found: Address and credentials of the API server.
        kinds: Kinds to watch, by name.
        heard: Called with the name of the kind and the event.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return _login(found)

    for kind, watched in kinds.items():
        _on_event(registry, kind, watched, heard)
    return registry


def _on_event(registry: Any, kind: str, watched: Watched, heard: Heard) -> None:
    @kopf.on.event(
        watched.kind.group,
        watched.kind.version,
        watched.kind.plural,
        registry=registry,
        id=f"hear-{kind}",
    )
    async def hear(event: Any, **_: Any) -> None:
        heard(kind, event)


def _login(found: Configuration) -> kopf.ConnectionInfo:
    """Return the connection of the client; Kopf asks again whenever a token has expired."""
    authorization = found.auth_settings().get("BearerToken", {}).get("value") or ""
    scheme, _, token = authorization.rpartition(" ")
    direct = should_bypass_proxies(found.host, found.no_proxy or "")
    return kopf.ConnectionInfo(
        server=found.host,
        ca_path=found.ssl_ca_cert,
        insecure=not found.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=found.cert_file,
        private_key_path=found.key_file,
        proxy_url=None if direct else found.proxy,
    )
