"""The real operator as a process on a large cluster, and its state as seen from outside."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from large_cluster import SYSTEM
from waiting import eventually
from walras_operator.watch.kinds import Scope
from walras_operator.watch.mirror import Mirror
from whole_decisions import decide

if TYPE_CHECKING:
    from walras_service.api import Api

_PROC = Path("/proc")
_ROUNDS = "walras_operator_recompute_seconds_count"
_WRITES = "walras_operator_writes_total"
_PLACED = re.compile(r"Pod written ([0-9]+)")
_WROTE = re.compile(r" epoch [0-9]+: ")


class ScaledOperator:
    """An operator for large clusters, in a process of its own.

    Args:
        kubeconfig: Kubeconfig of the API server.
        log: File for the operator's log.
    """

    def __init__(self, kubeconfig: str, log: Path) -> None:
        self.log = log
        command = [sys.executable, "-m", "walras_operator", "run", "--kubeconfig", kubeconfig]
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [*command, "--listen", "127.0.0.1:0", "--log-format", "text"],
                stderr=out,
                stdout=out,
            )
        assert eventually(self._address), log.read_text()

    def close(self) -> None:
        """End the operator, as the kubelet does."""
        self.process.terminate()
        self.process.wait()

    def kill(self) -> None:
        """End the operator, as a crash of its machine would."""
        self.process.kill()
        self.process.wait()

    def published(self) -> int:
        """Return the number of decisions that the operator has made and published."""
        return int(self._metrics().get(_ROUNDS, 0))

    def written(self) -> int:
        """Return the number of writes of objects by the operator."""
        metrics = self._metrics().items()
        return int(sum(number for name, number in metrics if name.startswith(_WRITES)))

    def has_written(self) -> bool:
        """Return whether the operator has published a decision with writes, by its log.

        To read its metrics instead would cost it time, here as in `placed`.
        """
        return _WROTE.search(self.log.read_text()) is not None

    def placed(self) -> int:
        """Return the number of pods that the operator has placed or let go, by its log."""
        return sum(map(int, _PLACED.findall(self.log.read_text())))

    def mebibytes(self) -> int:
        """Return the most memory that the operator has had, in MiB (`VmHWM`)."""
        return self._status("VmHWM") // 1024

    def cpu_seconds(self) -> float:
        """Return the CPU time that the operator has taken so far, in seconds."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def _status(self, field: str) -> int:
        text = (_PROC / str(self.process.pid) / "status").read_text()
        found = re.search(rf"^{field}:\s+([0-9]+)", text, re.MULTILINE)
        assert found is not None
        return int(found[1])

    def _address(self) -> str:
        found = re.search(r"listening on (\S+)", self.log.read_text())
        return found[1] if found else ""

    def _metrics(self) -> dict[str, float]:
        with urllib.request.urlopen(f"{self._address()}/metrics", timeout=60) as answer:  # noqa: S310
            lines = answer.read().decode().splitlines()
        parted = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(number) for name, _, number in parted}


def undone(api: Api, agents: frozenset[str]) -> list[str]:
    """Return the nodes whose NodeAllocations an operator that begins now would change.

    Args:
        api: Client of the API server.
        agents: Nodes whose agents are alive.
    """
    kinds = Scope(SYSTEM).kinds
    mirror = Mirror(kinds, lambda _: None, lambda: 0.0)
    for name, watched in kinds.items():
        for item in api.request("GET", watched.kind.path(), query=watched.selectors, timeout=60)[
            "items"
        ]:
            mirror.receive(name, {"apiVersion": watched.kind.api_version, "kind": name, **item})
    world = replace(mirror.world("2026-01-31T12:00:00Z"), agents=agents)
    return [each.node for each in decide(world).nodes]
