"""What benchmarks on a control plane of their own share: it is empty, and it may be slow."""

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
    """End, and say why."""
    sys.exit(f"{Path(sys.argv[0]).stem}: {text}")


def ensure(condition: Callable[[], object], complaint: str) -> None:
    """Wait for something."""
    if not eventually(condition, PATIENCE, 0.05):
        refuse(complaint)


def empty_kubeconfig() -> str:
    """Return KUBECONFIG; see that there is nothing in that cluster that could come to harm."""
    kubeconfig = os.environ.get("KUBECONFIG", "")
    if not kubeconfig:
        refuse("set KUBECONFIG to a file of an empty control plane, which is filled and emptied")
    try:
        nodes = list(Api(settings(kubeconfig), "benchmark").names(NODES, {}))
    except ApiError as error:
        refuse(str(error))
    if nodes:
        refuse(f"{kubeconfig}: this cluster has nodes; give a control plane that has none")
    return kubeconfig
