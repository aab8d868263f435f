"""Walras installed on an emulated node, beside two teams' programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cluster_tools import SYSTEM, apply, helm, kubectl, pods
from installed import CHART, begin_programs, settings_of
from shared_node import QUIET_PROGRAM, Shared, entitlement, values
from virtual_node import VirtualNode
from waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 1800.0
"""Seconds: a pod needs minutes to begin there."""

AGENT = "app.kubernetes.io/component=agent"


class Life:
    """Walras on the emulated node.

    Attributes:
        node: Emulated node.
        shared: Cores and memory that the programs hold on the node.
        before: Values of the files that Walras may change, by container, before it was installed.
    """

    def __init__(self, folder: Path, *, reserved: int = 1, whole: bool = False) -> None:
        self._killed = 0
        self.node = VirtualNode()
        self.shared = Shared(self.node)
        begin_programs(
            self.shared, PATIENCE, dict.fromkeys(("index", "decode", "align"), QUIET_PROGRAM)
        )
        self.before = self.settings()
        self.groups = self.node.cgroups.containers()
        self.groups = {name: group for name, group in self.groups.items() if name in self.before}
        chosen = values(self.node)
        cores = {"reservedCores": reserved, "memoryNodes": "local", "wholeCores": whole}
        chosen["market"]["spec"]["cores"] = cores | {"isolated": True}
        chosen["market"]["spec"]["profiling"] = {"sampleSeconds": 10, "repeats": 1}
        chosen["operator"]["leaseSeconds"] = 60
        chosen["agent"]["profiling"] = {"files": True}
        chosen["hooks"] |= {"installSeconds": 1500, "releaseSeconds": 1500}  # less than helm's
        (folder / "values.json").write_text(json.dumps(chosen))
        options = ("--create-namespace", "--values", str(folder / "values.json"))
        helm("install", "walras", CHART, *options, "--wait", "--timeout", "30m")
        apply(entitlement("vision", 2), entitlement("speech", 1))

    def settings(self) -> dict[str, dict[str, str | None]]:
        return settings_of(self.node.cgroups)

    def deploy_agents(self, *, nowhere: bool) -> None:
        """Remove the agents from all nodes, or bring them back."""
        self._killed = 0  # new pods, which count from none
        selector = {"walras.dev/nowhere": "" if nowhere else None}
        patch = {"spec": {"template": {"spec": {"nodeSelector": selector}}}}
        kubectl("patch", "daemonset", "-n", SYSTEM, "walras-agent", "-p", json.dumps(patch))

    def forget_containers(self) -> None:
        """Expect the same settings of new containers as of the old ones, which were all alike."""
        (settings,) = {json.dumps(each) for each in self.before.values()}
        self.before = {name: json.loads(settings) for name in self.settings()}

    def settles(self) -> dict[str, float]:
        """Wait until all grants of a plan hold, at least one of them of two cores or more.

        Return these grants, since the next plan may already be on its way; nothing if time runs
        out.
        """
        held: dict[str, float] = {}

        def settled() -> bool:
            granted = self.shared.granted()
            if max(granted.values(), default=0) < 2 or self.shared.amiss():
                return False
            held.update(granted)
            return True

        eventually(settled, PATIENCE, pause=5)
        return held

    def told(self) -> str:
        """Return a text with what was granted, what the kernel has, and how they differ."""
        own, has = self.shared.own(), self.shared.cpus()
        return f"{self.shared.granted()}: {own} of {has}: {self.shared.amiss()}"

    def kill_agent(self) -> None:
        """Kill the agent, and wait until it is there again."""
        before = self._restarts()
        self.node.shell("pkill -KILL -f 'bin/[w]alras-agent'")
        assert eventually(lambda: self._restarts() > before, PATIENCE, pause=2)
        self._killed += self._restarts() - before

    def unexpected_restarts(self) -> int:
        """Return how often the agent's container was restarted other than by `kill_agent`."""
        return self._restarts() - self._killed

    def _restarts(self) -> int:
        (agent,) = pods(SYSTEM, AGENT)
        (status,) = agent["status"]["containerStatuses"]
        return int(status["restartCount"])
