"""Documents and servers for tests of the dashboard."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from walras_cli.cluster.decided import with_statuses
from walras_cli.documents import read
from walras_dashboard.dump import _parsed, dump_of
from walras_dashboard.serving import bound, server_of
from whole_decisions import decide

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from fastapi import FastAPI

EXAMPLE = Path(__file__).parents[2] / "examples/what-if/cluster.yaml"
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def decided(path: Path = EXAMPLE) -> list[dict[str, Any]]:
    """Return the documents of an example with the statuses that an operator would write."""
    located = read([path], _parsed)
    dump = dump_of(located, [path.name], NOW)
    documents = [dict(each.document) for each in located]
    return with_statuses(documents, decide(dump.world()))


def leases() -> list[dict[str, Any]]:
    """Return the Leases by which operator and agents of the example live for an hour."""
    now = datetime.now(UTC).isoformat()
    labels = {"walras.dev/lease": "agent"}
    agents = [(f"walras-agent-{node}", node, labels) for node in ("node-1", "node-2")]
    return [
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "walras-system", "labels": own},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 3600, "renewTime": now},
        }
        for name, holder, own in (("walras-operator", "operator", {}), *agents)
    ]


@contextmanager
def served(app: FastAPI) -> Iterator[httpx.Client]:
    """Serve an app on a port of this machine, and yield a client of it."""
    with bound("127.0.0.1", 0) as on:
        server = server_of(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [on]}, daemon=True)
        thread.start()
        try:
            each_closed = httpx.Limits(max_keepalive_connections=0)
            with httpx.Client(base_url=url_of(on), timeout=600.0, limits=each_closed) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


def url_of(on: socket.socket) -> str:
    return f"http://127.0.0.1:{on.getsockname()[1]}"
