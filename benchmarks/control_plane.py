"""Helpers of benchmarks that fill an empty control plane, which may be slow."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from waiting import eventually
from walras_service.api import Api, settings
from walras_service.api_errors import ApiError
from walras_service.kinds import NODES

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 900.0  # seconds


def refuse(text: str) -> NoReturn:
    """Exit with a message."""
    sys.exit(f"{Path(sys.argv[0]).stem}: {text}")


def ensure(condition: Callable[[], object], complaint: str) -> None:
    """Wait until a condition holds; exit with a message if it takes too long."""
    if not eventually(condition, PATIENCE, 0.05):
        refuse(complaint)


def empty_kubeconfig() -> str:
    """Return KUBECONFIG; exit with a message unless its cluster has no nodes."""
    kubeconfig = os.environ.get("KUBECONFIG", "")
    if not kubeconfig:
        refuse("set KUBECONFIG to that of an empty control plane, which is filled and emptied")
    try:
        nodes = list(Api(settings(kubeconfig), "benchmark").names(NODES, {}))
    except ApiError as error:
        refuse(str(error))
    if nodes:
        refuse(f"{kubeconfig}: this cluster has nodes; use a control plane without nodes")
    return kubeconfig
