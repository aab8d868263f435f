"""Effects: read, create and delete the ConfigMaps with the parts of a large ledger of credits.

A part never changes, so one that was read or written once is never read again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from walras_api.contract import GROUP, LEDGER_LABEL, MARKET_NAME, OPERATOR
from walras_operator.decide.credits.parts import part_names
from walras_service.api import METADATA
from walras_service.api_errors import ApiError
from walras_service.kinds import CONFIG_MAPS, OURS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from walras_service.api import Api

_BALANCES = "balances"
"""Key of a ConfigMap's data."""

CLAIMED_ANNOTATION = f"{GROUP}/claimed"
"""Changes when a part that was left behind is used after all."""

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
                config_map = self._api.find(self._path(name))
                if config_map is not None:
                    self._known[name] = part_of(config_map)
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
                self._claim(name)
            self._known[name] = text

    def _claim(self, name: str) -> None:
        """Change the version of a part that was left behind, so that nobody deletes it as such."""
        config_map = self._api.request("GET", self._path(name))
        claim = {
            **(config_map["metadata"].get("annotations") or {}),
            CLAIMED_ANNOTATION: uuid4().hex,
        }
        claimed = {**config_map, "metadata": {**config_map["metadata"], "annotations": claim}}
        self._api.request("PUT", self._path(name), claimed)

    def delete(self, parts: Mapping[str, str]) -> None:
        """Delete parts that the Market's status, which is read again, does not name.

        Args:
            parts: The resourceVersion of each, by name; empty for any.

        Raises:
            ApiError: The Market cannot be read, or a part cannot be deleted.
        """
        if not parts:
            return
        market = self._api.find(OURS["Market"].path(name=MARKET_NAME)) or {}
        for name in parts.keys() - set(part_names(market.get("status"))):
            self._known.pop(name, None)
            version = parts[name]
            only = {"preconditions": {"resourceVersion": version}} if version else None
            try:
                self._api.request("DELETE", self._path(name), only)
            except ApiError as error:
                if error.reason not in {"missing", "conflict"}:  # gone, or claimed meanwhile
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
        listed = self._api.request(
            "GET",
            CONFIG_MAPS.path(self._namespace),
            accept=METADATA,
            query={"labelSelector": f"{LEDGER_LABEL}=part"},
        )
        parts = [each["metadata"] for each in listed["items"] or ()]
        self.delete(
            {
                each["name"]: each["resourceVersion"]
                for each in parts
                if each["name"] not in named
                and now - datetime.fromisoformat(each["creationTimestamp"]) > _UNNAMED
            }
        )

    def _path(self, name: str) -> str:
        return CONFIG_MAPS.path(self._namespace, name)


def part_of(config_map: Mapping[str, Any]) -> str:
    """Return the data of a part; empty if the ConfigMap is none."""
    data = config_map.get("data")
    return str(data.get(_BALANCES, "")) if isinstance(data, dict) else ""
