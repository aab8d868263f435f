"""Write dashboard/openapi.json, which documents the HTTP API of the dashboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from walras_dashboard.app import make_app
from walras_dashboard.in_cluster import ClusterViewers, TokenIdentities

FILE = Path(__file__).parents[1] / "dashboard/openapi.json"


def main() -> None:
    """Write the file."""
    app = make_app(ClusterViewers(TokenIdentities(), NotImplemented))
    FILE.write_text(compact(app.openapi()))


def compact(document: dict[str, Any]) -> str:
    """Return the document as JSON with one line for each path and each schema, to be compared."""
    document = dict(document)
    paths = _object(document.pop("paths"))
    schemas = _object(document.pop("components")["schemas"])
    head = json.dumps(document, ensure_ascii=False)[:-1]
    return f'{head},\n"paths": {paths},\n"components": {{"schemas": {schemas}}}}}\n'


def _object(entries: dict[str, Any]) -> str:
    lines = (
        f"{json.dumps(name)}:{json.dumps(each, ensure_ascii=False, separators=(',', ':'))}"
        for name, each in entries.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}"


if __name__ == "__main__":
    main()
