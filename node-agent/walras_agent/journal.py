"""Effects: keeps the original text of every cgroup file that the agent writes, on disk.

The agent must be able to restore what others have set up, even after a crash. So the originals are
on disk before the first write to the kernel. The journal is one file that is replaced atomically:
whenever the machine stops, it has the content from before a change or from after it.

Others write these files, too: a kubelet that resizes a pod in place, systemd, an administrator. A
text that the agent did not write is what they want now, so it becomes the original. The journal
therefore also has the values that the agent is about to write, and each file is read again right
before it is written. Two things cannot be told apart: a value of somebody else's that is what the
agent wrote itself, and one that comes in the microseconds between that read and the write.

Weights are corrected every few seconds. So their values are in memory only, and a correction is no
durable write: to an agent that has just begun, any weight of a file that has an original is its
own.

The file is JSON::

    {"format": 1, "boot": "<boot ID>", "originals": [
      {"controller": "cpuset", "group": "/kubepods/pod1", "file": "cpuset.cpus",
       "identity": 4711, "text": "0-7", "written": ["2-3"]}]}

Cgroups do not outlive the kernel. After a reboot there is nothing to restore, and the numbers that
identify groups are reused, so originals from another boot are dropped.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from walras_agent.atomic_file import replace_file
from walras_agent.cpuset import CpuSet
from walras_agent.tree import CgroupError, CgroupFile, Controller, is_gone

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_agent.tree import Cgroups, FileWrite

_PAGE = os.sysconf("SC_PAGE_SIZE")
_NO_LIMIT = 1 << 62

NO_CPUS = CpuSet()

_CORRECTED = frozenset({"cpu.shares", "cpu.weight"})  # files whose values are in memory only

_WITHOUT_VALUE = frozenset({"memory.reclaim"})  # files to which a request is written

FORMAT = 1
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class JournalError(Exception):
    """The journal cannot be read or written; one line with the cause and the remedy."""


class OvertakenError(CgroupError):
    """Others have written a file since the agent looked at it, so it was not written."""

    def __init__(self, setting: CgroupFile) -> None:
        super().__init__(setting, errno.EAGAIN)

    def __str__(self) -> str:
        return f"others have just written {self.setting}: it waits for the next pass"


class Original(NamedTuple):
    """The text of a cgroup file before the agent's first write to it.

    Attributes:
        setting: The file.
        identity: Identity of its group (`Cgroups.identity`); a group that is created later under
            the same name has another.
        text: Text of the file, as read.
        written: Values that the agent has written or is about to write, one of which the file has
            now, unless it has its original text or others have written to it; None if unknown (a
            weight after a start, or in a journal of an earlier version).
    """

    setting: CgroupFile
    identity: int
    text: str
    written: tuple[str, ...] | None = None

    def is_foreign(self, text: str, version: Literal[1, 2], offlined: CpuSet = NO_CPUS) -> bool:
        """Whether a text of the file was written by others since the original was read.

        Args:
            text: Text of the file now.
            version: Version of the cgroup interface.
            offlined: CPUs that have been offline, which v1 takes out of cpusets for good.
        """
        if self.written is None:
            return False
        missing = offlined if version == 1 else NO_CPUS
        return not any(
            _same(self.setting, text, each, missing) for each in (self.text, *self.written)
        )


class Journal:
    """The originals, in memory and usually in a file, which only one process may use at a time."""

    def __init__(self, path: Path | None, boot: str, originals: Iterable[Original] = ()) -> None:
        self._path, self._boot = path, boot
        self._is_saved = True
        self._originals = {original.setting: original for original in originals}
        # CPUs that cpusets had, and those of them that have been offline.
        self._listed = CpuSet(
            cpu for each in self._originals.values() for cpu in _cpus(each.setting, each.text)
        )
        self._offlined = NO_CPUS

    @classmethod
    def open(cls, path: Path, boot_id: Path = BOOT_ID) -> Journal:
        """Read a journal, or begin an empty one if the file has none from this boot.

        The file is first written by `record`.

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
        found = _parse(written, boot, path)
        journal = cls(path, boot, map(_on_disk, found))
        # Earlier versions kept the values of weights, which would soon be outdated.
        journal._is_saved = all(each == _on_disk(each) for each in found)
        return journal

    @classmethod
    def in_memory(cls, originals: Iterable[Original] = ()) -> Journal:
        """Return a journal without a file, for what need not be restored after a crash."""
        return cls(None, "", originals)

    @property
    def originals(self) -> Mapping[CgroupFile, Original]:
        """All originals by file, as a live view."""
        return MappingProxyType(self._originals)

    def record(self, writes: Iterable[FileWrite], cgroups: Cgroups) -> None:
        """Add the texts of files that are about to be written, and the values, to the journal.

        They are on disk when this returns, but for values of weights. The first text of a file
        stays its original until others write to the file, or its group is created anew. Files that
        cannot be read are left out, and `write` refuses them.

        Args:
            writes: Files and the values to be written to them; a file may have several.
            cgroups: Cgroups of this node.

        Raises:
            JournalError: The journal cannot be written. Nothing was added: do not write to the
                kernel.
        """
        values: dict[CgroupFile, list[str]] = {}
        for setting, value in writes:
            values.setdefault(setting, []).append(value)
        after, version = dict(self._originals), cgroups.version
        identities = {group: _identity(cgroups, group) for group in {each.group for each in values}}
        for setting, wanted in values.items():
            identity, original = identities[setting.group], self._originals.get(setting)
            if identity is None:
                continue
            try:
                now = cgroups.read(setting)
            except CgroupError:
                continue
            self._listed |= _cpus(setting, now)
            if (
                original is None
                or original.identity != identity
                or self.is_foreign(original, now, cgroups.version)
            ):
                after[setting] = Original(setting, identity, now, _unique(wanted))
            elif _same(setting, now, original.text, self._offlined if version == 1 else NO_CPUS):
                after[setting] = original._replace(written=_unique(wanted))
            else:
                after[setting] = original._replace(written=_unique([now, *wanted]))
        self._replace(after)

    def see_online(self, cpus: CpuSet) -> None:
        """Note which CPUs are online now, to tell what the kernel takes out of cpusets in v1."""
        self._offlined |= self._listed - cpus
        self._listed |= cpus

    def is_foreign(self, original: Original, text: str, version: Literal[1, 2]) -> bool:
        """Whether a text was written by others since an original was read."""
        return original.is_foreign(text, version, self._offlined)

    def write(self, setting: CgroupFile, value: str, cgroups: Cgroups) -> None:
        """Write a value that was recorded, unless others have written the file since.

        Raises:
            OvertakenError: They have.
            CgroupError: The kernel refuses, or the file could not be read when it was recorded.
        """
        now, original = cgroups.read(setting), self._originals.get(setting)
        if (
            original is None
            or original.is_foreign(value, cgroups.version)
            or original.identity != cgroups.identity(setting.group)
            or self.is_foreign(original, now, cgroups.version)
        ):
            raise OvertakenError(setting)
        cgroups.write(setting, value)

    def made(self, setting: CgroupFile, value: str) -> None:
        """Note that a value was written, so that the file has no earlier one of the agent's.

        This is on disk after the next change of the journal: a crash before leaves it unknown
        which of the values the file has.
        """
        if original := self._originals.get(setting):
            self._originals[setting] = original._replace(written=(value,))

    def claim_weights(self, cgroups: Cgroups) -> None:
        """Take weights that an agent finds as it begins for its own, in memory.

        What others write from now on is theirs.
        """
        for setting, original in list(self._originals.items()):
            if original.written is None and setting.file in _CORRECTED:
                with contextlib.suppress(CgroupError):
                    now = cgroups.read(setting)
                    self._originals[setting] = original._replace(written=(now,))

    def adopt_foreign(self, settings: Iterable[CgroupFile], cgroups: Cgroups) -> None:
        """Replace the originals of files that others have written since the agent's last write.

        Raises:
            JournalError: The journal cannot be written. No original was replaced.
        """
        after = dict(self._originals)
        for setting in settings:
            original = self._originals.get(setting)
            if original is None or original.written is None:
                continue
            if is_gone(cgroups, setting.group, original.identity):
                continue
            with contextlib.suppress(CgroupError):
                now = cgroups.read(setting)
                if self.is_foreign(original, now, cgroups.version):
                    after[setting] = original._replace(text=now, written=())
        self._replace(after)

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
        if self._path is not None and not self._is_on_disk(after):
            # After a failure the file may have either content: the last fsync may have failed.
            self._is_saved = False
            _save(self._path, _format(after.values(), self._boot))
            self._is_saved = True
        self._originals.clear()
        self._originals.update(after)

    def _is_on_disk(self, after: Mapping[CgroupFile, Original]) -> bool:
        before = self._originals
        return (
            self._is_saved
            and after.keys() == before.keys()
            and all(_on_disk(each) == _on_disk(before[key]) for key, each in after.items())
        )


class JournaledCgroups:
    """Cgroups whose files are written by `Journal.write` (implements `Cgroups`)."""

    def __init__(self, cgroups: Cgroups, journal: Journal) -> None:
        self._cgroups, self._journal = cgroups, journal
        self.read, self.identity = cgroups.read, cgroups.identity
        self.children = cgroups.children

    @property
    def version(self) -> Literal[1, 2]:
        """Version of the cgroup interface."""
        return self._cgroups.version

    def write(self, setting: CgroupFile, value: str) -> None:
        """Write a value to a file; see `Cgroups`."""
        if setting.file in _WITHOUT_VALUE:
            self._cgroups.write(setting, value)
        else:
            self._journal.write(setting, value, self._cgroups)


def _on_disk(original: Original) -> Original:
    """Return an original without what is in memory only."""
    return original._replace(written=None) if original.setting.file in _CORRECTED else original


def _identity(cgroups: Cgroups, group: str) -> int | None:
    """Return the identity of a group; None if it was deleted, or may not be looked at."""
    try:
        return cgroups.identity(group)
    except CgroupError:
        return None


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _same(setting: CgroupFile, text: str, written: str, missing: CpuSet) -> bool:
    """Whether a file that shows a text may have got it by a write of a value.

    The kernel shows memory in whole pages, more than the value where there is a table, and a cpuset
    may lack some of the CPUs in ``missing``.
    """
    if text == written:
        return True
    if setting.controller == "cpuset" and setting.file in {"cpuset.cpus", "cpuset.mems"}:
        now, then = CpuSet.parse(text), CpuSet.parse(written)
        return now == then or (bool(now) and now <= then and then - now <= missing)
    if setting.controller == "memory":
        return _first_number(text) == _first_number(written)
    if setting.file == "cpu.max":
        return all(now == then for now, then in zip(text.split(), written.split(), strict=False))
    return False


def _cpus(setting: CgroupFile, text: str) -> CpuSet:
    return CpuSet.parse(text) if setting.file == "cpuset.cpus" else NO_CPUS


def _first_number(text: str) -> int | None:
    """Return the first number of a memory file, a limit in whole pages; None for no limit."""
    match = re.search(r"-?\d+", text)
    number = int(match[0]) if match else -1
    if number < 0 or number >= _NO_LIMIT:
        return None
    return number if number <= 1 else number - number % _PAGE


def _save(path: Path, text: bytes) -> None:
    try:
        replace_file(path, text)
    except OSError as error:
        raise JournalError(
            f"{path}: cannot be written: {error.strerror}; the agent writes to no cgroup without "
            "a journal: give it a writable folder on the host with free space"
        ) from error


def _format(originals: Iterable[Original], boot: str) -> bytes:
    """Return the journal as JSON, one original a line; indented JSON takes ten times as long."""
    lines = ",\n".join(
        json.dumps(
            {
                **original.setting._asdict(),
                "identity": original.identity,
                "text": original.text,
                **({} if original.written is None else {"written": original.written}),
            }
        )
        for original in sorted(map(_on_disk, originals), key=lambda each: each.setting)
    )
    head = f'{{"format": {json.dumps(FORMAT)}, "boot": {json.dumps(boot)}, "originals": ['
    return f"{head}\n{lines}\n]}}\n".encode()


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
            for each in get_args(Controller):
                if each == controller:
                    written = _written(entry.get("written"))
                    return Original(CgroupFile(each, group, file), identity, text, written)
    raise ValueError(f"not an original: {entry}")


def _written(entry: object) -> tuple[str, ...] | None:
    if entry is None:
        return None
    if isinstance(entry, list) and all(isinstance(each, str) for each in entry):
        return tuple(entry)
    raise ValueError(f"not a list of texts: {entry}")
