"""A pod with GPUs keeps the cores that the Market says for each; where it says none, a note does.

A trainer has all GPUs of a node of 96 CPUs, and a notebook of another user runs beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from whole_decisions import decide
from worlds import entitlement, grants, job, market, node, pod, world

if TYPE_CHECKING:
    from walras_operator.decide.world import Document, World


def with_gpus(document: Document, gpus: str, resource: str = "nvidia.com/gpu") -> Document:
    """Return a node that has GPUs, or a pod that requests them."""
    if document["kind"] == "Node":
        status = document["status"]
        allocatable = {**status["allocatable"], resource: gpus}
        return {**document, "status": {**status, "allocatable": allocatable}}
    (container,) = document["spec"]["containers"]
    requests = {**container["resources"]["requests"], resource: gpus}
    given = {**container, "resources": {"requests": requests, "limits": {resource: gpus}}}
    return {**document, "spec": {**document["spec"], "containers": [given]}}


def trainer(gpus: str = "8", resource: str = "nvidia.com/gpu", **cores: Any) -> World:
    return world(
        market(cores=cores),
        entitlement("nlp"),
        entitlement("nb"),
        job("llm", "nlp", auto=True),
        job("notebook", "nb", auto=True),
        with_gpus(node("g1", "96"), "8", resource),
        with_gpus(pod("llm-0", "llm", "g1", cpu="8"), gpus, resource),
        pod("notebook-0", "notebook", "g1"),
    )


def held(found: World) -> dict[str, float]:
    return {name: float(cores) for name, cores in grants(decide(found))["g1"].items()}


def notes(found: World) -> list[str]:
    return [each for each in decide(found).notes if "GPU" in each]


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe"])
def test_a_pod_keeps_cores_for_its_gpus(resource: str) -> None:
    assert held(trainer("8", resource, perGPU=10)) == {"llm-0": 80, "notebook-0": 16}


def test_it_keeps_no_more_than_its_part_of_the_node_by_gpus() -> None:
    """Of 8 GPUs it has one, and so of 96 cores 12."""
    kept = held(trainer("1", perGPU=90, floor="None", mechanism="ProportionalSharing"))
    assert kept == held(trainer("0", floor="None", mechanism="ProportionalSharing"))
    (written,) = decide(trainer("6", perGPU=90)).nodes
    cores = {each["name"]: float(each["cores"]) for each in written.spec["grants"]}
    assert cores["llm-0"] == 72


def test_it_keeps_cores_for_gpus_where_requests_are_not_kept() -> None:
    assert held(trainer("8", perGPU=10, floor="None"))["llm-0"] == 80


def test_what_it_requested_counts_if_it_is_more() -> None:
    assert held(trainer("8", perGPU=1))["llm-0"] == held(trainer("8"))["llm-0"]


def test_its_user_is_told_why() -> None:
    plan = decide(trainer("8", perGPU=10)).plan
    assert plan is not None
    (told,) = (each.reason for each in plan.grants if each.pod == "llm-0")
    assert "kept for its GPUs" in told or "which it keeps whatever the market decides" in told


def test_a_note_proposes_the_cpus_of_a_node_for_each_gpu() -> None:
    (note,) = notes(trainer())
    assert note.startswith("MarketJob lab/llm: with GPUs, a speedup by CPUs is not assumed")
    assert note.endswith("keeps CPUs for each GPU of a pod: the nodes have 12 for each")
    assert not notes(trainer(perGPU=10))
    for found, assumed in ((trainer(), "MarketJob lab/notebook:"), (trainer(perGPU=10), "lab/llm")):
        assert any(assumed in each for each in decide(found).notes)


def test_there_is_no_note_where_the_speedup_is_known_or_no_pod_has_gpus() -> None:
    assert not notes(trainer("0"))
    known = world(
        market(),
        entitlement(),
        job(parallelFraction="0.5"),
        with_gpus(node("g1", "96"), "8"),
        with_gpus(pod("train-0", place="g1"), "8"),
    )
    assert not notes(known)
