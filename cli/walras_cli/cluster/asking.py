"""How a command ends that asks a cluster: errors of the API server become lines and exit codes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from walras_cli.cluster.connection import connect
from walras_service.api_errors import ApiError
from walras_service.failures import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_cli.cluster.connection import Cluster
    from walras_cli.cluster.options import Target


@contextmanager
def asked(target: Target) -> Iterator[Cluster]:
    """Connect to the cluster that is meant.

    Raises:
        Failure: it cannot be asked, with what the API server says and the way out.
    """
    try:
        yield connect(target)
    except ApiError as error:
        raise Failure(str(error)) from error
