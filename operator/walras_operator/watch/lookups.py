"""Facts: objects that no watch shows, each looked up by a request of its own.

Threads of their own make the requests. An answer is kept as long as decisions ask for it.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from walras_api.cluster import OwnerReference, group_of
from walras_operator.decide.runs.lifetimes import read_end
from walras_operator.decide.workload_owners import is_plausible, pods_controllers, unread_owners
from walras_service.api import ONE_METADATA
from walras_service.api_errors import ApiError
from walras_service.kinds import PODS, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Set

    from walras_api.assembly import Objects
    from walras_api.selection import Controllers, OwnerKey
    from walras_operator.decide.world import Lifetime, Reference
    from walras_service.api import Api

_log = logging.getLogger(__name__)

ASKING = 2
"""Most concurrent requests of each kind of lookup."""

PAUSE = 5.0
"""Seconds before a lookup that gave no answer is repeated."""

WAIT = 0.5
"""Longest time in seconds for which a decision waits for the owners of new pods."""

FIRST_WAIT = 10.0
"""The same for the first decision of a leader, which must not withdraw what it cannot see yet."""

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class Answer(NamedTuple, Generic[V]):
    """The answer to a lookup."""

    value: V


class Lookups(Generic[K, V]):
    """Looks up objects, and remembers the answers.

    Args:
        ask: Looks up one object; returns None if there is no answer yet. Raises ApiError, KeyError
            or TypeError if there is none for another reason.
        changed: Called when an answer has become known.
        pause: Seconds before a lookup is repeated.
    """

    def __init__(
        self,
        ask: Callable[[K], Answer[V] | None],
        changed: Callable[[], None],
        pause: float = PAUSE,
    ) -> None:
        self._ask, self._changed, self._pause = ask, changed, pause
        self._known: dict[K, V] = {}
        self._asked: dict[K, float] = {}  # when each may be asked for again
        self._problem = ""
        self._lock = threading.Condition()
        self._pool = ThreadPoolExecutor(ASKING, thread_name_prefix="lookups")

    @property
    def known(self) -> Mapping[K, V]:
        """Answers by what was looked up."""
        with self._lock:
            return dict(self._known)

    def ask(self, wanted: Iterable[K]) -> None:
        """Look up these objects, unless the answer is known or a lookup has just failed."""
        now = time.monotonic()
        with self._lock:
            due = [
                each
                for each in wanted
                if each not in self._known and self._asked.get(each, now) <= now
            ]
            self._asked.update((each, float("inf")) for each in due)
        for each in due:
            self._pool.submit(self._look_up, each)

    def keep(self, wanted: Set[K]) -> None:
        """Forget all other objects."""
        with self._lock:
            for kept in (self._known, self._asked):
                for key in kept.keys() - wanted:
                    del kept[key]

    def wait(self, until: float) -> None:
        """Wait until nothing is being looked up, or until a time of `time.monotonic`."""
        with self._lock:
            while float("inf") in self._asked.values() and (left := until - time.monotonic()) > 0:
                self._lock.wait(left)

    def close(self) -> None:
        """Stop looking up objects."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _look_up(self, key: K) -> None:
        if key not in self._asked:
            return
        answer, problem = None, ""
        try:
            answer = self._ask(key)
        except (ApiError, KeyError, TypeError) as error:
            problem = str(error)
        with self._lock:
            forgotten = self._asked.pop(key, None) is None
            if answer is not None and not forgotten:
                self._known[key] = answer.value
            elif not forgotten:
                self._asked[key] = time.monotonic() + self._pause
            logged, self._problem = self._problem, problem
            self._lock.notify_all()
        if problem and problem != logged:
            _log.warning("a lookup gave no answer: %s", problem, extra={"event": "lookup"})
        if answer is not None:
            self._changed()


class _PodKey(NamedTuple):
    namespace: str
    name: str
    uid: str


class Ends:
    """Looks up how pods ended, which the watch does not show: it leaves out ended pods.

    A pod is looked up by a list with its name as field selector, so that the operator needs no
    right beyond listing pods.

    Args:
        api: Connections to the API server, as many as concurrent requests.
        changed: Called when an end has become known.
        pause: Seconds before a lookup is repeated.
    """

    def __init__(self, api: Api, changed: Callable[[], None], pause: float = PAUSE) -> None:
        self._api = api
        self._lookups: Lookups[_PodKey, Lifetime | None] = Lookups(self._ask, changed, pause)

    @property
    def known(self) -> Mapping[str, Lifetime | None]:
        """Lifetimes of ended pods, by UID; None for pods that leave no run."""
        return {pod.uid: lifetime for pod, lifetime in self._lookups.known.items()}

    def seek(self, pods: Iterable[Reference]) -> None:
        """Look up these pods, and forget all others.

        Args:
            pods: All ended pods whose end no status shows yet.
        """
        wanted = {_PodKey(each.namespace, each.name, each.uid) for each in pods}
        self._lookups.keep(wanted)
        self._lookups.ask(wanted)

    def close(self) -> None:
        """Stop looking up pods."""
        self._lookups.close()

    def _ask(self, pod: _PodKey) -> Answer[Lifetime | None] | None:
        query = {"fieldSelector": f"metadata.name={pod.name}"}
        pods = self._api.request("GET", PODS.path(pod.namespace), query=query)["items"]
        end = read_end(pods[0] if pods else None, pod.uid)
        return Answer(end.lifetime) if end.over else None


class Owners:
    """Looks up the controllers of the owners of pods: the Deployment of a ReplicaSet.

    Args:
        api: Connections to the API server, as many as concurrent requests.
        changed: Called when a controller has become known.
    """

    def __init__(self, api: Api, changed: Callable[[], None]) -> None:
        self._api = api
        self._lookups: Lookups[OwnerKey, OwnerReference | None] = Lookups(self._ask, changed)

    def controllers(
        self, objects: Objects, *, every_namespace: bool, wait: float = WAIT
    ) -> Controllers:
        """Return the controllers of all owners that matter; wait a moment for new ones.

        Args:
            objects: Objects of the cluster.
            every_namespace: Whether unlabelled workloads take part, too.
            wait: Longest wait in seconds.
        """
        until = time.monotonic() + wait
        known: dict[OwnerKey, OwnerReference | None] = dict(self._lookups.known)
        asked: set[OwnerKey] = set()
        while wanted := unread_owners(objects, known, every_namespace=every_namespace) - asked:
            asked |= wanted
            known |= pods_controllers(objects, wanted)
            self._lookups.ask(wanted - known.keys())
            self._lookups.wait(until)
            known |= self._lookups.known
        self._lookups.keep(asked)
        return known

    def close(self) -> None:
        """Stop looking up controllers."""
        self._lookups.close()

    def _ask(self, key: OwnerKey) -> Answer[OwnerReference | None]:
        """Return the controller of an owner; None if it has none, or cannot be read.

        What a pod says of its owner can be a forgery, so the owner must have the same UID.
        """
        owner = key.owner
        version = owner.api_version.rpartition("/")[2]
        if not is_plausible(owner):
            return Answer(None)
        kind = Kind(group_of(owner.api_version), version, f"{owner.kind.lower()}s", namespaced=True)
        try:
            path = kind.path(key.namespace, owner.name)
            metadata: Any = self._api.request("GET", path, accept=ONE_METADATA)["metadata"]
        except ApiError as error:
            if error.reason not in {"missing", "forbidden"}:
                raise
            return Answer(None)
        if metadata["uid"] != owner.uid:
            return Answer(None)
        references = map(OwnerReference.model_validate, metadata.get("ownerReferences") or ())
        return Answer(next((each for each in references if each.controller), None))
