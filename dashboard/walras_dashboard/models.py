"""The JSON API as values: FastAPI derives ``openapi.json`` from these classes.

What ``walras top`` and ``walras explain`` print is part of the answers as it is (`walras_view`);
here is what the page has beside that.

All numbers are null where they are not known or may not be seen. Cores are in the unit that the
Market sells, memory is in bytes, and prices are relative to the cluster's average.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from walras_dashboard.state import Moved, Origin
from walras_view.explain.faults import Fault
from walras_view.explain.job import JobExplanation
from walras_view.explain.short_pods import ShortPod
from walras_view.explain.user import Quantum
from walras_view.first_look import Unit, UserOutlook
from walras_view.rows.jobs import JobRow
from walras_view.rows.nodes import NodeRow
from walras_view.rows.users import UserRow

Number = float | None


class ApiModel(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, populate_by_name=True
    )


class Totals(ApiModel):
    """Sums over the whole cluster.

    Attributes:
        nodes: Number of nodes.
        users: Number of Entitlements that jobs draw on, which are entitled to cores.
        jobs: Number of MarketJobs.
        pods: Number of pods with a grant.
        cores: Cores for sale.
        sold: Cores that pods hold.
        free: Cores for sale that no pod holds.
        memory: Memory of all nodes.
        memory_granted: Memory granted to pods.
    """

    nodes: int
    users: int
    jobs: int
    pods: int
    cores: Number
    sold: Number
    free: Number
    memory: Number
    memory_granted: Number


@dataclass(frozen=True, slots=True)
class UserSummary(UserRow):
    """An Entitlement, with what it trades.

    Attributes:
        lent: Cores of its share that others bought, on all nodes together.
        borrowed: Cores that it bought of others' shares likewise.
        price: Mean price that it pays for a core.
        below: Whether its jobs have less than the utility of its share.
    """

    lent: float | None
    borrowed: float | None
    price: float | None
    below: bool


@dataclass(frozen=True, slots=True)
class NodeSummary(NodeRow):
    """A node of the cluster, with what it has.

    Attributes:
        pool: Pool of nodes that it belongs to, by a label of its provider; null if it has none.
        memory_for_pods: Memory that pods may use.
        agent_alive: Whether its agent renews its Lease; null if that may not be seen.
        starving: Number of its pods that hold less than a tenth of a core.
    """

    pool: str | None
    memory_for_pods: float | None
    agent_alive: bool | None
    starving: int


class Lending(ApiModel):
    """Cores and memory that one Entitlement lends to another.

    Attributes:
        lender: Entitlement that lends.
        borrower: Entitlement that borrows; empty for memory that belongs to nobody.
        cores: Cores lent; null if it lends none.
        memory: Memory lent in the last quantum; null if it lends none.
    """

    lender: Annotated[str, Field(alias="from")]
    borrower: Annotated[str, Field(alias="to")]
    cores: Number
    memory: Number


class ShortPods(ApiModel):
    """Pods that hold too little, of the jobs that may be seen.

    Attributes:
        starving: Number of pods that hold less than a tenth of a core.
        below_request: Number of pods that hold less than they requested.
        unlisted: Number of pods for which a job's status has no room, so that it is not known.
        first: The first of these pods, those that starve before the others.
    """

    starving: int
    below_request: int
    unlisted: int
    first: list[ShortPod]


class WithoutWalras(ApiModel):
    """What a cluster without Walras has, and would have with it.

    Attributes:
        unit: What its figures count.
        result: What there is to divide, and what Walras would change, in sentences.
        users: Namespaces as users, the largest change of cores first.
        columns: What the figures of users mean, in sentences.
        loans: Largest loans, in sentences.
        changes: Jobs that change most, in sentences.
        next: Commands that come next.
    """

    unit: Unit
    result: list[str]
    users: tuple[UserOutlook, ...]
    columns: list[str]
    loans: list[str]
    changes: list[str]
    next: tuple[str, ...]


class Overview(ApiModel):
    """The whole cluster except its jobs, which ``/jobs`` lists.

    Attributes:
        time: Time of the figures (RFC 3339).
        revision: Number that grows with each change.
        source: Source of the figures.
        namespace: Namespace whose jobs are shown; empty for all that may be seen.
        notes: Figures that are left out, and the way out.
        warnings: Reasons to doubt the figures, and the way out.
        headline: The market in a line; empty if it is not known.
        mechanism: Mechanism that divides cores.
        memory_mechanism: Mechanism that divided memory; empty if memory was not divided.
        mechanisms: Mechanisms for cores that a what-if may try.
        core_unit: Unit in which cores are sold.
        epoch: Number of the last decision.
        totals: Sums over the whole cluster.
        users: Entitlements, children after their parents.
        nodes: Nodes by name.
        lending: Loans, largest first.
        lending_unknown: Number of nodes for which it is not known who lends; null if for all.
        short: Pods that starve or hold less than they requested.
        changes: Last changes, newest first.
        predictions: How good predictions of each kind were that came true, a sentence each.
        without_walras: What the cluster would have; null of one with Walras.
    """

    time: str
    revision: int
    source: Origin
    namespace: str
    notes: list[str]
    warnings: list[str]
    headline: str
    mechanism: str
    memory_mechanism: str
    mechanisms: list[str]
    core_unit: Literal["core", "thread"]
    epoch: int | None
    totals: Totals
    users: list[UserSummary]
    nodes: list[NodeSummary]
    lending: list[Lending]
    lending_unknown: int | None
    short: ShortPods
    changes: list[Moved]
    predictions: list[str]
    without_walras: WithoutWalras | None


class JobPage(ApiModel):
    """A part of the jobs.

    Attributes:
        revision: Revision of the figures.
        total: Number of jobs that match.
        jobs: Jobs from ``offset`` on.
    """

    revision: int
    total: int
    jobs: list[JobRow]


class CurvePoint(ApiModel):
    """A predicted speedup."""

    cores: float
    speedup: float


class MeasuredPoint(ApiModel):
    """A measured speedup, with the least and the largest of the repeated measurements."""

    cores: float
    speedup: float
    low: float
    high: float


class Curve(ApiModel):
    """How a job speeds up with cores.

    Attributes:
        fraction: Parallel fraction F that it bids with.
        predicted: Speedup by Amdahl's law.
        measured: Measured speedups; empty if there are none or they may not be seen.
    """

    fraction: Number
    predicted: list[CurvePoint]
    measured: list[MeasuredPoint]


class JobDetail(ApiModel):
    """Everything about a MarketJob.

    Attributes:
        row: The job in a list.
        explanation: What ``walras explain`` says of it.
        weights_text: Weights with which it bids in auctions, and their source, in words; null
            without an auction.
        one_more_texts: One more core for each pod in words, as ``explanation`` orders them.
        curve: How it speeds up with cores.
        logs: Addresses of its pods' logs, as ``explanation`` orders them; empty if the server knows
            none.
        notes: Figures that are left out, and the way out.
    """

    row: JobRow
    explanation: JobExplanation
    weights_text: str | None
    one_more_texts: list[str]
    curve: Curve
    logs: list[str]
    notes: list[str]


class Obligation(ApiModel):
    """What others owe an Entitlement, or it owes them.

    Attributes:
        of: What is owed: cores or memory.
        owed: How much, in words.
        effect: What follows from it.
    """

    of: str
    owed: str
    effect: str


class UserDetail(ApiModel):
    """Everything about an Entitlement.

    Attributes:
        row: The Entitlement in a list.
        children: Entitlements that divide its budget directly.
        jobs: Jobs that draw on it or on what is below it, if they may be seen.
        account: What others owe it, of cores and of memory; empty if no account is kept.
        quantum: Last quantum of its credits; null if no credits are kept.
        lending: Its loans to and from others.
        text: The sentences of ``walras explain``.
        faults: Its conditions that do not hold.
        notes: Figures that are left out, and the way out.
    """

    row: UserSummary
    children: list[str]
    jobs: tuple[JobRow, ...]
    account: list[Obligation]
    quantum: Quantum | None
    lending: list[Lending]
    text: list[str]
    faults: tuple[Fault, ...]
    notes: list[str]


class FigureSeries(ApiModel):
    """Figures over time, one for each time; null where none is known.

    Attributes:
        name: Name of the figure.
        unit: Unit of the figure.
        values: Figures.
    """

    name: str
    unit: str
    values: list[Number]


class RecordedFigures(ApiModel):
    """How something changed.

    Attributes:
        source: Source of the figures: Prometheus, the operator's last day, the record of a run, or
            what this server has seen since it began.
        step: Seconds between times.
        times: Seconds since 1970.
        series: Figures.
        notes: Figures that are missing, and the way out.
    """

    source: Literal["prometheus", "operator", "record", "session", "none"]
    step: int
    times: list[float]
    series: list[FigureSeries]
    notes: list[str]


class ErrorBody(ApiModel):
    """Why a request failed: the object and the way out, in one sentence."""

    error: str


class InvalidField(ApiModel):
    """A field of a request that is invalid."""

    loc: list[str | int]
    msg: str


class Invalid(ApiModel):
    """A request that is invalid."""

    detail: list[InvalidField]
