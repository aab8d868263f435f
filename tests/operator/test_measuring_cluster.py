"""A MarketJob's parallel fraction is measured by the real operator and agent on a real kernel.

Real are the API server, both processes, the cgroups and the program in them. There is no kubelet:
the Node and the Pod are made through the API, and the Pod's groups and program here.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent_command import environment
from market_cluster import OURS, SYSTEM, MarketCluster
from measured_pods import MeasuredPods
from pod_groups import pod_group
from real_cluster import KUBECONFIG, needs_cluster
from real_pods import TREE, needs_pods
from waiting import eventually
from walras_service.api_errors import ApiError
from worlds import entitlement, job, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [needs_cluster, *needs_pods]

AGENT = Path(__file__).parents[1] / "support" / "agent_process.py"
FRACTION, LATER = 0.7, 0.1
NEAR = 0.1

PATIENCE = 300.0
"""Seconds: what was too noisy is measured again after half a minute, then after a whole one."""

SAMPLING = {"sampleSeconds": 1}

PROGRAM = """
import os, signal, sys, time

fraction, later, path = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]

def change(*_):
    global fraction
    fraction = later

signal.signal(signal.SIGUSR1, change)
print("at work", flush=True)
done, last = 0.0, time.monotonic()
while True:
    time.sleep(0.01)
    now = time.monotonic()
    done += (now - last) / (1 - fraction + fraction / len(os.sched_getaffinity(0)))
    last = now
    with open(path + ".new", "w") as file:
        file.write(str(done))
    os.replace(path + ".new", path)
"""
"""Gets on as Amdahl's law says on the CPUs that the kernel lets it have, without any use of them.

So its parallel fraction is known, however busy the machine is; that programs which do work are
measured well is tested on the agent alone. It has another fraction from a signal on.
"""

Document = dict[str, Any]


class Pods(MeasuredPods):
    """Pods as in `MeasuredPods`, with UIDs of an API server."""

    def container(self, pod: str, number: int = 0) -> str:
        return f"{pod_group(self.layout, pod)}/{'c0' * 31}{number:02}"


class Measured:
    """A job that does not say how it speeds up, on a node with an agent."""

    def __init__(self, folder: Path) -> None:
        assert TREE is not None
        self.folder = folder
        self.name = f"m-{time.time_ns() % 10**10}"
        self.pods = Pods(TREE)
        self.cluster = MarketCluster(KUBECONFIG, folder)
        self.agent: subprocess.Popen[bytes] | None = None
        self.log = folder / "agent.log"
        self.log.touch()

    def begin(self) -> None:
        progress = self.folder / "progress"
        self.cluster.namespace(self.name)
        self.cluster.make(
            market(profiling=SAMPLING, cores={"reservedCores": 1}, epochSeconds=5),
            entitlement(self.name, namespaces=[self.name]),
            node(self.name, "3"),
            job(
                "train",
                self.name,
                self.name,
                auto=True,
                minCores=2,
                progress={"file": str(progress)},
            ),
            pod("train-0", place=self.name, namespace=self.name),
        )
        found = self.cluster.read(f"/api/v1/namespaces/{self.name}/pods/train-0") or {}
        argv = (sys.executable, "-c", PROGRAM, str(FRACTION), str(LATER), str(progress))
        self.program = self.pods.run(found["metadata"]["uid"], *argv)
        assert eventually(progress.exists)
        self.start_agent()
        self.cluster.start_operator()

    def start_agent(self) -> None:
        where = ("--cgroup-root", self.pods.layout.root, "--state-folder", f"{self.folder}/state")
        kubelet = ("--reserved-cpus", "")  # there may be none here
        which = ("--node-name", self.name, "--kubeconfig", KUBECONFIG, "--namespace", SYSTEM)
        command = [
            sys.executable,
            str(AGENT),
            "cluster",
            *which,
            *where,
            *kubelet,
            "--listen",
            "127.0.0.1:0",
        ]
        with self.log.open("ab") as log:
            self.agent = subprocess.Popen(command, stderr=log, env=environment())

    def kill_agent(self) -> None:
        """Kill the agent, as a crash would."""
        if self.agent is not None:
            self.agent.kill()
            self.agent.wait()

    def close(self) -> None:
        self.cluster.close()
        self.kill_agent()
        self.pods.close()
        print(self.log.read_text())  # noqa: T201 - shown where a test fails

    def read(self, path: str) -> Document:
        """An object; nothing if there is none, or if the server is too busy to say."""
        try:
            return self.cluster.read(path) or {}
        except ApiError as error:
            if not error.transient:
                raise
            return {}

    @property
    def path(self) -> str:
        return f"{OURS}/namespaces/{self.name}/speedupprofiles/train"

    def profile(self) -> Document:
        return self.read(self.path)

    def online(self) -> Document:
        found: Document = self.profile().get("status", {}).get("online", {})
        return found

    def known(self) -> bool:
        return "parallelFraction" in self.profile().get("status", {})

    def fraction(self) -> float:
        return float(self.profile()["status"]["parallelFraction"])

    def verdict(self) -> tuple[str, str]:
        found = self.read(f"{OURS}/namespaces/{self.name}/marketjobs/train")
        conditions = found.get("status", {}).get("conditions", ())
        return next(
            (
                (each["reason"], each["message"])
                for each in conditions
                if each["type"] == "Profiled"
            ),
            ("", ""),
        )

    def node(self) -> Document:
        return self.read(f"{OURS}/nodeallocations/{self.name}")

    def measures(self) -> bool:
        """Return whether the agent reports a running measurement."""
        status = self.node().get("status", {})
        return bool(status.get("profiling", {}).get("state") == "Running")

    def measured_anew(self) -> str:
        """Start the measurement anew, and return its request's ID once it runs."""
        self.cluster.delete(self.path)
        assert eventually(lambda: not self.known() and self.measures()), self.verdict()
        asked: str = self.node()["spec"]["profiling"]["id"]
        return asked

    def log_of(self, measurement: str) -> list[str]:
        """Return the outcomes of a measurement, by the agent's log."""
        return re.findall(rf"measurement {measurement} of pod \S+ (\w+)", self.log.read_text())

    def look_every(self, seconds: int) -> None:
        spec = {"profiling": {**SAMPLING, "reprofileSeconds": seconds}}
        self.cluster.change(f"{OURS}/markets/default", {"spec": spec})


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[Measured]:
    made = Measured(tmp_path)
    yield made
    made.close()


def test_a_job_that_says_nothing_has_the_fraction_of_its_program_whoever_dies(
    measured: Measured,
) -> None:
    measured.begin()
    assert eventually(measured.known, PATIENCE), measured.verdict()
    assert measured.fraction() == pytest.approx(FRACTION, abs=NEAR)
    assert eventually(lambda: measured.verdict()[0] == "Online")
    (found,) = measured.online()["measurements"]
    assert (found["pod"], found["node"], found["source"]) == ("train-0", measured.name, "file")
    (owner,) = measured.profile()["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("MarketJob", "train")
    assert eventually(lambda: "profiling" not in measured.node()["spec"]), "it is over"

    asked = measured.measured_anew()
    measured.cluster.stop_operator(kill=True)
    measured.cluster.start_operator()
    assert eventually(measured.known, PATIENCE), measured.verdict()
    assert measured.fraction() == pytest.approx(FRACTION, abs=NEAR)
    assert measured.log_of(asked) == ["begins", "Complete"], "asked for by two operators, made once"

    measured.program.send_signal(signal.SIGUSR1)
    measured.look_every(seconds=5)
    assert eventually(lambda: measured.fraction() < FRACTION - NEAR, PATIENCE), "it departs"
    measured.look_every(seconds=600)
    assert measured.fraction() == pytest.approx(LATER, abs=NEAR)

    measured.measured_anew()
    measured.kill_agent()
    measured.start_agent()
    assert eventually(lambda: measured.verdict()[0] == "NotMeasured"), measured.verdict()
    assert "the agent restarted during the measurement" in measured.verdict()[1]
    assert eventually(measured.known, PATIENCE), measured.verdict()
    assert measured.fraction() == pytest.approx(LATER, abs=NEAR)
    assert "failure" not in measured.online()
