"""Effects: keeps the original text of every cgroup file that the agent writes, on disk.

The agent must be able to restore what others have set up, even after a crash. So the originals are
on disk before the first write to the kernel. The journal is one file that is replaced atomically:
whenever the machine stops, it has the content from before a change or from after it.

The file is JSON::

    {"format": 1, "boot": "<boot ID>", "originals": [
      {"controller": "cpuset", "group": "/kubepods/pod1", "file": "cpuset.cpus",
       "identity": 4711, "text": "0-7"}]}

Cgroups do not outlive the kernel. After a reboot there is nothing to restore, and the numbers that
identify groups are reused, so originals from another boot are dropped.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, get_args

from walras_agent.atomic_file import replace_file
from walras_agent.tree import CgroupError, CgroupFile, Controller

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_agent.tree import Cgroups

FORMAT = 1
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class JournalError(Exception):
    """The journal cannot be read or written; one line with the cause and the remedy."""


class Original(NamedTuple):
    """The text of a cgroup file before the agent's first write to it.

    Attributes:
        setting: The file.
        identity: Identity of its group (`Cgroups.identity`); a group that is created later under
            the same name has another.
        text: Text of the file, as read.
    """

    setting: CgroupFile
    identity: int
    text: str


class Journal:
    """The originals, in memory and usually in a file, which only one process may use at a time."""

    def __init__(self, path: Path | None, boot: str, originals: Iterable[Original] = ()) -> None:
        self._path, self._boot = path, boot
        self._originals = {original.setting: original for original in originals}

    @classmethod
    def open(cls, path: Path, boot_id: Path = BOOT_ID) -> Journal:
        """Read a journal, or begin an empty one if the file has none from this boot.

        The file is first written by `remember`.

        Args:
            path: File of the journal, in an existing folder that outlives the agent's container.
            boot_id: File in which the kernel shows the ID of this boot (random(4)).

        Raises:
            JournalError: The file cannot be read, is damaged, or has a newer format.
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
        """Return a journal without a file, for what need not be restored after a crash."""
        return cls(None, "", originals)

    @property
    def originals(self) -> Mapping[CgroupFile, Original]:
        """All originals by file, as a live view."""
        return MappingProxyType(self._originals)

    def remember(self, originals: Iterable[Original]) -> None:
        """Add originals; they are on disk when this returns.

        The first original of a file stays, unless its group was created anew since.

        Raises:
            JournalError: The journal cannot be written. No original was added: do not write to the
                kernel.
        """
        after = dict(self._originals)
        for original in originals:
            known = after.get(original.setting)
            if known is None or known.identity != original.identity:
                after[original.setting] = original
        self._replace(after)

    def record_current(self, settings: Iterable[CgroupFile], cgroups: Cgroups) -> None:
        """Read files that are about to be written, and remember those without an original.

        Files that cannot be read are left out: the write to them will fail as well.

        Raises:
            JournalError: The journal cannot be written; see `remember`.
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

    def forget(self, settings: Iterable[CgroupFile]) -> None:
        """Drop the originals of files that were restored or deleted, also on disk.

        Raises:
            JournalError: The journal cannot be written. No original was dropped.
        """
        done = self._originals.keys() & set(settings)
        if not done:
            return
        self._replace({key: kept for key, kept in self._originals.items() if key not in done})

    def _replace(self, after: dict[CgroupFile, Original]) -> None:
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
            f"{path}: cannot be written: {error.strerror}; the agent writes to no cgroup without "
            "a journal: give it a writable folder on the host with free space"
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
            f"{path}: not a journal, or damaged ({error!r}); it cannot restore cgroups: move it "
            "away, and restart the pods of this node"
        ) from error
    raise JournalError(
        f"{path}: has format {version!r}, but this agent reads format {FORMAT}; run "
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
                    return Original(CgroupFile(known, group, file), identity, text)
    raise ValueError(f"not an original: {entry}")
