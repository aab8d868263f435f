"""Run inside the guest by test_guest.py: how its kernel counts the weights of groups."""

import os
from pathlib import Path

import pytest

from walras_agent.kernel import Kernel, read_kernel

RELEASE = os.uname().release
SWITCH = Path("/sys/kernel/debug/sched/cgroup_mode")

if int(RELEASE.partition(".")[0]) < 7:

    def test_a_kernel_without_modes_counts_a_weight_once() -> None:
        assert Path(SWITCH.parent, "debug").exists()
        assert not SWITCH.exists()
        assert read_kernel() == Kernel(RELEASE, "smp", assumed=False)

else:

    @pytest.mark.parametrize("mode", ["smp", "concur"])
    def test_the_mode_that_the_administrator_sets_is_read(mode: str) -> None:
        before = read_kernel()
        assert before == Kernel(RELEASE, "concur", assumed=False)
        SWITCH.write_text(mode)
        try:
            assert read_kernel() == Kernel(RELEASE, mode, assumed=False)
        finally:
            SWITCH.write_text(before.cgroup_mode)

    def test_a_container_without_debugfs_assumes_the_default(tmp_path: Path) -> None:
        Path(tmp_path, "proc").symlink_to("/proc")
        assert read_kernel(tmp_path) == Kernel(RELEASE, "concur", assumed=True)
