"""Facts: reads the CPU manager policy and the reserved CPUs of this node's kubelet.

The kubelet's CPU manager keeps a checkpoint (``cpu_manager_state`` in the kubelet's folder). With
the policy ``static`` it assigns CPUs to containers, and compares them with what it last sent, never
with the cgroup (kubernetes 138731); agent and kubelet would overwrite each other's cpusets.

The kubelet reserves CPUs for the system by its flag ``--reserved-cpus`` or, without that, by the
field ``reservedSystemCPUs`` of its configuration, in which files in ``--config-dir`` come last
(https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file).
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STATE = Path("/var/lib/kubelet/cpu_manager_state")
CONFIG = "/var/lib/kubelet/config.yaml"
"""Path of the configuration that kubeadm writes."""

_FIELD = "reservedSystemCPUs"


class KubeletError(Exception):
    """The kubelet's configuration cannot be read; one line with the cause and the remedy."""


def cpu_manager_conflict(state: Path = STATE) -> str:
    """Return why the agent must not write cpusets on this node; empty if it may.

    Without a checkpoint the kubelet has no CPU manager. A checkpoint that cannot be read counts as
    a conflict.
    """
    try:
        text = state.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{state} cannot be read: {error.strerror}; mount the kubelet's folder"
    try:
        policy = json.loads(text)["policyName"]
    except (ValueError, KeyError, TypeError):
        return f"{state} is not a checkpoint of the kubelet's CPU manager in a known format"
    if policy == "none":
        return ""
    return (
        f"the kubelet's CPU manager has the policy {policy!r} and writes cpusets itself: set "
        "cpuManagerPolicy to none, drain the node, remove cpu_manager_state, restart the kubelet"
    )


def reserved_cpus(root: Path = Path("/")) -> CpuSet:
    """Return the CPUs that the kubelet reserves for the system; empty if it reserves none.

    Reads the kubelet's command line if this process sees the host's processes; otherwise only the
    configuration that kubeadm writes.

    Args:
        root: Root of the host: ``/``, or its mount point in a container.

    Raises:
        KubeletError: A configuration file of the kubelet cannot be read or parsed.
    """
    arguments = _command_line(root / "proc")
    flag = _flag(arguments, "reserved-cpus")
    if flag is not None:
        return _parse(flag, "the kubelet's flag --reserved-cpus")
    reserved = CpuSet()
    for file in _configurations(root, arguments):
        text = _read_field(file)
        if text is not None:
            reserved = _parse(text, f"{file}: {_FIELD}")
    return reserved


def _command_line(proc: Path) -> list[str]:
    """Return the arguments of the kubelet; empty if its process is not visible."""
    for process in proc.glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() == "kubelet":
                return (process / "cmdline").read_text().split("\0")
        except (OSError, UnicodeDecodeError):
            continue  # the process has ended
    return []


def _flag(arguments: Sequence[str], name: str) -> str | None:
    """Return the value of a flag, the last one if it is repeated; None if it is not given."""
    value = None
    for argument, following in pairwise([*arguments, ""]):
        given, equals, text = argument.partition("=")
        if given in {f"--{name}", f"-{name}"}:
            value = text if equals else following
    return value


def _configurations(root: Path, arguments: Sequence[str]) -> Iterator[Path]:
    """Yield the configuration files; the last file that sets a field is valid."""
    given = _flag(arguments, "config")
    main = root / (given or CONFIG).lstrip("/")
    if given is not None or main.exists():
        yield main
    folder = _flag(arguments, "config-dir")
    if folder is not None:
        yield from sorted((root / folder.lstrip("/")).rglob("*.conf"))


def _read_field(file: Path) -> str | None:
    way_out = "set the agent's --reserved-cpus"
    try:
        document = yaml.safe_load(file.read_bytes())
    except OSError as error:
        raise KubeletError(
            f"{file} cannot be read: {error.strerror}; mount it, or {way_out}"
        ) from None
    except yaml.YAMLError:
        raise KubeletError(f"{file} is not YAML; correct it, or {way_out}") from None
    if not isinstance(document, dict):
        raise KubeletError(f"{file} is not a KubeletConfiguration; correct it, or {way_out}")
    value = document.get(_FIELD)
    return None if value is None else str(value)


def _parse(text: str, where: str) -> CpuSet:
    try:
        return CpuSet.parse(text)
    except ValueError as error:
        raise KubeletError(f"{where} is not a list of CPUs: {error}") from None
