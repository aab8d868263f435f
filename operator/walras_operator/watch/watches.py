"""Facts: watch the cluster, and keep the mirror up to date.

Kopf watches the kinds of Walras. A reflector watches each of the others, of which there are far
more objects, because Kopf takes six times as much CPU time for an event (docs/decisions/kopf.md).

Kopf runs in a thread with an event loop of its own. If Kopf or a reflector ends, as it does when a
kind is removed or may no longer be listed, the reason is logged, and all are started again once the
kinds of Walras can be listed. As soon as the first of their tasks ends, a kind is no longer
watched, and the mirror counts as incomplete. Kopf's other tasks may retry for minutes; they are not
awaited that long.

After etcd was restored from a snapshot, the cluster's objects are older than those that the mirror
knows, and watches would wait for versions that are yet to come. All then begin anew.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from typing import TYPE_CHECKING, Any, cast

import kopf

from walras_api.contract import OPERATOR
from walras_operator.interpreter import collector
from walras_operator.watch.handlers import handlers, kopf_settings
from walras_operator.watch.reflector import Reflector
from walras_operator.watch.resync import Resync
from walras_service.api_errors import ApiError
from walras_service.kinds import OURS

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from walras_operator.watch.kinds import Watched
    from walras_operator.watch.mirror import Mirror
    from walras_service.api import Api

_log = logging.getLogger(__name__)

SWEEP = 300.0
"""Seconds between two comparisons of the mirror with the API server."""

_BEAT = 1.0
_COMPLETE = 0.05
_STALLED = 2.0
_ENDING = 5.0
"""Seconds for Kopf's tasks to end."""

_AGAIN = (1.0, 30.0)
"""Seconds before the first restart, and longest pause before later ones."""


class Watches:
    """Keeps the mirror up to date.

    Args:
        api: Connections for comparisons.
        kinds: Kinds to watch, by name.
        mirror: Cache to update.
        sweep: Seconds between two comparisons of the kinds that Kopf watches.

    Attributes:
        beat: When the event loop was last active, by `time.monotonic`.
        complete: Whether the mirror contains all objects.
        problem: Why it does not; empty if nothing is wrong.
        restarts: Number of times that the watches were restarted.
    """

    def __init__(
        self, api: Api, kinds: Mapping[str, Watched], mirror: Mirror, sweep: float = SWEEP
    ) -> None:
        self.beat = time.monotonic()
        self.complete = False
        self.problem = ""
        self.restarts = 0
        self._api, self._mirror, self._sweep = api, mirror, sweep
        self._ours = {name: each for name, each in kinds.items() if name in OURS}
        self._others = [each for name, each in kinds.items() if name not in OURS]
        self._resync = Resync(api, self._ours, mirror)
        self._watched = -math.inf  # when the mirror was last complete
        self._stopping = threading.Event()
        self._outdated = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Start to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopping.set()
        self._thread.join(timeout=10)

    def restored(self) -> None:
        """Forget all versions and watch anew, because etcd was restored; safe in other threads."""
        _log.warning(
            "the API server has older data than before; watching all objects anew",
            extra={"event": "restored"},
        )
        self.complete = False
        self._outdated.set()

    def _run(self) -> None:
        pause = _AGAIN[0]
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                _run_and_leave(self._watch())
            except ApiError as error:
                self._complain(str(error))
            except Exception as error:  # noqa: BLE001 - Kopf raises what its client does
                self._complain(f"the watch ended: {error}")
                _log.debug("the watch ended", exc_info=True)
            self.complete = False  # changes are missed meanwhile
            if time.monotonic() - began > _AGAIN[1]:
                pause = _AGAIN[0]
            self.beat = time.monotonic()
            self._stopping.wait(pause)
            pause = min(2 * pause, _AGAIN[1])

    async def _watch(self) -> None:
        """Watch until something fails, or until `stop` is called."""
        beats = asyncio.create_task(self._beats())
        if self._outdated.is_set():
            self._outdated.clear()
            self._mirror.forget_versions()
        await asyncio.to_thread(self._resync.take)
        reflectors = [Reflector(self._api, each, self._mirror) for each in self._others]
        follows = [asyncio.create_task(each.follow()) for each in reflectors]
        ended = asyncio.Event()
        ours = asyncio.all_tasks()
        tasks = await kopf.spawn_tasks(
            registry=handlers(self._api.found, self._ours, self._heard),
            settings=kopf_settings(),
            clusterwide=True,
            standalone=True,
            # By default Kopf looks up the user's name, and the user of a container has none.
            identity=cast("Any", OPERATOR),
            stop_flag=ended,
        )
        compares = asyncio.create_task(self._compares(ended, reflectors))
        running = asyncio.create_task(kopf.run_tasks(tasks, ignored={*ours, compares}))
        try:
            first, _ = await asyncio.wait([*tasks, *follows], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.complete = False
            for task in (compares, beats, *follows):
                task.cancel()
        self.restarts += not self._stopping.is_set()
        ended.set()
        await asyncio.gather(*follows, return_exceptions=True)
        await asyncio.wait([running], timeout=_ENDING)
        for task in (running, *first) if running.done() else first:
            await task  # raises its exception

    async def _beats(self) -> None:
        while True:
            self.beat = time.monotonic()
            if self.complete:
                self._watched = self.beat
            await asyncio.sleep(_BEAT)

    async def _compares(self, ended: asyncio.Event, reflectors: Sequence[Reflector]) -> None:
        """Wait until the mirror is complete, then compare it periodically."""
        began = time.monotonic()
        while not self._stopping.is_set():
            if self._outdated.is_set():
                break
            if not self.complete:
                if all(each.listed for each in reflectors):
                    await self._completed()
            elif time.monotonic() >= began + self._sweep:
                began = time.monotonic()
                if not await self._compared():
                    break
            await asyncio.sleep(_BEAT if self.complete else _COMPLETE)
        ended.set()

    async def _completed(self) -> None:
        """Wait until the watches have reported all objects, or nothing more for a while."""
        missing, since = self._resync.missing(), time.monotonic()
        while missing and time.monotonic() < since + _STALLED and not self._stopping.is_set():
            await asyncio.sleep(_COMPLETE)
            if (now := self._resync.missing()) != missing:
                missing, since = now, time.monotonic()
        if missing:
            await self._compared()  # some may have been deleted before the watches began
        else:
            collector.pass_over_all()
            self._mirror.resume_agents(self._watched)
            self.complete, self.problem = True, ""
            _log.info("all objects are cached", extra={"event": "complete"})

    async def _compared(self) -> bool:
        """Compare the mirror with the API server; return whether the watches can go on."""
        try:
            silent = await asyncio.to_thread(self._resync.take)
        except ApiError as error:
            self._complain(str(error))
            return True
        self.problem = ""
        if silent and self.complete:
            _log.error("the watches have not reported %d objects; restarting them", silent)
            return False
        return True

    def _heard(self, kind: str, event: Mapping[str, Any]) -> None:
        document = event["object"]
        deleted = event["type"] == "DELETED"
        self._mirror.hear(kind, document, deleted=deleted)
        if deleted:
            self._resync.heard(kind, document["metadata"]["uid"])

    def _complain(self, problem: str) -> None:
        if self.problem != problem:
            _log.warning("objects cannot be watched: %s", problem, extra={"event": "watch"})
        self.problem = problem


def _run_and_leave(main: Coroutine[Any, Any, None]) -> None:
    """Run like `asyncio.run`, but do not wait forever for tasks that ignore their cancellation."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main)
    finally:
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=_ENDING))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
