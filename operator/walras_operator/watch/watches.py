"""Facts: watch the cluster, and keep the mirror up to date.

A reflector follows each kind in a thread of its own (docs/decisions/kopf.md). The mirror counts as
complete while every kind has been listed and nothing is missed: a kind that may no longer be
listed, whose requests have failed for some time, or of which the API server has long said nothing
makes it incomplete, and nothing is decided meanwhile.

After etcd was restored from a snapshot, the cluster's objects are older than those that the mirror
knows, and watches would wait for versions that are yet to come. All are then listed again.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from walras_service import collector
from walras_service.reflector import Reflector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walras_operator.watch.kinds import Watched
    from walras_operator.watch.mirror import Mirror
    from walras_service.api import Api, Document
    from walras_service.api_errors import ApiError

_log = logging.getLogger(__name__)

FAILING = 15.0
"""Seconds for which requests may fail until the mirror counts as incomplete."""

STALE = 150.0
"""The same for a kind that the API server says nothing of; a silent watch ends after 90 s."""


class Watches:
    """Keeps the mirror up to date.

    Args:
        api: Connections, one for each kind.
        kinds: Kinds to watch, by name.
        mirror: Cache to update.
        clock: Returns seconds.
        completed: Called when the mirror becomes complete.
    """

    def __init__(
        self,
        api: Api,
        kinds: Mapping[str, Watched],
        mirror: Mirror,
        clock: Callable[[], float] = time.monotonic,
        completed: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock, self._completed = clock, completed
        self._was_complete = False
        self._followers = {
            name: MirroredKind(watched, mirror, clock, self._note)
            for name, watched in kinds.items()
        }
        self._reflectors = {
            name: Reflector(
                api,
                f"watch-{name}",
                watched.kind,
                self._followers[name],
                selectors=watched.selectors,
                only_metadata=watched.only_metadata,
            )
            for name, watched in kinds.items()
        }

    def start(self) -> None:
        """Start to watch."""
        for each in self._reflectors.values():
            each.start()

    def stop(self) -> None:
        """Stop watching; the mirror receives nothing more."""
        for each in self._reflectors.values():
            each.stop()

    def restored(self) -> None:
        """Forget all versions and list anew, because etcd was restored; safe in other threads."""
        _log.warning(
            "the API server has older data than before; watching all objects anew",
            extra={"event": "restored"},
        )
        self._was_complete = False
        for name, reflector in self._reflectors.items():
            self._followers[name].restored = True
            reflector.list_again()

    @property
    def complete(self) -> bool:
        """Whether the mirror contains all objects, as they are now."""
        return not self.problem

    @property
    def problem(self) -> str:
        """Why the mirror is not complete; empty if it is."""
        now = self._clock()
        problems = (problem_of(name, each, now) for name, each in self._reflectors.items())
        return next(filter(None, problems), "")

    @property
    def active(self) -> float:
        """When the thread that has done nothing for longest was last active."""
        return min((each.active for each in self._reflectors.values()), default=self._clock())

    def ages(self) -> dict[str, float]:
        """Return for how many seconds the API server has said nothing of each kind."""
        now = self._clock()
        return {name: now - each.confirmed for name, each in self._reflectors.items()}

    def _note(self, error: ApiError | None) -> None:
        """Note whether the API server has answered; log when the mirror becomes complete."""
        if error is not None:
            self._was_complete = False
        elif not self._was_complete and self.complete:
            self._was_complete = True
            collector.pass_over_all()
            _log.info("all objects are cached", extra={"event": "complete"})
            self._completed()


class MirroredKind:
    """Passes on what a reflector receives of one kind to the mirror (`reflector.Follower`).

    Args:
        watched: The kind.
        mirror: Cache to update.
        clock: Returns seconds.
        note: Called after each answer of the API server, and with each problem.

    Attributes:
        restored: Whether the next list may have older objects than the mirror.
    """

    def __init__(
        self,
        watched: Watched,
        mirror: Mirror,
        clock: Callable[[], float],
        note: Callable[[ApiError | None], None],
    ) -> None:
        self.restored = False
        self._watched, self._mirror = watched, mirror
        self._clock, self._note = clock, note
        self._problem = ""
        self._failing: float | None = None

    def known(self) -> set[str]:
        """Return the UIDs of all cached objects."""
        if self.restored:
            self.restored = False
            self._mirror.forget_versions(self._watched.name)
        return set(self._mirror.versions(self._watched.name))

    def receive(self, document: Document, *, deleted: bool) -> None:
        """Cache an object, or drop it."""
        # What has only metadata says that it is a PartialObjectMetadata.
        document.update(kind=self._watched.name, apiVersion=self._watched.kind.api_version)
        self._mirror.receive(self._watched.name, document, deleted=deleted)

    def listed(self, gone: set[str]) -> None:
        """Drop objects that no longer exist."""
        self._mirror.forget(self._watched.name, gone)

    def answered(self) -> None:
        """After an outage, give agents the time to renew their Leases."""
        if self._failing is not None:
            if self._watched.name == "Lease":
                self._mirror.resume_agents(self._failing)
            self._failing, self._problem = None, ""
        self._note(None)

    def failed(self, error: ApiError) -> None:
        """Log a problem that is new."""
        if self._failing is None:
            self._failing = self._clock()
        if self._problem != str(error):
            _log.warning("objects cannot be watched: %s", error, extra={"event": "watch"})
        self._problem = str(error)
        self._note(error)


def problem_of(name: str, reflector: Reflector, now: float) -> str:
    """Return why the objects of a kind may not be known as they are; empty if they are."""
    problem, since = reflector.problem, reflector.failing_since
    if problem is not None and since is not None:
        lasting = not problem.transient or now > since + FAILING
        return str(problem) if lasting or not reflector.complete else ""
    if not reflector.complete:
        return f"the initial lists are not complete yet: {name}"
    age = now - reflector.confirmed
    return f"the API server has said nothing of {name} for {age:.0f} s" if age > STALE else ""
