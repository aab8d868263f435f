"""Facts: the paths of the host, and the components that work on them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from walras_agent.cpuset import CpuSet
from walras_agent.daemon.inotify import WatchedPods
from walras_agent.daemon.report import topology_of
from walras_agent.enforce import CpuEnforcer
from walras_agent.kernel import read_kernel
from walras_agent.kubelet import Kubelet
from walras_agent.kubepods import Layout
from walras_agent.memory.enforce import MemoryEnforcer
from walras_agent.memory.numa import NumaEnforcer
from walras_agent.observe import ControllerDisabledError, PodObserver, read_group
from walras_agent.open_file_tree import OpenFileTree
from walras_agent.own_group import OwnGroup, find_unwritable_group
from walras_agent.profiling.instruments import Instruments
from walras_agent.profiling.profiler import Profiler
from walras_agent.profiling.watched_counters import WatchedCounters
from walras_agent.reconcile import Reconciler
from walras_agent.runtime_driver import RuntimeDriver
from walras_agent.topology import TopologyReader, possible_cpus
from walras_agent.tree import CgroupTree, TreeError

if TYPE_CHECKING:
    from walras_agent.daemon.inotify import ChangeWaiter
    from walras_agent.journal import Journal
    from walras_agent.kernel import Kernel
    from walras_agent.kubepods import Driver
    from walras_api.node_allocation_status import NodeTopology


@dataclass(frozen=True, slots=True)
class HostPaths:
    """Paths of the host as the agent sees them, perhaps from a container, and kubelet settings.

    Attributes:
        cgroups: Folder where the host's cgroups are mounted.
        host: Folder where the host's root is mounted, for ``/sys``, ``/proc`` and kubelet files.
        driver: The kubelet's ``--cgroup-driver``; None to detect it.
        root: The kubelet's ``--cgroup-root``; empty to read it from the kubelet's configuration.
        reserved: CPUs that no pod may have exclusively; None for those that the kubelet reserves.
        in_cluster: Whether the node is one of a cluster, and therefore has a kubelet.
    """

    cgroups: Path = Path("/sys/fs/cgroup")
    host: Path = Path("/")
    driver: Driver | None = None
    root: str = ""
    reserved: CpuSet | None = None
    in_cluster: bool = False

    def pods(self) -> tuple[CgroupTree, Layout]:
        """Return the cgroup file systems, and the location of pods in them.

        Raises:
            TreeError: The pods' cgroups were not found.
        """
        tree = CgroupTree.at(self.cgroups)
        root = self.root or self.kubelet().cgroup_root()
        if self.driver is None:
            return tree, Layout.find(tree, root)
        layout = Layout(self.driver, root)
        if tree.identity(layout.pods) is None:
            raise TreeError(
                f"cannot find the cgroup of all pods: {layout.pods} does not exist; "
                "set --cgroup-driver and --cgroup-root to the kubelet's values"
            )
        return tree, layout

    def kubelet(self) -> Kubelet:
        """Return the settings of the node's kubelet."""
        return Kubelet(self.host, self.reserved, expected=self.in_cluster)


@dataclass(frozen=True, slots=True)
class NodeComponents:
    """Components of the agent on one node.

    Attributes:
        tree: Cgroup file systems, for use by any thread.
        layout: Location of pods among the cgroups.
        cpus: Reads the CPUs that pods may have now.
        kubelet: Settings of the node's kubelet.
        reconciler: Observes the node and enforces the plan.
        profiler: Measures pods while they run.
        counters: Reads the progress counters of pods with deadlines.
    """

    tree: CgroupTree
    layout: Layout
    cpus: TopologyReader
    kubelet: Kubelet
    reconciler: Reconciler
    profiler: Profiler
    counters: WatchedCounters

    @classmethod
    def open(
        cls, paths: HostPaths, journal: Journal, waiter: ChangeWaiter | None = None
    ) -> NodeComponents:
        """Create the components of this node.

        Args:
            paths: Paths of the host.
            journal: Journal of original values.
            waiter: Watches the pods' cgroups; None for no watch.

        Raises:
            TreeError: The pods' cgroups were not found, or their CPUs cannot be read.
        """
        tree, layout = paths.pods()
        kubelet = paths.kubelet()
        cpus = TopologyReader(lambda: _allowed(tree, layout), paths.host)
        try:
            cpus()
        except ValueError as error:
            raise TreeError(f"the machine's CPUs cannot be read: {error}") from error
        source = layout if waiter is None else WatchedPods(layout, tree, waiter)
        # Only the loop keeps files open: another thread might read one that it has just closed.
        kept = OpenFileTree(tree.version, tree.mounts)
        own = find_unwritable_group(tree, layout)
        groups = kept if own is None else OwnGroup(kept, own)
        observer = PodObserver(groups, source)
        possible = possible_cpus(paths.host)
        runtime = RuntimeDriver(groups, layout)
        kernel = read_kernel(paths.host)
        enforcer = CpuEnforcer(
            groups,
            observer,
            journal,
            reserved=kubelet.reserved,
            possible=possible,
            classes=layout.classes,
            concurrent=kernel is not None and kernel.counts_for_each_cpu,
        )
        reconciler = Reconciler(
            enforcer,
            MemoryEnforcer(groups, journal),
            NumaEnforcer(groups, journal, paths.host),
            topology=cpus,
            write_conflict=lambda: kubelet.conflict() or runtime.conflict(),
        )
        instruments = Instruments(
            tree, layout, lambda: cpus().cpuset, traffic=paths.host / "sys/fs/resctrl"
        )
        counters = WatchedCounters(lambda each: instruments.own_counter(each.pod, each.source))
        profiler = Profiler(instruments.open)
        return cls(tree, layout, cpus, kubelet, reconciler, profiler, counters)

    def topology(self) -> NodeTopology:
        """Return the CPUs that pods may have now, and the memory of the node."""
        return topology_of(self.cpus(), self.kubelet.reserved(), psutil.virtual_memory().total)

    def kernel(self) -> Kernel | None:
        """Return the kernel of the node, whose mode an administrator may change at any time."""
        return read_kernel(self.cpus.root)


def _allowed(tree: CgroupTree, layout: Layout) -> CpuSet:
    """Return the CPUs that pods may have; this process, a pod without a grant, may have fewer."""
    for name in (layout.pods, "/"):
        with suppress(ControllerDisabledError):  # the root has its file always
            group = read_group(tree, name)
            if group is not None:
                return group.cpus
    return CpuSet()
