"""Entitlement, field by field: a user's or a group's claim on the cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from walras.resources.fields import Name, PositiveInt, Unique
from walras.resources.model import LabelSelector, Model, Resource, Rule


class EntitlementSpec(Model):
    """A claim on the cluster.

    Attributes:
        shares: the claim, relative to entitlements of the same parent.
        parent: the entitlement whose budget this one is a part of.
        namespaces: whose jobs may draw on this one.
        namespace_selector: the same by labels of namespaces; ``{}`` admits all.
        memory_share: the claim on memory, if it differs from ``shares``.
        max_nodes: most nodes that it bids on at once where the mechanism is PriceAnticipating; its
            pods on others share a core. Without it there is no bound.
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
    """A user's or a group's claim on the cores and memory of the cluster; cluster-wide."""

    kind: Literal["Entitlement"]
    spec: EntitlementSpec
