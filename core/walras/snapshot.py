"""What a decision is made on: entitlements, nodes and jobs at one moment, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

CoreMechanism = Literal["AmdahlBidding", "ProportionalSharing"]


@dataclass(frozen=True, slots=True)
class Entitlement:
    """A user's claim on the cluster, or a group's that its children divide.

    Attributes:
        name: unique.
        shares: claim relative to its siblings, positive.
        parent: the entitlement whose budget this one is a part of.
        namespaces: whose jobs may draw on it; None if `namespace_labels` says that.
        namespace_labels: labels that a namespace must carry for its jobs to draw on it.
    """

    name: str
    shares: int
    parent: str | None = None
    namespaces: frozenset[str] | None = None
    namespace_labels: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A server whose ``cores`` the market sells."""

    name: str
    cores: int


@dataclass(frozen=True, slots=True)
class Job:
    """A job on one node, as the market sees it (the paper's edge between user and server).

    Attributes:
        namespace: Kubernetes namespace.
        name: unique in its namespace and node.
        entitlement: name of the entitlement it draws on.
        node: name of the node it runs on.
        fraction: parallel fraction, in (0, 1].
        work: weight of its speedup among the jobs of its entitlement, positive.
        min_cores: fewest cores worth having; above 1, its user's other jobs on the node give way.
        max_cores: most cores it can use; None for no bound.
        namespace_labels: labels of its namespace, as far as they are known.
    """

    namespace: str
    name: str
    entitlement: str
    node: str
    fraction: float
    work: float = 1.0
    min_cores: int = 1
    max_cores: int | None = None
    namespace_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a cluster, or of one machine, that `walras.clearing.clear` decides on."""

    entitlements: tuple[Entitlement, ...]
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """How to decide.

    Attributes:
        cores: the mechanism that divides cores.
        tolerance: on the relative error of prices.
    """

    cores: CoreMechanism = "AmdahlBidding"
    tolerance: float = 1e-6
