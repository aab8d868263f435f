"""Two teams' programs on a real node, the chart's values for it, and what the programs hold."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from cluster_tools import SYSTEM, containers, get, pods, ready
from node_cgroups import parse_cpus
from node_watcher import ALLOCATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster_tools import Document

OURS = "walras.dev/v1alpha1"
CPUS = os.cpu_count() or 1

TEAMS = {"vision": ("train", "index"), "speech": ("decode", "align")}
"""Programs by team; a team has a namespace and an Entitlement of its name."""

PROGRAM = """
import hashlib, threading, time
def work():
    while True:
        hashlib.pbkdf2_hmac("sha256", b"words", b"salt", 10_000)  # Python's lock is not held
        time.sleep(0.5)
for _ in range(4):
    threading.Thread(target=work).start()
"""


QUIET_PROGRAM = PROGRAM.replace("sleep(0.5)", "sleep(20)")
"""The same program with longer pauses, for nodes so slow that four of the other take all CPUs."""

BUSY_PROGRAM = PROGRAM.replace("        time.sleep(0.5)\n", "")
"""The same program without pauses, which uses all CPUs that it can have."""


class Cgroups(Protocol):
    """The cgroups of a node; see `node_cgroups.NodeCgroups`."""

    def containers(self) -> Mapping[str, str]: ...

    def cpus(self, group: str) -> frozenset[int] | None: ...

    def settings(self, group: str) -> dict[str, str | None]: ...


class Node(Protocol):
    """A node whose cgroups can be read."""

    name: str

    @property
    def cgroups(self) -> Cgroups: ...

    def kubelet_folders(self) -> dict[str, str]: ...


def namespace(team: str) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}}


def deployment(team: str, program: str, image: str, script: str = PROGRAM) -> Document:
    """Return a Deployment of one pod with four threads, on the host network, from a local image."""
    labels = {"app": program}
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", script],
    }
    pod = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": program, "namespace": team},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def entitlement(team: str, shares: int) -> Document:
    spec = {"shares": shares, "namespaces": [team]}
    return {"apiVersion": OURS, "kind": "Entitlement", "metadata": {"name": team}, "spec": spec}


def job(team: str, program: str, work: str = "1") -> Document:
    spec = {
        "entitlement": team,
        "selector": {"matchLabels": {"app": program}},
        "work": work,
        "parallelFraction": "0.95",
    }
    where = {"name": program, "namespace": team}
    return {"apiVersion": OURS, "kind": "MarketJob", "metadata": where, "spec": spec}


def values(node: Node) -> dict[str, Any]:
    """Return values of the chart for one node that has no network for pods.

    Walras itself requests no CPU, since what it requests is off the market, and there may be but
    two. One core always stays shared: where there are more than two, let it be the reserve.
    Programs of a core and more share none, so that it can be seen whose a CPU is.
    """
    cores = {"reservedCores": int(CPUS > 2), "wholeCores": True, "isolated": True}
    nothing = {"requests": {"cpu": "0", "memory": "32Mi"}}
    return {
        "image": {"registry": "localhost"},
        "hostNetwork": True,
        "market": {"spec": {"mode": "enforce", "epochSeconds": 5, "cores": cores}},
        "operator": {"port": 28080, "resources": nothing, "leaseSeconds": 6},
        "agent": {
            "port": 29465,
            "resources": nothing,
            "kubelet": node.kubelet_folders(),
            "periodSeconds": 2,  # what programs want of memory is looked at as often
            "releaseAfterSeconds": 5,  # for as long as an uninstall waits, and then some
        },
        "hooks": {"resources": nothing},
    }


def own_cpus(
    cpus: Mapping[str, frozenset[int]], others: frozenset[int] = frozenset()
) -> dict[str, frozenset[int]]:
    """Return the CPUs of each program that no other one uses.

    Args:
        cpus: CPUs that each program may use.
        others: CPUs that pods without a grant use.
    """
    return {
        program: mine.difference(others, *(cpus[other] for other in cpus if other != program))
        for program, mine in cpus.items()
    }


class Shared:
    """The cores and memory that the teams' programs hold on a node.

    Attributes:
        node: Node on which the programs run.
    """

    def __init__(self, node: Node) -> None:
        self.node = node

    def allocation(self) -> Document:
        return get(f"{ALLOCATIONS}/{self.node.name}")

    def granted(self) -> dict[str, float]:
        """Return the granted cores by program; nothing unless the agent enforces the whole plan."""
        found = self.allocation()
        enforced = found.get("status", {}).get("enforcedEpoch")
        if not ready(found) or enforced != found["spec"]["epoch"]:
            return {}
        return _grants(found)

    def cpus(self) -> dict[str, frozenset[int]]:
        """Return the CPUs that the programs' containers may use, by their cgroups."""
        return self._cpus_in(self.node.cgroups.containers())

    def own(self) -> dict[str, frozenset[int]]:
        """Return the programs' CPUs that no other pod uses."""
        groups = self.node.cgroups.containers()
        return own_cpus(self._cpus_in(groups), self._cpus_of(groups, *pods(SYSTEM)))

    def _cpus_in(self, groups: Mapping[str, str]) -> dict[str, frozenset[int]]:
        return {
            program: self._cpus_of(groups, pod)
            for team, programs in TEAMS.items()
            for program in programs
            for pod in pods(team, f"app={program}")
            if containers(pod)
        }

    def _cpus_of(self, groups: Mapping[str, str], *some: Document) -> frozenset[int]:
        found = (groups.get(container) for pod in some for container in containers(pod))
        return frozenset().union(*(self.node.cgroups.cpus(each) or () for each in found if each))

    def groups(self) -> dict[str, str]:
        """Return the cgroups of the programs' containers, by program."""
        return self._groups_in(self.node.cgroups.containers())

    def _groups_in(self, groups: Mapping[str, str]) -> dict[str, str]:
        return {
            program: groups[container]
            for team, programs in TEAMS.items()
            for program in programs
            for pod in pods(team, f"app={program}")
            for container in containers(pod)
            if container in groups
        }

    def told(self) -> dict[str, frozenset[int]]:
        """Return the CPUs that the programs' pods may use, by the status of the node's agent."""
        return {
            each["name"].rpartition("-")[0].rpartition("-")[0]: parse_cpus(each["cpus"])
            for each in self.allocation().get("status", {}).get("pods", ())
            if each.get("cpus")
        }

    def uid(self, program: str) -> str:
        """Return the UID of a program's pod."""
        (team,) = (team for team, programs in TEAMS.items() if program in programs)
        (pod,) = pods(team, f"app={program}")
        return str(pod["metadata"]["uid"])

    def amiss(self) -> str:
        """Return how cgroups differ from what was granted; empty if they do not differ."""
        granted = self.granted()
        if not granted:
            return "no plan is in force"
        groups = self.node.cgroups.containers()
        cpus = self._cpus_in(groups)
        owned = own_cpus(cpus, self._cpus_of(groups, *pods(SYSTEM)))
        for program, cores in granted.items():
            if program not in cpus:
                continue  # somebody else's
            own, has = owned[program], cpus[program]
            if (own < has) == cores.is_integer() or len(own) < int(cores):
                return f"{program} was granted {cores} cores; of {has}, {own} are its own"
        return ""


def _grants(allocation: Document) -> dict[str, float]:
    """Return the cores of a plan's grants by program."""
    return {
        grant["name"].rpartition("-")[0].rpartition("-")[0]: float(grant["cores"])
        for grant in allocation.get("spec", {}).get("grants", ())
    }
