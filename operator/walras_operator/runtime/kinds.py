"""Facts: the kinds that the operator watches, and what of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_service.kinds import LEASES, NAMESPACES, NODES, OURS, PODS, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

AGENT_LABEL = "walras.dev/lease=agent"
"""Carried by the Leases by which agents tell that they live."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A kind that is watched.

    Attributes:
        name: As documents have it.
        kind: As the API server serves it.
        labels: Selector for those that matter.
        fields: Selector for those that matter.
        told: Whether its status is the operator's own, and so no news to it.
    """

    name: str
    kind: Kind
    labels: str = ""
    fields: str = ""
    told: bool = False

    @property
    def selectors(self) -> dict[str, str]:
        """As a request has them."""
        both = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: text for name, text in both.items() if text}


_TOLD = {"Entitlement", "MarketJob", "Market"}


@dataclass(frozen=True, slots=True)
class Scope:
    """What is watched.

    Attributes:
        namespace: Where agents have their Leases.
    """

    namespace: str
    kinds: Mapping[str, Watched] = field(init=False)

    def __post_init__(self) -> None:
        watched = (
            *(Watched(name, kind, told=name in _TOLD) for name, kind in OURS.items()),
            # A pod that has ended is, to a watch with this selector, a pod that was deleted.
            Watched("Pod", PODS, fields="status.phase!=Succeeded,status.phase!=Failed"),
            Watched("Node", NODES),
            Watched("Namespace", NAMESPACES),
            Watched(
                "Lease", LEASES, labels=AGENT_LABEL, fields=f"metadata.namespace={self.namespace}"
            ),
        )
        object.__setattr__(self, "kinds", {each.name: each for each in watched})
