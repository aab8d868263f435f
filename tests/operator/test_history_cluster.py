"""The history on a real API server: its sizes and conditions are those that the server accepts."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from operator_cluster import OperatorCluster
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from walras.outcome.history import LARGEST_PART, SLOTS
from walras_api.contract import history_part
from walras_cli.cluster.connection import connect
from walras_cli.cluster.operator_history import HistoryReader
from walras_cli.cluster.options import Target
from walras_operator.history.config_maps import HistoryParts, StoredPart
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OperatorCluster]:
    made = OperatorCluster(f"hi-{time.time_ns() % 10**10}", tmp_path)
    try:
        yield made
    finally:
        parts = HistoryParts(made.api, made.name)
        for name, _, _ in list(parts.starts()):
            parts.delete(name)
        made.close()


def test_the_largest_part_is_stored_and_replaced_only_by_its_version(
    cluster: OperatorCluster,
) -> None:
    parts = HistoryParts(cluster.api, cluster.name)
    name, data = history_part(3), random.Random(1).randbytes(LARGEST_PART)
    parts.write(name, "samples", StoredPart("", 1200, 1260, {"job": data}))
    first = parts.read(name)
    assert first[1:] == (1200, 1260, {"job": data})
    parts.write(name, "samples", first._replace(start=2400))
    second = parts.read(name)
    assert second == first._replace(version=second.version, start=2400)
    for stale in (first, first._replace(version="")):
        with pytest.raises(ApiError) as caught:
            parts.write(name, "samples", stale)
        assert caught.value.reason == "conflict"
    assert parts.read(name) == second
    assert list(parts.starts()) == [(name, "samples", 2400)]
    parts.delete(name)
    parts.delete(name)
    assert parts.read(name) == StoredPart()


def test_an_operator_that_ends_writes_its_history(cluster: OperatorCluster) -> None:
    operator = cluster.operator("one")
    assert eventually(operator.leads, 60), operator.log.read_text()
    assert eventually(operator.ready, 60), operator.log.read_text()
    assert operator.end() == 0
    parts = HistoryParts(cluster.api, cluster.name)
    names = {name for name, kind, _ in parts.starts() if kind == "samples"}
    assert names, operator.log.read_text()
    assert names <= {history_part(place) for place in range(SLOTS)}
    reader = HistoryReader(connect(Target(kubeconfig=KUBECONFIG)), cluster.name)
    assert reader.read(3600, 60).source == "operator"
