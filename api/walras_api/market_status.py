"""The status of a Market: the last decision, and what credits and debts are kept in it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from walras.market.snapshot import MOST_POOLS, MOST_USERS, CoreMechanism, MemoryMechanism
from walras_api.status import (
    Amount,
    ConditionedStatus,
    Decimals,
    Status,
    Time,
    WaitingWorkloads,
    at_most,
)

MOST_NODES = 5000
"""Nodes that the Market's status lists; Kubernetes supports as many."""

MOST_BALANCES = 5000
"""Balances that the Market's status lists; more are kept in parts, outside of it."""

MOST_NODE_GAINS = 20
"""Nodes that were added, of which the Market's status keeps what they brought: the latest."""

MOST_PARTS = 2000
"""Parts of a ledger, enough for several million balances."""


class EpochReport(Status):
    """The last decision.

    Attributes:
        number: Number of the decision, which only increases.
        time: Time at which the decision was made.
        duration_milliseconds: Time from the snapshot to the plan, in milliseconds.
    """

    number: int
    time: Time
    duration_milliseconds: int


class SolverReport(Status):
    """How the division of cores was computed, and how accurate it is.

    Attributes:
        mechanism: Mechanism that divided the cores.
        solver: Solver that found the prices.
        iterations: Number of iterations that the solver took.
        residual: Largest relative violation of an equilibrium condition.
        converged: Whether the solver reached the solution that defines the mechanism.
    """

    mechanism: CoreMechanism
    solver: str
    iterations: int
    residual: Decimals | None = None
    converged: bool


class ScoreReport(Status):
    """Measures of the decision's quality (see ``walras.analysis.plan_quality``).

    Attributes:
        system_progress: Mean of all utilities weighted by budget, at the cores that jobs buy.
        held_progress: Mean of all utilities weighted by budget, at the cores that jobs hold.
        proportional_progress: ``systemProgress`` of proportional sharing on the same cluster.
        entitlement_error: Mean absolute percentage error (MAPE) of users' cores against their
            entitled cores, as a fraction.
        uniformity: Smallest gain of a user over its bare entitlement, divided by the largest.
        envy_freeness: 1 if no user would prefer another user's cores, scaled to its own budget;
            absent if there are too many users to compare.
    """

    system_progress: Decimals
    held_progress: Decimals
    proportional_progress: Decimals | None = None
    entitlement_error: Decimals
    uniformity: Decimals
    envy_freeness: Decimals | None = None


class MarketSize(Status):
    """The size of the market.

    Attributes:
        entitlements: Number of entitlements with jobs.
        jobs: Number of MarketJobs.
        pods: Number of pods that have a grant.
        refused: Number of pods that take no part in the market.
        nodes: Number of nodes that sell cores.
        cores: Number of cores for sale.
        memory: Memory for sale, in bytes.
    """

    entitlements: int
    jobs: int
    pods: int
    refused: int
    nodes: int
    cores: Decimals
    memory: Amount


class NodePrice(Status):
    """The cores that a node sells, and their price.

    Attributes:
        node: Name of the node.
        cores: Number of cores for sale.
        price: Price of a core, relative to the cluster's average.
    """

    node: str
    cores: Decimals
    price: Decimals


class UserChangeReport(Status):
    """A user whose progress another number of nodes would change.

    Attributes:
        user: Name of the entitlement.
        utility: Relative change of its utility.
        part: Its part of what all users that change in the same direction gain or lose, counted
            with their budgets, from 0 to 1.
    """

    user: str
    utility: Decimals
    part: Decimals


class NodesEffectReport(Status):
    """The effect of one node more or less in a pool.

    Attributes:
        progress: Relative change of ``status.scores.systemProgress``.
        progress_error: Standard error of ``progress``, widened by what nodes brought that were
            added; absent for one node less.
        speedup: Change of the total speedup, where a job alone on one core counts as 1.
        gaining: Users that gain most, as last computed.
        losing: Users that lose most, as last computed.
    """

    progress: Decimals
    progress_error: Decimals | None = None
    speedup: Decimals
    gaining: list[UserChangeReport] = at_most(MOST_USERS)
    losing: list[UserChangeReport] = at_most(MOST_USERS)


class PredictionReport(Status):
    """How good predictions of one kind were, of those that came true of objects that still exist.

    Attributes:
        of: What was predicted: ``Finish`` for ends of jobs with deadlines, when half of the work
            was done; and by progress checks, of each SpeedupProfile the latest ones, ``Gain`` for
            progress after cores were moved, ``Penalty`` for progress lost beside a co-runner, and
            ``Speedup`` for progress alone by F; and ``Node`` for what one more node brings.
        number: Number of predictions.
        coverage: Part of them that came within one stated error; 0.68 if errors are right.
        width: Mean stated error, as a part of the time that they looked ahead for ``Finish``; of
            the progress before the move for ``Gain``, alone for ``Penalty``, predicted for
            ``Speedup``, and of the whole market before the node came for ``Node``.
        crps: Mean continuous ranked probability score, as a part of the same; 0 is perfect.
        widening: Factor by which errors were too small, at least 1. Errors of jobs with deadlines
            that start now are multiplied by that of ``Finish``, and those of node pools by that of
            ``Node``.
    """

    of: str
    number: int
    coverage: Decimals
    width: Decimals
    crps: Decimals
    widening: Decimals


class NodePoolReport(Status):
    """The worth of more nodes of a pool. Figures other than counts are averaged over ten minutes.

    Attributes:
        name: Name of the node pool.
        nodes: Number of nodes that sell cores.
        cores: Number of cores that they sell.
        price: Mean price of a core on the nodes where somebody pays, relative to the cluster's
            average; 0 if nobody pays.
        core_value: Total speedup that one more core would add, where a job alone on one core counts
            as 1; absent if cores are auctioned, or if the market could not be solved.
        one_more: Effect of one more node, once jobs have spread over it; absent like ``coreValue``.
        one_less: Effect of one node less; absent like ``coreValue``, and for a pool's only node.
        recommended_nodes: Number of nodes, from half to twice the present one, at which the last
            node is worth its price and another is not; absent without ``spec.nodePools`` prices.
        unmet_memory: Memory that jobs on the pool's nodes could use beyond their grants, in bytes;
            absent unless Karma or MaxMin divides memory.
        memory_value: Part of one more GiB, spread over the nodes, that jobs would use at once, from
            0 to 1; absent like ``unmetMemory``.
    """

    name: str
    nodes: int
    cores: Decimals
    price: Decimals
    core_value: Decimals | None = None
    one_more: NodesEffectReport | None = None
    one_less: NodesEffectReport | None = None
    recommended_nodes: int | None = None
    unmet_memory: Amount | None = None
    memory_value: Decimals | None = None


class NodeGain(Status):
    """What a node that was added brought, beside what its pool had told that one more would.

    Attributes:
        pool: Name of the node pool.
        node: Name of the node.
        expected: Relative change of system progress that was told (``oneMore.progress``).
        error: Standard error that was told with it.
        widened: Factor that was in the error, since earlier gains were worse than told.
        came: Relative change that came, once the same pods had spread over the node.
    """

    pool: str
    node: str
    expected: Decimals
    error: Decimals
    widened: Decimals
    came: Decimals


class CreditBalance(Status):
    """The Karma credits of one entitlement.

    Attributes:
        user: Name of the entitlement.
        credits: Exact balance.
        gained: Exact change of the balance in the last quantum; absent if it did not change.
    """

    user: str
    credits: Decimals
    gained: Decimals | None = None


class LedgerPart(Status):
    """A part of the balances, in a ConfigMap of the operator's namespace that never changes.

    Attributes:
        name: Name of the ConfigMap.
        digest: SHA-256 of its data, in hexadecimal.
    """

    name: str
    digest: str


class LedgerReport(Status):
    """The exact Karma credits before and after the current quantum.

    This is the only place where credits are stored: every operator, also a new leader, continues
    from here. Balances that would make the status too large are in ConfigMaps, which count only
    because the status names them.

    Attributes:
        version: Version of this format (``walras.mechanisms.karma.ledger.Ledger.to_document``).
        quantum: Number of quanta that have been settled; the last of them is the current one.
        since: Time at which the current quantum began. The next one begins
            ``spec.memory.quantumSeconds`` later, or when an operator is available again.
        carry: Income that could not be divided evenly so far.
        carry_before: The same income before the current quantum.
        balances: Balances in the order in which the entitlements joined, also of those that take no
            part at the moment; empty if there are parts.
        parts: Parts of the balances, in the same order; absent if the balances are listed here.
    """

    version: int
    quantum: int
    since: Time | None = None
    carry: Decimals
    carry_before: Decimals | None = None
    balances: Annotated[list[CreditBalance], Field(max_length=MOST_BALANCES)]
    parts: Annotated[list[LedgerPart], Field(max_length=MOST_PARTS)] | None = None


class AccountBalance(Status):
    """What others owe one entitlement.

    Attributes:
        entitlement: Name of the entitlement.
        core_hours: Core-hours that others owe it at the time of the account; negative if it owes.
        cores: Cores by which that grows from then on, without what fades; absent if 0.
        parent: Name of the entitlement above it; absent at the top.
    """

    entitlement: str
    core_hours: Decimals
    cores: Decimals | None = None
    parent: str | None = None


class AccountReport(Status):
    """What entitlements owe each other: balances that add up to zero, as do their changes.

    This is the only place where they are stored. Balances that would make the status too large are
    in ConfigMaps, which count only because the status names them.

    Attributes:
        since: Time of the balances.
        balances: Balances of all entitlements, 0 of those with children; empty if there are parts.
        parts: Parts of the balances, in the same order; absent if the balances are listed here.
    """

    since: Time
    balances: list[AccountBalance] = at_most(MOST_BALANCES)
    parts: Annotated[list[LedgerPart], Field(max_length=MOST_PARTS)] | None = None


class MarketStatus(ConditionedStatus):
    """The last decision of the market.

    Attributes:
        leader: Name of the operator's pod that made the decision.
        operator_namespace: Namespace of that pod, of the Leases of the operator and of the agents,
            and of the history; absent before the first decision.
        epoch: Number and time of the decision.
        solver: How the division of cores was computed.
        scores: Measures of the decision's quality.
        size: Size of the market.
        waiting: Workloads that wait in Kueue, in all ClusterQueues that Entitlements follow; absent
            if none do.
        prices: Price of each node's cores.
        node_pools: Worth of more nodes of each pool, for the pools with the most cores.
        other_node_pools: Number of pools that are not listed.
        node_gains: What nodes brought that were added, the latest last.
        predictions: How good predictions were that came true; empty if none has.
        memory_mechanism: Mechanism that divided memory; absent if memory was not divided.
        ledger: Karma credits; absent if memory is not divided by Karma.
        account: What entitlements owe each other in core-hours; absent before the first decision.
        conditions: Condition ``Ready``: whether the market is cleared and its plan is published.
            Where Entitlements follow quotas, also ``QuotasFollowed``: whether all of them do.
            Unless ``spec.cores.isolated`` is set, also ``PodsShareDomains``: that pods share CPUs.
            Unless ``spec.cores.requests`` is set, also ``RequestsBounded``: that they are not.
    """

    leader: str | None = None
    operator_namespace: str | None = None
    epoch: EpochReport | None = None
    solver: SolverReport | None = None
    scores: ScoreReport | None = None
    size: MarketSize | None = None
    waiting: WaitingWorkloads | None = None
    prices: list[NodePrice] = at_most(MOST_NODES)
    node_pools: list[NodePoolReport] = at_most(MOST_POOLS)
    other_node_pools: int | None = None
    node_gains: Annotated[list[NodeGain], Field(max_length=MOST_NODE_GAINS)] = Field(
        default_factory=list
    )
    predictions: list[PredictionReport] = Field(default_factory=list)
    memory_mechanism: MemoryMechanism | None = None
    ledger: LedgerReport | None = None
    account: AccountReport | None = None
