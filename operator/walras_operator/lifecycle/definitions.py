"""Effects: install and upgrade the CustomResourceDefinitions.

An existing definition is replaced on condition that nobody has changed it meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from walras_api.definitions import DEFINITIONS, definition_document
from walras_service.api_errors import ApiError
from walras_service.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_service.api import Api, Document

KIND = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions")
DOCUMENTS: tuple[Document, ...] = tuple(map(definition_document, DEFINITIONS))
"""CustomResourceDefinitions of this version of Walras."""

Change = Literal["created", "changed", "unchanged"]

_ATTEMPTS = 5


class DowngradeError(Exception):
    """The cluster stores objects that this version cannot read; a line for each definition."""


def refuse_downgrade(api: Api) -> None:
    """Check that no definition would be downgraded.

    Raises:
        DowngradeError: The cluster stores objects of a version that this one does not know.
        ApiError: The API server is unreachable or refuses the request.
    """
    lines = []
    for ours in DOCUMENTS:
        stored = api.find(_path(ours))
        if stored is not None and (later := sorted(_unknown(stored, ours))):
            lines.append(
                f"{ours['metadata']['name']}: objects are stored as {', '.join(later)}, which this "
                "version of Walras cannot read; install the version that stored them or a later one"
            )
    if lines:
        raise DowngradeError("\n".join(lines))


def apply(api: Api, ours: Document) -> Change:
    """Create or replace a definition.

    Raises:
        ApiError: The definition is unchanged.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _applied(api, ours)
        except ApiError as error:
            if error.reason != "conflict" or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def unestablished(api: Api) -> list[str]:
    """Return a line about each definition that the API server does not serve yet.

    Raises:
        ApiError: The API server is unreachable or refuses the request.
    """
    lines = []
    for ours in DOCUMENTS:
        stored = api.find(_path(ours))
        problem = "does not exist" if stored is None else _problem(stored)
        if problem:
            lines.append(f"{ours['metadata']['name']} {problem}")
    return lines


def _applied(api: Api, ours: Document) -> Change:
    stored = api.find(_path(ours))
    if stored is None:
        api.request("POST", KIND.path(), ours)
        return "created"
    before = stored["metadata"]["generation"]
    # Fields that we do not set, such as the conversion of versions, stay.
    document = {**stored, "spec": {**stored["spec"], **ours["spec"]}}
    document.pop("status", None)
    after = api.request("PUT", _path(ours), document)["metadata"]["generation"]
    return "unchanged" if after == before else "changed"


def _path(ours: Document) -> str:
    return KIND.path(name=ours["metadata"]["name"])


def _unknown(stored: Document, ours: Document) -> set[str]:
    offered = {version["name"] for version in ours["spec"]["versions"]}
    return set(stored.get("status", {}).get("storedVersions") or ()) - offered


def _problem(stored: Document) -> str:
    """Return why a definition is not served; empty if it is."""
    conditions: Iterable[Mapping[str, str]] = stored.get("status", {}).get("conditions") or ()
    by_type = {each["type"]: each for each in conditions}
    for kind in ("NamesAccepted", "Established"):
        if by_type.get(kind, {}).get("status") != "True":
            return f"is not {kind}: {by_type.get(kind, {}).get('message', 'not yet')}"
    return ""
