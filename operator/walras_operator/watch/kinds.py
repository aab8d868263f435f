"""Facts: the kinds that the operator watches, and with which selectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_api.contract import AGENT_LEASES, JOB_LABEL
from walras_service.kinds import LEASES, NAMESPACES, NODES, OURS, PODS, WORKLOADS, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Watched:
    """A kind that is watched.

    Attributes:
        name: Name of the kind, such as ``Pod``.
        kind: Group, version and plural.
        labels: Label selector; empty for all objects.
        fields: Field selector; empty for all objects.
        own_status: Whether only the operator writes its status, so that a change of it is no news.
        only_metadata: Whether the metadata of its objects is all that is used.
    """

    name: str
    kind: Kind
    labels: str = ""
    fields: str = ""
    own_status: bool = False
    only_metadata: bool = False

    @property
    def selectors(self) -> dict[str, str]:
        """Query parameters with the selectors."""
        both = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: text for name, text in both.items() if text}


_OWN_STATUS = {"Entitlement", "MarketJob", "Market"}


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything that the operator watches.

    Attributes:
        namespace: Namespace of the agents' Leases.
        kinds: Kinds by name.
    """

    namespace: str
    kinds: Mapping[str, Watched] = field(init=False)

    def __post_init__(self) -> None:
        watched = (
            *(Watched(name, kind, own_status=name in _OWN_STATUS) for name, kind in OURS.items()),
            # A watch with this selector reports a pod that ends as deleted.
            Watched("Pod", PODS, fields="status.phase!=Succeeded,status.phase!=Failed"),
            Watched("Node", NODES),
            Watched("Namespace", NAMESPACES, only_metadata=True),
            *(
                Watched(name, kind, labels=JOB_LABEL, only_metadata=True)
                for name, kind in WORKLOADS.items()
            ),
            Watched(
                "Lease", LEASES, labels=AGENT_LEASES, fields=f"metadata.namespace={self.namespace}"
            ),
        )
        object.__setattr__(self, "kinds", {each.name: each for each in watched})
