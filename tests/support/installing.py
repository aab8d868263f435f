"""Making a kind of Walras known to an API server, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waiting import eventually
from walras_operator.lifecycle.definitions import KIND
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from walras_service.api import Api


def install(api: Api, definition: dict[str, Any]) -> None:
    """Install a definition, and wait until its kind is served and no longer being deleted."""
    path = KIND.path(name=definition["metadata"]["name"])
    assert eventually(lambda: "deletionTimestamp" not in (api.find(path) or {}).get("metadata", {}))
    if api.find(path) is None:
        api.request("POST", KIND.path(), definition)
    spec = definition["spec"]
    plural, version = spec["names"]["plural"], spec["versions"][0]["name"]
    path = f"/apis/{spec['group']}/{version}/{plural}"
    assert eventually(lambda: served(api, path))


def served(api: Api, path: str) -> bool:
    """Return whether all objects of a kind can be listed.

    A current API server answers that it is busy until it has read them.
    """
    try:
        return api.find(path) is not None
    except ApiError as error:
        if error.reason != "busy":
            raise
        return False
