"""What the operator keeps of one object and of one namespace is bounded, whatever users write.

The largest object that the API server accepts is made of each kind, by its definition, once for
each of its fields: as many entries as the definition allows, or as fit into a request. Python's own
count of allocated memory judges, not the count that the bound uses.
"""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from largest_objects import FIELDS, largest
from walras_api.contract import COLOCATION_GATE
from walras_operator.watch.kept_bytes import MOST_OF_NAMESPACE, MOST_OF_OBJECT
from walras_operator.watch.kinds import Scope
from walras_operator.watch.mirror import Mirror
from whole_decisions import decide
from worlds import entitlement, job, market, node, pod, status

Document = dict[str, Any]

FACTOR = 1.5
"""How much more memory an object may take than is counted."""


def kept(kind: str, document: Document, copies: int = 1) -> int:
    """Return the bytes that Python allocates for what a mirror keeps of an object's copies."""
    mirror = Mirror(Scope("walras-system").kinds, lambda _: None, lambda: 0.0)
    text = json.dumps(document)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(copies):
            made = json.loads(text)
            name = f"{made['metadata']['name'][:20]}-{number}"
            made["metadata"] |= {"name": name, "uid": f"u{number}", "resourceVersion": "1"}
            mirror.receive(kind, made)
            del made
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_the_largest_object_takes_no_more_than_an_object_may(kind: str, field: str) -> None:
    assert kept(kind, largest(kind, field)) <= FACTOR * MOST_OF_OBJECT


def test_the_profiles_of_a_hostile_tenant_take_no_more_than_its_namespace_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """32 MB of profiles filled an operator of 1 GiB before; here, a namespace may have less."""
    most = 2 << 20
    monkeypatch.setattr("walras_operator.watch.mirror.MOST_OF_NAMESPACE", most)
    times = [{"cores": n + 1, "seconds": ["1"] * 64} for n in range(64)]
    metadata = {"name": "p", "namespace": "hostile"}
    document = {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "SpeedupProfile",
        "metadata": metadata,
        "spec": {"measurements": times},
    }
    assert most / 2 < kept("SpeedupProfile", document, 10) <= FACTOR * most


def pods_with_tolerations(number: int) -> Document:
    tolerations = [{"key": f"k{n}", "operator": "Exists"} for n in range(number)]
    made = pod("greedy", place=None)
    made["spec"] |= {"schedulerName": COLOCATION_GATE, "tolerations": tolerations}
    made["spec"].pop("nodeName")
    return made


def test_pods_with_many_tolerations_are_left_out() -> None:
    """27 of them, of 39 MB, filled an operator of 1 GiB before."""
    assert kept("Pod", pods_with_tolerations(8_000), 2) < 100_000


def test_what_is_left_out_is_said_where_its_owner_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = Mirror(Scope("walras-system").kinds, lambda _: None, lambda: 0.0)
    for each in (pods_with_tolerations(8_000), market(), node(), entitlement(), job()):
        metadata = {**each["metadata"], "resourceVersion": "1"}
        mirror.receive(each["kind"], {**each, "metadata": metadata})
    found = status(decide(mirror.world("2026-01-31T12:00:00Z")), "MarketJob", "train", "lab")
    (said,) = (each for each in found["conditions"] if each["type"] == "PodsRead")
    assert said["status"] == "False"
    assert said["reason"] == "PodsLeftOut"
    assert said["message"].startswith("Pod lab/greedy: takes more than 2 MiB of memory; make it")
    monkeypatch.setattr("walras_operator.watch.mirror.MOST_OF_NAMESPACE", 0)
    changed = {**job(), "metadata": {**job()["metadata"], "resourceVersion": "2"}}
    mirror.receive("MarketJob", changed)
    ready = status(decide(mirror.world("2026-01-31T12:00:00Z")), "MarketJob", "train", "lab")
    (said,) = ready["conditions"]
    assert "delete some, then change this one" in said["message"]


def test_a_namespace_has_room_again_once_objects_are_gone_or_smaller() -> None:
    mirror = Mirror(Scope("walras-system").kinds, lambda _: None, lambda: 0.0)
    for round_ in range(5):
        for number in range(20):
            made = pod(f"p{number}")
            made["metadata"] |= {"uid": f"u{number}", "resourceVersion": str(round_ + 1)}
            mirror.receive("Pod", made)
        mirror.forget("Pod", [f"u{number}" for number in range(10)])
    assert 0 < mirror._kept["lab"] < 20 * 20_000
    mirror.forget("Pod", [f"u{number}" for number in range(20)])
    assert mirror._kept["lab"] == 0


def test_many_faults_of_one_object_are_not_all_kept() -> None:
    wrong = {f"wrong-{number}": "x" * 1000 for number in range(1000)}
    document = {**job(), "spec": wrong}
    assert kept("MarketJob", document) < 150_000


def test_a_command_for_one_machine_is_not_kept() -> None:
    command: Document = {
        "command": ["x" * 1000] * 900,
        "env": [{"name": f"N{n}"} for n in range(256)],
    }
    assert kept("MarketJob", job(**command)) < 50_000


def test_ten_thousand_ordinary_pods_of_one_namespace_are_kept() -> None:
    mirror = Mirror(Scope("walras-system").kinds, lambda _: None, lambda: 0.0)
    made = pod("train-0", labels={f"label-{n}": "a" * 20 for n in range(6)})
    made["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    mirror.receive("Pod", made)
    assert 10_000 * mirror._kept["lab"] <= MOST_OF_NAMESPACE
    assert not mirror.world("").broken
