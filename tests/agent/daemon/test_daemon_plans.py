"""Files of plans: what is read from them, and what is said of those that cannot be used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from walras_agent.daemon.plans import (
    MAX_BYTES,
    PlanError,
    PlanFile,
    measurement_request,
    node_plan,
    parse_plan,
    read_plan,
    reported_demands,
)
from walras_agent.node_plan import EnforcedGrant
from walras_agent.profiling.request import FileSource, HttpSource

if TYPE_CHECKING:
    from pathlib import Path

PLAN = """
apiVersion: walras.dev/v1alpha1
kind: NodeAllocation
metadata: {name: node-1}
spec:
  epoch: 7
  unit: thread
  memoryNodes: local
  grants:
  - {podUID: 0d9c-1, namespace: vision, name: train-0, cores: "3.5", memory: 12Gi}
  - {podUID: 0d9c-2, name: web, cores: "0.25"}
"""


def document(**profiling: Any) -> str:
    spec: dict[str, Any] = {"epoch": 1, "profiling": {"id": "a", "podUID": "x", **profiling}}
    head = {"apiVersion": "walras.dev/v1alpha1", "kind": "NodeAllocation"}
    return json.dumps({**head, "metadata": {"name": "n"}, "spec": spec})


def written(folder: Path, text: str) -> Path:
    path = folder / "plan"
    path.write_text(text)
    return path


def test_what_only_a_newer_operator_knows_is_left_out_of_a_plan() -> None:
    """The API server has checked it; in a file, it is a slip of somebody's pen."""
    document = yaml.safe_load(PLAN)
    first = document["spec"]["grants"][0]
    first |= {"entitlement": "vision-lab", "newer": 1}
    plan = node_plan(parse_plan(document))
    assert [each.user for each in plan.grants] == ["vision-lab", ""]


def test_document_becomes_a_plan(tmp_path: Path) -> None:
    plan = node_plan(read_plan(written(tmp_path, PLAN)))
    assert (plan.epoch, plan.mode, plan.unit, plan.memory_nodes) == (
        7,
        "enforce",
        "thread",
        "local",
    )
    assert plan.grants == (
        EnforcedGrant("0d9c-1", "vision/train-0", 3500, 12 << 30),
        EnforcedGrant("0d9c-2", "default/web", 250),
    )


def test_demands_are_read_from_the_status_that_comes_with_a_plan(tmp_path: Path) -> None:
    pod = {"namespace": "lab", "name": "p", "state": "Enforced"}
    pods: list[object] = [
        {**pod, "podUID": "a", "memoryDemand": "123456789"},
        {**pod, "podUID": "b"},
        {**pod, "podUID": "c", "memoryDemand": "-1"},
        {**pod, "podUID": "d", "memoryDemand": "1e9"},
        {**pod, "podUID": "e", "memoryDemand": 5},
        {"memoryDemand": "5"},
        7,
    ]
    plan = json.loads(document())
    text = json.dumps({**plan, "status": {"epoch": 1, "pods": pods}})
    assert reported_demands(read_plan(written(tmp_path, text))) == {"a": 123456789}
    for status in ({}, {"pods": 7}, {"pods": None}):
        text = json.dumps({**plan, "status": status})
        assert reported_demands(read_plan(written(tmp_path, text))) == {}
    assert reported_demands(read_plan(written(tmp_path, document()))) == {}


@pytest.mark.parametrize(
    ("progress", "counter"),
    [
        ({"file": "/run/count"}, FileSource("/run/count")),
        (
            {"http": {"port": 8080, "path": "/metrics", "metric": "items_total"}},
            HttpSource("10.0.0.7", 8080, "/metrics", "items_total"),
        ),
    ],
)
def test_counter_of_the_job(
    tmp_path: Path, progress: dict[str, Any], counter: FileSource | HttpSource
) -> None:
    text = document(progress=progress, podIP="10.0.0.7")
    asked = measurement_request(read_plan(written(tmp_path, text)))
    assert asked is not None
    assert asked.progress == counter


def test_nothing_is_measured_where_the_agent_only_observes_or_is_paused(tmp_path: Path) -> None:
    for why in ('"mode": "observe"', '"paused": true'):
        text = document().replace('"epoch": 1', f'"epoch": 1, {why}')
        assert measurement_request(read_plan(written(tmp_path, text))) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [", "not YAML"),
        ("{", "not YAML"),
        ("", "has 0 documents; give one NodeAllocation"),
        (f"{PLAN}---{PLAN}", "has 2 documents; give one NodeAllocation"),
        ("[]", "is not an object"),
        (PLAN.replace("NodeAllocation", "Market"), "kind: is Market; write NodeAllocation"),
        (PLAN.replace("v1alpha1", "v1"), "apiVersion: is walras.dev/v1; write walras.dev/v1alpha1"),
        (PLAN.replace('"3.5"', "3.5"), "spec.grants[0].cores: is 3.5; write a decimal number"),
        (PLAN.replace("0d9c-1", "../../etc"), "spec.grants[0].podUID: is '../../etc'"),
        (PLAN.replace("0d9c-1", "0d9c-2"), "spec.grants: has two grants for the pod 0d9c-2"),
        (PLAN.replace('"0.25"', '"0.0001"'), "must be whole thousandths"),
        (PLAN.replace("12Gi", "12Gb"), "write an amount of memory such as 512Mi"),
        ("x" * (MAX_BYTES + 1), "is it the plan of one node?"),
        (document(progress={"http": {"port": 80}}), "without podIP; give the pod's address"),
        (document(progress={}), "give either file or http"),
        (document(progress={"file": "run/count"}), "progress.file: is 'run/count'"),
    ],
)
def test_bad_plan_is_told_in_a_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(PlanError) as caught:
        read_plan(path)
    assert any(complaint in problem for problem in caught.value.problems), caught.value.problems
    assert all(problem.startswith(f"{path}: ") for problem in caught.value.problems)
    assert all("\n" not in problem for problem in caught.value.problems)


def test_plan_is_given_once_for_each_change(tmp_path: Path) -> None:
    file = PlanFile(tmp_path / "plan")
    with pytest.raises(PlanError, match="cannot be read"):
        file.changed()
    assert file.changed() is None, "what is wrong is said once"
    written(tmp_path, PLAN)
    first = file.changed()
    assert first is not None
    assert first.spec.epoch == 7
    assert file.changed() is None
    beside = tmp_path / "beside"
    beside.write_text(PLAN.replace("epoch: 7", "epoch: 8"))
    beside.replace(file.path)
    second = file.changed()
    assert second is not None
    assert second.spec.epoch == 8
    file.path.unlink()
    with pytest.raises(PlanError, match="cannot be read"):
        file.changed()
