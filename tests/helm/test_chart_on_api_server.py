"""Installs and upgrades by real helm on a real API server; `tests/e2e` has all of it on a node.

No kubelet is needed: the pods of hooks are run as processes (`chart_jobs`), with the tokens of the
chart's ServiceAccounts.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from chart import CHART, HelmError, helm, needs_helm
from chart_jobs import NOWHERE, Jobs
from operator_cluster import OURS_PATH
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from walras_operator.lifecycle import definitions
from walras_service.api import MERGE, Api, settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [needs_helm, needs_cluster]

Document = dict[str, Any]
MARKET = f"{OURS_PATH}/markets/default"
ENFORCED: Document = {"mode": "enforce"}
VALUES: Document = {
    "image": {"registry": "localhost"},
    "operator": {"nodeSelector": NOWHERE},
    "agent": {"nodeSelector": NOWHERE, "releaseAfterSeconds": 2},
    "hooks": {"nodeSelector": NOWHERE, "releaseSeconds": 120},
}


class Release:
    """A release of the chart.

    Args:
        name: Name of the release and of its namespace.
        folder: Folder for files of the test.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.api = Api(settings(KUBECONFIG), "tests")
        self.jobs = Jobs(name, folder)

    def helm(self, *arguments: str, **values: Any) -> str:
        """Run helm on the release, with the tests' common values and further ones."""
        given = {**VALUES, **values}
        text = json.dumps(given) if arguments[0] in {"install", "upgrade"} else None
        options = ["--values", "-", str(CHART)] if text else []
        verb, *rest = arguments
        where = ["-n", self.name, "--timeout", "150s"]
        return helm(verb, self.name, *options, *rest, *where, text=text)

    def read(self, path: str) -> Document | None:
        return self.api.find(path)

    def left(self) -> list[str]:
        """Return the objects of the release that exist."""
        selector = {"labelSelector": f"app.kubernetes.io/instance={self.name}"}
        rbac, batch = "/apis/rbac.authorization.k8s.io/v1", f"/apis/batch/v1/namespaces/{self.name}"
        core, apps = f"/api/v1/namespaces/{self.name}", f"/apis/apps/v1/namespaces/{self.name}"
        return sorted(
            f"{path.rpartition('/')[2]} {each['metadata']['name'].removeprefix(self.name)}"
            for path in (
                f"{rbac}/clusterroles",
                f"{rbac}/clusterrolebindings",
                f"{rbac}/namespaces/{self.name}/roles",
                f"{rbac}/namespaces/{self.name}/rolebindings",
                f"{core}/serviceaccounts",
                f"{core}/configmaps",
                f"{core}/services",
                f"{apps}/deployments",
                f"{apps}/daemonsets",
                f"{batch}/jobs",
                "/apis/scheduling.k8s.io/v1/priorityclasses",
            )
            for each in self.api.request("GET", path, query=selector)["items"]
        )


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Release]:
    made = Release(f"walras-{time.time_ns() % 10**8}", tmp_path)
    existed = made.read("/apis/walras.dev/v1alpha1/markets/default")
    assert existed is None, "another test's, or yours: this one makes and deletes the Market"
    with made.jobs:
        yield made
        helm("uninstall", made.name, "-n", made.name, "--no-hooks", "--ignore-not-found")
        for path in (MARKET, f"/api/v1/namespaces/{made.name}"):
            if made.read(path) is not None:
                made.api.request("DELETE", path)


def test_the_mode_stays_what_an_upgrade_said_last(release: Release) -> None:
    """docs/install.md: by the file of values, and with the values of the last release."""

    def mode() -> str:
        return str((release.read(MARKET) or {})["spec"]["mode"])

    look, enforce = {"market": {"spec": {"mode": "observe"}}}, {"market": {"spec": ENFORCED}}
    again = ("--reset-then-reuse-values", "--set", "operator.log.verbose=true")
    release.helm("install", "--create-namespace", **look)
    assert mode() == "observe"
    release.helm("upgrade", **enforce)
    assert mode() == "enforce"
    release.helm("upgrade", *again)
    assert mode() == "enforce", "with the last values"
    release.helm("upgrade", **look)
    assert mode() == "observe", "by the file"
    release.helm("upgrade", "--set", "market.spec.mode=enforce", **look)
    assert mode() == "enforce"
    release.helm("upgrade", **look)
    assert mode() == "observe", "what --set said once is forgotten"


def test_a_new_release_observes_until_one_command_and_no_upgrade_undoes_it(
    release: Release,
) -> None:
    def notes_and_mode(*arguments: str, **values: Any) -> tuple[bool, str]:
        """Whether the notes say how to enforce, and the mode that they and the Market have."""
        said = release.helm(*arguments, **values)
        mode = str((release.read(MARKET) or {})["spec"]["mode"])
        assert f"in mode {mode}" in said
        return "kubectl patch market" in said, mode

    assert notes_and_mode("install", "--create-namespace") == (True, "observe")
    release.api.request("PATCH", MARKET, {"spec": ENFORCED}, content_type=MERGE)
    assert notes_and_mode("upgrade") == (False, "enforce")
    observe = {"spec": {"mode": "observe"}}
    assert notes_and_mode("upgrade", market=observe) == (True, "observe")
    release.api.request("PATCH", MARKET, {"spec": ENFORCED}, content_type=MERGE)
    assert notes_and_mode("upgrade", market=observe) == (False, "enforce")
    assert notes_and_mode("upgrade") == (False, "enforce")
    release.helm("uninstall")
    assert notes_and_mode("install") == (False, "enforce"), "the Market stayed"


@contextmanager
def definition_of_a_later_version(release: Release) -> Iterator[None]:
    """A cluster that stores Entitlements as a version that this one does not know."""
    (ours,) = (each for each in definitions.DOCUMENTS if "entitlements" in str(each["metadata"]))
    path = definitions.KIND.path(name=ours["metadata"]["name"])
    if release.read(path) is None:
        release.api.request("POST", definitions.KIND.path(), ours)
    (version,) = ours["spec"]["versions"]
    versions = [{**version, "storage": False}, {**version, "name": "v1"}]
    stored = release.api.request("GET", path)
    spec = {**stored["spec"], "versions": versions}
    release.api.request("PUT", path, {**stored, "spec": spec})
    try:
        assert eventually(lambda: "v1" in (release.read(path) or {})["status"]["storedVersions"])
        yield
    finally:
        release.api.request("DELETE", path)
        assert eventually(lambda: release.read(path) is None)


def test_an_install_that_cannot_be_leaves_its_log_and_no_rights(release: Release) -> None:
    with definition_of_a_later_version(release):
        with pytest.raises(HelmError, match="pre-install"):
            release.helm("install", "--create-namespace")
        assert "objects are stored as v1" in release.jobs.said["install"]
    assert release.left() == ["jobs -install"], "for its log, and no rights"
