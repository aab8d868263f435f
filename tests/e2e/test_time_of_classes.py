"""Pods of all QoS classes on a real node have the CPU time that they bought, and what others leave.

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

SAME = {"cpu": "1", "memory": "64Mi"}
CLASSES: dict[str, dict[str, Any]] = {
    "guaranteed": {"requests": SAME, "limits": SAME},
    "burstable": {"requests": {"cpu": "100m"}},
    "besteffort": {},
}
"""Resources by program, each named as its QoS class; a user has its name, too."""

SHARES = {"guaranteed": 6, "burstable": 2, "besteffort": 1}
SLEEPER = "guaranteed"
"""The program that sleeps in some tests."""


class Sharing(Installed):
    """Walras where pods share all CPUs, and a spinning program of each QoS class."""

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
        """Return the files that Walras may change of these containers, their pods and classes."""
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

    def unfair(self, seconds: float = 10) -> str:
        """Return how pods differ from what they bought for some seconds; empty if they do not."""
        bought = self.bought()
        used, outside = self.used(seconds)
        if bought != self.bought() or len(bought) < len(CLASSES):
            return f"bought {bought}"
        delivered, sold = sum(used.values()), sum(bought.values())
        parts = {each: used[each] / delivered / (bought[each] / sold) for each in CLASSES}
        fair = all(abs(part - 1) <= 0.05 for part in parts.values())
        return "" if fair else f"bought {bought}, used {used}, outside {outside}"

    def send(self, program: str, number: signal.Signals) -> None:
        for pid in self.node.cgroups.processes(self.groups()[program]):
            os.kill(pid, number)

    def close(self) -> None:
        super().close()
        with suppress(ToolError):
            kubectl("delete", "namespace", *CLASSES, "--ignore-not-found", "--wait=false")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, node: Node) -> Iterator[Sharing]:
    made = Sharing(tmp_path_factory.mktemp("sharing"), node)
    try:
        made.install()
        yield made
    finally:
        made.close()


@pytest.fixture
def asleep(unharmed: Sharing) -> Iterator[Sharing]:
    """One program sleeps."""
    unharmed.send(SLEEPER, signal.SIGSTOP)
    try:
        yield unharmed
    finally:
        unharmed.send(SLEEPER, signal.SIGCONT)


def has_its_time_back(sharing: Sharing) -> None:
    """Wake the sleeper, and check what it has in the seconds that follow."""
    sharing.send(SLEEPER, signal.SIGCONT)
    used, outside = sharing.used(5)
    there = CPUS - sum(outside.values())
    bought = sharing.bought()
    assert used[SLEEPER] >= 0.9 * there * bought[SLEEPER] / sum(bought.values()), (used, outside)


def test_pods_of_all_classes_have_what_they_bought(unharmed: Sharing) -> None:
    for name, shares in SHARES.items():
        apply(entitlement(name, shares), job(name, name))
    assert eventually(lambda: len(unharmed.bought()) == len(CLASSES), 120, pause=0.5)
    last = ""

    def fair() -> bool:
        nonlocal last
        last = unharmed.unfair()
        return not last

    assert eventually(fair, 120), last


def test_others_use_what_a_pod_leaves_and_it_has_its_time_back_when_it_wakes(
    asleep: Sharing,
) -> None:
    used, outside = asleep.used(5)
    others = sum(cpus for name, cpus in used.items() if name != SLEEPER)
    assert used[SLEEPER] < 0.01
    assert others >= 0.95 * (CPUS - sum(outside.values())), (used, outside)
    has_its_time_back(asleep)


def test_an_agent_that_is_killed_while_a_pod_sleeps_costs_that_nothing(asleep: Sharing) -> None:
    killed = asleep.pod("agent")
    asleep.node.kill(killed)
    has_its_time_back(asleep)

    def restarted() -> bool:
        (status,) = asleep.pod("agent")["status"]["containerStatuses"]
        (before,) = killed["status"]["containerStatuses"]
        return bool(status["restartCount"] > before["restartCount"])

    # The kubelet may wait before it starts a container again.
    assert eventually(restarted, 400, pause=0.5)


def test_an_uninstall_puts_back_weights_of_pods_and_classes(asleep: Sharing) -> None:
    assert asleep.settings() != asleep.before
    helm("uninstall", "walras", "--wait", "--timeout", "5m")
    # The kubelet weighs its class without the pods of Walras at most a minute later.
    put_back = lambda: asleep.settings() == asleep.before  # noqa: E731
    assert eventually(put_back, 120, pause=1), (asleep.settings(), asleep.before)
