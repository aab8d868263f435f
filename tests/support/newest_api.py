"""The API server of a current Kubernetes, as ``tools/newest_api/run up`` starts it.

``WALRAS_NEWEST_API`` names its kubeconfig. tools/newest_api/README.md says what it can show.
"""

from __future__ import annotations

import os

import pytest

NEWEST = os.environ.get("WALRAS_NEWEST_API", "")

needs_newest = pytest.mark.newest_api_server
