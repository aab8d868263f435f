"""Facts: reads the settings of this node's kubelet that the agent must know.

The kubelet's CPU manager keeps a checkpoint (``cpu_manager_state`` in the kubelet's folder). With
the policy ``static`` it assigns CPUs to containers, and compares them with what it last sent, never
with the cgroup (kubernetes 138731); agent and kubelet would overwrite each other's cpusets.

The kubelet takes a setting from its flag (``--reserved-cpus``, ``--cgroup-root``) or, without that,
from a field of its configuration (``reservedSystemCPUs``, ``cgroupRoot``), in which files in
``--config-dir`` come last
(https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file). Distributions keep these
files in different folders, few of which are mounted in the agent's container. So a file is looked
for under the host's root, then under the root of the kubelet's process, then under that of PID 1
(``/proc/PID/root``, which takes the capability SYS_PTRACE).
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from walras_agent.cpuset import CpuSet
from walras_agent.kubelet_files import (
    INSTEAD,
    KubeletError,
    fields_of,
    files_in,
    first_found,
    unreadable,
)
from walras_agent.kubelet_process import KubeletProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = "/var/lib/kubelet"
"""The kubelet's default ``--root-dir``."""

CHECKPOINT = "cpu_manager_state"
CONFIG = f"{FOLDER}/config.yaml"
"""Path of the configuration that kubeadm writes."""

RELOAD_SECONDS = 30.0


@dataclass(slots=True)
class Kubelet:
    """The settings of this node's kubelet, read again every `RELOAD_SECONDS`.

    Attributes:
        host: Root of the host: ``/``, or its mount point in a container.
        given: Reserved CPUs that an option sets; None to read the kubelet's.
        clock: Monotonic time in seconds.
        expected: Whether this node is known to have a kubelet.
    """

    host: Path = Path("/")
    given: CpuSet | None = None
    clock: Callable[[], float] = time.monotonic
    expected: bool = False
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

    def cgroup_root(self) -> str:
        """Return the group in which the kubelet has the group of all pods; ``/`` if unknown."""
        with suppress(KubeletError):
            setting = self._setting(KubeletProcess.find(self.host), "cgroup-root", "cgroupRoot")
            if setting is not None:
                return setting[0] or "/"
        return "/"

    def _load(self) -> None:
        self._loaded = self.clock()
        process = None
        try:
            process = KubeletProcess.find(self.host)
            if process is None and self._reserved is not None:
                return  # the kubelet restarts
            self._reserved = self._reserved_cpus(process) if self.given is None else self.given
        except KubeletError as error:
            self._reserved = self.given
            if self.given is None:
                self._problem = str(error)
                return
        folder = None if process is None else process.flag("root-dir")
        self._problem = ""
        if process is not None and folder is not None:
            self._problem = self._conflict_in(process.roots[1] / folder.lstrip("/"))

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

    def _reserved_cpus(self, process: KubeletProcess | None) -> CpuSet:
        """Return the CPUs that the kubelet reserves for the system; empty if it reserves none.

        Raises:
            KubeletError: A file of the kubelet cannot be read or parsed, or it is not clear how
                the kubelet is configured.
        """
        reserved = self._setting(process, "reserved-cpus", "reservedSystemCPUs")
        if reserved is not None:
            text, where = reserved
            try:
                return CpuSet.parse(text)
            except ValueError as error:
                raise KubeletError(f"{where} is not a list of CPUs: {error}") from None
        if process is None and self._has_kubelet() and not self._has(CONFIG):
            raise KubeletError(
                f"no process is known to run the kubelet, and there is no {CONFIG}, so the CPUs "
                f"that the kubelet reserves are unknown; {INSTEAD}, to an empty text for none"
            )
        if process is not None and process.hidden:
            raise KubeletError(
                f"k3s hides its command line, so the CPUs that its --kubelet-arg may reserve are "
                f"unknown; {INSTEAD}, to an empty text for none"
            )
        return CpuSet()

    def _has_kubelet(self) -> bool:
        return self.expected or self._has(f"{FOLDER}/pods")

    def _has(self, path: str) -> bool:
        return (self.host / path.lstrip("/")).exists()

    def _setting(
        self, process: KubeletProcess | None, flag: str, name: str
    ) -> tuple[str, str] | None:
        """Return a setting of the kubelet, and where it is set; None if it is not.

        Args:
            process: The kubelet; None for one that is not visible, whose configuration is supposed
                to be where kubeadm writes it.
            flag: Flag that sets it.
            name: Field of the configuration that sets it, the last of several.

        Raises:
            KubeletError: A configuration file of the kubelet cannot be read or parsed.
        """
        given = None if process is None else process.flag(flag)
        if given is not None:
            return given, f"the kubelet's flag --{flag}"
        setting = None
        for file, text in self._configurations(process):
            value = fields_of(file, text, "KubeletConfiguration").get(name)
            if value is not None:
                setting = str(value), f"{file}: {name}"
        return setting

    def _configurations(self, process: KubeletProcess | None) -> Iterator[tuple[str, bytes]]:
        """Yield names and contents of configuration files; the last that sets a field is valid."""
        # A kubelet that is not told of a file has none; one that is not visible may have kubeadm's.
        given = CONFIG if process is None else process.flag("config")
        roots = [self.host] if process is None else process.roots
        main = first_found(roots, given, Path.read_bytes) if given else None
        if given and main is not None:
            yield given, main
        elif given and process is not None:
            raise unreadable(given, "No such file or directory")
        flag = None if process is None else process.flag("config-dir")
        folder = flag or ("" if process is None else process.default_drop_ins)
        if folder:
            drop_ins = first_found(roots, folder, lambda each: files_in(each, ".conf"))
            if drop_ins is None and flag:
                raise unreadable(folder, "No such file or directory")
            yield from drop_ins or ()


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
