"""Facts: where states come from, seen by the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from walras_api.cluster import Pod
    from walras_dashboard.state import MarketState
    from walras_operator.decide.world import World


class Source(Protocol):
    """Source of the states that one viewer may see, now and whenever they change."""

    def state(self) -> MarketState:
        """Return what may be seen now.

        Raises:
            Failure: Nothing may be seen.
            ApiError: The cluster cannot be asked.
        """

    def pods_on(self, node: str) -> Sequence[Pod] | None:
        """Return the pods that run on a node; None if they may not be seen.

        Raises:
            ApiError: The cluster cannot be asked.
        """

    def world(self) -> World:
        """Return what the operator decides from, for a what-if; at most some seconds old.

        Raises:
            Failure: Some of it may not be seen.
            ApiError: The cluster cannot be asked.
        """

    def listen(self, receive: Callable[[str], None]) -> Callable[[], None]:
        """Call a function whenever there is news, from any thread, until the result is called.

        The function is given why the cluster cannot be reached, or nothing once it can.
        """
