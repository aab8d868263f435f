"""Effects: read, create and delete the ConfigMaps with the parts of a large ledger of credits.

A part never changes, so one that was read or written once is never read again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from walras_api.contract import LEDGER_LABEL, OPERATOR
from walras_service.api import METADATA
from walras_service.api_errors import ApiError
from walras_service.kinds import CONFIG_MAPS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from walras_service.api import Api

_BALANCES = "balances"
"""Key of a ConfigMap's data."""

_UNNAMED = timedelta(days=1)
"""Age from which a part that no status names is deleted; no write takes a thousandth of it."""


class LedgerParts:
    """The parts of the ledger; for one thread at a time.

    Args:
        api: Connection to the API server.
        namespace: Namespace of the ConfigMaps.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._namespace = api, namespace
        self._known: dict[str, str] = {}

    def read(self, names: Iterable[str]) -> dict[str, str]:
        """Return the data of parts by name, without those that do not exist.

        Raises:
            ApiError: The API server cannot be asked, or refuses.
        """
        wanted = tuple(names)
        self._known = {name: text for name, text in self._known.items() if name in wanted}
        for name in wanted:
            if name not in self._known:
                found = self._api.find(self._path(name))
                if found is not None:
                    self._known[name] = part_of(found)
        return dict(self._known)

    def create(self, parts: Mapping[str, str]) -> None:
        """Create parts; one that exists with the same data counts as created.

        Raises:
            ApiError: A part cannot be created, or exists with other data: a conflict.
        """
        for name, text in parts.items():
            document = {
                "apiVersion": CONFIG_MAPS.api_version,
                "kind": "ConfigMap",
                "metadata": {"name": name, "labels": {LEDGER_LABEL: "part"}},
                "data": {_BALANCES: text},
                "immutable": True,
            }
            path = CONFIG_MAPS.path(self._namespace)
            try:
                self._api.request("POST", path, document, query={"fieldManager": OPERATOR})
            except ApiError as error:
                if error.reason != "conflict" or self.read((*self._known, name)).get(name) != text:
                    raise
            self._known[name] = text

    def delete(self, names: Iterable[str]) -> None:
        """Delete parts that no status names any more; some may be gone already.

        Raises:
            ApiError: A part cannot be deleted.
        """
        for name in names:
            self._known.pop(name, None)
            try:
                self._api.request("DELETE", self._path(name))
            except ApiError as error:
                if error.reason != "missing":
                    raise

    def sweep(self, named: Collection[str], now: datetime) -> None:
        """Delete parts that were never named by a status and are a day old.

        They are left behind by an operator that ended, or lost its lead, between its writes.

        Args:
            named: Names of the parts that the Market's status names.
            now: Current time.

        Raises:
            ApiError: The parts cannot be listed or deleted.
        """
        found = self._api.request(
            "GET",
            CONFIG_MAPS.path(self._namespace),
            accept=METADATA,
            query={"labelSelector": f"{LEDGER_LABEL}=part"},
        )
        created = {
            each["metadata"]["name"]: datetime.fromisoformat(each["metadata"]["creationTimestamp"])
            for each in found["items"] or ()
        }
        self.delete(
            name for name, at in created.items() if name not in named and now - at > _UNNAMED
        )

    def _path(self, name: str) -> str:
        return CONFIG_MAPS.path(self._namespace, name)


def part_of(config_map: Mapping[str, Any]) -> str:
    """Return the data of a part; empty if the ConfigMap is none."""
    data = config_map.get("data")
    return str(data.get(_BALANCES, "")) if isinstance(data, dict) else ""
