"""The page of a dump without objects of Walras says what `walras what-if -f` prints of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from command_line import walras_here as walras
from dashboards import served
from walras_dashboard.app import PREFIX, make_app
from walras_dashboard.dump import Dump
from walras_dashboard.following import FollowedFiles
from walras_dashboard.viewers import OneViewer
from walras_dashboard.views import Views
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from walras_dashboard.state import MarketState

ROOT = Path(__file__).parents[2]
DUMPS = ROOT / "tests/cli/dumps"


def overview(state: MarketState) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Views(state).overview_json)
    return found


def without_texts(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if not key.endswith("Text")}
        return {key: without_texts(each) for key, each in kept.items()}
    if isinstance(value, list):
        return [without_texts(each) for each in value]
    return pytest.approx(value) if isinstance(value, float) else value


@pytest.mark.parametrize("name", ["eks.yaml", "k3s.json", "kubeadm.yaml"])
def test_the_page_and_the_command_say_the_same(name: str) -> None:
    file = DUMPS / name
    page = overview(Dump.of([file]).state())
    found = page["withoutWalras"]
    printed = json.loads(walras("what-if", "-f", str(file), "-o", "json").stdout)
    assert printed["users"] == without_texts(found["users"])
    assert printed["next"] == found["next"]
    assert printed["notes"] == page["notes"]
    lines = walras("what-if", "-f", str(file)).stdout.splitlines()
    said = [line.removeprefix("- ") for line in lines]
    assert found["result"]
    assert found["columns"]
    assert found["changes"]
    for each in ("result", "columns", "loans", "changes"):
        assert set(found[each]) <= set(said)
    rows = [" ".join(line.split()) for line in lines]
    for user in found["users"]:
        (row,) = [line for line in rows if line.startswith(f"{user['name']} {user['pods']} ")]
        assert f"{user['cores']['marketText']} {user['gainText']}" in row
    assert page["warnings"] == []


def test_a_cluster_with_a_market_has_none_of_it() -> None:
    dump = Dump.of([ROOT / "examples/what-if/cluster.yaml"])
    assert overview(dump.state())["withoutWalras"] is None


def test_a_dump_that_has_heard_of_walras_names_what_is_missing(tmp_path: Path) -> None:
    (pod,) = [
        each
        for each in yaml.safe_load((DUMPS / "kubeadm.yaml").read_text())["items"]
        if each["metadata"]["name"] == "shell"
    ]
    pod["metadata"]["labels"] = {"walras.dev/job": ""}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-2"}}
    for documents in ([pod, node], [pod]):
        file = tmp_path / "dump.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        with pytest.raises(BadInput, match="contains neither Entitlements nor MarketJobs"):
            Dump.of([file])


def test_files_that_are_followed(tmp_path: Path) -> None:
    file = tmp_path / "dump.yaml"
    followed = FollowedFiles([file])
    assert followed.state().look is None
    file.write_text((DUMPS / "kubeadm.yaml").read_text())
    look = followed.state().look
    assert look is not None
    assert look.next[0] == f"walras what-if -f {file} --shares requests    # other shares"


@pytest.mark.system
def test_every_answer_of_such_a_dump_is_as_the_document_says() -> None:
    document = json.loads((ROOT / "dashboard/openapi.json").read_text())
    components = {"components": document["components"]}
    with served(make_app(OneViewer(Dump.of([DUMPS / "kubeadm.yaml"])))) as client:
        for path in ("overview", "jobs", "history?kind=cluster"):
            answer = client.get(f"{PREFIX}/{path}")
            assert answer.status_code == 200, answer.text
            found = document["paths"][f"{PREFIX}/{path.partition('?')[0]}"]["get"]["responses"]
            schema = found["200"]["content"]["application/json"]["schema"]
            jsonschema.validate(answer.json(), {**schema, **components})
        answer = client.post(f"{PREFIX}/what-if", json={})
        assert answer.status_code in {200, 403, 404, 422}, answer.text
