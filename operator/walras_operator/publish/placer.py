"""Effects: bind waiting pods to nodes, or leave them to the scheduler, with one request each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_service.api import MERGE
from walras_service.api_errors import ApiError
from walras_service.kinds import PODS

if TYPE_CHECKING:
    from walras_operator.decide.world import Placement
    from walras_operator.watch.mirror import Mirror
    from walras_service.api import Api

_METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
"""Media type of the answer, of which nothing is read."""


class Placer:
    """Places pods; safe for concurrent use.

    Args:
        api: Connections to the API server.
        mirror: Records placements, so that the next decision need not wait for the watch.
    """

    def __init__(self, api: Api, mirror: Mirror) -> None:
        self._api, self._mirror = api, mirror
        self._forbidden: ApiError | None = None

    @property
    def problem(self) -> str:
        """Why the API server last forbade a placement; empty if it did not."""
        return "" if self._forbidden is None else str(self._forbidden)

    def begin(self) -> None:
        """Start the placements of a decision; permissions may have been granted meanwhile."""
        self._forbidden = None

    def place(self, placement: Placement) -> bool:
        """Bind a pod, or leave it to the scheduler.

        Returns:
            False if the pod no longer waits, or has been recreated.

        Raises:
            ApiError: The pod still waits. If placing is forbidden, it is for all pods of this
                decision.
        """
        if self._forbidden is not None:
            raise self._forbidden
        pod = placement.pod
        try:
            if placement.way == "gate":
                path = PODS.path(pod.namespace, pod.name)
                self._api.request(
                    "PATCH", path, placement.body, content_type=MERGE, accept=_METADATA
                )
            else:
                path = PODS.path(pod.namespace, pod.name, "binding")
                self._api.request("POST", path, placement.body)
        except ApiError as error:
            if error.reason in {"conflict", "invalid"}:
                return False
            if error.reason == "forbidden":
                self._forbidden = error
            raise
        self._mirror.placed(pod.uid, placement.after)
        return True
