"""The kubelet's own CPU manager keeps the agent off, unless it does nothing."""

from pathlib import Path

import pytest

from walras_agent.kubelet import why_not


def test_without_a_cpu_manager_the_agent_may(tmp_path: Path) -> None:
    assert why_not(tmp_path / "cpu_manager_state") == ""


def test_policy_none_does_nothing(tmp_path: Path) -> None:
    state = tmp_path / "cpu_manager_state"
    state.write_text('{"policyName":"none","defaultCpuSet":"","checksum":1353318690}')
    assert why_not(state) == ""


def test_static_policy_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """It compares with what it last sent, never with the cgroup (kubernetes 138731)."""
    state = tmp_path / "cpu_manager_state"
    state.write_text('{"policyName":"static","defaultCpuSet":"0-7","checksum":1}')
    assert "'static'" in why_not(state)
    assert "set cpuManagerPolicy to none" in why_not(state)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"policy": "none"}', "\xff\xfe"])
def test_checkpoint_that_is_not_understood_is_taken_for_the_worst(
    tmp_path: Path, text: str
) -> None:
    state = tmp_path / "cpu_manager_state"
    state.write_bytes(text.encode("latin-1"))
    assert "is not a checkpoint" in why_not(state)


def test_checkpoint_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert "cannot be read: Is a directory" in why_not(tmp_path)
