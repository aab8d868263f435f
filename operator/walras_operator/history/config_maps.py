"""Effects: read, write and delete the ConfigMaps with the parts of the market's history.

Every part has its place in a ring, and so its name: a later part replaces it. A write is
conditional: it says which version it replaces, or that there is none, so that a former leader
cannot undo what a later one wrote.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, NamedTuple

from walras_api.contract import (
    HISTORY_LABEL,
    HISTORY_START_LABEL,
    HISTORY_THROUGH_ANNOTATION,
    OPERATOR,
)
from walras_service.api import METADATA
from walras_service.api_errors import ApiError
from walras_service.kinds import CONFIG_MAPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from walras_service.api import Api, Document


class StoredPart(NamedTuple):
    """A part as it is stored.

    Attributes:
        version: The resourceVersion; empty for a part that does not exist.
        start: Start of the time that it is about, in seconds since 1970; -1 if it says none.
        through: Time of the last sample in a day's sums, in seconds since 1970; 0 if it says none.
        data: Its blocks by name.
    """

    version: str = ""
    start: int = -1
    through: int = 0
    data: Mapping[str, bytes] = {}


class HistoryParts:
    """The parts of the history; for one thread at a time.

    Args:
        api: Connection to the API server.
        namespace: Namespace of the ConfigMaps.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._namespace = api, namespace

    def read(self, name: str) -> StoredPart:
        """Return a part.

        Raises:
            ApiError: The API server cannot be asked, or refuses.
        """
        config_map = self._api.find(CONFIG_MAPS.path(self._namespace, name))
        return StoredPart() if config_map is None else stored_part(config_map)

    def write(self, name: str, kind: str, part: StoredPart) -> None:
        """Create a part, or replace the version that it names.

        Args:
            name: Name of the part.
            kind: The record that it belongs to: samples or accounts.
            part: The part, with the version that it replaces.

        Raises:
            ApiError: It is unchanged, as far as is known; a conflict if it has another version.
        """
        metadata: Document = {
            "name": name,
            "labels": {HISTORY_LABEL: kind, HISTORY_START_LABEL: str(part.start)},
            "annotations": {HISTORY_THROUGH_ANNOTATION: str(part.through)},
        }
        document = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": "ConfigMap",
            "metadata": metadata,
            "binaryData": {key: base64.b64encode(data).decode() for key, data in part.data.items()},
        }
        query = {"fieldManager": OPERATOR}
        if part.version:
            metadata["resourceVersion"] = part.version
            path = CONFIG_MAPS.path(self._namespace, name)
            self._api.request("PUT", path, document, query=query)
        else:
            self._api.request("POST", CONFIG_MAPS.path(self._namespace), document, query=query)

    def starts(self) -> Iterator[tuple[str, str, int]]:
        """Yield name, kind and start of all parts.

        Raises:
            ApiError: They cannot be listed.
        """
        listed = self._api.request(
            "GET",
            CONFIG_MAPS.path(self._namespace),
            accept=METADATA,
            query={"labelSelector": HISTORY_LABEL},
        )
        for each in listed["items"] or ():
            labels = each["metadata"].get("labels") or {}
            start = _seconds(labels, HISTORY_START_LABEL)
            yield each["metadata"]["name"], labels.get(HISTORY_LABEL, ""), start

    def delete(self, name: str) -> None:
        """Delete a part; it may be gone already.

        Raises:
            ApiError: It cannot be deleted.
        """
        try:
            self._api.request("DELETE", CONFIG_MAPS.path(self._namespace, name))
        except ApiError as error:
            if error.reason != "missing":
                raise


def stored_part(config_map: Document) -> StoredPart:
    """Return a part as the API server gives it; malformed blocks are left out."""
    metadata = config_map["metadata"]
    data = {}
    for key, text in (config_map.get("binaryData") or {}).items():
        try:
            data[key] = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError, TypeError):
            continue
    return StoredPart(
        metadata.get("resourceVersion", ""),
        _seconds(metadata.get("labels"), HISTORY_START_LABEL),
        max(_seconds(metadata.get("annotations"), HISTORY_THROUGH_ANNOTATION), 0),
        data,
    )


def _seconds(texts: Mapping[str, str] | None, key: str) -> int:
    text = (texts or {}).get(key, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else -1
