"""What the page asks of a what-if, and gets, as values of the JSON API."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from walras_dashboard.models import ApiModel, Number
from walras_view.plain import PlainDivision

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
        starving: Number of pods that hold less than a tenth of a core.
    """

    mechanism: str
    users: list[DividedUser]
    nodes: list[DividedNode]
    jobs: list[DividedJob]
    figures: list[Figure]
    starving: int


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
        plain: What plain Kubernetes would give today's pods; null where these are not known.
        unchanged_jobs: Number of pods whose cores are the same in both.
        yaml: The changes as documents for ``kubectl apply``; empty if there are none to apply.
        notes: Objects that take no part, and figures that are unknown.
        refused: Jobs that would get nothing.
    """

    seconds: float
    now: DividedCores
    then: DividedCores
    plain: PlainDivision | None
    unchanged_jobs: int
    yaml: str
    notes: list[str]
    refused: list[RefusedJob]
