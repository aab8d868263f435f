"""Facts: reads the CPU manager policy and the reserved CPUs of this node's kubelet.

The kubelet's CPU manager keeps a checkpoint (``cpu_manager_state`` in the kubelet's folder). With
the policy ``static`` it assigns CPUs to containers, and compares them with what it last sent, never
with the cgroup (kubernetes 138731); agent and kubelet would overwrite each other's cpusets.

The kubelet reserves CPUs for the system by its flag ``--reserved-cpus`` or, without that, by the
field ``reservedSystemCPUs`` of its configuration, in which files in ``--config-dir`` come last
(https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file). Distributions keep these
files in different folders, few of which are mounted in the agent's container. So a file is looked
for under the host's root, then under the root of the kubelet's process, then under that of PID 1
(``/proc/PID/root``, which takes the capability SYS_PTRACE).
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import yaml

from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FOLDER = "/var/lib/kubelet"
"""The kubelet's default ``--root-dir``."""

CHECKPOINT = "cpu_manager_state"
CONFIG = f"{FOLDER}/config.yaml"
"""Path of the configuration that kubeadm writes."""

K3S_CONFIG_FOLDER = "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d"

RELOAD_SECONDS = 30.0

_FIELD = "reservedSystemCPUs"
_EMBEDDED = frozenset({"k3s", "k3s-server", "k3s-agent"})  # programs that run the kubelet inside


_Read = TypeVar("_Read")


class KubeletError(Exception):
    """The kubelet's configuration cannot be read; one line with the cause and the remedy."""


@dataclass(slots=True)
class Kubelet:
    """The settings of this node's kubelet, read again every `RELOAD_SECONDS`.

    Attributes:
        host: Root of the host: ``/``, or its mount point in a container.
        given: Reserved CPUs that an option sets; None to read the kubelet's.
        clock: Monotonic time in seconds.
    """

    host: Path = Path("/")
    given: CpuSet | None = None
    clock: Callable[[], float] = time.monotonic
    _reserved: CpuSet | None = None
    _problem: str = ""
    _loaded: float = field(default=float("-inf"))

    def reserved(self) -> CpuSet:
        """Return the CPUs that no pod may have exclusively; empty as long as they are unknown."""
        if self.given is not None:
            return self.given
        if self._reserved is None:
            self.conflict()
        return self._reserved or CpuSet()

    def conflict(self) -> str:
        """Return why the agent must not write cpusets on this node; empty if it may."""
        if self.clock() - self._loaded >= RELOAD_SECONDS:
            self._load()
        return self._problem or cpu_manager_conflict(self.host / FOLDER.lstrip("/"))

    def _load(self) -> None:
        self._loaded = self.clock()
        process = KubeletProcess.find(self.host)
        if process is None and self._reserved is not None:
            return  # the kubelet restarts
        try:
            self._reserved = self.given
            if self._reserved is None:
                self._reserved = _reserved_cpus(self.host, process)
        except KubeletError as error:
            self._problem = str(error)
            return
        folder = None if process is None else process.flag("root-dir")
        self._problem = ""
        if process is not None and folder is not None:
            self._problem = self._conflict_in(process.root / folder.lstrip("/"))

    def _conflict_in(self, folder: Path) -> str:
        """Return the conflict in the folder that the kubelet uses, which may not be mounted.

        Without the right to look there, a checkpoint in the mounted folder counts, which `conflict`
        reads each time.
        """
        try:
            (folder / CHECKPOINT).read_bytes()
        except PermissionError:
            if (self.host / FOLDER.lstrip("/") / CHECKPOINT).exists():
                return ""
        except OSError:
            pass
        return cpu_manager_conflict(folder)


@dataclass(frozen=True, slots=True)
class KubeletProcess:
    """The process that runs the kubelet.

    Attributes:
        root: Folder in ``/proc`` that shows the process's root directory.
        arguments: Command line, as the kubelet would have it.
    """

    root: Path
    arguments: tuple[str, ...]

    @classmethod
    def find(cls, host: Path) -> KubeletProcess | None:
        """Return the kubelet's process; None if it is not visible here."""
        for folder in sorted((host / "proc").glob("[0-9]*"), key=lambda each: int(each.name)):
            try:
                name = (folder / "comm").read_text().strip()
                if (name == "kubelet" or name in _EMBEDDED) and _is_the_hosts(folder):
                    words = (folder / "cmdline").read_text().split("\0")
                    return cls(folder / "root", tuple(words if name == "kubelet" else _k3s(words)))
            except (OSError, UnicodeDecodeError):
                continue  # the process has ended
        return None

    def flag(self, name: str) -> str | None:
        """Return the value of a flag, the last one if it is repeated; None if it is not given."""
        value = None
        for argument, following in pairwise([*self.arguments, ""]):
            given, equals, text = argument.partition("=")
            if given in {f"--{name}", f"-{name}"}:
                value = text if equals else following
        return value


def _is_the_hosts(folder: Path) -> bool:
    """Whether a process is root's and in no container: any pod may call its program kubelet."""
    status = dict(
        line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line
    )
    user, in_namespaces = status["Uid"].split()[0], status.get("NSpid", "").split()
    return user == "0" and len(in_namespaces) <= 1


def _k3s(words: Sequence[str]) -> Iterator[str]:
    """Yield the kubelet's flags from the command line of k3s (https://docs.k3s.io/cli/agent)."""
    yield f"--config-dir={K3S_CONFIG_FOLDER}"
    for word, following in pairwise([*words, ""]):
        given, equals, text = word.partition("=")
        if given == "--kubelet-arg":
            yield "--" + (text if equals else following)


def cpu_manager_conflict(folder: Path) -> str:
    """Return why the kubelet's CPU manager forbids the agent to write; empty if it does not.

    Without a checkpoint the kubelet has no CPU manager. A checkpoint that cannot be read counts as
    a conflict.

    Args:
        folder: The kubelet's ``--root-dir``.
    """
    state = folder / CHECKPOINT
    try:
        text = state.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return (
            f"{state} cannot be read: {error.strerror}; mount the kubelet's folder "
            "(agent.kubelet.folder)"
        )
    try:
        policy = json.loads(text)["policyName"]
    except (ValueError, KeyError, TypeError):
        return f"{state} is not a checkpoint of the kubelet's CPU manager in a known format"
    if policy == "none":
        return ""
    return (
        f"the kubelet's CPU manager has the policy {policy!r} and writes cpusets itself: drain the "
        "node, stop the kubelet, set cpuManagerPolicy to none, delete cpu_manager_state in the "
        "kubelet's folder, start the kubelet"
    )


def _reserved_cpus(host: Path, process: KubeletProcess | None) -> CpuSet:
    """Return the CPUs that the kubelet reserves for the system; empty if it reserves none.

    Args:
        host: Root of the host.
        process: The kubelet; None for one that is not visible, whose configuration is supposed to
            be where kubeadm writes it.

    Raises:
        KubeletError: A configuration file of the kubelet cannot be read or parsed.
    """
    roots = [host] if process is None else [host, process.root, host / "proc/1/root"]
    flag = None if process is None else process.flag("reserved-cpus")
    if flag is not None:
        return _parse(flag, "the kubelet's flag --reserved-cpus")
    reserved = CpuSet()
    for name, text in _configurations(roots, process):
        value = _read_field(name, text)
        if value is not None:
            reserved = _parse(value, f"{name}: {_FIELD}")
    return reserved


def _configurations(
    roots: Sequence[Path], process: KubeletProcess | None
) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of configuration files; the last that sets a field is valid."""
    # A kubelet that is not told of a file has none; one that is not visible may have kubeadm's.
    given = CONFIG if process is None else process.flag("config")
    main = None if given is None else _first(roots, given, Path.read_bytes)
    if given is not None and main is not None:
        yield given, main
    elif process is not None and given is not None:
        raise _unreadable(given, "No such file or directory")
    folder = None if process is None else process.flag("config-dir")
    if folder is not None:
        found = _first(roots, folder, _read_folder)
        if found is None and folder != K3S_CONFIG_FOLDER:  # older versions of k3s have none
            raise _unreadable(folder, "No such file or directory")
        yield from found or ()


def _read_folder(folder: Path) -> list[tuple[str, bytes]]:
    if not folder.is_dir():
        raise FileNotFoundError
    return [(str(file), file.read_bytes()) for file in sorted(folder.rglob("*.conf"))]


def _first(roots: Sequence[Path], path: str, read: Callable[[Path], _Read]) -> _Read | None:
    """Return what is read under the first root that has a path; None if no root has it."""
    refused = None
    for root in roots:
        try:
            return read(root / path.lstrip("/"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refused = error
    if refused is not None:
        raise _unreadable(path, refused.strerror or str(refused))
    return None


_REMEDY = "mount its folder (agent.kubelet.configFolder), or set the agent's --reserved-cpus"


def _unreadable(path: str, reason: str) -> KubeletError:
    return KubeletError(
        f"the kubelet's configuration {path} cannot be read ({reason}), so the CPUs that it "
        f"reserves are unknown; {_REMEDY} (agent.reservedCpus)"
    )


def _read_field(name: str, text: bytes) -> str | None:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        raise KubeletError(
            f"{name} is not YAML; correct it, or set the agent's --reserved-cpus"
        ) from None
    if document is None:
        return None
    if not isinstance(document, dict):
        raise KubeletError(
            f"{name} is not a KubeletConfiguration; correct it, or set the agent's --reserved-cpus"
        )
    value = document.get(_FIELD)
    return None if value is None else str(value)


def _parse(text: str, where: str) -> CpuSet:
    try:
        return CpuSet.parse(text)
    except ValueError as error:
        raise KubeletError(f"{where} is not a list of CPUs: {error}") from None
