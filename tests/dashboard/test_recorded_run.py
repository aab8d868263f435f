"""A local run can be looked at while it goes on, and afterwards."""

from __future__ import annotations

import json
import stat
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from command_line import walras
from walras_dashboard.dump import Dump
from walras_dashboard.figure_history import history_of
from walras_dashboard.following import FollowedFiles
from walras_dashboard.job_query import JobQuery
from walras_dashboard.viewers import Viewer
from walras_dashboard.views import Views

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.system

MARKET = """
apiVersion: walras.dev/v1alpha1
kind: Entitlement
metadata: {name: ada}
spec: {shares: 1, namespaces: [vision]}
---
apiVersion: walras.dev/v1alpha1
kind: MarketJob
metadata: {name: count, namespace: vision}
spec:
  entitlement: ada
  command: [sleep, "2"]
  env: [{name: TOKEN, value: s3cret}]
  parallelFraction: "0.9"
"""


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    (folder / "market.yaml").write_text(MARKET)
    file = folder / "records" / "run.json"
    options = ("--pin", "affinity", "--record", str(file))
    ended = walras("local", "run", *options, str(folder / "market.yaml"))
    assert ended.returncode == 0, ended.stderr
    assert f"walras dashboard -f {file}" in ended.stderr
    return file


def test_a_record_shows_the_run_as_a_cluster_of_one_node(record: Path) -> None:
    dump = Dump.of([record])
    views = Views(dump.state())
    assert views.overview.source.kind == "local"
    assert [(each.name, each.agent) for each in views.overview.nodes] == [("localhost", "Enforced")]
    (job,) = views.jobs(JobQuery()).jobs
    assert (job.namespace, job.name) == ("vision", "count")
    assert (job.entitlement, job.state) == ("ada", "Enforced")
    assert job.parallel_fraction == pytest.approx(0.9)
    node = views.node("localhost", dump.pods_on("localhost"))
    assert node is not None
    assert node.topology is not None
    owners = {
        thread.owner.job
        for socket in node.topology.sockets
        for numa in socket.numa_nodes
        for core in numa.cores
        for thread in core.threads
        if thread.owner is not None
    }
    assert owners == {"count"}


def test_a_record_has_the_course_of_its_run_at_its_own_times(record: Path) -> None:
    viewer = Viewer(Dump.of([record]))
    state = viewer.views().state
    assert [each.what for each in state.events if "vision/count" in each.what] == [
        "vision/count ended",
        "started vision/count",
    ]
    ended, started = (
        datetime.fromisoformat(each.time).timestamp()
        for each in state.events
        if "vision/count" in each.what
    )
    found = history_of(viewer, "job", "vision/count", 3600, 15)
    assert found.source == "record"
    assert found.times
    assert started - 5 <= found.times[0] <= found.times[-1] <= ended + 5
    held = next(each for each in found.series if each.name == "held")
    assert held.values[0] == viewer.views().job_rows[0].held
    assert {each.name for each in found.series} >= {"held", "used", "price"}
    assert found.times[0] - 5 <= state.facts.now.timestamp() <= ended + 5
    assert history_of(viewer, "cluster", "", 3600, 15).series


def test_a_record_holds_no_environment_and_is_its_users_own(record: Path) -> None:
    (job,) = (
        each for each in json.loads(record.read_text())["items"] if each["kind"] == "MarketJob"
    )
    assert job["spec"]["command"] == ["sleep", "2"]
    assert "s3cret" not in record.read_text()
    assert stat.S_IMODE(record.stat().st_mode) == 0o600


def test_a_record_that_is_not_there_yet_is_awaited_and_followed(
    record: Path, tmp_path: Path
) -> None:
    file = tmp_path / "run.json"
    followed = FollowedFiles([file])
    first = followed.state()
    assert "is not there yet" in first.notes[0]
    assert Views(first).overview.nodes == []
    file.write_text("{")
    assert "is not YAML" in followed.state().notes[0]
    file.write_text(record.read_text())
    assert len(followed.state().facts.jobs) == 1
    document = json.loads(record.read_text())
    document["items"] = [each for each in document["items"] if each["kind"] != "MarketJob"]
    file.write_text(json.dumps(document))
    latest = followed.state()
    assert not latest.facts.jobs
    assert latest.revision > first.revision
