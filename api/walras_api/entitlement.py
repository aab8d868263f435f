"""Entitlement: the spec and status of a claim on the cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from walras_api.fields import Name, PositiveInt, Unique
from walras_api.model import LabelSelector, Model, Resource, Rule
from walras_api.status import (
    Amount,
    ConditionedStatus,
    Decimals,
    Status,
    WaitingWorkloads,
    at_most,
)

MOST_SPENDS = 100
"""Nodes that an Entitlement's status lists: those on which it spends most."""

MOST_NAMESPACES = 1000
"""Namespaces that an Entitlement names."""

MOST_LOANS = 10
"""Entitlements that a list of loans names."""


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
        Annotated[
            list[Name], Field(max_length=MOST_NAMESPACES), Unique("entries for the namespace")
        ]
        | None
    ) = None
    namespace_selector: LabelSelector | None = None
    memory_share: PositiveInt | None = None
    max_nodes: PositiveInt | None = None


class EntitledCores(Status):
    """The cores of an entitlement, over the whole cluster.

    Attributes:
        entitled: Cores that its share of the cluster is worth, with its core credits; this is also
            its budget.
        bought: Cores that its jobs buy in the market.
        held: Cores that its jobs hold: cores of their own and parts of shared cores.
    """

    entitled: Decimals
    bought: Decimals
    held: Decimals


class EntitledMemory(Status):
    """The memory of an entitlement, over the whole cluster, in bytes.

    Attributes:
        entitled: Memory that its share of the cluster is worth.
        demand: Memory that its jobs could use.
        granted: Memory that its jobs were granted.
    """

    entitled: Amount
    demand: Amount
    granted: Amount


class Utility(Status):
    """The utility of an entitlement: the weighted mean of its jobs' predicted speedups.

    Attributes:
        now: Utility of the cores that its jobs hold.
        bought: Utility of the cores that they buy.
        at_entitlement: The most that it could do with its share of every unit that is sold, without
            trade. Only requests that the market keeps for others make ``bought`` smaller.
    """

    now: Decimals
    bought: Decimals | None = None
    at_entitlement: Decimals


class Loan(Status):
    """Memory that one entitlement lends to another.

    Attributes:
        entitlement: Name of the other entitlement; absent for memory that belongs to no
            entitlement.
        memory: Amount of memory, in bytes, over all nodes.
    """

    entitlement: str | None = None
    memory: Amount


class Credits(Status):
    """The Karma credits of an entitlement after one quantum.

    If there are many entitlements, this is not updated after every quantum. The Market's ledger
    always has all balances.

    Attributes:
        quantum: Number of the quantum that these values describe.
        balance: Exact credits after the quantum.
        earned: Credits earned in the quantum: its part of the free credits, and credits for memory
            lent.
        spent: Credits spent in the quantum, for memory borrowed.
        lent: Memory lent, by borrower, largest first.
        borrowed: Memory borrowed, by lender, largest first. On each node, every lender is counted
            in proportion to the memory that it lends.
    """

    quantum: int | None = None
    balance: Decimals
    earned: Decimals
    spent: Decimals | None = None
    lent: list[Loan] = at_most(MOST_LOANS)
    borrowed: list[Loan] = at_most(MOST_LOANS)


class CoreCredits(Status):
    """What others owe an entitlement and all below it, as the Market's account says it.

    Attributes:
        core_hours: Core-hours that others owe it; negative if it owes. Older ones count less.
        level: The same relative to what it would have if it always lent all of its cores.
        cores: Cores by which that grows now; negative if it takes them.
        budget_factor: Its budget relative to the one by its shares alone; absent without jobs.
    """

    core_hours: Decimals
    level: Decimals
    cores: Decimals | None = None
    budget_factor: Decimals | None = None


class NodeSpend(Status):
    """The spending of an entitlement on one node.

    Attributes:
        node: Name of the node.
        spend: Part of the budget that is spent on the node, in cores at the cluster's average
            price.
        cores: Cores that this buys.
    """

    node: str
    spend: Decimals
    cores: Decimals


class EntitlementStatus(ConditionedStatus):
    """The worth of an entitlement, and what its jobs received.

    Attributes:
        budget_share: Share of the whole cluster, from 0 to 1: the product of its relative shares up
            the tree.
        jobs: Number of MarketJobs that use the entitlement.
        pods: Number of pods of these jobs that have a grant.
        cores: Cores that the entitlement is worth, and that its jobs received.
        memory: Memory that the entitlement is worth, and that its jobs received; absent if no
            memory is divided.
        utility: Utility now, and at the bare entitlement; absent without jobs.
        credits: Karma credits for memory; absent if memory is not divided by Karma.
        core_credits: What others owe it and all below it, or what they owe.
        waiting: Workloads that wait in Kueue; absent if none do.
        spend_by_node: Nodes on which the entitlement spends most, largest first.
        other_nodes: Number of further nodes on which it spends.
        other_spend: Total spending on these further nodes.
        conditions: Conditions ``Ready`` (its place in the tree and its namespaces are valid) and,
            for one with jobs in the market, ``Entitled`` (their cores give at least the utility of
            its share).
    """

    budget_share: Decimals | None = None
    jobs: int = 0
    pods: int = 0
    cores: EntitledCores | None = None
    memory: EntitledMemory | None = None
    utility: Utility | None = None
    credits: Credits | None = None
    core_credits: CoreCredits | None = None
    waiting: WaitingWorkloads | None = None
    spend_by_node: list[NodeSpend] = at_most(MOST_SPENDS)
    other_nodes: int = 0
    other_spend: Decimals | None = None


class EntitlementObject(Resource):
    """The claim of a user or a group on the cores and memory of the cluster; cluster-scoped."""

    kind: Literal["Entitlement"]
    spec: EntitlementSpec
