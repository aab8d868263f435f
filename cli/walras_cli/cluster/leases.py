"""Facts: whether the operator and the nodes' agents live, by their Leases."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from walras.resources.contract import AGENT_LEASES, OPERATOR
from walras_service.kinds import LEASES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_cli.cluster.connection import Cluster, Document

SLACK = timedelta(seconds=5)
"""Time after its expiry for which a Lease counts, because clocks and requests differ."""


@dataclass(frozen=True, slots=True)
class Leases:
    """Which operator and which agents are alive.

    Attributes:
        known: whether one may see that at all.
        operator: when the operator's Lease was renewed last; None if there is none.
        operator_alive: whether that is recent enough.
        agents: whether the agent of a node lives, by node; without those that never did.
    """

    known: bool = False
    operator: datetime | None = None
    operator_alive: bool = False
    agents: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: Cluster) -> Leases:
        """Ask a cluster; the operator and its agents may be in any namespace.

        Raises:
            ApiError: they cannot be listed.
        """
        agents = list(cluster.every(LEASES, labelSelector=AGENT_LEASES))
        operators = list(cluster.every(LEASES, fieldSelector=f"metadata.name={OPERATOR}"))
        now = cluster.now
        renewed = [when for each in operators if (when := _renewed(each)) is not None]
        return cls(
            known=True,
            operator=max(renewed, default=None),
            operator_alive=any(_alive(each, now) for each in operators),
            agents={
                str(holder): _alive(each, now)
                for each in agents
                if (holder := (each.get("spec") or {}).get("holderIdentity"))
            },
        )


def _alive(lease: Document, now: datetime) -> bool:
    renewed = _renewed(lease)
    spec = lease.get("spec") or {}
    lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    return (
        renewed is not None and bool(spec.get("holderIdentity")) and now < renewed + lasts + SLACK
    )


def _renewed(lease: Document) -> datetime | None:
    text = (lease.get("spec") or {}).get("renewTime")
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
