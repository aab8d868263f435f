"""Facts: finds the process that runs this node's kubelet, and the flags that its kubelet has.

Most distributions run the program ``kubelet``. Some run the kubelet inside another program:

- k3s takes its flags from ``--kubelet-arg``, also in ``/etc/rancher/k3s/config.yaml`` and the files
  in ``config.yaml.d`` beside it, and has drop-ins of its configuration below ``--data-dir``
  (https://docs.k3s.io/installation/configuration). It hides its command line once it runs; the unit
  of systemd that its installer writes still has it.
- MicroShift has one configuration, always in the same place.
- MicroK8s has a file with a flag in each line (``--kubelet-args-file`` of ``kubelite``).
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walras_agent.kubelet_files import INSTEAD, KubeletError, fields_of, files_in, first_found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

K3S_DATA = "/var/lib/rancher/k3s"
_K3S_CONFIG = "/etc/rancher/k3s/config.yaml"
_UNITS = "/etc/systemd/system"
MICROSHIFT_CONFIG = "/var/lib/microshift/resources/kubelet/config/config.yaml"


@dataclass(frozen=True, slots=True)
class KubeletProcess:
    """The process that runs the kubelet.

    Attributes:
        roots: Folders that may show the host's root directory, or that of the process.
        flags: The kubelet's flags, from the first to the last, without dashes.
        default_drop_ins: Folder of drop-ins that the kubelet uses if it exists; empty without.
        hidden: Whether it may have flags that cannot be seen.
    """

    roots: tuple[Path, ...]
    flags: tuple[tuple[str, str], ...]
    default_drop_ins: str = ""
    hidden: bool = False

    @classmethod
    def find(cls, host: Path) -> KubeletProcess | None:
        """Return the kubelet's process; None if it is not visible here.

        Raises:
            KubeletError: A file with its flags cannot be read.
        """
        for folder in sorted((host / "proc").glob("[0-9]*"), key=lambda each: int(each.name)):
            try:
                read = _PROGRAMS.get((folder / "comm").read_text().strip())
                if read is not None and _is_the_hosts(folder):
                    words = (folder / "cmdline").read_text().split("\0")
                    return read((host, folder / "root", host / "proc/1/root"), words)
            except (OSError, UnicodeDecodeError):
                continue  # the process has ended
        return None

    def flag(self, name: str) -> str | None:
        """Return the value of a flag, the last one if it is repeated; None if it is not given."""
        return dict(self.flags).get(name)


def _is_the_hosts(folder: Path) -> bool:
    """Whether a process is root's and in no container: any pod may call its program kubelet."""
    status = dict(
        line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line
    )
    user, in_namespaces = status["Uid"].split()[0], status.get("NSpid", "").split()
    return user == "0" and len(in_namespaces) <= 1


def _flags(words: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the flags of a command line, which the kubelet takes with underscores, too."""
    flags = []
    for word, following in pairwise([*words, ""]):
        given, equals, text = word.partition("=")
        if given.startswith("-"):
            flags.append((given.lstrip("-").replace("_", "-"), text if equals else following))
    return tuple(flags)


def _kubelet(roots: tuple[Path, ...], words: Sequence[str]) -> KubeletProcess:
    return KubeletProcess(roots, _flags(words))


def _k3s(roots: tuple[Path, ...], words: Sequence[str]) -> KubeletProcess:
    program, *rest = words
    hidden = program.endswith((" server", " agent"))
    if hidden:
        started = _started_by_systemd(roots, program.rpartition(" ")[2])
        rest, hidden = started or [], started is None
    given = _flags(rest)
    settings = _k3s_settings(roots, dict(given).get("config") or dict(given).get("c"))
    own = [("data-dir", settings.get("data-dir")), *given]
    data = next((text for name, text in reversed(own) if name in {"data-dir", "d"} and text), "")
    arguments = [*_texts(settings.get("kubelet-arg"))]
    arguments += [text for name, text in given if name == "kubelet-arg"]
    return KubeletProcess(
        roots,
        _flags(f"--{each.lstrip('-')}" for each in arguments),
        default_drop_ins=f"{data or K3S_DATA}/agent/etc/kubelet.conf.d",
        hidden=hidden,
    )


def _started_by_systemd(roots: Sequence[Path], role: str) -> list[str] | None:
    """Return the command line in the unit that starts k3s; None if there is none."""
    unit = "k3s.service" if role == "server" else "k3s-agent.service"
    text = first_found(roots, f"{_UNITS}/{unit}", Path.read_text) or ""
    started = re.search(r"^ExecStart=(.*)$", text.replace("\\\n", " "), re.MULTILINE)
    return None if started is None else shlex.split(started[1])[1:]


def _k3s_settings(roots: Sequence[Path], file: str | None) -> dict[str, Any]:
    """Return the settings of k3s in its configuration file, and in the folder beside it."""
    path = file or _K3S_CONFIG
    main = first_found(roots, path, Path.read_bytes)
    more = first_found(roots, f"{path}.d", lambda folder: files_in(folder, ".yaml"))
    settings: dict[str, Any] = {}
    for name, text in [*([] if main is None else [(path, main)]), *(more or ())]:
        for key, value in fields_of(name, text, "configuration of k3s").items():
            plain = key.removesuffix("+")
            kept = _texts(settings.get(plain)) if plain != key else []
            settings[plain] = [*kept, *_texts(value)] if plain == "kubelet-arg" else value
    return settings


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)] * bool(value)


def _microshift(roots: tuple[Path, ...], _: Sequence[str]) -> KubeletProcess:
    return KubeletProcess(roots, (("config", MICROSHIFT_CONFIG),))


def _kubelite(roots: tuple[Path, ...], words: Sequence[str]) -> KubeletProcess:
    file = dict(_flags(words)).get("kubelet-args-file")
    text = None if file is None else first_found(roots, file, Path.read_text)
    if text is None:
        raise KubeletError(f"kubelite names no file with the kubelet's flags; {INSTEAD}")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return KubeletProcess(roots, _flags(map(_in_snap, shlex.split("\n".join(lines)))))


def _in_snap(word: str) -> str:
    """Fill in the folders of MicroK8s, which its start script knows as variables."""
    for variable, folder in _SNAP.items():
        word = word.replace(f"${{{variable}}}", folder).replace(f"${variable}", folder)
    return word


_SNAP: Mapping[str, str] = {
    "SNAP_DATA": "/var/snap/microk8s/current",
    "SNAP_COMMON": "/var/snap/microk8s/common",
    "SNAP": "/snap/microk8s/current",
}

_PROGRAMS: Mapping[str, Callable[[tuple[Path, ...], Sequence[str]], KubeletProcess]] = {
    "kubelet": _kubelet,
    "k3s": _k3s,
    "k3s-server": _k3s,
    "k3s-agent": _k3s,
    "microshift": _microshift,
    "kubelite": _kubelite,
}
"""Programs that run a kubelet, by the name of their process."""
