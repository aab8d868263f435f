"""Facts: what the kubelet of this node does with CPUs itself.

Its CPU manager keeps a checkpoint (``cpu_manager_state`` in the kubelet's folder). With the policy
``static`` it assigns CPUs to containers and compares with what it last sent, never with the
cgroup (kubernetes 138731), so two would be writing the same files.
"""

from __future__ import annotations

import json
from pathlib import Path

STATE = Path("/var/lib/kubelet/cpu_manager_state")


def why_not(state: Path = STATE) -> str:
    """Why the agent must not write cpusets here; empty if it may.

    A kubelet without a checkpoint has no CPU manager; one that cannot be understood is taken for
    the worst.
    """
    try:
        text = state.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{state} cannot be read: {error.strerror}; mount the kubelet's folder"
    try:
        policy = json.loads(text)["policyName"]
    except (ValueError, KeyError, TypeError):
        return f"{state} is not a checkpoint of the kubelet's CPU manager that this agent knows"
    if policy == "none":
        return ""
    return (
        f"the kubelet's CPU manager has the policy {policy!r} and writes cpusets itself: set "
        "cpuManagerPolicy to none, drain the node, remove cpu_manager_state, restart the kubelet"
    )
