"""Names pods' cgroups as the kubelet does; the agent's code only names the group of all pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from walras_agent.kubepods import Layout

QosClass = Literal["Guaranteed", "Burstable", "BestEffort"]


def pod_group(layout: Layout, uid: str, qos: QosClass = "Burstable") -> str:
    """Return the cgroup of a pod."""
    names = [f"pod{uid}"] if qos == "Guaranteed" else [qos.lower(), f"pod{uid}"]
    if layout.driver == "cgroupfs":
        return "/".join([layout.pods, *names])
    group = layout.pods
    for name in names:
        above = group.rpartition("/")[2].removesuffix(".slice")
        group = f"{group}/{above}-{name.replace('-', '_')}.slice"
    return group
