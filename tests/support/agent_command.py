"""The command ``walras-agent``, run on real pods as an administrator runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

from waiting import eventually
from walras_agent.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from real_pods import RealPods

ANYWHERE = ("--listen", "127.0.0.1:0")


class Machine:
    """A node on which the command runs."""

    def __init__(self, pods: RealPods, folder: Path) -> None:
        self.pods, self.folder = pods, folder
        self.plan, self.log = folder / "plan.json", folder / "log"
        self.state, self.status_file = folder / "state", folder / "status.json"
        self.epoch = 0
        self.everything = Topology.read().cpuset

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "walras_agent", *arguments]

    def where(self) -> tuple[str, ...]:
        return ("--cgroup-root", self.pods.layout.root, "--state-folder", str(self.state))

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments, *self.where()),
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )

    def once(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.call("run", str(self.plan), "--once", *arguments)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the agent, which follows a file and reconciles once an hour unless told otherwise."""
        told = ("--status", str(self.status_file), "--period", "3600", *ANYWHERE, *arguments)
        self.status_file.unlink(missing_ok=True)
        with self.started("run", str(self.plan), *told) as process:
            yield process

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the command in the background with a new log, and end it afterwards."""
        self.log.write_bytes(b"")
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self.command(*arguments, *self.where()), stderr=log, env=environment()
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()
            print(self.log.read_text())  # noqa: T201 - shown where a test fails

    def want(
        self,
        mode: str = "enforce",
        memory: str | None = None,
        *,
        isolated: bool = True,
        **cores: str,
    ) -> None:
        """Replace the plan with one of the next epoch; see `ask`."""
        self.ask(self.epoch + 1, mode, memory, isolated=isolated, **cores)

    def ask(
        self,
        epoch: int,
        mode: str = "enforce",
        memory: str | None = None,
        *,
        isolated: bool = True,
        **cores: str,
    ) -> None:
        """Replace the plan with one that grants cores, and perhaps memory, to pods by their UID."""
        self.epoch = epoch
        also = {"isolated": isolated} | ({} if memory is None else {"memory": memory})
        grants = [
            {"podUID": pod, "name": f"pod-{pod}", "cores": each, **also}
            for pod, each in cores.items()
        ]
        spec = {"epoch": self.epoch, "mode": mode, "grants": grants}
        self.write({"spec": spec})

    def write(self, part: dict[str, Any]) -> None:
        head = {"apiVersion": "walras.dev/v1alpha1", "kind": "NodeAllocation"}
        beside = self.folder / "plan.new"
        beside.write_text(json.dumps({**head, "metadata": {"name": "node-1"}, **part}))
        beside.replace(self.plan)

    def status(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.status_file.read_text())
        except FileNotFoundError:
            return {}
        return found

    def condition(self, kind: str) -> tuple[str, str]:
        for each in self.status().get("conditions", ()):
            if each["type"] == kind:
                return each["reason"], each["message"]
        return "", ""

    def enforced(self, epoch: int | None = None) -> bool:
        return self.status().get("enforcedEpoch") == (self.epoch if epoch is None else epoch)

    def get(self, path: str) -> tuple[int, str]:
        assert eventually(lambda: "listening on" in self.log.read_text())
        found = re.search(r"http://([\d.]+:\d+)", self.log.read_text())
        assert found is not None
        connection = HTTPConnection(found[1])
        with closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
