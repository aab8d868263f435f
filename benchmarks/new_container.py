"""Measure how long a new container runs on CPUs that another pod owns, before it is confined.

The agent runs as a process of its own (``walras-agent run``), as root, on real cgroups of this
machine. One pod owns a core. Containers of another pod begin one after the other, each with a
process, and the time is taken until the kernel says that the process cannot use the owned core.
After that, the agent is killed, a container begins, and the time is taken from the start of a new
agent: that of the program, its modules included.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from real_pods import TREE, RealPods, allowed
from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_agent.tree import CgroupTree

CONTAINERS = 50
RETURNS = 5
LONGEST = 60.0  # seconds
BOUNDS = (0.01, 0.03, 0.1, 0.3, 1.0)  # of the histogram, in seconds


class Node(RealPods):
    """Pods of this machine, and an agent that can be killed."""

    def __init__(self, tree: CgroupTree, folder: Path) -> None:
        super().__init__(tree)
        self.folder = folder
        self.plan = folder / "plan.json"
        grant = {"podUID": "aa", "namespace": "bench", "name": "owner", "cores": "1"}
        document = {
            "apiVersion": "walras.dev/v1alpha1",
            "kind": "NodeAllocation",
            "metadata": {"name": "bench"},
            "spec": {"epoch": 1, "grants": [grant]},
        }
        self.plan.write_text(json.dumps(document))
        self.owner = self.start("aa")
        self.start("bb")

    def agent(self) -> subprocess.Popen[bytes]:
        """Start an agent."""
        options = ("--cgroup-root", self.layout.root, "--cgroup-driver", "cgroupfs")
        state = ("--state-folder", str(self.folder / "state"), "--listen", "off")
        return subprocess.Popen(
            [sys.executable, "-m", "walras_agent", "run", str(self.plan), *options, *state],
            stderr=subprocess.DEVNULL,
        )

    def confined(self, pid: int, owned: CpuSet) -> float:
        """Return the seconds until a process cannot use the owned CPUs."""
        began = time.monotonic()
        while allowed(pid) & owned:
            if time.monotonic() > began + LONGEST:
                sys.exit(f"not confined after {LONGEST:.0f} s")
            time.sleep(0.0005)
        return time.monotonic() - began

    def owned(self) -> CpuSet:
        """Return the CPUs of the owner, once it has some alone."""
        everything = CpuSet(os.sched_getaffinity(0))
        began = time.monotonic()
        while (cpus := allowed(self.owner)) == everything:
            if time.monotonic() > began + LONGEST:
                sys.exit(f"the agent enforced nothing in {LONGEST:.0f} s")
            time.sleep(0.01)
        return cpus


def with_an_agent(node: Node) -> Iterator[float]:
    """Yield times of containers that begin while the agent runs."""
    owned = node.owned()
    for number in range(1, CONTAINERS + 1):
        yield node.confined(node.start("bb", number=number), owned)
        time.sleep(0.05)


def after_its_return(node: Node) -> Iterator[float]:
    """Yield times of containers that begin while no agent runs, from the start of the next one."""
    owned = node.owned()
    for number in range(RETURNS):
        pid = node.start("bb", number=CONTAINERS + 1 + number)
        agent = node.agent()
        yield node.confined(pid, owned)
        agent.kill()
        agent.wait()


def show(title: str, seconds: list[float]) -> None:
    """Print median, worst and a histogram."""
    print(
        f"{title}: median {1000 * statistics.median(seconds):.0f} ms, "
        f"worst {1000 * max(seconds):.0f} ms, n = {len(seconds)}"
    )
    below = 0
    for bound in (*BOUNDS, float("inf")):
        count = sum(each <= bound for each in seconds) - below
        below += count
        print(f"  <= {bound:>5} s  {count:>3}  {'#' * count}")


def main() -> None:
    """Measure on this machine."""
    if TREE is None:
        print("new_container: skipped: needs root, and cgroups with cpuset, cpu and memory")
        return
    with tempfile.TemporaryDirectory() as folder:
        node = Node(TREE, Path(folder))
        try:
            agent = node.agent()
            try:
                show("with an agent", list(with_an_agent(node)))
            finally:
                agent.send_signal(signal.SIGKILL)
                agent.wait()
            show("after an agent's return", list(after_its_return(node)))
        finally:
            node.close()


if __name__ == "__main__":
    main()
