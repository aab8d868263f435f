"""Facts: where the parts of this node are, and how they fit together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from walras_agent import kubelet
from walras_agent.cpuset import CpuSet
from walras_agent.daemon.report import topology_of
from walras_agent.daemon.wake import FollowedPods
from walras_agent.enforce import Enforcer
from walras_agent.kept import KeptTree
from walras_agent.kubepods import Layout
from walras_agent.memory.keeper import MemoryKeeper
from walras_agent.memory.nodes import NodeKeeper
from walras_agent.observe import Observer, read_group
from walras_agent.own_group import OwnGroup, unwritable
from walras_agent.profiling.instruments import Instruments
from walras_agent.profiling.profiler import Profiler
from walras_agent.reconcile import Reconciler
from walras_agent.topology import TopologyReader, possible_cpus
from walras_agent.tree import CgroupTree, TreeError

if TYPE_CHECKING:
    from walras.resources.node_status import NodeTopology
    from walras_agent.daemon.wake import Wake
    from walras_agent.journal import Journal
    from walras_agent.kubepods import Driver


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where things are on this node; the agent may run in a container that has them elsewhere.

    Attributes:
        cgroups: Where cgroups are mounted.
        host: The host's root, for ``/sys``, ``/proc`` and the kubelet's files.
        driver: The kubelet's ``--cgroup-driver``; None to find out.
        root: The kubelet's ``--cgroup-root``.
        reserved: CPUs that nobody may have of their own; None for those that the kubelet reserves.
    """

    cgroups: Path = Path("/sys/fs/cgroup")
    host: Path = Path("/")
    driver: Driver | None = None
    root: str = "/"
    reserved: CpuSet | None = None

    def pods(self) -> tuple[CgroupTree, Layout]:
        """Find the cgroups of pods.

        Raises:
            TreeError: They are not there.
        """
        tree = CgroupTree.at(self.cgroups)
        if self.driver is None:
            return tree, Layout.find(tree, self.root)
        layout = Layout(self.driver, self.root)
        if tree.identity(layout.pods) is None:
            raise TreeError(
                f"the pods' cgroup {layout.pods} is not there; give the kubelet's "
                "--cgroup-driver and --cgroup-root"
            )
        return tree, layout

    def reserved_cpus(self) -> CpuSet:
        """CPUs that nobody may have of their own.

        Raises:
            KubeletError: The kubelet's configuration cannot be understood.
        """
        return kubelet.reserved_cpus(self.host) if self.reserved is None else self.reserved


@dataclass(frozen=True, slots=True)
class Node:
    """The parts of the agent, on one node.

    Attributes:
        tree: Its cgroups, for any thread.
        layout: Where pods are among them.
        cpus: Reads the CPUs that pods may have now.
        reserved: CPUs that nobody may have of their own.
        reconciler: Looks and writes.
        profiler: Measures pods while they run.
    """

    tree: CgroupTree
    layout: Layout
    cpus: TopologyReader
    reserved: CpuSet
    reconciler: Reconciler
    profiler: Profiler

    @classmethod
    def open(cls, where: Whereabouts, journal: Journal, wake: Wake | None = None) -> Node:
        """Put the parts together.

        Args:
            where: Things are.
            journal: Has the originals.
            wake: Is told which pods there are.

        Raises:
            TreeError: There are no cgroups of pods, or none of their CPUs can be read.
            KubeletError: The kubelet's configuration cannot be understood.
        """
        tree, layout = where.pods()
        reserved = where.reserved_cpus()
        cpus = TopologyReader(lambda: _allowed(tree, layout), where.host)
        try:
            cpus()
        except ValueError as error:
            raise TreeError(f"the machine's CPUs cannot be read: {error}") from error
        source = layout if wake is None else FollowedPods(layout, tree, wake)
        # Files stay open for the loop alone: other threads might read what it has just closed.
        kept = KeptTree(tree.version, tree.mounts)
        own = unwritable(tree, layout)
        groups = kept if own is None else OwnGroup(kept, own)
        observer = Observer(groups, source, where.host / "proc")
        possible = possible_cpus(where.host)
        reconciler = Reconciler(
            Enforcer(groups, observer, journal, reserved=reserved, possible=possible),
            MemoryKeeper(groups, journal),
            NodeKeeper(groups, journal, where.host),
            topology=cpus,
            why_not=lambda: kubelet.why_not(where.host / kubelet.STATE.relative_to("/")),
        )
        instruments = Instruments(
            tree, layout, lambda: cpus().cpuset, traffic=where.host / "sys/fs/resctrl"
        )
        return cls(tree, layout, cpus, reserved, reconciler, Profiler(instruments.open))

    def topology(self) -> NodeTopology:
        """The CPUs that pods may have now, and the node's memory."""
        return topology_of(self.cpus(), self.reserved, psutil.virtual_memory().total)


def _allowed(tree: CgroupTree, layout: Layout) -> CpuSet:
    """The CPUs that pods may have; this process, a pod without a grant, may have fewer."""
    group = read_group(tree, layout.pods) or read_group(tree, "/")
    return group.cpus if group else CpuSet()
