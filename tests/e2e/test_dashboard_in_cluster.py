"""The dashboard as the chart deploys it, on a real node: by its API, and in a browser where one is.

What it says of CPUs is compared with the node's cgroups.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from browser import chromium, missing
from cluster_tools import SYSTEM, ToolError, api, apply, containers, helm, kubectl, pods
from installed import CHART, IMAGES
from node_cgroups import parse_cpus
from shared_node import TEAMS, entitlement, job
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster_tools import Document
    from installed import Installed

pytestmark = pytest.mark.node

PORT = 28765
URL = f"http://127.0.0.1:{PORT}"
VIEWERS = "viewers"
FEW, MANY = 1, 9
SOON = 3.0
"""Seconds within which a change of the cluster is on the page."""

MOST_MEMORY = 512 << 20
"""Bytes that the dashboard's container may take with two viewers of a small cluster."""


def account(name: str) -> Document:
    where = {"name": name, "namespace": VIEWERS}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": where}


def binding(name: str) -> Document:
    """All of the market for a viewer, by the chart's role."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{VIEWERS}-{name}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "walras-market-view"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": VIEWERS}],
    }


def token(name: str) -> str:
    """A token as `kubectl create token` makes it."""
    path = f"/api/v1/namespaces/{VIEWERS}/serviceaccounts/{name}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(api().call("POST", path, asked)["status"]["token"])


@pytest.fixture(scope="module")
def dashboard(
    installed: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    """Walras with its dashboard, a viewer of the whole market, and one without any rights."""
    resources = {"requests": {"cpu": "0", "memory": "64Mi"}}
    given = {"dashboard": {"enabled": True, "port": PORT, "resources": resources}}
    file = tmp_path_factory.mktemp("dashboard") / "values.json"
    file.write_text(json.dumps(given))
    installed.node.load(IMAGES / "walras-dashboard.tar")
    helm("upgrade", "walras", CHART, *installed.options(), "--values", str(file))
    named = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VIEWERS}}
    apply(named, account("ada"), account("eve"), binding("ada"))
    apply(entitlement("vision", MANY), entitlement("speech", FEW))
    apply(*(job(team, program) for team, programs in TEAMS.items() for program in programs))
    try:
        yield installed
    finally:
        for what in (("clusterrolebinding", f"{VIEWERS}-ada"), ("namespace", VIEWERS)):
            with suppress(ToolError):
                kubectl("delete", "--ignore-not-found", "--timeout=60s", *what)


def ask(path: str, viewer: str = "ada") -> httpx.Response:
    bearer = {"authorization": f"Bearer {token(viewer)}"}
    return httpx.get(f"{URL}/api/v1/{path}", headers=bearer, timeout=30)


def shown(dashboard: Installed) -> dict[str, frozenset[int]]:
    """The CPUs of each program's pod, as the dashboard's view of the node has them."""
    found: Any = ask(f"nodes/{dashboard.node.name}").json()
    return {
        grant["job"]: parse_cpus(grant["cpus"])
        for grant in found.get("grants", ())
        if grant["cpus"]
    }


def test_it_answers_with_the_rights_of_each_viewer(dashboard: Installed) -> None:
    assert eventually(lambda: dashboard.shared.granted() and not dashboard.shared.amiss(), 180, 0.2)
    assert httpx.get(f"{URL}/api/v1/overview", timeout=30).status_code == 401
    assert "you have no right to" in ask("overview", "eve").json()["error"]
    users = {each["name"] for each in ask("overview").json()["users"]}
    assert set(TEAMS) <= users


def test_it_shows_the_cpus_that_the_kernel_enforces(dashboard: Installed) -> None:
    held = dashboard.shared.cpus
    assert eventually(lambda: shown(dashboard) == held(), 60, 0.5), (shown(dashboard), held())


@pytest.mark.skipif(bool(missing()), reason=missing() or "nothing is missing")
def test_a_change_is_on_the_page_of_a_signed_in_viewer(dashboard: Installed) -> None:
    with chromium() as window:
        window.open(URL)
        window.write("#token", token("ada"))
        window.click("form button")
        assert window.shows("Live", ".live", 60), window.text("body")
        assert eventually(lambda: window.shares("speech") == str(FEW), 60), window.text("main")
        apply(entitlement("speech", FEW + 1))
        began = time.monotonic()
        assert eventually(lambda: window.shares("speech") == str(FEW + 1), 60)
        assert time.monotonic() - began < SOON
        window.view(f"nodes/{dashboard.node.name}")
        for program in dashboard.shared.granted():
            assert window.shows(program), window.text("main")
        assert window.audit() == []
        assert window.hosts() == {f"127.0.0.1:{PORT}"}


def test_it_stays_small_and_is_never_restarted(dashboard: Installed) -> None:
    (pod,) = pods(SYSTEM, "app.kubernetes.io/component=dashboard")
    (status,) = pod["status"]["containerStatuses"]
    assert status["restartCount"] == 0
    (container,) = containers(pod)
    processes = dashboard.node.cgroups.processes(dashboard.node.cgroups.containers()[container])
    resident = sum(psutil.Process(each).memory_info().rss for each in processes)
    print(f"the dashboard takes {resident / 2**20:.0f} MiB")  # noqa: T201 - for docs/dashboard.md
    assert resident < MOST_MEMORY
