"""Effects: what Kopf does for the operator's process: start it, wait for signals, and end it.

Kopf logs in, runs the operator's parts between its startup and cleanup activities, and turns
SIGTERM and Ctrl-C into an orderly end. It handles no objects (docs/decisions/kopf.md).
"""

from __future__ import annotations

import threading
from itertools import repeat
from typing import TYPE_CHECKING, Any, cast

import kopf
from kubernetes.client.rest import should_bypass_proxies

from walras_api.contract import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import Configuration

_REPETITION = 5.0
"""Seconds between two attempts to see which kinds the API server has."""


def run_lifecycle(
    configuration: Configuration, start: Callable[[], None], end: Callable[[], None]
) -> None:
    """Run until SIGTERM or Ctrl-C.

    Args:
        configuration: Address and credentials of the API server.
        start: Starts the operator's parts.
        end: Ends them; called in another thread.
    """
    parts = _Parts(start, end)
    try:
        kopf.run(
            registry=_activities(configuration, parts),
            settings=_settings(),
            clusterwide=True,
            standalone=True,  # the leader is elected by a Lease: Kopf pauses equal peers
            # By default Kopf looks up the user's name, and the user of a container has none.
            identity=cast("Any", OPERATOR),
        )
    finally:
        parts.end()  # Kopf cleans nothing up if a signal comes while it starts


class _Parts:
    """Starts and ends the operator's parts at most once each, and ends only what has started."""

    def __init__(self, start: Callable[[], None], end: Callable[[], None]) -> None:
        self._start, self._end = start, end
        self._lock, self._running = threading.Lock(), False

    def start(self) -> None:
        with self._lock:
            self._running = True
            self._start()

    def end(self) -> None:
        with self._lock:
            if self._running:
                self._running = False
                self._end()


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.networking.error_backoffs = repeat(_REPETITION)  # an outage ends nothing
    return settings


def _activities(configuration: Configuration, parts: _Parts) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return _login(configuration)

    @kopf.on.startup(registry=registry)
    def startup(**_: Any) -> None:
        parts.start()

    @kopf.on.cleanup(registry=registry)
    def cleanup(**_: Any) -> None:
        parts.end()

    return registry


def _login(configuration: Configuration) -> kopf.ConnectionInfo:
    """Return the connection of the client; Kopf asks again whenever a token has expired."""
    authorization = configuration.auth_settings().get("BearerToken", {}).get("value") or ""
    scheme, _, token = authorization.rpartition(" ")
    direct = should_bypass_proxies(configuration.host, configuration.no_proxy or "")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        proxy_url=None if direct else configuration.proxy,
    )
