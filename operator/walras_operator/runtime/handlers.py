"""Facts: Kopf's part: handlers that tell of every event and do nothing else.

Only `on.event` handlers: those write nothing to objects, neither finalizers nor annotations, and
return None. Not Kopf's indexes: with one, every document of every kind stays in memory until all
kinds are listed, which is 10 000 pods as JSON at once. Nor its peering, which freezes equal peers;
nor its probes and Events.

What Kopf would remember of an object to tell what has changed about it is not used here. To copy
it, several times for every event, took three quarters of the time to list 10 000 pods (28 s), so it
is given storages that keep nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import kopf

if TYPE_CHECKING:
    from kubernetes.client import Configuration

    from walras_operator.runtime.kinds import Watched

Heard = Callable[[str, Mapping[str, Any]], None]

_PAGE = 100
"""Objects that Kopf takes in at once: reading them holds the event loop up for some hundredths of a
second."""


class _NoDifferences(kopf.DiffBaseStorage):
    """Objects are all alike to it."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        pass


class _NoProgress(kopf.ProgressStorage):
    """Handlers of events have none."""

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


def kopf_settings(kinds: Mapping[str, Watched]) -> kopf.OperatorSettings:
    """How Kopf is to watch.

    Args:
        kinds: What, by name.
    """
    found = kopf.OperatorSettings()
    found.posting.enabled = False
    found.persistence.diffbase_storage = _NoDifferences()
    found.persistence.progress_storage = _NoProgress()
    found.scanning.disabled = True  # the kinds are known, and there before Kopf is started
    found.watching.chunk_size = _PAGE
    found.queueing.idle_timeout = 0.5  # a worker keeps the last document of its object
    for watched in kinds.values():
        key = (watched.kind.group, watched.kind.version, watched.kind.plural)
        if watched.labels:
            found.watching.label_selectors[key] = watched.labels
        if watched.fields:
            found.watching.field_selectors[key] = watched.fields
    return found


def handlers(found: Configuration, kinds: Mapping[str, Watched], heard: Heard) -> Any:
    """Handlers that tell of every event; registered for one run of Kopf, and nowhere else.

    Args:
        found: Where the API server is.
        kinds: That are watched, by name.
        heard: Is called with the kind's name and the event.
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
    """The same connection as that of the client; asked for anew whenever a token has run out."""
    authorization = found.auth_settings().get("BearerToken", {}).get("value") or ""
    scheme, _, token = authorization.rpartition(" ")
    return kopf.ConnectionInfo(
        server=found.host,
        ca_path=found.ssl_ca_cert,
        insecure=not found.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=found.cert_file,
        private_key_path=found.key_file,
    )
