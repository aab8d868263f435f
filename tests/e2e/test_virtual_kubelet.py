"""Walras on a node with hyperthreads, whose kubelet is configured as few are.

Its pods are below a cgroup of their own (``cgroupRoot``, as on kind), which the agent finds; the
system has a reserve with a cgroup (``systemReserved``), and topology is managed; at last it pins
CPUs itself. The node is emulated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster_tools import apply, get, helm
from installed import withdraw
from shared_node import entitlement, job
from virtual_life import PATIENCE, Life
from virtual_node import VirtualNode
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.vmnode_smt

SETTINGS = """
cgroupRoot: /workload
systemReserved: {cpu: 500m, memory: 1500Mi}
systemReservedCgroup: /system
enforceNodeAllocatable: [pods, system-reserved]
topologyManagerPolicy: best-effort
"""
CONFIGURATION = "/var/lib/kubelet/config.yaml"

TOPOLOGY = """
cd /sys/devices/system
for cpu in cpu/cpu[0-9]*; do
  echo "${cpu##*/cpu} $(cat $cpu/topology/thread_siblings_list) $(ls -d $cpu/node*)"
done
"""
"""Prints each CPU, its siblings, and the link to its NUMA node."""


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    node = VirtualNode()
    node.shell("systemctl start workload.slice; mkdir -p /sys/fs/cgroup/workload.slice")
    configure(node, f"cat >>{CONFIGURATION} <<'Y'{SETTINGS}Y")
    assert eventually(lambda: node.reserves("500m"), PATIENCE, pause=5)
    try:
        folder = tmp_path_factory.mktemp("kubelet")
        # The reserve of the system leaves three of four cores already, and one stays shared.
        life = Life(folder, reserved=0, whole=True)
        apply(job("vision", "train"), job("speech", "decode"))
        yield life
    finally:
        withdraw("15m")


def configure(node: VirtualNode, change: str) -> None:
    """Change the kubelet's configuration by a shell command, and have it read."""
    node.shell(f"{change}\nrm -f /var/lib/kubelet/cpu_manager_state")
    node.restart("kubelet")


def cores_of(node: VirtualNode) -> dict[int, tuple[str, str]]:
    """Return each CPU's core, as the list of its threads, and its NUMA node."""
    found = {}
    for line in node.shell(TOPOLOGY).splitlines():
        cpu, siblings, link = line.split()
        found[int(cpu)] = siblings, link.rpartition("node")[2]
    return found


def holds(life: Life, owner: str, other: str) -> None:
    """Check that two jobs have two and one whole cores, each on one NUMA node with its memory."""
    cores = cores_of(life.node)
    wanted = {owner: 2.0, other: 1.0}
    there = lambda: life.shared.granted() == wanted and not life.shared.amiss()  # noqa: E731
    assert eventually(there, PATIENCE, pause=5), life.told()
    cpus, groups = life.shared.own(), life.shared.groups()
    for program, count in wanted.items():
        held = {cores[cpu] for cpu in cpus[program]}
        assert len(held) == count
        assert len(cpus[program]) == 2 * count, f"{program} has half a core: {cpus}"
        assert len({node for _, node in held}) == 1, f"{program} is on two NUMA nodes: {cpus}"
        (node,) = {node for _, node in held}
        assert life.node.cgroups.settings(groups[program])["cpuset.mems"] == node
    assert life.unexpected_restarts() == 0


def test_grants_are_whole_cores_of_one_numa_node(life: Life) -> None:
    assert {each.split("/")[0] for each in life.shared.groups().values()} == {"workload.slice"}
    holds(life, "train", "decode")


def test_a_core_changes_hands_and_nothing_else_moves(life: Life) -> None:
    before = life.shared.own()
    apply(entitlement("vision", 1), entitlement("speech", 2))
    holds(life, "decode", "train")
    after = life.shared.own()
    assert after["train"] < before["train"]
    assert len(after["decode"] - before["decode"]) >= 2


def test_a_kubelet_that_pins_cpus_has_the_node_to_itself(life: Life) -> None:
    """Its node is refused with the reason, all pods are let go, and it is taken back after."""
    pin = "cpuManagerPolicy: static"
    configure(life.node, f"echo '{pin}' >>{CONFIGURATION}")

    def refused() -> bool:
        conditions = life.shared.allocation().get("status", {}).get("conditions", ())
        return any(
            each["reason"] == "Refused" and "static" in each["message"] for each in conditions
        )

    assert eventually(refused, PATIENCE, pause=5), life.shared.allocation().get("status")
    node = get(f"/api/v1/nodes/{life.node.name}")
    assert float(node["status"]["allocatable"]["cpu"].removesuffix("m")) == 7500
    configure(life.node, f"sed -i '/{pin}/d' {CONFIGURATION}")
    holds(life, "decode", "train")


def test_an_uninstall_puts_every_original_value_back(life: Life) -> None:
    helm("uninstall", "walras", "--wait", "--timeout", "30m")
    assert life.settings() == life.before
