"""Apply: the Market that a chart's values describe, without undoing what others changed by hand.

The Market keeps, in an annotation, the values that were last written. What differs between those
and the values now is what somebody changed in the values, and that alone is written (a JSON merge
patch, RFC 7386). A Market without the annotation is somebody else's.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from walras.resources.kinds import API_VERSION
from walras_service.api import MERGE
from walras_service.api_errors import ApiError
from walras_service.kinds import OURS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_service.api import Api, Document

NAME = "default"
APPLIED = "walras.dev/applied-spec"
"""Annotation: the values that were last written."""


def apply(api: Api, spec: Document, until: float) -> str:
    """Make the Market, or write what is new in the values.

    Args:
        api: To the API server.
        spec: Of the Market, as the values have it.
        until: When to give up waiting for its kind, by `time.monotonic`.

    Returns:
        What was done, for people.

    Raises:
        ApiError: It is as it was.
    """
    stored = api.find(OURS["Market"].path(name=NAME))
    if stored is None:
        _make(api, spec, until)
        return "made"
    text = (stored["metadata"].get("annotations") or {}).get(APPLIED)
    if text is None:
        return "left as it is: it was not made by the chart"
    changes = merge_patch(_spec_of(text), spec)
    if not changes:
        return "unchanged"
    patch = {"metadata": {"annotations": {APPLIED: _text(spec)}}, "spec": changes}
    api.request("PATCH", OURS["Market"].path(name=NAME), patch, content_type=MERGE)
    return f"changed: {', '.join(_fields(changes))}"


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Document:
    """The patch that makes one document another; empty if they are alike."""
    patch: Document = {name: None for name in before if name not in after}
    for name, value in after.items():
        known = before.get(name)
        if isinstance(value, dict) and isinstance(known, dict):
            if inner := merge_patch(known, value):
                patch[name] = inner
        elif name not in before or known != value:
            patch[name] = value
    return patch


def _make(api: Api, spec: Document, until: float) -> None:
    """Make it; its kind may have been established only just now."""
    metadata = {"name": NAME, "annotations": {APPLIED: _text(spec)}}
    document = {"apiVersion": API_VERSION, "kind": "Market", "metadata": metadata, "spec": spec}
    while True:
        try:
            api.request("POST", OURS["Market"].path(), document)
        except ApiError as error:
            if error.reason != "missing" or time.monotonic() >= until:
                raise
            time.sleep(0.5)
        else:
            return


def _text(spec: Document) -> str:
    return json.dumps(spec, sort_keys=True)


def _spec_of(text: str) -> Document:
    """The values of an annotation; none where somebody has spoilt it, so that all are written."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _fields(patch: Mapping[str, Any], path: str = "spec") -> list[str]:
    found = []
    for name, value in patch.items():
        below = f"{path}.{name}"
        found += _fields(value, below) if isinstance(value, dict) and value else [below]
    return found
