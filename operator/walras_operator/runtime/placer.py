"""Apply: give pods that wait their nodes, one request each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_service.api import MERGE
from walras_service.api_errors import ApiError
from walras_service.kinds import PODS

if TYPE_CHECKING:
    from walras_operator.runtime.mirror import Mirror
    from walras_operator.world import Placement
    from walras_service.api import Api

_METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
"""Of the answer nothing is read."""


class Placer:
    """Places pods; for several threads.

    Args:
        api: To the API server.
        mirror: Is told, so that the next decision knows before a watch tells.
    """

    def __init__(self, api: Api, mirror: Mirror) -> None:
        self._api, self._mirror = api, mirror
        self._forbidden: ApiError | None = None

    @property
    def problem(self) -> str:
        """Why pods may not be placed, as was found last; empty if they may."""
        return "" if self._forbidden is None else str(self._forbidden)

    def begin(self) -> None:
        """Begin the placements of a decision: rights may have been given meanwhile."""
        self._forbidden = None

    def place(self, placement: Placement) -> bool:
        """Place a pod, or let it go.

        Returns:
            False if it does not wait any more, or is another one than was decided about.

        Raises:
            ApiError: It waits on. If it is forbidden, so it is for all pods of this decision.
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
