"""Effects: create and update the Market from the chart's values, and keep changes made by hand.

An annotation of the Market contains the values that were last written. The difference to the
current values is what somebody changed in the values, and only that is written (a JSON merge patch,
RFC 7386). A Market without the annotation was not created by the chart, and is left alone.

A new Market only observes, and keeps requests within shares, unless the values say otherwise. The
annotation does not contain a mode or a rule of requests that the values do not, and such values
leave those of a Market as they are. So no upgrade switches enforcement on or off by a default, or
changes what requests mean.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from walras_api.contract import API_VERSION, APPLIED_SPEC_ANNOTATION, MARKET_NAME
from walras_service.api import MERGE
from walras_service.api_errors import ApiError
from walras_service.kinds import OURS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_service.api import Api, Document


def apply(api: Api, spec: Document, until: float) -> str:
    """Create the Market, or write what is new in the values.

    Args:
        api: Connection to the API server.
        spec: Spec of the Market from the values.
        until: When to stop waiting for the kind, by `time.monotonic`.

    Returns:
        A description of what was done.

    Raises:
        ApiError: The Market is unchanged.
    """
    stored = api.find(OURS["Market"].path(name=MARKET_NAME))
    if stored is None:
        _create(api, spec, until)
        return "created"
    text = (stored["metadata"].get("annotations") or {}).get(APPLIED_SPEC_ANNOTATION)
    if text is None:
        return "left alone: it was not created by the chart"
    before = _spec_of(text)
    if before == spec:
        return "unchanged"
    changes = merge_patch(before, spec)
    if "mode" not in spec:
        changes.pop("mode", None)
    if changes.get("cores", {}) is None:  # field by field, as one is not of the values
        changes["cores"] = dict.fromkeys(before["cores"])
    patch = {"metadata": {"annotations": {APPLIED_SPEC_ANNOTATION: _text(spec)}}, "spec": changes}
    api.request("PATCH", OURS["Market"].path(name=MARKET_NAME), patch, content_type=MERGE)
    return f"changed: {', '.join(_fields(changes))}" if changes else "unchanged"


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Document:
    """Return the patch that turns one document into another; empty if they are equal."""
    patch: Document = {name: None for name in before if name not in after}
    for name, value in after.items():
        former = before.get(name)
        if isinstance(value, dict) and isinstance(former, dict):
            if inner := merge_patch(former, value):
                patch[name] = inner
        elif name not in before or former != value:
            patch[name] = value
    return patch


def _create(api: Api, spec: Document, until: float) -> None:
    """Create the Market; its kind may have been established a moment ago."""
    metadata = {"name": MARKET_NAME, "annotations": {APPLIED_SPEC_ANNOTATION: _text(spec)}}
    document = {
        "apiVersion": API_VERSION,
        "kind": "Market",
        "metadata": metadata,
        "spec": {
            "mode": "observe",
            **spec,
            "cores": {"requests": "WithinShare", **(spec.get("cores") or {})},
        },
    }
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
    """Return the values in an annotation; empty if it is malformed, so that all are written."""
    try:
        spec = json.loads(text)
    except ValueError:
        return {}
    return spec if isinstance(spec, dict) else {}


def _fields(patch: Mapping[str, Any], path: str = "spec") -> list[str]:
    fields = []
    for name, value in patch.items():
        below = f"{path}.{name}"
        fields += _fields(value, below) if isinstance(value, dict) and value else [below]
    return fields
