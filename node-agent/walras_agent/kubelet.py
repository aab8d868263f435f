"""Facts: what the kubelet of this node does with CPUs itself.

Its CPU manager keeps a checkpoint (``cpu_manager_state`` in the kubelet's folder). With the policy
``static`` it assigns CPUs to containers and compares with what it last sent, never with the
cgroup (kubernetes 138731), so two would be writing the same files.

CPUs that it reserves for the system and itself are told by its flag ``--reserved-cpus`` or, without
that, by the field ``reservedSystemCPUs`` of its configuration, of which files in ``--config-dir``
have the last word (https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file).
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
"""Where kubeadm puts the configuration."""

_FIELD = "reservedSystemCPUs"


class KubeletError(Exception):
    """What the kubelet is told cannot be understood; one line: what, why, and the way out."""


def why_not(state: Path = STATE) -> str:
    """Why the agent must not write cpusets here; empty if it may.

    A kubelet without a checkpoint has no CPU manager; one that cannot be understood is taken for
    the worst.
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
        return f"{state} is not a checkpoint of the kubelet's CPU manager that this agent knows"
    if policy == "none":
        return ""
    return (
        f"the kubelet's CPU manager has the policy {policy!r} and writes cpusets itself: set "
        "cpuManagerPolicy to none, drain the node, remove cpu_manager_state, restart the kubelet"
    )


def reserved_cpus(root: Path = Path("/")) -> CpuSet:
    """The CPUs that the kubelet reserves for the system; none where it does not show any.

    Its command line is seen where this process sees the host's; without it the configuration is
    looked for where kubeadm puts it.

    Args:
        root: The host's root: ``/``, or where a container has it.

    Raises:
        KubeletError: A configuration that the kubelet uses cannot be read or understood.
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
    """The arguments of the kubelet; none where its process is not seen."""
    for process in proc.glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() == "kubelet":
                return (process / "cmdline").read_text().split("\0")
        except (OSError, UnicodeDecodeError):
            continue  # gone, or of no interest
    return []


def _flag(arguments: Sequence[str], name: str) -> str | None:
    """The value of a flag, the last one if it is given twice."""
    value = None
    for argument, following in pairwise([*arguments, ""]):
        given, equals, text = argument.partition("=")
        if given in {f"--{name}", f"-{name}"}:
            value = text if equals else following
    return value


def _configurations(root: Path, arguments: Sequence[str]) -> Iterator[Path]:
    """The files of the configuration; of a field that is in several the last one is valid."""
    given = _flag(arguments, "config")
    main = root / (given or CONFIG).lstrip("/")
    if given is not None or main.exists():
        yield main
    folder = _flag(arguments, "config-dir")
    if folder is not None:
        yield from sorted((root / folder.lstrip("/")).rglob("*.conf"))


def _read_field(file: Path) -> str | None:
    way_out = "give the CPUs that are reserved to the agent"
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
        raise KubeletError(f"{where} is no list of CPUs: {error}") from None
