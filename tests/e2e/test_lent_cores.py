"""Pods of all QoS classes on a real node have the CPU time that they bought, and lend it asleep.

Three users' programs spin on two CPUs or more. What they have is read from the kernel's counters,
and a program sleeps while all of its processes are stopped by a signal.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cluster_tools import ToolError, apply, containers, get, helm, kubectl, pods, ready
from installed import CHART, IMAGE, PARTS, Installed
from node_watcher import ALLOCATIONS
from shared_node import BUSY_PROGRAM, CPUS, deployment, entitlement, job, namespace
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster_tools import Node

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(CPUS != 2, reason="its programs take all of two CPUs"),
]

SAME = {"cpu": "200m", "memory": "64Mi"}
CLASSES: dict[str, dict[str, Any]] = {
    "guaranteed": {"requests": SAME, "limits": SAME},
    "burstable": {"requests": {"cpu": "100m"}},
    "besteffort": {},
}
"""Resources by program, each named as its QoS class; a user has its name, too."""

SHARES = {"guaranteed": 6, "burstable": 2, "besteffort": 1}
OWNER = "guaranteed"
"""The program that buys the one core that a pod can have to itself on two CPUs."""


class Lending(Installed):
    """Walras where cores are lent, and a spinning program of each QoS class."""

    def install(self) -> None:
        values = json.loads(self.values.read_text())
        values["market"]["spec"]["cores"] = {"reservedCores": 0}
        for part in ("operator", "agent", "hooks"):  # which get ahead beside programs that spin
            values[part]["resources"] = {"requests": {"cpu": "50m", "memory": "32Mi"}}
        self.values.write_text(json.dumps(values))
        for archive in PARTS:
            self.node.load(archive)
        for name, resources in CLASSES.items():
            made = deployment(name, name, IMAGE, BUSY_PROGRAM)
            made["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
            apply(namespace(name), made)
        assert eventually(lambda: len(self.groups()) == len(CLASSES), pause=0.5)
        self.before = self.settings()
        for name in CLASSES:  # so that the installation does not wait for them
            self.send(name, signal.SIGSTOP)
        helm("install", "walras", CHART, "--create-namespace", *self.options())
        for name in CLASSES:
            self.send(name, signal.SIGCONT)

    def groups(self) -> dict[str, str]:
        """Return the cgroup of each program's container."""
        found = self.node.cgroups.containers()
        return {
            name: found[container]
            for name in CLASSES
            for pod in pods(name)
            for container in containers(pod)
            if container in found
        }

    def settings(self) -> dict[str, dict[str, str | None]]:
        """Return the files that Walras may change of containers, pods and classes."""
        containers_ = set(self.groups().values())
        pods_ = {str(Path(each).parent) for each in containers_}
        classes = {str(Path(each).parent) for each in pods_}
        return {group: self.node.cgroups.settings(group) for group in containers_ | pods_ | classes}

    def bought(self) -> dict[str, float]:
        """Return the cores granted by program; nothing unless all of the plan is enforced."""
        found = get(f"{ALLOCATIONS}/{self.node.name}")
        enforced = found.get("status", {}).get("enforcedEpoch")
        if not ready(found) or enforced != found["spec"]["epoch"]:
            return {}
        return {each["namespace"]: float(each["cores"]) for each in found["spec"].get("grants", ())}

    def cpus(self, program: str) -> frozenset[int]:
        return self.node.cgroups.cpus(self.groups()[program]) or frozenset()

    def used(self, seconds: float) -> tuple[dict[str, float], dict[int, float]]:
        """Return the CPUs that programs use meanwhile, and those of each CPU that others use."""
        groups, cgroups = self.groups(), self.node.cgroups

        def read() -> tuple[float, dict[str, float], dict[int, float]]:
            used = {name: cgroups.cpu_seconds(group) for name, group in groups.items()}
            return time.monotonic(), used, cgroups.outside_seconds()

        began, used, outside = read()
        time.sleep(seconds)
        ended, used_then, outside_then = read()
        took = ended - began
        return (
            {name: (used_then[name] - used[name]) / took for name in used},
            {cpu: (outside_then[cpu] - outside[cpu]) / took for cpu in outside},
        )

    def send(self, program: str, number: signal.Signals) -> None:
        for pid in self.node.cgroups.processes(self.groups()[program]):
            os.kill(pid, number)

    def close(self) -> None:
        super().close()
        with suppress(ToolError):
            kubectl("delete", "namespace", *CLASSES, "--ignore-not-found", "--wait=false")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, node: Node) -> Iterator[Lending]:
    made = Lending(tmp_path_factory.mktemp("lending"), node)
    try:
        made.install()
        yield made
    finally:
        made.close()


@pytest.fixture
def asleep(unharmed: Lending) -> Iterator[Lending]:
    """The owner sleeps, and another program is its guest."""
    (own,) = unharmed.cpus(OWNER)
    unharmed.send(OWNER, signal.SIGSTOP)
    try:
        assert eventually(lambda: guests(unharmed, own), 60, pause=0.2), "nobody borrows the core"
        yield unharmed
    finally:
        unharmed.send(OWNER, signal.SIGCONT)


def guests(lending: Lending, cpu: int) -> list[str]:
    return [name for name in CLASSES if name != OWNER and cpu in lending.cpus(name)]


def has_its_core_back(lending: Lending) -> None:
    """Wake the owner, and check what it has in the seconds that follow."""
    (own,) = lending.cpus(OWNER)
    lending.send(OWNER, signal.SIGCONT)
    used, outside = lending.used(5)
    assert used[OWNER] >= 0.95 * (1 - outside[own]), (used, outside)


def test_pods_of_all_classes_have_what_they_bought(unharmed: Lending) -> None:
    for name, shares in SHARES.items():
        made = job(name, name)
        made["spec"] |= {"maxCores": 1} if name == OWNER else {}
        apply(entitlement(name, shares), made)
    assert eventually(lambda: len(unharmed.bought()) == len(CLASSES), 120, pause=0.5)
    assert eventually(lambda: unharmed.bought().get(OWNER) == 1, 60, pause=0.5), unharmed.bought()
    last = ""

    def fair() -> bool:
        nonlocal last
        bought = unharmed.bought()
        used, outside = unharmed.used(10)
        last = f"bought {bought}, used {used}, outside {outside}"
        if bought != unharmed.bought() or not bought:
            return False
        shared = [each for each in CLASSES if each != OWNER]
        (own,) = unharmed.cpus(OWNER)
        parts = {each: bought[each] / sum(bought[one] for one in shared) for each in shared}
        delivered = sum(used[each] for each in shared)
        return used[OWNER] >= 0.95 * (1 - outside[own]) and all(
            abs(used[each] / delivered / parts[each] - 1) <= 0.05 for each in shared
        )

    assert eventually(fair, 120), last


def test_an_owner_that_sleeps_lends_its_core_and_has_it_back_when_it_wakes(
    asleep: Lending,
) -> None:
    (own,) = asleep.cpus(OWNER)
    used, outside = asleep.used(5)
    others = sum(cpus for name, cpus in used.items() if name != OWNER)
    assert used[OWNER] < 0.01
    assert others >= 0.9 * (CPUS - sum(outside.values())), (used, outside)
    has_its_core_back(asleep)
    assert eventually(lambda: not guests(asleep, own), 30, pause=0.2)


def test_an_agent_that_is_killed_while_guests_run_costs_the_owner_nothing(asleep: Lending) -> None:
    (own,) = asleep.cpus(OWNER)
    killed = asleep.pod("agent")
    asleep.node.kill(killed)
    has_its_core_back(asleep)
    # The kubelet may wait before it starts a container again.
    assert eventually(lambda: not guests(asleep, own), 400, pause=0.5)
    (status,) = asleep.pod("agent")["status"]["containerStatuses"]
    assert status["restartCount"] > killed["status"]["containerStatuses"][0]["restartCount"]
    assert len(asleep.watcher.owners()) == 1


def test_an_uninstall_puts_back_weights_of_pods_and_classes(asleep: Lending) -> None:
    assert asleep.settings() != asleep.before
    helm("uninstall", "walras", "--wait", "--timeout", "5m")
    # The kubelet weighs its class without the pods of Walras at most a minute later.
    put_back = lambda: asleep.settings() == asleep.before  # noqa: E731
    assert eventually(put_back, 120, pause=1), (asleep.settings(), asleep.before)
