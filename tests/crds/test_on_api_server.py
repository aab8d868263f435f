"""A real API server: it takes the definitions, and answers as the model of it in admission.py does.

Documents are only tried (dry run); the few objects that are made are named crds-test and removed.
Definitions that were there before are brought up to date and stay.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from admission import Answer, admit, read_definitions, schema_of
from full_statuses import FULL
from kind_documents import VALID, WRONG, Document, Wrong, document, example_documents, grant
from live_api import API, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.api_server

DEFINITIONS = read_definitions()
PLURALS = {kind: each["spec"]["names"]["plural"] for kind, each in DEFINITIONS.items()}
CLUSTER_WIDE = {kind for kind, each in DEFINITIONS.items() if each["spec"]["scope"] == "Cluster"}


@pytest.fixture(scope="module")
def api() -> Iterator[API]:
    api = API.connect()
    with api.installed(DEFINITIONS.values()):
        yield api


def resource(each: Document) -> str:
    """Return the path under which objects of a document's kind are made."""
    plural = PLURALS[each["kind"]]
    if each["kind"] in CLUSTER_WIDE:
        return f"/apis/walras.dev/v1alpha1/{plural}"
    return f"/apis/walras.dev/v1alpha1/namespaces/default/{plural}"


def tried(api: API, each: Document) -> Document:
    """Send a document for admission, under a name that nobody else uses, without storing it."""
    metadata = {"name": "crds-test"}
    if each["kind"] not in CLUSTER_WIDE:
        metadata["namespace"] = "default"
    return api.call("POST", f"{resource(each)}?dryRun=All", {**each, "metadata": metadata})


def model_of(each: Document) -> Answer:
    return admit(each, schema_of(DEFINITIONS[each["kind"]]))


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_definitions_are_established_without_complaint(api: API, kind: str) -> None:
    stored = api.call("GET", f"{API.DEFINITIONS}/{PLURALS[kind]}.walras.dev")
    conditions = {each["type"]: each["status"] for each in stored["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert conditions.get("NonStructuralSchema", "False") == "False"


@pytest.mark.parametrize("each", [*VALID, *example_documents()], ids=str)
def test_good_documents_are_taken_with_their_defaults(api: API, each: Document) -> None:
    assert tried(api, each)["spec"] == model_of(each).stored["spec"]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.title)
def test_bad_documents_are_refused_with_the_field_named(api: API, wrong: Wrong) -> None:
    with pytest.raises(RefusedError) as caught:
        tried(api, wrong.document)
    assert caught.value.code == 422
    assert wrong.field in caught.value.message
    if wrong.by_rule:
        (problem,) = model_of(wrong.document).problems
        assert problem.partition(": ")[2] in caught.value.message


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_statuses_of_the_models_are_stored_whole(api: API, kind: str) -> None:
    status = FULL[kind].document()
    with api.made(resource(document(kind)), document(kind)) as made:
        path = f"{resource(made)}/crds-test/status"
        stored = api.call("PATCH", path, {"status": status})
        assert stored["status"] == status
        assert stored["metadata"]["generation"] == made["metadata"]["generation"]


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_a_status_is_not_taken_with_the_spec(api: API, kind: str) -> None:
    sent = {**document(kind), "status": FULL[kind].document()}
    assert "status" not in tried(api, sent)


def test_an_older_plan_is_refused(api: API) -> None:
    newer, older = (document("NodeAllocation", epoch=epoch) for epoch in (7, 6))
    with api.made(resource(newer), newer):
        path = f"{resource(newer)}/crds-test"
        with pytest.raises(RefusedError, match="only a later decision may replace it"):
            api.call("PATCH", path, older)


def test_a_paused_plan_is_not_replaced_before_it_is_resumed(api: API) -> None:
    """Nor by an operator that knows nothing of pauses, and writes the whole spec without it."""
    plan = document("NodeAllocation", epoch=7, paused=True, grants=[grant("u-0")])
    with api.made(resource(plan), plan):
        path = f"{resource(plan)}/crds-test"
        for late in ({"epoch": 8, "grants": []}, {"epoch": 8, "grants": [], "paused": None}):
            with pytest.raises(RefusedError, match="is paused"):
                api.call("PATCH", path, {"spec": late})
        resumed = api.call("PATCH", path, {"spec": {"paused": None}})
        assert resumed["spec"]["grants"] == plan["spec"]["grants"]
        assert api.call("PATCH", path, {"spec": {"epoch": 8, "grants": []}})["spec"]["epoch"] == 8


def test_grants_are_applied_pod_by_pod(api: API) -> None:
    """A plan that is applied again without a pod takes back that pod's grant alone."""

    def plan(*pods: str) -> Document:
        return document("NodeAllocation", grants=[grant(pod) for pod in pods])

    with api.made(resource(plan()), document("NodeAllocation", grants=[grant("u-0")])):
        path = f"{resource(plan())}/crds-test"
        api.apply(path, plan("u-1", "u-2"), "operator")
        after = api.apply(path, plan("u-2", "u-3"), "operator")
    assert [each["podUID"] for each in after["spec"]["grants"]] == ["u-0", "u-2", "u-3"]


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_columns_are_printed(api: API, kind: str) -> None:
    columns = DEFINITIONS[kind]["spec"]["versions"][0]["additionalPrinterColumns"]
    with api.made(resource(document(kind)), document(kind)) as made:
        api.call("PATCH", f"{resource(made)}/crds-test/status", {"status": FULL[kind].document()})
        table = api.table(f"{resource(made)}/crds-test")
    assert [each["name"] for each in table["columnDefinitions"]] == [
        "Name",
        *(each["name"] for each in columns),
    ]
    (row,) = table["rows"]
    assert row["cells"][0] == "crds-test"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not at hand")
def test_kubectl_finds_all_kinds_by_category_and_short_name(api: API) -> None:
    command = ["kubectl", "api-resources", "--categories=walras", "--no-headers"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows: dict[str, list[Any]] = {line.split()[-1]: line.split() for line in listed.splitlines()}
    shorts = {kind: row[1] for kind, row in rows.items()}
    assert shorts == {
        kind: each["spec"]["names"]["shortNames"][0] for kind, each in DEFINITIONS.items()
    }
