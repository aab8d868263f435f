"""Runs measure.py on this machine or in an emulated one, on copies of what it needs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import select
import shutil
import subprocess
import sys
import tarfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from holding.measure import Rival
from holding.nest import nest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holding.measure import Order

ROOT = Path(__file__).parents[2]
HERE = "here"
PARTS = {"node-agent": "walras_agent", "service": "walras_service", "api": "walras_api"} | {
    "core": "walras"
}
QUIET = 300.0
"""Seconds without a word, beside a measurement's own, after which a machine has failed."""


class MachineError(Exception):
    """A machine failed, or is not there; one line with the reason and the way out."""


class Machine(NamedTuple):
    """A machine on which is measured.

    Attributes:
        kernel: ``6.1``, ``6.12`` or ``newest`` of an emulated machine; ``here`` for this one.
        cpus: Its CPUs.
    """

    kernel: str
    cpus: int

    @classmethod
    def parse(cls, text: str) -> Machine:
        """Parse ``KERNEL:CPUS``, or ``here``.

        Raises:
            ValueError: It is neither.
        """
        if text == HERE:
            return cls(HERE, len(os.sched_getaffinity(0)))
        kernel, _, cpus = text.partition(":")
        return cls(kernel, int(cpus))

    def command(self, folder: Path, order: Path, seconds: float) -> list[str]:
        """Return the command that carries out an order on it; all of its files are in a folder."""
        script = str(folder / "holding" / "measure.py")
        if self.kernel == HERE:
            return [sys.executable, "-B", script, str(order)]
        topology = f"sockets=1,cores={self.cpus},threads=1"
        options = ["--kernel", self.kernel, "--smp", topology, "--mem", "1024"]
        options += ["--timeout", str(round(2 * seconds + 2 * QUIET)), "--dir", str(folder)]
        by_line = ["stdbuf", "--output=L"]  # the tool's filters would keep lines to themselves
        return [*by_line, _guest(), *options, "--", f"python3 -B {script} {order}"]


def _guest() -> str:
    tool = os.environ.get("WALRAS_GUEST") or str(ROOT / "tools" / "machines" / "guest")
    if not os.access(tool, os.X_OK):
        raise MachineError(
            f"{tool}: no such program, which runs emulated machines; see WALRAS_GUEST"
        )
    return tool


def copy_checkout(folder: Path, revision: str = "") -> Rival:
    """Copy the agent of a commit, or of this checkout as it is, and return it as a rival.

    Raises:
        MachineError: There is no such commit.
    """
    for part, package in PARTS.items():
        if not revision:
            ignored = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(ROOT / part / package, folder / part / package, ignore=ignored)
    if revision:
        paths = [f"{part}/{package}" for part, package in PARTS.items()]
        done = subprocess.run(
            ["git", "archive", revision, *paths],  # noqa: S607 - in any folder of PATH
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise MachineError(f"--before {revision}: {done.stderr.decode().strip()}")
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(folder, filter="data")
    return Rival(way="agent", path=[str(folder / part) for part in PARTS])


def copy_program(folder: Path) -> None:
    """Copy this package."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(__file__).parent, folder / "holding", ignore=ignored)


def fingerprint(*files: Path) -> str:
    """Return a short text that differs if a file's content does."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def carry_out(machine: Machine, folder: Path, order: Order) -> Iterator[dict[str, Any]]:
    """Yield the lines that measure.py prints on a machine, until it ends.

    Raises:
        MachineError: It failed, or has not said anything for long.
    """
    file = folder / "order.json"
    is_here = machine.kernel == HERE
    # Inside an emulated machine there is nothing but the measurement.
    file.write_text(json.dumps({**order, "gentle": order["gentle"] and is_here}))
    lengths = [each["settle"] + each["window"] for each in order["measurements"]]
    with ExitStack() as ends:
        groups = [] if is_here else ends.enter_context(nest(gentle=order["gentle"]))
        command = machine.command(folder, file, sum(lengths))
        process, output = ends.enter_context(_running(command, groups))
        words = b""
        while True:
            if not select.select([output], [], [], QUIET + max(lengths))[0]:
                raise MachineError(f"{machine.kernel}: nothing has come for long")
            if not (more := os.read(output.fileno(), 1 << 16)):
                break
            *lines, words = (words + more).split(b"\n")
            for line in lines:
                if line.startswith(b"{"):
                    yield json.loads(line)
                else:
                    print(line.decode(errors="replace"), file=sys.stderr)
        if status := process.wait():
            raise MachineError(f"{machine.kernel}: measure.py ended with exit status {status}")


@contextmanager
def _running(
    command: list[str], groups: Iterable[Path]
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """Start a command in some cgroups, and end it."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None  # noqa: S101 - asked for above
        for group in groups:
            (group / "cgroup.procs").write_text(str(process.pid))
        try:
            yield process, process.stdout
        finally:
            if process.poll() is None:
                process.terminate()
