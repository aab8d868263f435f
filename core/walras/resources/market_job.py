"""MarketJob, field by field: a job that takes part in the market."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from walras.resources.fields import (
    BYTES_OF_UNIT,
    LONGEST_QUANTITY,
    QUANTITY,
    Bytes,
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
from walras.resources.model import UNSTATED, LabelSelector, Model, Resource, Rule

LAST_PORT = 65535


class TargetRef(Model):
    """A workload whose pods are the job's.

    Attributes:
        api_version: of the workload, such as ``batch/v1``.
        kind: of the workload.
        name: of the workload, in the job's namespace.
    """

    api_version: Text
    kind: Literal["Job", "Deployment", "StatefulSet", "Pod"]
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
"""A quantity of memory in bytes, or that it is to be measured."""


def _in_bytes(quantity: str) -> str:
    """Return an expression for the bytes of a quantity.

    The API server's own ``quantity()`` is too young (1.29). Doubles are off by a few parts in
    10**16, which the rule below makes room for.
    """
    units = ", ".join(f"'{unit}': {float(scale)!r}" for unit, scale in BYTES_OF_UNIT.items())
    number, unit = f"{quantity}.find('^[0-9.]+')", f"{quantity}.find('[EPTGMKki]*$')"
    return f"double({number}) * {{{units}}}[{unit}]"


class JobMemory(Model):
    """A job's memory: its bounds, and whether its demand is measured or a fixed amount.

    Attributes:
        min: with less it does not run.
        max: more than this it never gets.
        demand: what it could use: an amount, or ``measured``.
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
    """What a job gets from the whole of each resource of its nodes, relative to the other.

    Attributes:
        cores: all cores of the nodes that its pods run on.
        memory: all memory of these nodes.
    """

    cores: PositiveDecimal = Decimal(1)
    memory: PositiveDecimal = Decimal(1)


class AuctionRun(Model):
    """A finished run of a job: what it had, on the mean over its time, and what came of it.

    Attributes:
        cores: its share of all cores of its nodes.
        memory: its share of all their memory.
        utility: such as the inverse of its time, or a throughput, in the same unit for all runs.
    """

    cores: Portion
    memory: Portion
    utility: PositiveDecimal


class JobAuction(Model):
    """How a job bids where resources are auctioned.

    Attributes:
        budget: relative to the other jobs of its entitlement; of all its pods together.
        utility: of its shares of what its pods' nodes have: Linear, the sum of weights times
            shares, or Log, the product of shares to the powers of weights, for jobs that need
            some of everything.
        weights: of the resources in it; without them, those that the runs show, or equal ones.
        runs: finished runs that a Linear utility's weights are estimated from, three at least.
        record_runs: whether pods that succeed are recorded as further runs, of the utility
            1/seconds, where both cores and memory are auctioned and no weights are given.
        minimum_utility: below which the job is of no use (its service-level objective); it pays
            only where this is met.
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
        name: of the variable.
        value: of the variable.
    """

    name: Text
    value: str = ""


class JobData(Model):
    """The data of a command that runs on one machine, and which parts of them to profile on.

    Attributes:
        path: a folder or a text file; ``{data}`` in the command stands for it, or for a sample.
        size: how much there is, in whatever the command counts; ``{size}`` stands for it, or for
            a part of it.
        samples: parts to profile on.
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
    """A counter that a job serves by HTTP, from its own address.

    Attributes:
        port: where it listens.
        path: to the page.
        metric: name of the counter in a page of Prometheus's text format; without it the page is
            one number.
    """

    port: Port
    path: Annotated[str, Field(pattern=r"^/[!-~]*$")] = "/"
    metric: Annotated[str, Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*$")] | None = None


class ProgressSource(Model):
    """A number that a job counts up as its work gets done, in any unit.

    Attributes:
        file: path inside the job's container of a file whose first word is the number.
        http: where the job serves it.
    """

    RULES = (
        Rule(
            "names not one source of progress; give either file or http",
            "has(self.file) != has(self.http)",
            lambda progress: (progress.file is None) != (progress.http is None),
        ),
    )

    file: Annotated[str, Field(pattern=r"^/[^\x00-\x1f]+$")] | None = None
    http: HttpCounter | None = None


class AvoidedJob(Model):
    """Jobs that are not to share a node with this one.

    Attributes:
        namespace: of them; without it the job's own.
        name: of the MarketJob; without it all of the namespace.
    """

    namespace: Name | None = None
    name: Name | None = None


class JobColocation(Model):
    """What a job asks of its company, where pods that wait are placed in pairs.

    Attributes:
        participate: whether its pods may share a processor; without that each has one to itself,
            as long as others do not come by themselves.
        avoid: jobs with which none of its pods is ever placed on one node, nor they with it.
    """

    participate: bool = True
    avoid: Annotated[list[AvoidedJob], Field(max_length=100)] = Field(default_factory=list)


class MarketJobSpec(Model):
    """A job that takes part in the market.

    Attributes:
        entitlement: the entitlement that it draws on.
        selector: its pods, by labels, on a cluster.
        target_ref: its pods, by the workload that makes them, on a cluster.
        command: its program and arguments, on one machine (``walras local run``).
        working_dir: of the command, relative to the document's folder, which is the default.
        env: environment variables of the command.
        data: what the command works on.
        work: weight of its speedup among its entitlement's jobs.
        parallel_fraction: F, if known.
        profile: name of a SpeedupProfile in its namespace; without it and without
            ``parallelFraction`` F is measured.
        min_cores: fewest cores worth having.
        max_cores: most cores it can use.
        memory: its demand for memory; without it, it takes no part in that market.
        progress: its own counter of work done, for measurements while it runs on a cluster.
        auction: how it bids, where resources are auctioned.
        colocation: what it asks of its company, where pods are placed in pairs.
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
    command: Annotated[list[str], Field(min_length=1, max_length=10000)] | None = None
    working_dir: Annotated[Text, UNSTATED] = "."
    env: Annotated[
        list[EnvironmentVariable], Field(max_length=1000), Unique("values for", key="name")
    ] = Field(default_factory=list)
    data: Annotated[JobData, UNSTATED] = JobData()
    work: PositiveDecimal = Decimal(1)
    parallel_fraction: Fraction | None = None
    profile: Name | None = None
    min_cores: PositiveInt = 1
    max_cores: PositiveInt | None = None
    memory: JobMemory | None = None
    progress: ProgressSource | None = None
    auction: Annotated[JobAuction, UNSTATED] = JobAuction()
    colocation: Annotated[JobColocation, UNSTATED] = JobColocation()


class MarketJob(Resource):
    """A job that takes part in the market: some pods, who pays for them, and what they can use."""

    kind: Literal["MarketJob"]
    spec: MarketJobSpec
