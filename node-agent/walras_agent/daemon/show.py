"""Facts: the present state of the node, for the command ``walras-agent show``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walras_agent.daemon.node import NodeComponents

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from walras_agent.daemon.node import HostPaths
    from walras_agent.journal import Journal, Original
    from walras_agent.observe import ObservedPod
    from walras_api.node_allocation_status import NodeTopology


@dataclass(frozen=True, slots=True)
class NodeInspection:
    """State of a node before anything is written.

    Attributes:
        topology: CPUs and memory of the node.
        pods: Pods that have a cgroup on the node.
        changed: Original values of the files that the agent has written.
        refused: Why the agent must not write here; empty if it may.
    """

    topology: NodeTopology
    pods: Sequence[ObservedPod]
    changed: Sequence[Original]
    refused: str

    def table(self) -> str:
        """Return the state as tables of text."""
        node = self.topology
        parts = (
            f"{node.sockets} sockets",
            f"{node.numa_nodes} NUMA nodes",
            f"{node.cores} cores",
            f"{node.threads} threads",
            f"reserved: {node.reserved or 'none'}",
            f"{int(node.memory) / 2**30:.1f} GiB of memory",
        )
        lines = [f"CPUs {node.cpus}: {', '.join(parts)}"]
        if self.refused:
            lines.append(f"The agent must not write here: {self.refused}")
        lines += ["", *_columns([("POD", "CONTAINER", "CPUS"), *self._rows()])]
        if self.changed:
            # Of a table such as memory.oom_control only the first line is the value.
            before = ((str(each.setting), each.text.partition("\n")[0]) for each in self.changed)
            lines += ["", "Changed by the agent:", *_columns([("FILE", "BEFORE"), *before])]
        return "\n".join(lines)

    def json(self) -> str:
        """Return the state as a JSON document."""
        document: dict[str, Any] = {
            "topology": self.topology.model_dump(by_alias=True),
            "refused": self.refused,
            "pods": [
                {"podUID": uid, "container": container, "cpus": cpus}
                for uid, container, cpus in self._rows()
            ],
            "changed": [{"file": str(o.setting), "before": o.text} for o in self.changed],
        }
        return json.dumps(document, indent=1)

    def _rows(self) -> Iterable[tuple[str, str, str]]:
        for pod in self.pods:
            for container in pod.containers:
                name = container.group.name.rpartition("/")[2]
                yield pod.uid, name, str(container.group.cpus)


def inspect_node(paths: HostPaths, journal: Journal) -> NodeInspection:
    """Return the state of a node without writing anything.

    Raises:
        TreeError: The pods' cgroups were not found.
    """
    node = NodeComponents.open(paths, journal)
    return NodeInspection(
        topology=node.topology(),
        pods=node.reconciler.enforcer.observer.observe(),
        changed=sorted(journal.originals.values()),
        refused=node.reconciler.write_conflict(),
    )


def _columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows as lines in which every column is as wide as its widest cell."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
