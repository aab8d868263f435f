"""Write dashboard/openapi.json, which documents the HTTP API of the dashboard."""

from __future__ import annotations

import json
from pathlib import Path

from walras_dashboard.app import make_app
from walras_dashboard.in_cluster import ClusterViewers, TokenIdentities

FILE = Path(__file__).parents[1] / "dashboard/openapi.json"


def main() -> None:
    """Write the file."""
    app = make_app(ClusterViewers(TokenIdentities(), NotImplemented))
    FILE.write_text(json.dumps(app.openapi(), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
