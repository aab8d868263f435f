"""Facts: what every cgroup file said before the agent first wrote to it.

Whoever changes what others have set up must be able to put it back, also after a crash: so the
originals are on disk before the first write to the kernel. The journal is one file, replaced as a
whole: whenever the machine stops, it is as it was before a change or as it was after.

The file is JSON::

    {"format": 1, "boot": "<boot ID>", "originals": [
      {"controller": "cpuset", "group": "/kubepods/pod1", "file": "cpuset.cpus",
       "identity": 4711, "text": "0-7"}]}

Cgroups live as long as the kernel does. After a reboot there is nothing to put back, and numbers
that told groups apart are given anew, so the originals of another boot are void.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, get_args

from walras_agent.durable import replace_file
from walras_agent.tree import CgroupError, Controller, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_agent.tree import Cgroups

FORMAT = 1
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class JournalError(Exception):
    """The journal cannot be read or kept; one line: what, why, and the way out."""


class Original(NamedTuple):
    """What a file said before the agent first wrote to it.

    Attributes:
        setting: The file.
        identity: Of its group (`Cgroups.identity`): one made later under the same name is another.
        text: As it was read.
    """

    setting: Setting
    identity: int
    text: str


class Journal:
    """The originals, in memory and (as a rule) in a file that one process at a time has open."""

    def __init__(self, path: Path | None, boot: str, originals: Iterable[Original] = ()) -> None:
        self._path, self._boot = path, boot
        self._originals = {original.setting: original for original in originals}

    @classmethod
    def open(cls, path: Path, boot_id: Path = BOOT_ID) -> Journal:
        """Read a journal, or begin one where there is none from this boot.

        Nothing is written before there is something to remember.

        Args:
            path: Its file, in a folder that is there and outlives the agent's container.
            boot_id: Where the kernel tells the ID of this boot (random(4)).

        Raises:
            JournalError: The file cannot be read, is damaged, or was written in a newer format.
        """
        try:
            boot = boot_id.read_text(encoding="ascii").strip()
        except OSError as error:
            raise JournalError(f"{boot_id}: {error.strerror}; mount the host's /proc") from error
        try:
            written = path.read_bytes()
        except FileNotFoundError:
            return cls(path, boot)
        except OSError as error:
            raise JournalError(f"{path}: {error.strerror}; let the agent read it") from error
        return cls(path, boot, _parse(written, boot, path))

    @classmethod
    def in_memory(cls, originals: Iterable[Original] = ()) -> Journal:
        """A journal that ends with the process: for what nobody has to put back after a crash."""
        return cls(None, "", originals)

    @property
    def originals(self) -> Mapping[Setting, Original]:
        """All of them; a view that shows later changes."""
        return MappingProxyType(self._originals)

    def remember(self, originals: Iterable[Original]) -> None:
        """Keep what files say that are about to be written; on disk when this returns.

        Of a file that is known already the first text stays, unless its group is another by now.

        Raises:
            JournalError: It cannot be written. Nothing new is known then: do not write to the
                kernel.
        """
        after = dict(self._originals)
        for original in originals:
            known = after.get(original.setting)
            if known is None or known.identity != original.identity:
                after[original.setting] = original
        self._become(after)

    def take_down(self, settings: Iterable[Setting], cgroups: Cgroups) -> None:
        """Remember what files say now that are about to be written, and are not known yet.

        Those that cannot be read are left out: the write will say what is wrong with them.

        Raises:
            JournalError: As `remember`.
        """
        found = []
        identities: dict[str, int | None] = {}
        for setting in settings:
            if setting.group not in identities:
                identities[setting.group] = cgroups.identity(setting.group)
            identity = identities[setting.group]
            known = self._originals.get(setting)
            if identity is None or (known is not None and known.identity == identity):
                continue
            with contextlib.suppress(CgroupError):
                found.append(Original(setting, identity, cgroups.read(setting)))
        if found:
            self.remember(found)

    def forget(self, settings: Iterable[Setting]) -> None:
        """Drop what has been put back or is gone; off the disk when this returns.

        Raises:
            JournalError: It cannot be written. All is still known then.
        """
        done = self._originals.keys() & set(settings)
        if not done:
            return
        self._become({key: kept for key, kept in self._originals.items() if key not in done})

    def _become(self, after: dict[Setting, Original]) -> None:
        if after == self._originals:
            return
        if self._path is not None:
            _save(self._path, _format(after.values(), self._boot))
        self._originals.clear()
        self._originals.update(after)


def _save(path: Path, text: bytes) -> None:
    try:
        replace_file(path, text)
    except OSError as error:
        raise JournalError(
            f"{path}: cannot be written: {error.strerror}; the agent changes no cgroup whose "
            "original it cannot keep: give it a folder on the host with room"
        ) from error


def _format(originals: Iterable[Original], boot: str) -> bytes:
    document = {
        "format": FORMAT,
        "boot": boot,
        "originals": [
            {**original.setting._asdict(), "identity": original.identity, "text": original.text}
            for original in sorted(originals)
        ],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _parse(written: bytes, boot: str, path: Path) -> tuple[Original, ...]:
    try:
        document = json.loads(written)
        version = document["format"]
        if version == FORMAT:
            originals = tuple(_original(entry) for entry in document["originals"])
            return originals if document["boot"] == boot else ()
    except (ValueError, TypeError, KeyError) as error:
        raise JournalError(
            f"{path}: not a journal, or damaged ({error!r}); what cgroups said before the agent "
            "cannot be told from it: move it away, and restart the pods of this node"
        ) from error
    raise JournalError(
        f"{path}: written in format {version!r}, and this agent knows {FORMAT}; run "
        "`walras-agent restore` of the version that wrote it"
    )


def _original(entry: dict[str, object]) -> Original:
    match entry:
        case {
            "controller": str(controller),
            "group": str(group),
            "file": str(file),
            "identity": int(identity),
            "text": str(text),
        }:
            for known in get_args(Controller):
                if known == controller:
                    return Original(Setting(known, group, file), identity, text)
    raise ValueError(f"not an original: {entry}")
