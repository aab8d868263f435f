"""The JSON API as values: FastAPI derives ``openapi.json`` from these classes.

All numbers are null where they are not known or may not be seen. Cores are in the unit that the
Market sells, memory is in bytes, and prices are relative to the cluster's average.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Number = float | None


class ApiModel(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, populate_by_name=True
    )


class SourceInfo(ApiModel):
    """The source of the figures.

    Attributes:
        kind: A live cluster, a dump of a cluster in a file, or a local run.
        name: Address of the API server, or names of files.
        live: Whether the figures change by themselves.
        namespace: Namespace whose jobs are shown; empty for all that may be seen.
    """

    kind: Literal["cluster", "file", "local"]
    name: str
    live: bool
    namespace: str


class Totals(ApiModel):
    """Sums over the whole cluster.

    Attributes:
        nodes: Number of nodes.
        jobs: Number of MarketJobs.
        pods: Number of pods with a grant.
        cores: Cores for sale.
        sold: Cores that pods hold.
        free: Cores for sale that no pod holds.
        memory: Memory of all nodes.
        memory_granted: Memory granted to pods.
    """

    nodes: int
    jobs: int
    pods: int
    cores: Number
    sold: Number
    free: Number
    memory: Number
    memory_granted: Number


class UserFigures(ApiModel):
    """Figures of an Entitlement; the figures of a parent are sums of what is below it.

    Attributes:
        name: Name of the Entitlement.
        parent: Entitlement whose budget it divides; null for the whole cluster.
        depth: Number of Entitlements above it.
        shares: Shares relative to its siblings.
        budget_share: Part of the whole cluster, from 0 to 1.
        state: State in a word, such as Valid.
        message: State in a sentence.
        entitled: Cores that its share is worth.
        bought: Cores that its jobs bought.
        held: Cores that its jobs hold.
        used: Cores that its jobs use.
        lent: Cores of its share that others hold.
        borrowed: Cores that it holds of others' shares.
        memory_entitled: Memory that its share is worth.
        memory_granted: Memory granted to its jobs.
        memory_used: Memory that its jobs use.
        credits: Karma's credits above the mean of all Entitlements; null if some may not be seen.
        utility: Weighted mean of its jobs' speedups.
        entitlement_utility: Utility that its share would have without trade.
        gain: Utility over that at the bare entitlement, less 1.
        price: Mean price that it pays for a core.
        pods: Number of pods with a grant.
        below: Whether its jobs have less than the utility of its share.
    """

    name: str
    parent: str | None
    depth: int
    shares: int | None
    budget_share: Number
    state: str
    message: str
    entitled: Number
    bought: Number
    held: Number
    used: Number
    lent: Number
    borrowed: Number
    memory_entitled: Number
    memory_granted: Number
    memory_used: Number
    credits: Number
    utility: Number
    entitlement_utility: Number
    gain: Number
    price: Number
    pods: int
    below: bool


class User(UserFigures):
    """An Entitlement in a list.

    Attributes:
        jobs: Number of its jobs.
    """

    jobs: int


class NodeSummary(ApiModel):
    """A node of the cluster, with what it sells.

    Attributes:
        name: Name of the node.
        pool: Pool of nodes that it belongs to, by a label of its provider; null if it has none.
        state: State of its agent in a word, such as Enforced.
        message: State of its agent in a sentence, or why the node sells nothing.
        cores: Cores for sale.
        sold: Cores that pods hold.
        free: Cores for sale that no pod holds.
        used: Cores that everything on the node uses.
        price: Price of a core.
        memory: Memory that pods may use.
        memory_granted: Memory granted to pods.
        agent_alive: Whether its agent renews its Lease; null if that may not be seen.
        pods: Number of pods with a grant.
    """

    name: str
    pool: str | None
    state: str
    message: str
    cores: Number
    sold: Number
    free: Number
    used: Number
    price: Number
    memory: Number
    memory_granted: Number
    agent_alive: bool | None
    pods: int


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


class Overview(ApiModel):
    """The whole cluster except its jobs, which ``/jobs`` lists.

    Attributes:
        time: Time of the figures (RFC 3339).
        revision: Number that grows with each change.
        source: Source of the figures.
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
    """

    time: str
    revision: int
    source: SourceInfo
    notes: list[str]
    warnings: list[str]
    headline: str
    mechanism: str
    memory_mechanism: str
    mechanisms: list[str]
    core_unit: Literal["core", "thread"]
    epoch: int | None
    totals: Totals
    users: list[User]
    nodes: list[NodeSummary]
    lending: list[Lending]


class JobFigures(ApiModel):
    """Figures of a MarketJob.

    Attributes:
        namespace: Namespace of the job.
        name: Name of the job.
        user: Entitlement that pays for it.
        state: State in a word, such as Enforced.
        reason: State in a sentence.
        node: Node of its pods, or their number of nodes; empty without pods.
        bought: Cores that its pods bought.
        held: Cores that its pods hold.
        used: Cores that its pods use.
        speedup: Mean predicted speedup of its pods.
        price: Mean price that it pays for a core.
        spend: Part of its Entitlement's budget that it spends.
        memory: Memory granted to its pods.
        memory_used: Memory that its pods use.
        parallel_fraction: Parallel fraction F that it bids with.
        source: Source of F: Given, Written, Measured, Online or Assumed.
    """

    namespace: str
    name: str
    user: str
    state: str
    reason: str
    node: str
    bought: Number
    held: Number
    used: Number
    speedup: Number
    price: Number
    spend: Number
    memory: Number
    memory_used: Number
    parallel_fraction: Number
    source: str | None


class JobSummary(JobFigures):
    """A MarketJob in a list.

    Attributes:
        pods: Number of its pods that are alive.
    """

    pods: int


class JobPage(ApiModel):
    """A part of the jobs.

    Attributes:
        revision: Revision of the figures.
        total: Number of jobs that match.
        jobs: Jobs from ``offset`` on.
    """

    revision: int
    total: int
    jobs: list[JobSummary]


class FailedCondition(ApiModel):
    """A condition that does not hold.

    Attributes:
        object: Object that has the problem.
        condition: Type of the condition.
        reason: Reason in a word.
        message: The field or object to change, and how.
    """

    object: str
    condition: str
    reason: str
    message: str


class Owner(ApiModel):
    """A pod that has CPUs.

    Attributes:
        namespace: Namespace of the pod.
        pod: Name of the pod.
        job: Its MarketJob; null if that may not be seen.
        user: Its Entitlement; null if that may not be seen.
    """

    namespace: str
    pod: str
    job: str | None
    user: str | None


class Thread(ApiModel):
    """A hardware thread.

    Attributes:
        cpu: Number of the CPU.
        owner: Pod that has it to itself; null if none has.
        state: Whether it is owned by one pod, shared by several, never given to one pod (reserved),
            free, not managed by the agent (outside), or unknown.
    """

    cpu: int
    owner: Owner | None
    state: Literal["owned", "shared", "reserved", "free", "outside", "unknown"]


class Core(ApiModel):
    """A physical core, named after its lowest thread."""

    id: int
    threads: list[Thread]


class NumaNode(ApiModel):
    """A NUMA node; its memory is null where the agent does not report it."""

    id: int
    memory: Number
    cores: list[Core]


class Socket(ApiModel):
    """A processor package."""

    id: int
    numa_nodes: list[NumaNode]


class CpuLayout(ApiModel):
    """The processors of a node."""

    sockets: list[Socket]


class Pool(ApiModel):
    """CPUs that several pods share.

    Attributes:
        cpus: Numbers of the CPUs, as ``0-3,8``.
        owners: Pods with a grant that share them.
    """

    cpus: str
    owners: list[Owner]


class NodeGrant(ApiModel):
    """Cores and memory that a pod has of a node.

    Attributes:
        namespace: Namespace of the pod.
        pod: Name of the pod.
        job: Its MarketJob; null if that may not be seen.
        user: Its Entitlement; null if that may not be seen.
        cores: Cores granted; a part of one in thousandths.
        cpus: Numbers of the CPUs that the agent assigned.
        memory: Memory granted.
        memory_limit: Limit that the agent enforces.
        memory_used: Memory that the pod uses.
        spend: Part of its Entitlement's budget that it spends.
        state: State of the grant, as the agent reports it.
        reason: Why it is not enforced.
    """

    namespace: str
    pod: str
    job: str | None
    user: str | None
    cores: float
    cpus: str | None
    memory: Number
    memory_limit: Number
    memory_used: Number
    spend: Number
    state: str
    reason: str


class CpuMove(ApiModel):
    """A change of who has which CPUs.

    Attributes:
        time: When this server saw it (RFC 3339).
        what: The change in a sentence.
    """

    time: str
    what: str


class OtherPod(ApiModel):
    """A pod outside the market.

    Attributes:
        namespace: Namespace of the pod.
        name: Name of the pod.
        cpus: CPUs that it requested.
        memory: Memory that it requested.
    """

    namespace: str
    name: str
    cpus: float
    memory: float


class NodeSupply(ApiModel):
    """How it comes to what a node sells.

    Attributes:
        cpus: CPUs that the kubelet lets pods use.
        cores: These in the unit that is sold.
        reserved: Cores that the Market keeps back.
        unmanaged: Cores that pods outside the market requested.
        others: These pods, the largest request first.
    """

    cpus: Number
    cores: Number
    reserved: int
    unmanaged: Number
    others: list[OtherPod]


class NodeDetail(NodeSummary):
    """Everything about a node.

    Attributes:
        topology: Its processors; null where its agent has not reported them.
        pools: CPUs that several pods share.
        grants: Pods with a grant, the most cores first.
        moved: Last changes of who has which CPUs, newest first, since this server began.
        supply: How it comes to what it sells.
        faults: Its conditions that do not hold.
        notes: Figures that are left out, and the way out.
    """

    topology: CpuLayout | None
    pools: list[Pool]
    grants: list[NodeGrant]
    moved: list[CpuMove]
    supply: NodeSupply
    faults: list[FailedCondition]
    notes: list[str]


class JobBudget(ApiModel):
    """The budget that pays for a job.

    Attributes:
        entitlement: Entitlement that has the budget.
        cores: Cores that it is entitled to, which is its budget.
        spend: Amount that all pods of the job spend.
        part: Part of the budget that this is, from 0 to 1.
    """

    entitlement: str
    cores: Number
    spend: Number
    part: Number


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
        work: Weight of its speedup in its Entitlement's utility.
        predicted: Speedup by Amdahl's law.
        measured: Measured speedups; empty if there are none or they may not be seen.
    """

    fraction: Number
    work: float
    predicted: list[CurvePoint]
    measured: list[MeasuredPoint]


class PodPartner(ApiModel):
    """The pod that a pod was placed beside, and the advice to its user.

    Attributes:
        partner: Pod beside it; null if it has a socket to itself.
        predicted: Part of its throughput that it was predicted to lose.
        measured: Part that it was measured to lose.
        companion: Pod with which both would gain; null if the advice is to stay.
        gain: Part of its throughput that it would gain beside the companion.
        exploration: Part of its throughput that it was expected to lose so that penalties are
            measured; null if the policy chose the partner.
    """

    partner: str | None
    predicted: Number
    measured: Number
    companion: str | None
    gain: Number
    exploration: Number


class JobPod(ApiModel):
    """A pod of a job.

    Attributes:
        name: Name of the pod.
        node: Its node; null while it has none.
        state: State of its grant.
        held_cores: Cores that it holds; whole cores are its own, the rest is a part of shared ones.
        bought: Cores that it bought.
        price: Price of a core on its node.
        spend: Part of its Entitlement's budget that it spends.
        speedup: Predicted speedup.
        memory: Memory granted.
        reason: Sentence of the operator about its cores.
        memory_reason: Sentence about its memory.
        cpus: Numbers of the CPUs that its agent assigned.
        co_runner: Its co-runner; null if Walras did not place it.
    """

    name: str
    node: str | None
    state: str
    held_cores: Number
    bought: Number
    price: Number
    spend: Number
    speedup: Number
    memory: Number
    reason: str
    memory_reason: str | None
    cpus: str | None
    co_runner: PodPartner | None


class OneMoreCore(ApiModel):
    """One more core for a pod.

    Attributes:
        pod: Name of the pod.
        node: Node of the pod.
        text: Its cost, its gain, and who could pay, as ``walras explain`` says it.
        gain: Speedup that it brings.
        cost: Price of the core, in the unit of the budget.
    """

    pod: str
    node: str
    text: str
    gain: float
    cost: float


class JobDetail(JobFigures):
    """Everything about a MarketJob.

    Attributes:
        message: State in a sentence, with the way out.
        budget: Budget that pays for it.
        source_text: Source of F in words.
        weights_text: Weights with which it bids in auctions, and their source, as ``walras
            explain`` says it; null without an auction.
        curve: How it speeds up with cores.
        pods: Its pods by name.
        unlisted: Number of pods for which its status has no room.
        one_more: One more core for each pod that bought cores.
        faults: Conditions of it or its Entitlement that do not hold.
        notes: Figures that are left out, and the way out.
    """

    message: str
    budget: JobBudget
    source_text: str
    weights_text: str | None
    curve: Curve
    pods: list[JobPod]
    unlisted: int
    one_more: list[OneMoreCore]
    faults: list[FailedCondition]
    notes: list[str]


class LedgerLoan(ApiModel):
    """Memory lent or borrowed in a quantum; the name is empty for memory that nobody owns."""

    name: str
    memory: float


class QuantumLedger(ApiModel):
    """The last quantum of Karma as an Entitlement saw it.

    Attributes:
        number: Number of the quantum.
        earned: Credits earned.
        spent: Credits spent.
        lent: Memory lent, by borrower.
        borrowed: Memory borrowed, by lender.
    """

    number: int
    earned: float
    spent: float
    lent: list[LedgerLoan]
    borrowed: list[LedgerLoan]


class UserDetail(UserFigures):
    """Everything about an Entitlement.

    Attributes:
        children: Entitlements that divide its budget directly.
        jobs: Jobs that draw on it or on what is below it, if they may be seen.
        ledger: Last quantum of its credits; null if no credits are kept.
        lending: Its loans to and from others.
        text: The sentences of ``walras explain``.
        faults: Its conditions that do not hold.
        notes: Figures that are left out, and the way out.
    """

    children: list[str]
    jobs: list[JobSummary]
    ledger: QuantumLedger | None
    lending: list[Lending]
    text: list[str]
    faults: list[FailedCondition]
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
        source: Source of the figures: Prometheus, the operator's last day, or what this
            server has seen since it began.
        step: Seconds between times.
        times: Seconds since 1970.
        series: Figures.
        notes: Figures that are missing, and the way out.
    """

    source: Literal["prometheus", "operator", "session", "none"]
    step: int
    times: list[float]
    series: list[FigureSeries]
    notes: list[str]


Text = Annotated[str, Field(min_length=1, max_length=600)]


class NewNodes(ApiModel):
    """Nodes to add.

    Attributes:
        like: Name of the node that they are like.
        count: Number of nodes.
    """

    like: Text
    count: Annotated[int, Field(ge=1, le=1000)]


class WhatIf(ApiModel):
    """Changes to try.

    Attributes:
        shares: New shares by Entitlement.
        fractions: New parallel fractions by job, as ``namespace/name``.
        add_nodes: Nodes to add.
        remove_nodes: Names of nodes to remove.
        mechanism: Mechanism that divides cores; null for the Market's.
    """

    shares: Annotated[
        dict[Text, Annotated[int, Field(ge=1, le=2**31 - 1)]], Field(max_length=10_000)
    ] = Field(default_factory=dict)
    fractions: Annotated[
        dict[Text, Annotated[float, Field(gt=0, le=1)]], Field(max_length=10_000)
    ] = Field(default_factory=dict)
    add_nodes: Annotated[list[NewNodes], Field(max_length=100)] = Field(default_factory=list)
    remove_nodes: Annotated[list[Text], Field(max_length=10_000)] = Field(default_factory=list)
    mechanism: Annotated[str, Field(max_length=100)] | None = None


class DividedUser(ApiModel):
    """The part of an Entitlement in a division of cores."""

    name: str
    entitled: float
    bought: float
    held: float
    utility: float
    gain: Number


class DividedNode(ApiModel):
    """Cores and price of a node in a division of cores."""

    name: str
    cores: float
    price: float


class DividedJob(ApiModel):
    """The part of a pod in a division of cores."""

    namespace: str
    name: str
    pod: str
    node: str
    bought: float
    held: float
    speedup: float


class Figure(ApiModel):
    """A figure of a whole division, as ``walras what-if`` prints it."""

    name: str
    value: str


class DividedCores(ApiModel):
    """A division of the cluster's cores.

    Attributes:
        mechanism: Mechanism that divides cores.
        users: Entitlements with jobs.
        nodes: Nodes that sell cores.
        jobs: Pods whose cores differ between the two divisions.
        figures: Progress and fairness of the whole.
    """

    mechanism: str
    users: list[DividedUser]
    nodes: list[DividedNode]
    jobs: list[DividedJob]
    figures: list[Figure]


class RefusedJob(ApiModel):
    """A job that would get nothing, and why."""

    job: str
    reason: str


class WhatIfAnswer(ApiModel):
    """Today's division, and the one with the changes.

    Attributes:
        seconds: Time that it took.
        now: Division without the changes.
        then: Division with the changes.
        unchanged_jobs: Number of pods whose cores are the same in both.
        yaml: The changes as documents for ``kubectl apply``; empty if there are none to apply.
        notes: Objects that take no part, and figures that are unknown.
        refused: Jobs that would get nothing.
    """

    seconds: float
    now: DividedCores
    then: DividedCores
    unchanged_jobs: int
    yaml: str
    notes: list[str]
    refused: list[RefusedJob]


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
