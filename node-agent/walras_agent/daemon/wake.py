"""Facts: that something has changed on the node, as soon as it has (inotify(7)).

The kernel tells of cgroup files as of others: that a group was made or removed, and that a process
wrote to a file; the agent's own writes are among them, and cost one more look. What the kernel
does by itself, such as taking a CPU offline, is seen when the agent looks anyway.
"""

from __future__ import annotations

import logging
import os
import selectors
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from asyncinotify import Inotify, Mask

from walras_agent.memory.pressure import FILES
from walras_agent.moves import CPUS
from walras_agent.quota import LOOKED_AT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from asyncinotify import Event, Watch

    from walras_agent.kubepods import Layout, PodGroups
    from walras_agent.tree import Cgroups, CgroupTree

_log = logging.getLogger(__name__)

_MASK = Mask.CREATE | Mask.DELETE | Mask.MODIFY | Mask.MOVED_TO | Mask.ONLYDIR
_HELD = frozenset({CPUS, "cpuset.mems"}).union(
    *LOOKED_AT.values(), *(files.values() for files in FILES.values())
)
_GATHER = 0.05  # seconds: changes come in bunches, as when a pod with three containers starts
_MOUNTED = "..data"  # what the kubelet replaces when a mounted ConfigMap changes


class Wake:
    """Waits until there is a reason to look at the node again.

    Args:
        plan: A file that is looked at as well; its folder must be there.

    Raises:
        OSError: The kernel gives no more inotify instances, or the folder is not there.
    """

    def __init__(self, plan: Path | None = None) -> None:
        self._inotify = Inotify(sync_timeout=0)
        self._called = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._inotify.fd, selectors.EVENT_READ)
        self._selector.register(self._called, selectors.EVENT_READ)
        self._followed: dict[str, Watch] = {}
        self._names = _HELD
        self._full = False
        if plan is not None:
            self._names |= {plan.name, _MOUNTED}
            self._inotify.add_watch(plan.absolute().parent, _MASK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        self._inotify.close()
        os.close(self._called)

    def call(self) -> None:
        """End the present or the next wait; for other threads and signal handlers."""
        os.eventfd_write(self._called, 1)

    def wait(self, seconds: float) -> bool:
        """Wait for a change or a call; False when the time is over without one."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._happened(left):
                time.sleep(_GATHER)
                self._happened(0)
                return True
        return False

    def follow(self, folders: Iterable[str]) -> None:
        """Be told of these folders from now on, and of no others but the plan's."""
        wanted = frozenset(folders)
        for folder in self._followed.keys() - wanted:
            watch = self._followed.pop(folder)
            if watch in self._inotify.watches:  # else the folder is gone, and the watch with it
                self._inotify.rm_watch(watch)
        for folder in wanted - self._followed.keys():
            try:
                self._followed[folder] = self._inotify.add_watch(folder, _MASK)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._complain(error)
                return

    def _complain(self, error: OSError) -> None:
        if not self._full:
            _log.warning(
                "changes by others are seen late: %s; raise fs.inotify.max_user_watches",
                error.strerror,
            )
        self._full = True

    def _happened(self, seconds: float) -> bool:
        """Whether there was a change that matters or a call, in so many seconds."""
        found = False
        for key, _ in self._selector.select(seconds):
            if key.fd == self._called:
                os.eventfd_read(self._called)
                found = True
            else:
                found |= self._drained()
        return found

    def _drained(self) -> bool:
        """Take all events that are there now; whether one of them matters."""
        return sum(map(self._matters, self._inotify)) > 0

    def _matters(self, event: Event) -> bool:
        if Mask.IGNORED in event:
            self._followed = {k: w for k, w in self._followed.items() if w is not event.watch}
            return False
        return bool(event.mask & (Mask.ISDIR | Mask.Q_OVERFLOW)) or str(event.name) in self._names


@dataclass(frozen=True, slots=True)
class FollowedPods:
    """The kubelet's pods, of which the agent is told when they come, go, or are written to.

    Attributes:
        layout: Where they are.
        tree: The kernel's.
        wake: Is told which folders to follow at every scan.
    """

    layout: Layout
    tree: CgroupTree
    wake: Wake

    def scan(self, cgroups: Cgroups) -> tuple[PodGroups, ...]:
        """See `observe.PodSource`."""
        found = self.layout.scan(cgroups)
        groups = {self.layout.pods, *cgroups.children(self.layout.pods)}
        for pod in found:
            groups |= {pod.group, *pod.containers}
        self.wake.follow(
            self.tree.folder(controller, group)
            for group in groups
            for controller in ("cpuset", "cpu")
        )
        return found
