"""MarketJob: the spec of a job that takes part in the market."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from walras_api.fields import (
    BYTES_OF_UNIT,
    LONGEST_QUANTITY,
    QUANTITY,
    Bytes,
    DeadlineTime,
    Fraction,
    Name,
    Portion,
    PositiveDecimal,
    PositiveInt,
    Text,
    Unique,
    as_quantity,
    read_quantity,
)
from walras_api.model import DEFAULT_NOT_STORED, LabelSelector, Model, Resource, Rule

LAST_PORT = 65535

LONGEST_PATH = 1024
"""Characters of the path of a progress counter: a NodeAllocation has those of all its pods."""

LONGEST_METRIC = 253
"""Characters of the name of a metric that counts progress."""


class TargetRef(Model):
    """A reference to the workload whose pods belong to the job.

    Attributes:
        api_version: API version of the workload, such as ``batch/v1``.
        kind: Kind of the workload: any kind that owns pods, or that owns what owns them, such as a
            Job, a Deployment or a RayJob.
        name: Name of the workload, in the job's namespace.
    """

    api_version: Text
    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]{0,62}$")]
    name: Name


def _demand(value: object) -> object:
    return value if value == "measured" else read_quantity(value)


Demand = Annotated[
    Literal["measured"] | int,
    BeforeValidator(_demand),
    PlainSerializer(
        lambda value: value if isinstance(value, str) else as_quantity(value), when_used="json"
    ),
    WithJsonSchema(
        {"type": "string", "maxLength": LONGEST_QUANTITY, "pattern": f"^(measured|{QUANTITY})$"}
    ),
]
"""A quantity of memory in bytes, or ``measured``."""


def _in_bytes(quantity: str) -> str:
    """Return a CEL expression for the bytes of a quantity.

    The API server's own ``quantity()`` is too recent (1.29). Doubles are off by a few parts in
    10**16, which the rule below allows for.
    """
    units = ", ".join(f"'{unit}': {float(scale)!r}" for unit, scale in BYTES_OF_UNIT.items())
    number, unit = f"{quantity}.find('^[0-9.]+')", f"{quantity}.find('[EPTGMKki]*$')"
    return f"double({number}) * {{{units}}}[{unit}]"


class JobMemory(Model):
    """A job's demand for memory.

    Attributes:
        min: Minimum memory for each pod, below which it cannot run.
        max: Maximum memory for each pod.
        demand: Memory that each pod could use: an amount, or ``measured`` to have the node's agent
            estimate it.
    """

    RULES = (
        Rule(
            "has min above max; swap them",
            f"!has(self.min) || !has(self.max) || "
            f"{_in_bytes('self.min')} <= {_in_bytes('self.max')} * 1.000000000001",
            lambda memory: memory.min is None or memory.max is None or memory.min <= memory.max,
        ),
    )

    min: Bytes | None = None
    max: Bytes | None = None
    demand: Demand = "measured"


class AuctionWeights(Model):
    """Weights of the resources in a job's utility, in shares of its nodes' resources.

    Attributes:
        cores: Weight of cores: the gain from all cores of its pods' nodes, relative to the other
            weight.
        memory: Weight of memory: the gain from all memory of its pods' nodes, relative to the other
            weight.
    """

    cores: PositiveDecimal = Decimal(1)
    memory: PositiveDecimal = Decimal(1)


class AuctionRun(Model):
    """A finished run of a job: its mean shares while it ran, and the utility it reached.

    Attributes:
        cores: Share of all cores of its nodes, from 0 to 1.
        memory: Share of all memory of its nodes, from 0 to 1.
        utility: Utility of the run, such as the inverse of its duration or a throughput, in one
            unit for all runs.
    """

    cores: Portion
    memory: Portion
    utility: PositiveDecimal


class JobAuction(Model):
    """How a job bids in auctions.

    Attributes:
        budget: Budget of all pods of the job together, relative to the other jobs of its
            entitlement.
        utility: Form of the utility of the shares that its pods hold of their nodes. Linear is the
            sum of weights times shares; Log is the product of shares raised to the power of their
            weights, for jobs that need some of every resource.
        weights: Weights of the resources in the utility. If unset, they are estimated from runs, or
            equal.
        runs: Finished runs from which the weights are estimated. An estimate takes three runs or
            more; for a Log utility, four or more that had a share of both resources.
        record_runs: Whether pods that succeed are recorded as further runs with utility 1/seconds.
            Runs are recorded only if both cores and memory are auctioned and no weights are given.
        minimum_utility: Smallest utility that is useful to the job (its service-level objective).
            Money of the entitlement's other jobs goes to the job as far as it takes to reach it.
    """

    budget: PositiveDecimal = Decimal(1)
    utility: Literal["Linear", "Log"] = "Linear"
    weights: AuctionWeights | None = None
    runs: Annotated[list[AuctionRun], Field(max_length=100)] = Field(default_factory=list)
    record_runs: bool = True
    minimum_utility: PositiveDecimal | None = None


class EnvironmentVariable(Model):
    """An environment variable of a command.

    Attributes:
        name: Name of the variable.
        value: Value of the variable.
    """

    name: Text
    value: str = ""


class JobData(Model):
    """Data of a command that runs on one machine, and the samples to profile it on.

    Attributes:
        path: Path of a folder or a text file. ``{data}`` in the command is replaced by this path,
            or by the path of a sample.
        size: Size of the data, in any unit that the command understands. ``{size}`` in the command
            is replaced by this size, or by the size of a sample.
        samples: Fractions of the data to profile on.
    """

    RULES = (
        Rule(
            "has both path and size; keep one of them",
            "!(has(self.path) && has(self.size))",
            lambda data: data.path is None or data.size is None,
        ),
    )

    path: Text | None = None
    size: PositiveDecimal | None = None
    samples: Annotated[list[Text], Field(min_length=1, max_length=100)] = Field(
        default=["2%", "4%", "7%", "10%"]
    )


Port = Annotated[
    PositiveInt,
    Field(le=LAST_PORT),
    WithJsonSchema({"type": "integer", "format": "int32", "minimum": 1, "maximum": LAST_PORT}),
]


class HttpCounter(Model):
    """A progress counter that a job serves by HTTP at its pod's IP address.

    Attributes:
        port: Port that the job listens on.
        path: Path of the page.
        metric: Name of the metric in a page in the Prometheus text format. If unset, the page must
            be a single number.
    """

    port: Port
    path: Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=LONGEST_PATH)] = "/"
    metric: (
        Annotated[str, Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*$", max_length=LONGEST_METRIC)]
        | None
    ) = None


CounterFile = Annotated[str, Field(pattern=r"^/[^\x00-\x1f]+$", max_length=LONGEST_PATH)]
"""Absolute path of a file in a container."""


class ProgressSource(Model):
    """A counter that grows as the job gets work done, in any unit.

    Attributes:
        file: Path, inside the job's container, of a file whose first word is the counter.
        http: HTTP endpoint that serves the counter.
    """

    RULES = (
        Rule(
            "names not one source of progress; give either file or http",
            "has(self.file) != has(self.http)",
            lambda progress: (progress.file is None) != (progress.http is None),
        ),
    )

    file: CounterFile | None = None
    http: HttpCounter | None = None


class JobProgress(ProgressSource):
    """A counter that grows as the job gets work done, and its value when all work is done.

    Attributes:
        file: Path, inside the job's container, of a file whose first word is the counter.
        http: HTTP endpoint that serves the counter.
        total: Value of the counter when a pod of the job has done all its work. With a deadline,
            the work that is left follows from it.
    """

    total: PositiveDecimal | None = None


class AvoidedJob(Model):
    """Jobs that must not share a node with this job.

    Attributes:
        namespace: Namespace of the jobs; by default, the namespace of this job.
        name: Name of the MarketJob. If unset, all MarketJobs of the namespace are avoided.
    """

    namespace: Name | None = None
    name: Name | None = None


class JobColocation(Model):
    """Requirements of a job on the jobs beside it, where pending pods are placed in pairs.

    Attributes:
        participate: Whether the job's pods may share a processor. If false, each pod is placed on a
            processor of its own; pods that Walras does not place can still arrive there.
        avoid: Jobs whose pods are never placed on the same node as pods of this job.
    """

    participate: bool = True
    avoid: Annotated[list[AvoidedJob], Field(max_length=100)] = Field(default_factory=list)


class MarketJobSpec(Model):
    """The desired participation of a job in the market.

    Attributes:
        entitlement: Name of the entitlement that pays for the job.
        selector: Label selector of the job's pods, on a cluster.
        target_ref: Workload that owns the job's pods, on a cluster.
        command: Program and arguments to run on one machine (``walras local run``).
        working_dir: Working directory of the command, relative to the folder of the document.
        env: Environment variables of the command.
        data: Data that the command processes.
        work: Weight of the job's speedup among the jobs of its entitlement.
        parallel_fraction: Parallel fraction F of the job, if it is known.
        profile: Name of a SpeedupProfile in the job's namespace. If neither this nor
            ``parallelFraction`` is set, F is measured.
        program: Name of the program that the job runs. Jobs of a namespace with the same program
            share the SpeedupProfile of that name, which is made when the first of them is measured,
            and outlives them. By default, each job is measured by itself.
        min_cores: Minimum number of cores that are useful to the job.
        max_cores: Maximum number of cores that the job can use.
        whole_cores: Whether each pod holds a whole number of cores, which are its own as if it were
            isolated; a pod that buys less than one core shares nevertheless. If unset, as the
            Market says.
        isolated: Whether the whole cores of each pod are CPUs of its own, which no other pod uses
            even while they are idle. If unset, as the Market says.
        memory: Demand for memory. If unset, the job does not take part in the division of memory.
        progress: Progress counter of the job, for measurements while it runs on a cluster, and for
            its deadline.
        deadline: Time at which each pod of the job is to be done: a time such as
            ``2026-12-01T18:00Z``, or the minutes, hours or days from the creation of the MarketJob
            (on one machine, from the start of the run), such as ``90m``, ``36h`` or ``2d``.
        auction: How the job bids in auctions.
        colocation: Requirements on the jobs beside it, where pods are placed in pairs.
    """

    RULES = (
        Rule(
            "has minCores above maxCores; correct one of them",
            "!has(self.maxCores) || self.minCores <= self.maxCores",
            lambda spec: spec.max_cores is None or spec.min_cores <= spec.max_cores,
        ),
        Rule(
            "has both parallelFraction and profile; keep one of them",
            "!(has(self.parallelFraction) && has(self.profile))",
            lambda spec: spec.parallel_fraction is None or spec.profile is None,
        ),
        Rule(
            "has both program and profile; keep one of them",
            "!(has(self.program) && has(self.profile))",
            lambda spec: spec.program is None or spec.profile is None,
        ),
        Rule(
            "has both selector and targetRef; keep one of them",
            "!(has(self.selector) && has(self.targetRef))",
            lambda spec: spec.selector is None or spec.target_ref is None,
        ),
        Rule(
            "names neither pods nor a program; give selector or targetRef for a cluster, "
            "or command for one machine",
            "has(self.selector) || has(self.targetRef) || has(self.command)",
            lambda spec: bool(spec.selector or spec.target_ref or spec.command),
        ),
    )

    entitlement: Name
    selector: LabelSelector | None = None
    target_ref: TargetRef | None = None
    command: Annotated[list[str], Field(min_length=1, max_length=1000)] | None = None
    working_dir: Annotated[Text, DEFAULT_NOT_STORED] = "."
    env: Annotated[
        list[EnvironmentVariable], Field(max_length=256), Unique("values for", key="name")
    ] = Field(default_factory=list)
    data: Annotated[JobData, DEFAULT_NOT_STORED] = JobData()
    work: PositiveDecimal = Decimal(1)
    parallel_fraction: Fraction | None = None
    profile: Name | None = None
    program: Name | None = None
    min_cores: PositiveInt = 1
    max_cores: PositiveInt | None = None
    whole_cores: bool | None = None
    isolated: bool | None = None
    memory: JobMemory | None = None
    progress: JobProgress | None = None
    deadline: DeadlineTime | None = None
    auction: Annotated[JobAuction, DEFAULT_NOT_STORED] = JobAuction()
    colocation: Annotated[JobColocation, DEFAULT_NOT_STORED] = JobColocation()


class MarketJob(Resource):
    """A job in the market: its pods, who pays for them, and what they can use."""

    kind: Literal["MarketJob"]
    spec: MarketJobSpec

    @property
    def profile_name(self) -> str:
        """Name of the SpeedupProfile that has the job's speedup, if there is one."""
        return self.spec.profile or self.spec.program or self.metadata.name


def full_size(data: JobData) -> float:
    """Return the size of all of a job's data, in the unit of its samples' sizes."""
    return 1.0 if data.size is None else float(data.size)
