"""Facts: what the operator remembers of the market, from the ConfigMaps in which it keeps that.

Only who may get ConfigMaps in the operator's namespace gets any of it: there is one ring for all
users, so it cannot be had in parts.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from walras.outcome.blocks import CorruptBlockError
from walras.outcome.history import (
    KINDS,
    LENGTH,
    SLOT,
    History,
    Part,
    history_of_parts,
    place_of,
    slot_of,
)
from walras.outcome.hourly_accounts import DAY, PLACES, Day, read_day
from walras_api.contract import MARKET_NAME, accounts_part, history_part
from walras_api.market_status import MarketStatus
from walras_cli.cluster.connection import CONNECTIONS, MARKETS
from walras_operator.history.config_maps import StoredPart, stored_part
from walras_service.api_errors import ApiError
from walras_service.kinds import CONFIG_MAPS
from walras_view.facts import ApiObject, operator_namespace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_cli.cluster.connection import Cluster

SETTLED = 900
"""Seconds after the end of a part from which it is not read again: nobody writes it any more."""

USERS = "user"
"""Block of a day's accounts."""


class Accounts(NamedTuple):
    """Sums of what users were entitled to, held and paid.

    Attributes:
        days: Days of which anything is known.
        notes: Lines for people about figures that are left out.
        forbidden: Whether one may not know any of it.
    """

    days: tuple[Day, ...] = ()
    notes: tuple[str, ...] = ()
    forbidden: bool = False


class HistoryReader:
    """Reads the history of a cluster again and again, and asks for each complete part once.

    It is for one thread at a time, and for one viewer: it remembers what that viewer may see.

    Args:
        cluster: Connection to the cluster.
        namespace: Namespace of the operator; if empty, the one that the Market's status names.
    """

    def __init__(self, cluster: Cluster, namespace: str = "") -> None:
        self._cluster, self._namespace = cluster, namespace or None
        self._complete: dict[int, Part | None] = {}

    def read(self, since: int, step: int) -> History:
        """Return the history of the last seconds.

        Args:
            since: Seconds to look back, at most a day.
            step: Seconds between two times.

        Raises:
            ApiError: The API server cannot be asked.
        """
        namespace = self._place()
        now = int(self._cluster.now.timestamp())
        first = now - min(since, LENGTH)
        slots = range(slot_of(first), slot_of(now) + 1)
        missing = [slot for slot in slots if slot not in self._complete]
        try:
            stored = self._get(namespace, [history_part(place_of(slot)) for slot in missing])
        except ApiError as error:
            if error.reason != "forbidden":
                raise
            return History("none", step, notes=(_forbidden("history", namespace),))
        now = int(self._cluster.now.timestamp())  # as the answers say
        parts = dict(self._complete) | {
            slot: _part(slot, each) for slot, each in zip(missing, stored, strict=True)
        }
        self._complete = {
            slot: part
            for slot, part in parts.items()
            if slot in slots and (slot + 1) * SLOT + SETTLED < now
        }
        kept = [part for part in parts.values() if part is not None]
        if not kept:
            return History("none", step, notes=(_nothing(namespace),))
        return history_of_parts(kept, now, since, step)

    def accounts(self, start: int, end: int) -> Accounts:
        """Return the accounts of the days between two times, in seconds since 1970.

        Raises:
            ApiError: The API server cannot be asked.
        """
        numbers = range(max(start // DAY, end // DAY - PLACES + 1), end // DAY + 1)
        namespace = self._place()
        try:
            stored = self._get(namespace, [accounts_part(number % PLACES) for number in numbers])
        except ApiError as error:
            if error.reason != "forbidden":
                raise
            return Accounts(notes=(_forbidden("accounts", namespace),), forbidden=True)
        days, notes = [], []
        for number, part in zip(numbers, stored, strict=True):
            if part is None or part.start != number * DAY or USERS not in part.data:
                continue
            try:
                days.append(read_day(number, part.data[USERS]))
            except CorruptBlockError as error:
                notes.append(f"ConfigMap {namespace}/{accounts_part(number % PLACES)}: {error}")
        if not days and not notes:
            notes.append(_nothing(namespace))
        return Accounts(tuple(days), tuple(notes))

    def _get(self, namespace: str, names: Sequence[str]) -> list[StoredPart | None]:
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            return list(pool.map(lambda name: self._find(namespace, name), names))

    def _find(self, namespace: str, name: str) -> StoredPart | None:
        path = CONFIG_MAPS.path(quote(namespace, safe=""), name)
        try:
            return stored_part(self._cluster.get(path))
        except ApiError as error:
            if error.reason != "missing":
                raise
            return None

    def _place(self) -> str:
        if self._namespace is None:
            status = _market_status(self._cluster)
            self._namespace = status.operator_namespace
            return operator_namespace(status)
        return self._namespace


def namespace_of_operator(cluster: Cluster) -> str:
    """Ask for the namespace of the operator, as `operator_namespace` knows it.

    Raises:
        ApiError: The API server cannot be asked.
    """
    return operator_namespace(_market_status(cluster))


def _market_status(cluster: Cluster) -> MarketStatus:
    """Return the status of the Market; an empty one if there is none, or it may not be seen."""
    try:
        return ApiObject.read(cluster.get(MARKETS.path(name=MARKET_NAME)), MarketStatus).status
    except ApiError as error:
        if error.reason not in {"forbidden", "missing"}:
            raise
        return MarketStatus()


def _part(slot: int, stored: StoredPart | None) -> Part | None:
    if stored is None or stored.start != slot * SLOT:
        return None  # of an earlier turn of the ring
    return Part(slot, {kind: stored.data[kind] for kind in KINDS if kind in stored.data})


def _forbidden(what: str, namespace: str) -> str:
    return (
        f"{what} not shown, since you have no right to get configmaps in namespace {namespace}; "
        f"ask an administrator of the cluster for it"
    )


def _nothing(namespace: str) -> str:
    return (
        f"the operator has kept nothing in namespace {namespace} yet; it writes every 10 minutes, "
        f"unless spec.history of the Market says otherwise"
    )
