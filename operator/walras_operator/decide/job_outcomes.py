"""Pure: the outcome of a decision for the pods of all jobs, indexed by pod and by job."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from walras_api.kept import Kept
from walras_operator.decide.colocating.status import colocation_status
from walras_operator.decide.conditions import MAX_LISTED, Problem, summarize

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from walras.market.plan import BidOutcome, Grant, Plan
    from walras_api.job_inputs import Name
    from walras_api.market_job_status import PodColocation
    from walras_api.selection import Selection
    from walras_operator.decide.conditions import ConditionState
    from walras_operator.decide.enforcement import Enforcement
    from walras_operator.decide.validation import Validated
    from walras_operator.decide.world import Document, World


@dataclass(frozen=True, slots=True)
class DeadlineResult:
    """The result of a decision for a job's deadline.

    Attributes:
        document: Field ``deadline`` of the job's status.
        condition: State of ``OnTime``.
    """

    document: Document
    condition: ConditionState


@dataclass(frozen=True, slots=True)
class JobOutcomes:
    """The outcome of a decision for the pods of all jobs.

    Attributes:
        validated: Assignment of pods to jobs, and the jobs' problems.
        grants: Grants by namespace and name of the pod.
        waiting: Why the market gave a pod no grant, by namespace and name of the pod.
        ungranted: Why a pod cannot have its grant, by namespace and name of the pod.
        enforced: Enforcement of grants, by node and pod UID.
        pods: Positions of each job's pods in the snapshot, by namespace and name of the job.
        overlaps: Message about pods that other jobs select too, by namespace and name of the job.
        unmeasured: Why a job's speedup has not been measured, by namespace and name of the job.
        bids: Outcomes of bids in auctions, by namespace and name of the job.
        colocations: Co-runners of pods that were placed in pairs, by title of the pod.
        unplaceable: Why waiting pods cannot be placed; empty if they can.
        kept_apart: Pods that wait on since they may not be beside others, by namespace and name.
        annotations: Invalid annotations of labelled workloads, by namespace and name of the job.
        pods_left_out: Problem with pods that are invalid or too large, by their namespace.
        runs: Field ``runs`` of each job's status, by namespace and name of the job.
        deadlines: Results of deadlines, by namespace and name of the job.
        demand: Field ``demand`` of each job's status, by namespace and name of the job.
        kept: Results of the last decision that this one may use again.
    """

    validated: Validated
    grants: Mapping[Name, Grant]
    waiting: Mapping[Name, str]
    ungranted: Mapping[Name, str]
    enforced: Mapping[tuple[str, str], Enforcement]
    pods: Mapping[Name, Sequence[int]]
    overlaps: Mapping[Name, str]
    unmeasured: Mapping[Name, Problem] = field(default_factory=dict)
    bids: Mapping[Name, BidOutcome] = field(default_factory=dict)
    colocations: Mapping[str, PodColocation] = field(default_factory=dict)
    unplaceable: str = ""
    kept_apart: Collection[Name] = frozenset()
    annotations: Mapping[Name, Problem] = field(default_factory=dict)
    pods_left_out: Mapping[str, Problem] = field(default_factory=dict)
    runs: Mapping[Name, Document] = field(default_factory=dict)
    deadlines: Mapping[Name, DeadlineResult] = field(default_factory=dict)
    demand: Mapping[Name, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        validated: Validated,
        plan: Plan,
        ungranted: Mapping[Name, str],
        enforced: Mapping[tuple[str, str], Enforcement],
        kept: Kept,
    ) -> JobOutcomes:
        """Index a plan by pod and by job."""
        return cls(
            validated,
            kept.of("", _by_pod, plan),
            {(each.namespace, each.pod): each.reason for each in plan.refused},
            ungranted,
            enforced,
            kept.of("", _pods_of_jobs, validated.assembled.selection),
            _overlaps(validated),
            bids={(each.namespace, each.name): each for each in plan.bids},
            colocations=colocation_status(plan),
            kept=kept,
        )


def _by_pod(plan: Plan) -> dict[Name, Grant]:
    return {(grant.namespace, grant.pod): grant for grant in plan.grants}


def _pods_of_jobs(selection: Selection) -> dict[Name, list[int]]:
    pods: defaultdict[Name, list[int]] = defaultdict(list)
    for number, job in selection.job.items():
        pods[job.metadata.namespace, job.metadata.name].append(number)
    return pods


def _overlaps(validated: Validated) -> dict[Name, str]:
    return {
        key: summarize(
            [_overlap(validated, key, number) for number in overlap.first[:MAX_LISTED]],
            overlap.pods,
        )
        for key, overlap in validated.assembled.selection.overlaps.items()
    }


def _overlap(validated: Validated, key: Name, number: int) -> str:
    """Return a job's sentence about a pod that others select too."""
    pod = validated.objects.pods[number].metadata
    first, *others = validated.assembled.selection.contested[number]
    if key != (first.metadata.namespace, first.metadata.name):
        return (
            f"Pod {pod.name} is {first.metadata.name}'s, which is older and selects it too: "
            f"correct the selector of one of them"
        )
    names = " and ".join(job.metadata.name for job in others[:MAX_LISTED])
    return (
        f"Pod {pod.name} is selected by {names} too; this job, the older, has it: correct the "
        f"selector of one of them"
    )


def pods_left_out(world: World) -> dict[str, Problem]:
    """Return the problem with the pods of a namespace that cannot be read or are too large."""
    by_namespace: defaultdict[str, list[str]] = defaultdict(list)
    for reference, broken in world.broken.items():
        if reference.kind == "Pod":
            by_namespace[reference.namespace] += broken.problems[:1]
    return {
        namespace: Problem("PodsLeftOut", summarize(sorted(problems)))
        for namespace, problems in by_namespace.items()
    }
