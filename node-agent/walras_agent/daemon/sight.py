"""Facts: this node as it is now, for people who want to see before they change anything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walras_agent.daemon.node import Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from walras.resources.node_status import NodeTopology
    from walras_agent.daemon.node import Whereabouts
    from walras_agent.journal import Journal, Original
    from walras_agent.observe import Pod


@dataclass(frozen=True, slots=True)
class Sight:
    """What is to be seen.

    Attributes:
        topology: The node's CPUs.
        pods: That are there.
        changed: Files that the agent has written to, with what they said before.
        refused: Why the agent may write nothing here; empty if it may.
    """

    topology: NodeTopology
    pods: Sequence[Pod]
    changed: Sequence[Original]
    refused: str

    def table(self) -> str:
        """For people."""
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
            lines.append(f"The agent may not write here: {self.refused}")
        lines += ["", *_columns([("POD", "CONTAINER", "CPUS"), *self._rows()])]
        if self.changed:
            # All that counts of a table such as memory.oom_control is its first line.
            before = ((str(each.setting), each.text.partition("\n")[0]) for each in self.changed)
            lines += ["", "Changed by the agent:", *_columns([("FILE", "BEFORE"), *before])]
        return "\n".join(lines)

    def json(self) -> str:
        """For scripts."""
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


def look_around(where: Whereabouts, journal: Journal) -> Sight:
    """Look at a node; nothing is written.

    Raises:
        TreeError: There are no cgroups of pods.
        KubeletError: The kubelet's configuration cannot be understood.
    """
    node = Node.open(where, journal)
    return Sight(
        topology=node.topology(),
        pods=node.reconciler.enforcer.observer.observe(),
        changed=sorted(journal.originals.values()),
        refused=node.reconciler.why_not(),
    )


def _columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines in which every column is as wide as its widest cell."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
