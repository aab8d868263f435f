"""Which kernel a node has, and how it counts weights: of fabricated files, and of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from walras_agent.kernel import Kernel, read_kernel

if TYPE_CHECKING:
    from pathlib import Path

DEBUGFS = "sys/kernel/debug/sched"


def node(root: Path, release: str, **shown: str) -> Path:
    """Return the root of a node with a kernel, and files that are shown in folders of debugfs."""
    (root / "proc/sys/kernel").mkdir(parents=True)
    (root / "proc/sys/kernel/osrelease").write_text(f"{release}\n")
    for name, text in shown.items():
        (root / DEBUGFS).mkdir(parents=True)
        (root / DEBUGFS / name).write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(
    ("release", "shown", "found"),
    [
        ("6.12.57-cloud", {}, ("smp", False)),
        ("5.14.0-503.el9", {}, ("smp", False)),
        ("7.3.4+deb13", {}, ("concur", True)),
        ("10.0.0", {}, ("concur", True)),
        ("7.3.4", {"cgroup_mode": "up smp (concur) max tasks"}, ("concur", False)),
        ("7.3.4", {"cgroup_mode": "up (smp) concur max tasks"}, ("smp", False)),
        ("7.3.4", {"features": "PLACE_LAG"}, ("smp", False)),
        ("6.12.57", {"cgroup_mode": "up smp (concur) max tasks"}, ("concur", False)),
        ("7.3.4", {"cgroup_mode": "in another form"}, ("concur", True)),
    ],
    ids=[
        *("before 7.0", "long before 7.0", "7.3", "two digits"),
        *("its default is seen", "its administrator chose", "a kernel without modes"),
        *("a kernel to which modes were added", "a form of later"),
    ],
)
def test_a_kernel_is_read_and_assumed_where_it_hides(
    tmp_path: Path, release: str, shown: dict[str, str], found: tuple[str, bool]
) -> None:
    mode, assumed = found
    assert read_kernel(node(tmp_path, release, **shown)) == Kernel(release, mode, assumed)


def test_a_container_without_debugfs_reads_the_first_process_s(tmp_path: Path) -> None:
    inside = node(tmp_path, "7.3.4")
    node(inside / "proc/1/root", "7.3.4", cgroup_mode="up (smp) concur max tasks")
    assert read_kernel(inside) == Kernel("7.3.4", "smp", assumed=False)


def test_a_hidden_kernel_is_unknown(tmp_path: Path) -> None:
    assert read_kernel(tmp_path) is None


@pytest.mark.system
def test_this_machine_s_kernel_is_read() -> None:
    found = read_kernel()
    assert found is not None
    assert found.release == os.uname().release
