"""Walras beside what clusters have anyway: docs/with-others.md, as far as it can be tried here."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cluster_tools import SYSTEM, ToolError, apply, containers, get, kubectl, pods
from installed import IMAGE
from shared_node import deployment, entitlement, job, namespace
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster_tools import Document
    from installed import Installed

pytestmark = pytest.mark.node

TEAM, PROGRAM = "guests", "bounded"
RIVAL, RIVAL_PROGRAMS = "vision", ("train", "index")
"""The user with whom the program competes: three pods on two cores, so that one is shared."""
FEW, MANY = 1, 9
"""Shares of a user with less than a core, and of one with a core of its own."""
REQUEST, LIMIT = "100m", "1500m"
BOUNDED = {"cpu.cfs_quota_us": "150000", "cpu.max": "150000 100000"}
"""The container's CPU limit, as cgroup v1 and v2 write it."""


def served(path: str) -> bool:
    return bool(get(path))


def governed() -> list[Document]:
    """A namespace with defaults, a quota and a disruption budget, and a program in the market."""
    program = deployment(TEAM, PROGRAM, IMAGE)
    program["spec"]["template"]["metadata"]["labels"]["walras.dev/job"] = ""
    return [
        {
            **namespace(TEAM),
            "metadata": {"name": TEAM, "labels": {"walras.dev/entitlement": TEAM}},
        },
        entitlement(TEAM, MANY),
        entitlement(RIVAL, FEW),
        job(RIVAL, "train", work="2"),
        job(RIVAL, "index"),
        made(
            "v1",
            "LimitRange",
            limits=[
                {"type": "Container", "default": {"cpu": LIMIT}, "defaultRequest": {"cpu": REQUEST}}
            ],
        ),
        made("v1", "ResourceQuota", hard={"requests.cpu": REQUEST, "limits.cpu": LIMIT}),
        made(
            "policy/v1",
            "PodDisruptionBudget",
            minAvailable=1,
            selector={"matchLabels": {"app": PROGRAM}},
        ),
        program,
    ]


def made(version: str, kind: str, **spec: Any) -> Document:
    where = {"name": PROGRAM, "namespace": TEAM}
    return {"apiVersion": version, "kind": kind, "metadata": where, "spec": spec}


@pytest.fixture(scope="module")
def program(installed: Installed) -> Iterator[Installed]:
    documents = governed()
    try:
        apply(*documents)
        yield installed
    finally:
        rival = ["marketjob", *RIVAL_PROGRAMS, "--namespace", RIVAL]
        for what in (["namespace", TEAM], ["entitlement", TEAM, RIVAL], rival):
            with suppress(ToolError):
                kubectl("delete", "--ignore-not-found", "--wait=false", *what)


def limit(installed: Installed) -> str | None:
    """The CPU limit that the kernel has for the program's container."""
    groups = installed.node.cgroups.containers()
    for pod in pods(TEAM, f"app={PROGRAM}"):
        for container in containers(pod):
            if container in groups:
                settings = installed.node.cgroups.settings(groups[container])
                return next(settings[file] for file in BOUNDED if file in settings)
    return None


def outcome() -> tuple[int | None, str | None]:
    """The program's cores of its own, and the state of its grant."""
    status = get(f"/apis/walras.dev/v1alpha1/namespaces/{TEAM}/marketjobs/{PROGRAM}").get("status")
    for pod in (status or {}).get("pods", ()):
        return int(float(pod.get("held", "0"))), pod.get("state")
    return None, None


def test_the_quota_of_a_limit_range_is_lifted_and_a_grant_counts_in_no_resource_quota(
    program: Installed,
) -> None:
    def lifted() -> bool:
        return outcome() == (1, "Enforced") and limit(program) not in BOUNDED.values()

    assert eventually(lifted, 180, pause=0.5), (outcome(), limit(program))
    (pod,) = pods(TEAM)
    resources = pod["spec"]["containers"][0]["resources"]
    assert (resources["requests"]["cpu"], resources["limits"]["cpu"]) == (REQUEST, LIMIT)
    quota = get(f"/api/v1/namespaces/{TEAM}/resourcequotas/{PROGRAM}")["status"]["used"]
    assert quota == {"requests.cpu": REQUEST, "limits.cpu": LIMIT}


def test_cores_move_without_the_disruption_that_a_budget_forbids(program: Installed) -> None:
    (before,) = pods(TEAM)
    apply(entitlement(TEAM, FEW), entitlement(RIVAL, MANY))
    assert eventually(lambda: outcome() == (0, "Enforced"), 180, pause=0.5), outcome()
    apply(entitlement(TEAM, MANY), entitlement(RIVAL, FEW))
    assert eventually(lambda: outcome() == (1, "Enforced"), 180, pause=0.5), outcome()
    (after,) = pods(TEAM)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0


VPA = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "verticalpodautoscalers.autoscaling.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": "autoscaling.k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "VerticalPodAutoscaler", "plural": "verticalpodautoscalers"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
"""The kind of VerticalPodAutoscalers as far as `walras check` reads it."""


def checked() -> tuple[int, set[tuple[str, str]]]:
    """The exit code of `walras check`, and the level and object of each finding."""
    walras = Path(sys.executable).parent / "walras"
    command = [str(walras), "check", "-A", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["findings"]
    return done.returncode, {(each["level"], each["object"]) for each in found}


def test_the_check_names_autoscalers_and_a_level_that_admits_no_agent(program: Installed) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": PROGRAM}
    scaling = "v2" if served("/apis/autoscaling/v2") else "v2beta2"
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    metric = {"type": "Resource", "resource": cpu}
    apply(VPA)
    try:
        vpas = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"
        assert eventually(lambda: served(vpas), 60, pause=0.2)
        apply(
            made(
                f"autoscaling/{scaling}",
                "HorizontalPodAutoscaler",
                scaleTargetRef=target,
                maxReplicas=3,
                metrics=[metric],
            ),
            made("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", targetRef=target),
        )
        found = {
            ("warning", f"HorizontalPodAutoscaler {TEAM}/{PROGRAM}"),
            ("warning", f"VerticalPodAutoscaler {TEAM}/{PROGRAM}"),
        }
        assert eventually(lambda: checked() == (0, found), 60, pause=1), checked()
        kubectl("label", "namespace", SYSTEM, "pod-security.kubernetes.io/enforce=baseline")
        assert checked() == (3, {*found, ("error", f"Namespace {SYSTEM}")})
        kubectl("label", "namespace", SYSTEM, "pod-security.kubernetes.io/enforce-")
    finally:
        kubectl("delete", "crd", str(VPA["metadata"]["name"]))  # type: ignore[index]


def test_a_pod_that_leaves_the_market_has_its_limit_again(program: Installed) -> None:
    kubectl("delete", "entitlement", TEAM)
    assert eventually(lambda: limit(program) in BOUNDED.values(), 120, pause=0.5), limit(program)
    assert program.watcher.violations() == []
