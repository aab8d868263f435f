"""Facts: the quotas that Entitlements follow, watched only while the Market asks for it.

Kueue may be installed later, or removed: a thread looks from time to time which of its versions the
API server has. Nothing else waits for these watches, and while they are not complete, Entitlements
stay as they are.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from walras_api.quotas import KUEUE, QueuedWorkload, read_quota
from walras_operator.decide.conditions import Problem
from walras_operator.decide.known_quotas import Quotas
from walras_operator.watch.watches import problem_of
from walras_service.api_errors import ApiError
from walras_service.kinds import Kind
from walras_service.reflector import Reflector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from walras_api.market import QuotaSource
    from walras_api.quotas import Quota
    from walras_service.api import Api, Document

_log = logging.getLogger(__name__)

CONNECTIONS = 5
"""Kinds of Kueue that are watched at a time, and one for questions about them."""

PAUSE = 5.0
"""Seconds after which the API server is asked again whether it has Kueue's kinds."""

_VERSIONS = ("v1beta2", "v1beta1", "v1")
"""Versions of Kueue's API that are understood; the first that is served is watched."""

_NAMESPACED = {"clusterqueues": False, "cohorts": False, "localqueues": True, "workloads": True}
_OPTIONAL = frozenset({"cohorts"})  # came later than the others, also to a running cluster
_RESOURCE_QUOTAS = Kind("", "v1", "resourcequotas", namespaced=True)


_UNREAD = Problem("QuotasUnread", "the quotas that Entitlements follow have not been read yet")
_NO_KUEUE = Problem(
    "KueueMissing",
    f"spec.entitlements.from: is Kueue, and the API server has no ClusterQueues, LocalQueues and "
    f"Workloads of {KUEUE} ({', '.join(_VERSIONS)}): Entitlements stay as they are; install Kueue, "
    f"or remove the field",
)

MOST = 5000
"""Objects of a kind that are kept of a namespace, where users may create any number of Workloads.

Kinds without namespaces are an administrator's: if one of their objects were left out, the
Entitlement that follows it would be deleted."""


class _Followed(NamedTuple):
    """What is followed, or why nothing is."""

    source: QuotaSource | None = None
    problem: Problem | None = None
    kinds: tuple[tuple[KeptKind, Reflector], ...] = ()

    @property
    def gone(self) -> bool:
        """Whether the API server no longer has a kind that it had."""
        problems = (each.problem for _, each in self.kinds)
        return any(each is not None and each.reason == "missing" for each in problems)


class QuotaWatches:
    """Knows the quotas that Entitlements follow.

    Args:
        api: Connections, at least `CONNECTIONS`.
        changed: Called when they change, with whether that is urgent.
        pause: Seconds between two looks at which kinds there are.
    """

    def __init__(self, api: Api, changed: Callable[[bool], None], pause: float = PAUSE) -> None:
        self._api, self._changed, self._pause = api, changed, pause
        self._wanted: QuotaSource | None = None
        self._now = _Followed()
        self._told: Quotas | None = None
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="quotas", daemon=True)

    def start(self) -> None:
        """Start to look for quotas, once somebody asks for some."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopping.set()
        self._wake.set()

    def of(self, source: QuotaSource | None) -> Quotas | None:
        """Return the quotas of a source as far as they are known, and follow it from now on.

        Only one thread may ask.

        Args:
            source: What says them; None to follow nothing, and for no answer.
        """
        if source != self._wanted:
            self._wanted = source
            self._wake.set()
        if source is None:
            return None
        now = self._now
        problem = now.problem if now.source == source else _UNREAD
        problem = problem or _problem_of(now.kinds)
        if problem is not None:
            self._told = None
            return Quotas(source, problem)
        kept = [follower for follower, _ in now.kinds]
        is_new = [each.take_changed() for each in kept]
        if self._told is None or any(is_new):
            quotas = tuple(quota for each in kept for quota in each.quotas())
            self._told = Quotas(source, None, quotas, sum(each.left_out for each in kept))
        return self._told

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - the thread must go on
                _log.exception("following quotas failed")
                self._become(_Followed(self._wanted, Problem("QuotasUnreadable", repr(error))))
            self._wake.wait(self._pause)
            self._wake.clear()
        self._become(_Followed())

    def _look(self) -> None:
        """Watch what is wanted; look anew for its kinds if some are missing."""
        source, now = self._wanted, self._now
        is_followed = source == now.source and (source is None or now.kinds) and not now.gone
        if is_followed and (source != "Kueue" or len(now.kinds) == len(_NAMESPACED)):
            return
        if source is None:
            self._become(_Followed())
            return
        try:
            kinds = kinds_of_kueue(self._api) if source == "Kueue" else (_RESOURCE_QUOTAS,)
        except ApiError as error:
            if not is_followed:
                self._become(_Followed(source, Problem("QuotasUnreadable", str(error))))
            return
        if is_followed and len(kinds) <= len(now.kinds):
            return
        followed = []
        for kind in kinds:
            follower = KeptKind(self._changed)
            name = f"quotas-{kind.plural}"
            followed.append((follower, Reflector(self._api, name, kind, follower)))
        self._become(_Followed(source, None if kinds else _NO_KUEUE, tuple(followed)))

    def _become(self, new: _Followed) -> None:
        """Follow something else than before, and have the next decision say why nothing."""
        before, self._now = self._now, new
        for _, reflector in before.kinds:
            reflector.stop()
        for _, reflector in new.kinds:
            reflector.start()
        if new.problem is not None and new.problem != before.problem:
            text = new.problem.message
            _log.warning("no quotas are followed: %s", text, extra={"event": "quotas"})
            self._changed(False)


class KeptKind:
    """Keeps what the objects of one kind say of quotas (`reflector.Follower`).

    Args:
        changed: Called when that changes, with whether it is urgent.

    Attributes:
        left_out: Number of objects that were left out when there were `MOST` of their namespace.
    """

    def __init__(self, changed: Callable[[bool], None]) -> None:
        self.left_out = 0
        self._changed = changed
        self._kept: dict[str, tuple[str, Quota]] = {}  # by UID, with the namespace
        self._left_out: set[str] = set()
        self._number: Counter[str] = Counter()
        self._is_new = True
        self._problem = ""
        self._lock = threading.Lock()

    def take_changed(self) -> bool:
        """Return whether anything has changed since this was last asked."""
        with self._lock:
            is_new, self._is_new = self._is_new, False
            return is_new

    def quotas(self) -> list[Quota]:
        """Return all that is kept."""
        with self._lock:
            return [quota for _, quota in self._kept.values()]

    def known(self) -> set[str]:
        """Return the UIDs of all objects that are kept or left out."""
        return self._kept.keys() | self._left_out

    def receive(self, document: Document, *, deleted: bool) -> None:
        """Take what an object says, or forget it."""
        metadata = document["metadata"]
        uid, namespace = metadata["uid"], str(metadata.get("namespace") or "")
        quota = None if deleted else read_quota(document)
        with self._lock:
            before = self._forget(uid)
            if quota is not None and (not namespace or self._number[namespace] < MOST):
                self._kept[uid] = namespace, quota
                self._number[namespace] += 1
            elif quota is not None:
                self._left_out.add(uid)
            after = self._kept.get(uid, (namespace, None))[1]
            self.left_out = len(self._left_out)
            is_new = before != after
            self._is_new |= is_new
        if is_new:
            self._changed(_divides_otherwise(before, after))

    def listed(self, gone: set[str]) -> None:
        """Forget objects that no longer exist."""
        with self._lock:
            for uid in gone:
                self._forget(uid)
            self.left_out = len(self._left_out)
            self._is_new = True
        self._changed(True)

    def answered(self) -> None:
        """Have the next decision know that the objects can be followed again."""
        if self._problem:
            self._problem = ""
            self._changed(False)

    def failed(self, error: ApiError) -> None:
        """Log a problem that is new, and have the next decision say it."""
        if self._problem != str(error):
            self._problem = str(error)
            _log.warning("quotas cannot be watched: %s", error, extra={"event": "quotas"})
            self._changed(False)

    def _forget(self, uid: str) -> Quota | None:
        """Forget an object; return what it said, if that was kept."""
        self._left_out.discard(uid)
        namespace, before = self._kept.pop(uid, ("", None))
        if before is not None:
            self._number[namespace] -= 1
        return before


def kinds_of_kueue(api: Api) -> tuple[Kind, ...]:
    """Return the kinds of Kueue that the API server has; none if some that are needed are missing.

    Raises:
        ApiError: The API server cannot be asked.
    """
    group = api.find(f"/apis/{KUEUE}")
    served = {each["version"] for each in (group or {}).get("versions", ())}
    for version in _VERSIONS:
        if version not in served:
            continue
        group_version = api.find(f"/apis/{KUEUE}/{version}") or {}
        there = {each["name"] for each in group_version.get("resources", ())}
        if _NAMESPACED.keys() - _OPTIONAL <= there:
            return tuple(
                Kind(KUEUE, version, plural, namespaced)
                for plural, namespaced in _NAMESPACED.items()
                if plural in there
            )
    return ()


def _divides_otherwise(before: Quota | None, after: Quota | None) -> bool:
    """Return whether cores are divided otherwise by a change; what waits has no cores."""
    waited = all(
        each is None or (isinstance(each, QueuedWorkload) and not each.admitted_by)
        for each in (before, after)
    )
    return not waited


def _problem_of(kinds: Sequence[tuple[KeptKind, Reflector]]) -> Problem | None:
    """Return why quotas are not known as they are now; None if they are."""
    now = time.monotonic()
    for _, reflector in kinds:
        error = reflector.problem
        if error is not None and error.reason == "forbidden":
            return Problem(
                "QuotasForbidden",
                f"{error}; set market.spec.entitlements.from in the values of the chart, which "
                f"then gives the operator this right",
            )
        text = problem_of(f"the objects that say quotas ({reflector.resource})", reflector, now)
        if text:
            return Problem("QuotasUnread" if error is None else "QuotasUnreadable", text)
    return None
