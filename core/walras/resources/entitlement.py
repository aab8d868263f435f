"""Entitlement, field by field: a user's or a group's claim on the cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from walras.resources.fields import Name, PositiveInt, Unique
from walras.resources.model import LabelSelector, Model, Resource, Rule


class EntitlementSpec(Model):
    """The desired claim on the cluster.

    Attributes:
        shares: Size of the claim relative to the other entitlements of the same parent.
        parent: Name of the parent entitlement, whose budget this entitlement takes a part of.
        namespaces: Names of the namespaces whose jobs may use this entitlement.
        namespace_selector: Label selector of the namespaces whose jobs may use this entitlement;
            ``{}`` selects all namespaces.
        memory_share: Size of the claim on memory, if it differs from ``shares``.
        max_nodes: Maximum number of nodes on which this entitlement bids at a time under
            PriceAnticipating; its pods on other nodes share a core. If unset, there is no limit.
    """

    RULES = (
        Rule(
            "has both namespaces and namespaceSelector; keep one of them",
            "!(has(self.namespaces) && has(self.namespaceSelector))",
            lambda spec: spec.namespaces is None or spec.namespace_selector is None,
        ),
    )

    shares: PositiveInt
    parent: Name | None = None
    namespaces: (
        Annotated[list[Name], Field(max_length=1000), Unique("entries for the namespace")] | None
    ) = None
    namespace_selector: LabelSelector | None = None
    memory_share: PositiveInt | None = None
    max_nodes: PositiveInt | None = None


class Entitlement(Resource):
    """The claim of a user or a group on the cores and memory of the cluster; cluster-scoped."""

    kind: Literal["Entitlement"]
    spec: EntitlementSpec
