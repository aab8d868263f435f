"""Apply: the CustomResourceDefinitions of this version, at the API server.

One that is there is replaced under the condition that nobody changed it meanwhile. Server-side
apply would be refused before Kubernetes 1.23, which does not know the rules in a schema; a
replacement is taken by all, and those that do not know rules drop them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from walras.resources.definitions import DEFINITIONS, definition_document
from walras_service.api_errors import ApiError
from walras_service.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_service.api import Api, Document

KIND = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions")
DOCUMENTS: tuple[Document, ...] = tuple(map(definition_document, DEFINITIONS))
"""Of this version."""

Outcome = Literal["made", "changed", "unchanged"]

_ATTEMPTS = 5


class DowngradeError(Exception):
    """Objects are stored that this version cannot read; one line for each definition."""


def refuse_downgrade(api: Api) -> None:
    """Look before anything is changed.

    Raises:
        DowngradeError: The cluster has objects of a version that this one does not know.
        ApiError: That is not known.
    """
    lines = []
    for ours in DOCUMENTS:
        stored = api.find(_path(ours))
        if stored is not None and (later := sorted(_unknown(stored, ours))):
            lines.append(
                f"{ours['metadata']['name']}: objects are stored as {', '.join(later)}, which this "
                "version of Walras cannot read; install the version that stored them, or a later"
            )
    if lines:
        raise DowngradeError("\n".join(lines))


def apply(api: Api, ours: Document) -> Outcome:
    """Make a definition, or make it that of this version.

    Raises:
        ApiError: It is as it was.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _applied(api, ours)
        except ApiError as error:
            if error.reason != "conflict" or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def unestablished(api: Api) -> list[str]:
    """Definitions that the API server does not serve (yet), a line each with what it says.

    Raises:
        ApiError: That is not known.
    """
    lines = []
    for ours in DOCUMENTS:
        stored = api.find(_path(ours))
        problem = "is not there" if stored is None else _problem(stored)
        if problem:
            lines.append(f"{ours['metadata']['name']} {problem}")
    return lines


def _applied(api: Api, ours: Document) -> Outcome:
    stored = api.find(_path(ours))
    if stored is None:
        api.request("POST", KIND.path(), ours)
        return "made"
    before = stored["metadata"]["generation"]
    # What we do not say, such as how versions are converted, stays.
    document = {**stored, "spec": {**stored["spec"], **ours["spec"]}}
    document.pop("status", None)
    after = api.request("PUT", _path(ours), document)["metadata"]["generation"]
    return "unchanged" if after == before else "changed"


def _path(ours: Document) -> str:
    return KIND.path(name=ours["metadata"]["name"])


def _unknown(stored: Document, ours: Document) -> set[str]:
    known = {version["name"] for version in ours["spec"]["versions"]}
    return set(stored.get("status", {}).get("storedVersions") or ()) - known


def _problem(stored: Document) -> str:
    """What is in the way of a definition; empty if nothing is."""
    conditions: Iterable[Mapping[str, str]] = stored.get("status", {}).get("conditions") or ()
    found = {each["type"]: each for each in conditions}
    for kind in ("NamesAccepted", "Established"):
        if found.get(kind, {}).get("status") != "True":
            return f"is not {kind}: {found.get(kind, {}).get('message', 'not yet')}"
    return ""
