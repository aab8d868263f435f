"""Facts: notices changes on the node as they happen, by inotify(7).

The kernel reports cgroup files as it does others: that a group was made or removed, and that a
process wrote to a file. The agent's own writes are reported too, and cost one more reconcile pass,
unless it forgets them. What the kernel does by itself, such as taking a CPU offline, is noticed in
the next periodic pass. All programs of a user share a limit of inotify instances and watches. Where
it is reached, changes are looked for every second instead.
"""

from __future__ import annotations

import logging
import os
import selectors
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from asyncinotify import Inotify, Mask

from walras_agent.memory.stats import LIMIT_FILES
from walras_agent.moves import CPUS
from walras_agent.observe import SUBGROUP
from walras_agent.quota import QUOTA_FILES, WEIGHT_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from asyncinotify import Event, Watch

    from walras_agent.kubepods import Layout, PodGroups
    from walras_agent.tree import Cgroups, CgroupTree

_log = logging.getLogger(__name__)

_MASK = Mask.CREATE | Mask.DELETE | Mask.MODIFY | Mask.MOVED_TO | Mask.ONLYDIR
# A controller that is disabled and enabled again has lost the values of all its files.
_ENFORCED_FILES = frozenset({CPUS, "cpuset.mems", "cgroup.subtree_control"}).union(
    QUOTA_FILES.values(),
    WEIGHT_FILES.values(),
    *(files.values() for files in LIMIT_FILES.values()),
)
_POLL_SECONDS = 1.0
_WAKES = 1 << 16  # bytes, the capacity of a pipe
_GATHER = 0.05  # seconds: changes come in bursts, as when a pod with three containers starts
_MOUNTED = "..data"  # the link that the kubelet replaces when a mounted ConfigMap changes


class ChangeWaiter:
    """Waits until something on the node changes or another thread calls `wake`.

    Args:
        plan: File with the plan, watched too; None for no file. Its folder must exist.

    Attributes:
        waker: Descriptor of which each byte that is written ends a wait (`signal.set_wakeup_fd`).
        polls: Whether changes have to be looked for, since the kernel does not tell of all.

    Raises:
        OSError: The plan's folder does not exist.
    """

    def __init__(self, plan: Path | None = None) -> None:
        self._woken, self.waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._watched: dict[str, Watch] = {}
        self._names = _ENFORCED_FILES
        self.polls = False
        self._changed = False  # found while forgetting
        try:
            self._inotify: Inotify | None = Inotify(sync_timeout=0)
        except OSError as error:
            self._inotify = None
            self._poll_from_now_on(error, "max_user_instances")
            return
        self._selector.register(self._inotify.fd, selectors.EVENT_READ)
        if plan is not None:
            self._names |= {plan.name, _MOUNTED}
            self._inotify.add_watch(plan.absolute().parent, _MASK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        if self._inotify is not None:
            self._inotify.close()
        os.close(self._woken)
        os.close(self.waker)

    def wake(self) -> None:
        """End the present or the next wait; for other threads and signal handlers."""
        with suppress(BlockingIOError):  # full, so that the next wait ends in any case
            os.write(self.waker, b"\0")

    def wait(self, seconds: float) -> bool:
        """Wait for a change or a call of `wake`; return False if the time is up without one.

        Where changes have to be looked for, return True after a second, since there may be one.
        """
        looks = self.polls and seconds > _POLL_SECONDS
        end = time.monotonic() + (_POLL_SECONDS if looks else seconds)
        while (left := end - time.monotonic()) > 0:
            changed, self._changed = self._changed, False
            if changed or self._poll(left):
                time.sleep(_GATHER)
                self._poll(0)
                return True
        return looks

    def watch(self, folders: Iterable[str]) -> bool:
        """Watch these folders from now on, and no others but the plan's.

        Returns:
            Whether one was not watched until now, so that what was made in it before is not told.
        """
        if self._inotify is None:
            return False
        wanted = frozenset(folders)
        for folder in self._watched.keys() - wanted:
            watch = self._watched.pop(folder)
            if watch in self._inotify.watches:  # else the folder is gone, and the watch with it
                with suppress(OSError):  # it went just now
                    self._inotify.rm_watch(watch)
        before = len(self._watched)
        for folder in wanted - self._watched.keys():
            try:
                self._watched[folder] = self._inotify.add_watch(folder, _MASK)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._poll_from_now_on(error, "max_user_watches")
                return False
        return len(self._watched) > before

    def forget(self, files: Iterable[Path]) -> None:
        """Take no notice of what was written to these files until now: by the agent itself."""
        if self._inotify is None:
            return
        folders = {id(watch): folder for folder, watch in self._watched.items()}
        own = {(str(file.parent), file.name) for file in files}
        for event in self._inotify:
            written = (folders.get(id(event.watch)), str(event.name))
            self._changed |= written not in own and self._is_relevant(event)

    def _poll_from_now_on(self, error: OSError, limit: str) -> None:
        if not self.polls:
            _log.warning(
                "changes by other processes are looked for every second: %s; raise fs.inotify.%s",
                error.strerror,
                limit,
            )
        self.polls = True

    def _poll(self, seconds: float) -> bool:
        """Wait up to ``seconds``; return whether there was a relevant change or a call."""
        has_changed = False
        for key, _ in self._selector.select(seconds):
            if key.fd == self._woken:
                os.read(self._woken, _WAKES)
                has_changed = True
            else:
                has_changed |= self._drain()
        return has_changed

    def _drain(self) -> bool:
        """Take all pending events; return whether one of them is relevant."""
        return self._inotify is not None and sum(map(self._is_relevant, self._inotify)) > 0

    def _is_relevant(self, event: Event) -> bool:
        if Mask.IGNORED in event:
            self._watched = {k: w for k, w in self._watched.items() if w is not event.watch}
            return False
        return bool(event.mask & (Mask.ISDIR | Mask.Q_OVERFLOW)) or str(event.name) in self._names


@dataclass(frozen=True, slots=True)
class WatchedPods:
    """A source of pods that has their cgroups watched.

    Attributes:
        layout: Location of pods among the cgroups.
        tree: Cgroup file systems of the kernel.
        waiter: Waiter that watches the folders found by the last scan.
    """

    layout: Layout
    tree: CgroupTree
    waiter: ChangeWaiter

    def scan(self, cgroups: Cgroups) -> tuple[PodGroups, ...]:
        """Return the pods, as `observe.PodSource` does, and watch their folders."""
        while True:
            pods = self.layout.scan(cgroups)
            top = self.layout.pods
            groups = {top.rpartition("/")[0], top, *cgroups.children(top)}
            for pod in pods:
                groups |= {pod.group, *pod.containers}
                if cgroups.version == 2:  # as of `observe.limited_groups`
                    groups.update(f"{each}/{SUBGROUP}" for each in pod.containers)
            folders = (
                self.tree.folder(controller, group)
                for group in groups
                for controller in ("cpuset", "cpu", "memory")
            )
            # A group that was made between the listing and the watching is not told.
            if not self.waiter.watch(folders):
                return pods
