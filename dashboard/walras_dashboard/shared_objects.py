"""Pure: the objects of a live cluster, parsed once for all viewers of the same version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from walras_api.entitlement import EntitlementStatus
from walras_api.market_job_status import MarketJobStatus
from walras_api.market_status import MarketStatus
from walras_api.node_allocation_status import NodeAllocationStatus
from walras_api.parse import ResourceError, parse_object
from walras_api.speedup_profile import SpeedupProfile
from walras_view.facts import ApiObject, node_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_cli.cluster.connection import Document


def _profile(document: Document) -> SpeedupProfile | None:
    try:
        profile = parse_object(document)
    except ResourceError:
        return None
    return profile if isinstance(profile, SpeedupProfile) else None


READERS: dict[str, Callable[[Document], Any]] = {
    "entitlements": lambda document: ApiObject.read(document, EntitlementStatus),
    "jobs": lambda document: ApiObject.read(document, MarketJobStatus),
    "allocations": lambda document: ApiObject.read(document, NodeAllocationStatus),
    "market": lambda document: ApiObject.read(document, MarketStatus),
    "nodes": node_of,
    "profiles": _profile,
}


def key_of(document: Document) -> tuple[str, str]:
    """Return namespace and name of an object."""
    metadata = document["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class SharedObjects:
    """Objects that viewers of one cluster see, kept once for as long as any viewer has them.

    Viewers still see only what the API server gives to themselves: what is shared is the memory of
    the same version of an object.
    """

    def __init__(self) -> None:
        self._by_version: WeakValueDictionary[tuple[str, str, str], Any] = WeakValueDictionary()

    def read(self, name: str, document: Document) -> Any:
        """Return the object in a document of a feed; None if it is malformed."""
        metadata = document["metadata"]
        uid, version = metadata.get("uid"), metadata.get("resourceVersion")
        if not uid or not version:
            return READERS[name](document)
        key = name, str(uid), str(version)
        parsed = self._by_version.get(key)
        if parsed is None:
            parsed = READERS[name](document)
            if parsed is not None:
                self._by_version[key] = parsed
        return parsed
