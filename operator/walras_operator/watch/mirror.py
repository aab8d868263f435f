"""Facts: the operator's cache of the cluster; safe for concurrent use.

Only the fields that `walras_api` reads are kept of an object, or what is wrong with it.
Objects are kept by UID, because events of two objects of one name may arrive in any order. After a
write the API server's answer is cached, unless the object was deleted since, and older watch events
are ignored by their resourceVersion, which is compared as a number between versions of one object
only (KEP-5504).
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from walras_api.assembly import Objects
from walras_api.cluster import Pod
from walras_api.contract import MARKET_NAME
from walras_api.parse import describe
from walras_api.waiting import waiting_method
from walras_operator.decide.status.objects import OWN_KINDS
from walras_operator.decide.world import Broken, Reference, World
from walras_operator.watch.agent_leases import AgentLeases
from walras_operator.watch.cached_objects import (
    CachedAllocation,
    CachedObject,
    as_broken,
    is_news,
    is_older,
    name_of,
    sharing,
    without_own_status,
    without_status,
)
from walras_operator.watch.kept_bytes import MOST_OF_NAMESPACE, MOST_OF_OBJECT, kept_bytes
from walras_service.kinds import OURS, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from walras_operator.watch.kinds import Watched
    from walras_service.api import Document

BOUNDED = frozenset({"Entitlement", "MarketJob", "Pod", "SpeedupProfile", *WORKLOADS})
"""Kinds whose objects users write, in any number and size that the API server accepts."""

_MOST_DELETED = 500
"""Deleted objects that are remembered: more than are deleted while a write is answered."""


class Mirror:
    """The cache of all objects that are watched.

    Args:
        kinds: Kinds to cache, by name.
        changed: Called whenever something changes that a decision may depend on, with whether it is
            urgent. Everything is, except for reports of agents.
        clock: Returns seconds, for Leases that expire.
    """

    def __init__(
        self,
        kinds: Mapping[str, Watched],
        changed: Callable[[bool], None],
        clock: Callable[[], float],
    ) -> None:
        self._kinds, self._changed, self._clock = kinds, changed, clock
        self._tables: dict[str, dict[str, CachedObject]] = {kind: {} for kind in kinds}
        self._deleted_lately: dict[str, None] = {}  # UIDs of objects of ours, in order
        self._kept: Counter[str] = Counter()  # bytes, by namespace
        self._agents = AgentLeases()
        self._lock = threading.Lock()

    def receive(self, kind: str, document: Document, *, deleted: bool = False) -> None:
        """Record an object that a watch reports."""
        if not deleted:
            with self._lock:  # it exists, as after a restore of etcd
                self._deleted_lately.pop(document["metadata"]["uid"], None)
        if self._deleted(kind, document) if deleted else self._take(kind, document):
            self._changed(kind != "NodeAllocation")

    def wrote(self, kind: str, document: Document) -> None:
        """Record an object that the API server returned for a write of ours.

        The write itself is no news. A change that somebody else made since the decision is: the
        answer contains it already, and the watch will report it as an older version. An answer may
        come later than the watch's report that the object has been deleted, and is ignored then.
        """
        uid = document["metadata"]["uid"]
        with self._lock:
            before = self._tables[kind].get(uid)
        self._take(kind, document)
        with self._lock:
            after = self._tables[kind].get(uid)
        if after is None or kind == "NodeAllocation":
            return
        if before is None:
            if kind in {"Entitlement", "MarketJob"}:
                self._changed(True)  # an automatic one: the next decision divides cores by it
        elif without_status(before.value) != without_status(after.value):
            self._changed(True)

    def placed(self, uid: str, pod: Pod) -> None:
        """Record a pod as a placement has changed it, until the watch reports it."""
        with self._lock:
            entry = self._tables["Pod"].get(uid)
            if entry is not None and isinstance(entry.value, Pod) and waiting_method(entry.value):
                self._tables["Pod"][uid] = replace(entry, value=pod)

    def versions(self, kind: str) -> dict[str, str]:
        """Return the resourceVersion of all cached objects of a kind, by UID.

        It is empty for an object that no watch has reported since `forget_versions`.
        """
        with self._lock:
            return {uid: entry.version for uid, entry in self._tables[kind].items()}

    def forget_versions(self, kind: str) -> None:
        """Accept any version of every object next, because the API server has restored old ones."""
        with self._lock:
            table = self._tables[kind]
            table.update({uid: replace(entry, version="") for uid, entry in table.items()})

    def resume_agents(self, watched: float) -> None:
        """Count agents that lived when the watch ended as alive for the time of their Leases.

        Args:
            watched: When the watch ended, by the mirror's clock.
        """
        with self._lock:
            self._agents.resume(self._clock(), watched)

    def forget(self, kind: str, uids: Iterable[str]) -> None:
        """Drop objects that were found to be deleted."""
        with self._lock:
            gone = [uid for uid in uids if self._drop(kind, uid)]
            for uid in gone:
                self._remember_deleted(kind, uid)
            if kind == "Lease":
                self._agents.forget(gone)
        if gone:
            self._changed(kind != "NodeAllocation")

    def allocations(self) -> dict[str, CachedAllocation]:
        """Return all NodeAllocations by node, invalid ones too."""
        with self._lock:
            table = self._tables["NodeAllocation"].items()
            return {
                entry.name[1]: CachedAllocation(uid, entry.version, entry.epoch, entry.reported)
                for uid, entry in table
            }

    def agents(self, grace: float = 0.0) -> frozenset[str]:
        """Return the names of nodes whose agent is alive, or silent for less than a grace (s)."""
        with self._lock:
            return self._agents.alive(self._clock(), grace)

    def world(self, now: str, grace: float = 0.0) -> World:
        """Return everything that a decision is based on.

        Args:
            now: Current time (RFC 3339).
            grace: Seconds for which a node keeps its grants while its agent is silent.
        """
        with self._lock:
            agents = self._agents.alive(self._clock())
            silent = self._agents.alive(self._clock(), grace) - agents
            tables = {
                kind: {entry.name: (uid, entry.value) for uid, entry in table.items()}
                for kind, table in self._tables.items()
                if kind != "Lease"
            }
            markets = self._tables["Market"].values()
            version = next((each.version for each in markets if each.name[1] == MARKET_NAME), "")
            versions = {
                uid: entry.version
                for kind in OWN_KINDS
                for uid, entry in self._tables[kind].items()
            }
        broken: dict[Reference, Broken] = {}
        good: dict[str, list[Any]] = {}
        for kind, table in tables.items():
            good[kind] = []
            for (namespace, name), (uid, value) in table.items():
                if isinstance(value, Broken):
                    broken[Reference(kind, name, namespace, uid)] = value
                else:
                    good[kind].append(value)
        return World(
            now=now,
            objects=Objects(
                entitlements=good["Entitlement"],
                jobs=good["MarketJob"],
                profiles=good["SpeedupProfile"],
                nodes=good["Node"],
                pods=good["Pod"],
                namespaces=good["Namespace"],
                workloads=[each for kind in WORKLOADS for each in good.get(kind, ())],
            ),
            markets=good["Market"],
            broken=broken,
            allocations={each.metadata.name: each for each in good["NodeAllocation"]},
            agents=agents,
            silent_agents=silent,
            version=version,
            versions=versions,
        )

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return the number of objects, and of invalid objects, by kind."""
        with self._lock:
            broken = {
                kind: Counter(isinstance(entry.value, Broken) for entry in table.values())
                for kind, table in self._tables.items()
            }
        return {kind: (counted.total(), counted[True]) for kind, counted in broken.items()}

    def _take(self, kind: str, document: Document) -> bool:
        """Cache an object; return whether its change may matter to a decision."""
        metadata = document["metadata"]
        uid, version = metadata["uid"], metadata["resourceVersion"]
        if kind == "Lease":
            return self._take_lease(uid, version, document)
        if self._has(kind, uid, version):
            return False
        entry = CachedObject.read(kind, document)
        with self._lock:
            before = self._tables[kind].get(uid)
            if before is None and uid in self._deleted_lately:
                return False
            if before is not None and is_older(version, before.version):
                return False
            if before is not None:
                entry = replace(entry, value=sharing(before.value, entry.value))
            entry = self._bounded(kind, entry, document, 0 if before is None else before.size)
            self._tables[kind][uid] = entry
        if before is None:
            return True
        own_status = self._kinds[kind].own_status
        return is_news(kind, before.value, entry.value, own_status=own_status)

    def _bounded(
        self, kind: str, entry: CachedObject, document: Document, before: int
    ) -> CachedObject:
        """Count the bytes of an object of a user; of one that takes too many, keep only that.

        Args:
            kind: Kind of the object.
            entry: The object as it was parsed.
            document: The object as the API server has it.
            before: Bytes of its earlier version.
        """
        if kind not in BOUNDED:
            return entry
        namespace, value = entry.name[0], entry.value
        size = kept_bytes(without_own_status(value))
        kept = self._kept[namespace] - before
        problem = ""
        if size > MOST_OF_OBJECT:
            problem = f"takes more than {MOST_OF_OBJECT >> 20} MiB of memory; make it smaller"
        elif kept + size > MOST_OF_NAMESPACE:
            problem = (
                f"is left out, since the objects of its namespace take more than "
                f"{MOST_OF_NAMESPACE >> 20} MiB of memory; delete some, then change this one"
            )
        if problem:
            value = as_broken((f"{describe(document)}: {problem}",), document)
            size = kept_bytes(value.problems)
        self._kept[namespace] = kept + size
        return replace(entry, value=value, size=size)

    def _has(self, kind: str, uid: str, version: str) -> bool:
        """Return whether this version is cached: own writes arrive twice, also by the watch."""
        with self._lock:
            known = self._tables[kind].get(uid)
        return known is not None and known.version == version

    def _take_lease(self, uid: str, version: str, document: Document) -> bool:
        with self._lock:
            self._tables["Lease"][uid] = CachedObject(name_of(document["metadata"]), version, None)
            return self._agents.see(uid, document, self._clock())

    def _deleted(self, kind: str, document: Document) -> bool:
        with self._lock:
            uid = document["metadata"]["uid"]
            if kind == "Lease":
                self._agents.forget([uid])
            self._remember_deleted(kind, uid)
            return self._drop(kind, uid)

    def _drop(self, kind: str, uid: str) -> bool:
        """Drop an object; return whether it was there."""
        entry = self._tables[kind].pop(uid, None)
        if entry is not None:
            self._kept[entry.name[0]] -= entry.size
        return entry is not None

    def _remember_deleted(self, kind: str, uid: str) -> None:
        if kind in OURS:  # nothing else is written
            self._deleted_lately[uid] = None
            if len(self._deleted_lately) > _MOST_DELETED:
                del self._deleted_lately[next(iter(self._deleted_lately))]
