"""A process that watches a node's cgroups while Walras works, and logs violations of rules.

It looks at all containers some fifty times a second, and uses only what two looks in a row agree
on: a look takes time, so that its first and its last container may belong to two plans.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from live_api import API, RefusedError
from node_cgroups import NodeCgroups, parse_cpus
from node_rules import Held, Judge, Plan, Sight, Spent, TimeJudge

if TYPE_CHECKING:
    from collections.abc import Iterable

ALLOCATIONS = "/apis/walras.dev/v1alpha1/nodeallocations"
PAUSE = 0.02
ASK_EVERY = 0.2
"""Seconds between two looks at the cgroups, and between two requests to the API server."""


class Thread(NamedTuple):
    """How long a thread has waited, until it ran last, and whether it wants to run.

    Attributes:
        waited: Seconds that it waited for a CPU, each time until it had one.
        ran: Nanoseconds that it had one.
        ready: Whether it runs or waits now.
    """

    waited: float
    ran: int
    ready: bool

    def since(self, last: Thread | None, seconds: float) -> float:
        """Return the seconds that it waited since an earlier moment, so long ago."""
        if last is None:
            return 0.0
        starves = self.ready and last.ready and self.ran == last.ran
        return seconds if starves else self.waited - last.waited


class Clocks(NamedTuple):
    """What the kernel has counted of a pod so far.

    Attributes:
        at: Monotonic time in seconds.
        cores: Cores of the pod's grant.
        cpus: CPUs that it may use.
        used: CPU seconds of its processes.
        threads: Its threads, by ID.
        outside: Seconds of each CPU that were not the pods', and in which it was not idle.
    """

    at: float
    cores: float
    cpus: frozenset[int]
    used: float
    threads: dict[int, Thread]
    outside: dict[int, float]

    def since(self, last: Clocks) -> Spent:
        """Return what it had since an earlier moment."""
        seconds = self.at - last.at
        waited = sum(
            now.since(last.threads.get(each), seconds) for each, now in self.threads.items()
        )
        lost = [self.outside.get(cpu, 0.0) - last.outside.get(cpu, 0.0) for cpu in self.cpus]
        outside = min(max(lost, default=0.0) / seconds, 1.0)
        return Spent(seconds, self.cores, self.used - last.used, waited, max(outside, 0.0))


def thread_of(number: int) -> Thread | None:
    """Return the state of a thread; None if it has ended."""
    try:
        counts = Path(f"/proc/{number}/schedstat").read_text().split()
        state = Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return None
    return Thread(int(counts[1]) / 1e9, int(counts[0]), state == "R")


class Cluster:
    """A thread that follows a node's pods and plan on the API server."""

    def __init__(self, node: str) -> None:
        self._api = API.connect()
        self._node = node
        self._heard: list[Plan | None] = []
        self.pods: dict[str, tuple[str, str]] = {}
        threading.Thread(target=self._ask_on, daemon=True).start()

    def heard(self) -> list[Plan | None]:
        """Return the plans that were read since the last call, in order."""
        found, self._heard = self._heard, []
        return found

    def _ask_on(self) -> None:
        while True:
            try:
                self._ask()
            except Exception:  # noqa: BLE001 - a test may have killed the API server
                time.sleep(ASK_EVERY)
            time.sleep(ASK_EVERY)

    def _ask(self) -> None:
        here = f"fieldSelector=spec.nodeName%3D{self._node}"
        for pod in self._api.call("GET", f"/api/v1/pods?{here}")["items"]:
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            for status in pod.get("status", {}).get("containerStatuses", ()):
                container = status.get("containerID", "").rpartition("/")[2]
                self.pods[container] = (pod["metadata"]["uid"], name)
        self._heard = [*self._heard, self._plan()]

    def _plan(self) -> Plan | None:
        try:
            found = self._api.call("GET", f"{ALLOCATIONS}/{self._node}")
        except RefusedError as refused:
            if refused.code != 404:
                raise
            return None
        return plan_of(found)


def plan_of(document: dict[str, Any]) -> Plan:
    """Return the plan in a NodeAllocation."""
    spec, status = document["spec"], document.get("status", {})
    ready = any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in status.get("conditions", ())
    )
    cores = {each["podUID"]: float(each["cores"]) for each in spec.get("grants", ())}
    isolated = {each["podUID"] for each in spec.get("grants", ()) if each.get("isolated")}
    return Plan(
        document["metadata"]["generation"],
        ready and status.get("enforcedEpoch") == spec["epoch"] and spec["mode"] == "enforce",
        {uid: int(cores[uid]) for uid in isolated if cores[uid].is_integer()},
        frozenset(cores),
        cores,
    )


class Watch:
    """Loop that looks at the cgroups and judges them until the process is ended."""

    def __init__(self, node: str, log: Path) -> None:
        self._cgroups, self._cluster = NodeCgroups.here(), Cluster(node)
        online = Path("/sys/devices/system/cpu/online").read_text().strip()
        self._judge = Judge(parse_cpus(online))
        self._log = log.open("a", buffering=1)
        self._told: dict[str, Any] = {}
        self._plan: Plan | None = None
        self._time = TimeJudge()
        self._clocks: dict[str, Clocks] = {}

    def run(self) -> None:
        for turn in itertools.count():
            if turn % 10 == 0:
                groups = self._cgroups.containers()
            sight = self._look(groups)
            if sight == self._look(groups):
                self._wrong(self._judge.see(sight))
                self._tell("cpus", {self._name(id_): sorted(sight[id_].cpus) for id_ in sight})
            if turn % 50 == 0:
                self._judge_time(groups)
            for plan in self._cluster.heard():
                self._plan = plan
                self._wrong(self._judge.receive(plan))
                self._tell("owners", self._judge.owners)
                self._tell("plan", plan and {**plan._asdict(), "granted": sorted(plan.granted)})
            time.sleep(PAUSE)

    def _look(self, groups: dict[str, str]) -> Sight:
        sight = {}
        for container, group in groups.items():
            cpus = self._cgroups.cpus(group)
            if cpus is not None and container in self._cluster.pods:
                uid, _ = self._cluster.pods[container]
                kills = self._cgroups.oom_kills(group)
                sight[container] = Held(uid, cpus, self._cgroups.busy(group), kills)
        return sight

    def _judge_time(self, groups: dict[str, str]) -> None:
        """Judge the CPU time that pods had since the last call."""
        plan = self._plan
        granted = plan.cores if plan is not None and plan.settled else {}
        before, self._clocks = self._clocks, {}
        mine: dict[str, list[str]] = {}
        for container, group in groups.items():
            if container in self._cluster.pods:
                mine.setdefault(self._cluster.pods[container][0], []).append(group)
        for uid in granted.keys() & mine.keys():
            clocks = self._clocks[uid] = self._read(granted[uid], mine[uid])
            last = before.get(uid)
            if last is None or (last.cores, last.cpus) != (clocks.cores, clocks.cpus):
                continue
            spent = clocks.since(last)
            self._write("spent", [uid, *(round(each, 3) for each in spent)])
            for problem in self._time.see(uid, spent):
                self._write("short", problem)

    def _read(self, cores: float, groups: list[str]) -> Clocks:
        cgroups = self._cgroups
        threads = {
            number: thread
            for group in groups
            for number in cgroups.threads(group)
            if (thread := thread_of(number)) is not None
        }
        cpus = frozenset().union(*(cgroups.cpus(group) or () for group in groups))
        pod = str(Path(groups[0]).parent)
        outside = cgroups.outside_seconds()
        return Clocks(time.monotonic(), cores, cpus, cgroups.cpu_seconds(pod), threads, outside)

    def _name(self, container: str) -> str:
        return f"{self._cluster.pods[container][1]} {container[:6]}"

    def _wrong(self, problems: Iterable[str]) -> None:
        for problem in problems:
            self._write("violation", problem)

    def _tell(self, what: str, value: Any) -> None:
        if self._told.get(what) != value:
            self._told[what] = value
            self._write(what, value)

    def _write(self, what: str, value: Any) -> None:
        self._log.write(json.dumps({"at": round(time.time(), 3), what: value}) + "\n")


class Watcher:
    """The watcher's process, for use in a test.

    Attributes:
        log: File of the watcher's log, with a JSON document on each line.
    """

    def __init__(self, node: str, log: Path) -> None:
        self.log = log
        log.touch()
        self.process = subprocess.Popen(
            [sys.executable, __file__, node, str(log)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def lines(self) -> list[dict[str, Any]]:
        """Return all documents that the watcher has logged, without an incomplete last line."""
        return [
            json.loads(line)
            for line in self.log.read_text().splitlines(keepends=True)
            if line.endswith("\n")
        ]

    def violations(self) -> list[str]:
        """Return the violations that the watcher has found, in order."""
        assert self.process.poll() is None, "the watcher has ended"
        return [each["violation"] for each in self.lines() if "violation" in each]

    def short(self) -> list[str]:
        """Return which busy pods had less CPU time than they bought, and when."""
        return [each["short"] for each in self.lines() if "short" in each]

    def owners(self) -> set[str]:
        """Return the UIDs of the pods that the watcher has found to own a CPU."""
        return {pod for each in self.lines() for pod in (each.get("owners") or {}).values()}

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


if __name__ == "__main__":
    Watch(sys.argv[1], Path(sys.argv[2])).run()
