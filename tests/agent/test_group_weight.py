"""Whether a weight counts once for each CPU is known by the kernel's mode, or by its version."""

from pathlib import Path

import pytest

from walras_agent.group_weight import counts_for_each_cpu


@pytest.mark.parametrize(
    ("release", "counts"),
    [("6.18.0-rc1", False), ("7.0.0", True), ("7.3.1-cloud", True), ("10.1", True), ("", False)],
)
def test_without_debugfs_the_version_tells(release: str, tmp_path: Path, *, counts: bool) -> None:
    assert counts_for_each_cpu(tmp_path, release) is counts


@pytest.mark.parametrize(
    ("modes", "counts"),
    [("up smp (concur) max tasks\n", True), ("up (smp) concur max", False)],
)
def test_the_mode_counts_where_it_can_be_read(modes: str, tmp_path: Path, *, counts: bool) -> None:
    file = tmp_path / "sys/kernel/debug/sched/cgroup_mode"
    file.parent.mkdir(parents=True)
    file.write_text(modes)
    assert counts_for_each_cpu(tmp_path, "7.3") is counts
