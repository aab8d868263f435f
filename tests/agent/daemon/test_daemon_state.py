"""State that outlives the process: the last plan, the last measurement, and the agents' lock."""

from __future__ import annotations

import os
import stat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from walras_agent.daemon.agent import Agent
from walras_agent.daemon.state import StateError, open_state
from walras_agent.profiling.profiler import Profiler
from walras_agent.profiling.request import MeasurementRequest
from walras_api.node_allocation_status import ProfilingStatus
from walras_api.parse import parse_allocation

if TYPE_CHECKING:
    from pathlib import Path

PLAN = parse_allocation(
    {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "NodeAllocation",
        "metadata": {"name": "node-1"},
        "spec": {
            "epoch": 3,
            "grants": [{"podUID": "a", "name": "b", "cores": "1.25", "memory": "3Mi"}],
            "profiling": {"id": "m", "podUID": "a", "progress": {"file": "/count"}},
        },
        "status": {"epoch": 2},
    }
)


def test_plan_and_measurement_come_back(tmp_path: Path) -> None:
    measured = ProfilingStatus(id="m", pod_uid="a", state="Failed", reason="no counter")
    with open_state(tmp_path / "state") as state:
        assert state.last_plan() is None
        assert state.last_measurement() is None
        state.save_plan(PLAN)
        state.save_measurement(measured)
    with open_state(tmp_path / "state") as state:
        kept = state.last_plan()
        assert kept is not None
        assert (kept.spec, kept.metadata, kept.status) == (PLAN.spec, PLAN.metadata, None)
        assert state.last_measurement() == measured
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_a_measurement_that_its_agent_did_not_survive_has_failed_and_is_never_continued(
    tmp_path: Path,
) -> None:
    none: Any = None
    node: Any = SimpleNamespace(profiler=Profiler(lambda _: pytest.fail("it is begun again")))
    with open_state(tmp_path) as state:
        state.save_measurement(ProfilingStatus(id="m", pod_uid="a", state="Running"))
    with open_state(tmp_path) as state:
        agent = Agent(node, none, state, none, ())
        agent.resume()
        told = agent._measurement()
    assert told is not None
    assert (told.id, told.state) == ("m", "Failed")
    assert "the agent restarted during the measurement" in told.reason
    node.profiler.offer(MeasurementRequest("m", "a"), now=0.0)
    assert node.profiler.report is None


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with open_state(tmp_path):
        refused = f"another walras-agent \\(process {os.getpid()}\\)"
        with pytest.raises(StateError, match=refused), open_state(tmp_path):
            pytest.fail("two had it")
    with open_state(tmp_path):
        pass


@pytest.mark.parametrize("name", ["plan.json", "measurement.json"])
@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "Pod"}'])
def test_file_of_another_version_is_passed_over(
    tmp_path: Path, name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).write_text(text)
    with open_state(tmp_path) as state:
        assert state.last_plan() is None
        assert state.last_measurement() is None
    (said,) = [record.message for record in caplog.records]
    assert said.startswith(f"{tmp_path / name}: ignored: ")
    assert "\n" not in said


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = r"file/state: .*; give another folder by --state-folder"
    with pytest.raises(StateError, match=refused), open_state(tmp_path / "file" / "state"):
        pytest.fail("it was had")


def test_plan_is_forgotten(tmp_path: Path) -> None:
    with open_state(tmp_path) as state:
        state.forget_plan()
        state.save_plan(PLAN)
        state.forget_plan()
        assert state.last_plan() is None
