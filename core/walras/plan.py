"""What was decided: who gets which part of what, at which price, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grant:
    """What one job gets.

    Attributes:
        namespace: of the job.
        name: of the job.
        entitlement: that pays.
        node: on which.
        cores: the market's real number.
        granted_cores: whole cores for this job alone; 0 if it shares.
        shared_cores: whole cores that it shares with the other small jobs of its node; 0 if its
            cores are its own.
        weight: its part of the shared cores, on the scale of cgroup v2's cpu.weight with 100 for
            the largest part.
        price: of a core of this node, in cores: 1 is the average of the cluster.
        spend: of its entitlement's budget, in the same unit.
        speedup: predicted at ``cores``.
        reason: one sentence for its user.
    """

    namespace: str
    name: str
    entitlement: str
    node: str
    cores: float
    granted_cores: int
    shared_cores: int
    weight: int
    price: float
    spend: float
    speedup: float
    reason: str


@dataclass(frozen=True, slots=True)
class UserOutcome:
    """What one entitlement with jobs gets across the cluster.

    Attributes:
        name: of the entitlement.
        entitled_cores: its share of all cores, which is also its budget.
        cores: the market's real number.
        utility: weighted speedup of its jobs (eq. 4).
        entitlement_utility: what it would be with its share of every node and no trade (V-C).
    """

    name: str
    entitled_cores: float
    cores: float
    utility: float
    entitlement_utility: float


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """A node's cores, their price (1 is the cluster's average), and the cores small jobs share."""

    name: str
    cores: int
    price: float
    shared_cores: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A job that takes no part, and why."""

    namespace: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A cleared market.

    Attributes:
        grants: one a job that was admitted, in the order of the snapshot.
        users: in the order of the snapshot's entitlements, those with jobs.
        nodes: in the order of the snapshot.
        refused: jobs that were not admitted.
        mechanism: that divided the cores.
        solver: that found the prices.
        iterations: that it took.
        price_error: proven bound on the relative error of prices; infinity if there is none.
        residual: largest relative violation of an equilibrium condition.
        converged: whether the solver reached what was asked.
        system_progress: budget-weighted mean of utilities (eq. 10).
    """

    grants: tuple[Grant, ...]
    users: tuple[UserOutcome, ...]
    nodes: tuple[NodeOutcome, ...]
    refused: tuple[Refusal, ...]
    mechanism: str
    solver: str
    iterations: int
    price_error: float
    residual: float
    converged: bool
    system_progress: float
