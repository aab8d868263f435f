"""The policy that sets threads of pods, by the engine of a real API server."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from chart import CHART, ROOT, helm, needs_helm, of_kind
from live_api import API
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [needs_helm, needs_cluster]

Document = dict[str, Any]

POLICIES = "/apis/admissionregistration.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods?dryRun=All"


def pod(
    labels: dict[str, str], annotations: dict[str, str] | None = None, **container: Any
) -> Document:
    metadata = {"generateName": "threads-", "labels": labels, "annotations": annotations or {}}
    containers = [
        {"name": "main", "image": "none", **container},
        {"name": "second", "image": "none"},
    ]
    return {"metadata": metadata, "spec": {"containers": containers}}


@pytest.fixture(scope="module")
def api() -> Iterator[API]:
    found = API.connect(KUBECONFIG)
    where = ["--namespace", "default", "--dry-run=server", "--set", "image.registry=localhost"]
    text = helm("template", "walras", str(CHART), *where)
    documents = [each for each in yaml.safe_load_all(text) if each]
    with ExitStack() as opened:
        for kind, plural in (
            ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
            ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
        ):
            made = of_kind(kind, documents).get("walras-threads")
            if made is None:
                pytest.skip("this version has no MutatingAdmissionPolicies (1.36)")
            opened.enter_context(found.made(f"{POLICIES}/{plural}", made))
        assert eventually(lambda: variables(found, pod({"walras.dev/threads": "2"})), 60, pause=0.2)
        yield found


def variables(api: API, document: Document, container: int = 0) -> dict[str, str]:
    """The variables of a container of a pod as admitted."""
    admitted = api.call("POST", PODS, document)["spec"]["containers"][container]
    return {each["name"]: each.get("value", "") for each in admitted.get("env", [])}


def test_the_label_sets_what_libraries_read_in_all_containers(api: API) -> None:
    document = pod({"walras.dev/threads": "12"})
    for container in (0, 1):
        found = variables(api, document, container)
        assert found["OMP_NUM_THREADS"] == found["OPENBLAS_NUM_THREADS"] == "12"
        assert found["JAVA_TOOL_OPTIONS"] == "-XX:ActiveProcessorCount=12"
        assert (found["OMP_PROC_BIND"], found["OMP_WAIT_POLICY"]) == ("FALSE", "PASSIVE")
        assert "NUMBA_NUM_THREADS" not in found, "a bound, not a number of threads"


def test_what_a_container_sets_stays(api: API) -> None:
    own = [{"name": "OMP_NUM_THREADS", "value": "3"}, {"name": "OTHER", "value": "x"}]
    found = variables(api, pod({"walras.dev/threads": "12"}, env=own))
    assert (found["OMP_NUM_THREADS"], found["OTHER"], found["MKL_NUM_THREADS"]) == ("3", "x", "12")


def test_the_most_cores_of_the_job_are_taken_where_the_label_has_no_number(api: API) -> None:
    most = {"walras.dev/max-cores": "6"}
    assert variables(api, pod({"walras.dev/threads": "max-cores"}, most))["GOMAXPROCS"] == "6"
    assert variables(api, pod({"walras.dev/threads": "4"}, most))["GOMAXPROCS"] == "4"


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({}, {"walras.dev/max-cores": "6"}),
        ({"walras.dev/threads": "max-cores"}, {}),
        ({"walras.dev/threads": "0"}, {}),
        ({"walras.dev/threads": ""}, {"walras.dev/max-cores": "6; rm"}),
    ],
    ids=["no label", "no number", "zero", "no number in the annotation"],
)
def test_other_pods_are_admitted_as_they_are(
    api: API, labels: dict[str, str], annotations: dict[str, str]
) -> None:
    assert variables(api, pod(labels, annotations)) == {}


def test_pods_of_the_example_get_what_they_ask_for(api: API) -> None:
    path = ROOT / "examples" / "threads" / "deployment.yaml"
    template = next(iter(yaml.safe_load_all(path.read_text())))["spec"]["template"]
    template["metadata"] |= {"generateName": "threads-"}
    assert variables(api, template)["OMP_NUM_THREADS"] == "8"
