"""What an agent says that pods can use which have not begun, or may not use what they could."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model_kernel import ModelKernel
from model_node import Node

if TYPE_CHECKING:
    from pathlib import Path

    from walras_agent.cpu_demand import CpuDemand


def seen(node: Node, **limits: int) -> CpuDemand | None:
    """Return what is shown of the only pod after a minute."""
    for _ in range(6):
        status = node.step(10.0, undisturbed=False, **limits)
    return status.pods[0].could_use


def started(folder: Path) -> Node:
    """Return a node with a pod, alone there, that has not used a CPU yet."""
    node = Node(ModelKernel(2), folder)
    node.start_pod("a")
    node.plan(a=4000)
    return node


def test_what_was_seen_before_a_container_begins_says_nothing_of_its_program(
    tmp_path: Path,
) -> None:
    node = started(tmp_path)
    before = seen(node)
    assert before is not None
    assert before.free == 20
    node.start_pod("a", number=1)
    assert node.step(10.0).pods[0].could_use is None


def test_a_pod_that_is_measured_is_never_seen_as_free(tmp_path: Path) -> None:
    node = started(tmp_path)
    node.use(a=2.0)
    measured = seen(node, a=2)
    assert measured is not None
    assert (measured.free, measured.threads) == (0, None)
    assert measured.held_back == 20
