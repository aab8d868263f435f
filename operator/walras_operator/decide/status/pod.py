"""Pure: compute the result for one pod of a MarketJob: what it got, at which price, and why.

A result is a `walras_api.market_job_status.PodOutcome` as a document for the API server. A large
cluster has many pods, so their results are not built as models, which would be checked and then
written as JSON and read again.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from walras.placement.colocation import WAITS_FOR_MATCHING
from walras_api.waiting import waiting_method
from walras_operator.decide.colocating.status import last_colocation
from walras_operator.decide.conditions import MAX_REASON, clipped, listed
from walras_operator.decide.enforcement import Enforcement
from walras_operator.decide.numbers import figure, thousandths
from walras_operator.decide.status.changes import MEMORY, is_near

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from walras.market.plan import Grant
    from walras_api.cluster import ObjectMeta, Pod
    from walras_api.job_inputs import Name
    from walras_api.market_job_status import PodColocation
    from walras_operator.decide.job_outcomes import JobOutcomes
    from walras_operator.decide.world import Document

UNKNOWN = Enforcement("Granted")

KEPT_APART = (
    "waits: on every node with room for it is a job that it avoids, or one of its namespace that "
    "avoids it, by spec.colocation.avoid; free a node, or avoid fewer jobs"
)


def name_of(pod: Pod) -> Name:
    """Return the namespace and name of a pod."""
    return pod.metadata.namespace, pod.metadata.name


class PodColumns(NamedTuple):
    """What the results for a job's pods follow from, in the order of their names.

    Attributes:
        metadata: Metadata of each pod.
        grants: Its grant; None if the market gave it none.
        held: Whether its agent enforces that.
        placed: Its co-runners by this decision, if it has placed the pod.
        without: The result for a pod that has no grant, or cannot have it; None for the others.
    """

    metadata: Sequence[ObjectMeta]
    grants: Sequence[Grant | None]
    held: Sequence[Enforcement]
    placed: Sequence[PodColocation | None]
    without: Sequence[Document | None]

    def results(self, before: Mapping[str, Any]) -> list[Document]:
        """Return the result for each pod.

        Args:
            before: The job's status as last written.
        """
        former = _former(before)
        return [
            _of_grant(grant, pod, held, placed, former.get((pod.name, pod.uid), {}))
            if without is None and grant is not None
            else without or {}
            for pod, grant, held, placed, without in zip(*self, strict=True)
        ]


NO_PODS = PodColumns((), (), (), (), ())


def pod_columns(outcomes: JobOutcomes, key: Name, before: Mapping[str, Any]) -> PodColumns:
    """Return what the results for the pods of a job follow from.

    Args:
        outcomes: Outcome of the decision.
        key: Namespace and name of the job.
        before: Its status as last written.
    """
    pods = outcomes.validated.objects.pods
    former = cache(lambda: _former(before))
    rows: list[tuple[ObjectMeta, Grant | None, Enforcement, PodColocation | None, Document | None]]
    rows = []
    for number in sorted(outcomes.pods.get(key, ()), key=lambda each: pods[each].metadata.name):
        pod = pods[number]
        name, uid = name_of(pod), pod.metadata.uid
        grant = outcomes.grants.get(name)
        unplaceable = outcomes.unplaceable and waiting_method(pod) is not None
        held, placed, without = UNKNOWN, None, None
        if grant is None or unplaceable or name in outcomes.ungranted:
            without = _without_grant(outcomes, key, number, pod, former)
        else:
            held = outcomes.enforced.get((grant.node, uid), UNKNOWN)
            placed = outcomes.colocations.get(grant.title) if outcomes.colocations else None
        rows.append((pod.metadata, grant, held, placed, without))
    return PodColumns(*map(list, zip(*rows, strict=True))) if rows else NO_PODS


def _former(before: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the results for pods in a job's status as last written, by name and UID."""
    return {
        (str(each.get("name")), str(each.get("podUID"))): each for each in listed(before, "pods")
    }


def _of_grant(
    grant: Grant,
    pod: ObjectMeta,
    held: Enforcement,
    placed: PodColocation | None,
    before: Mapping[str, Any],
) -> Document:
    """Return the result for a pod that has a grant.

    Args:
        grant: The grant.
        pod: Metadata of the pod.
        held: Whether its agent enforces it.
        placed: Its co-runners by this decision, if it has placed the pod.
        before: Its result as last written; empty if there is none.
    """
    reason = grant.reason + (f"; its node's agent: {held.reason}" if held.reason else "")
    placed = placed or last_colocation(before)
    return _without_empty(
        {
            "podUID": pod.uid,
            "name": pod.name,
            "node": grant.node,
            "state": _state(grant, held, before),
            "bought": figure(grant.bought),
            "held": thousandths(grant.held),
            "memory": None if grant.memory is None else str(grant.memory),
            "speedup": figure(grant.speedup),
            "price": figure(grant.price),
            "spend": figure(grant.spend),
            "reason": clipped(reason, MAX_REASON),
            "memoryReason": clipped(grant.memory_reason, MAX_REASON),
            "colocation": None if placed is None else placed.document(),
        }
    )


def _without_empty(document: Document) -> Document:
    """Return a document without unset fields and empty strings, as a status has none."""
    return {name: value for name, value in document.items() if value is not None and value != ""}


def _state(grant: Grant, held: Enforcement, former: Mapping[str, Any]) -> Any:
    """Return the state of a pod; an agent's last report of the same cores stands until the next.

    So it does while Karma changes the pod's memory by no more than a status tells at once.
    """
    if held.state != "Unreported":
        return held.state
    same = (
        former.get("node") == grant.node
        and former.get("held") == thousandths(grant.held)
        and is_near(former.get("memory"), grant.memory, MEMORY)
    )
    return "Enforced" if same and former.get("state") == "Enforced" else "Granted"


def _without_grant(
    outcomes: JobOutcomes,
    key: Name,
    number: int,
    pod: Pod,
    former: Callable[[], Mapping[tuple[str, str], Mapping[str, Any]]],
) -> Document:
    node, name = pod.spec.node_name, name_of(pod)
    problem = outcomes.validated.jobs.get(key)
    absent = outcomes.validated.assembled.absent.get(number)
    if problem is not None:
        reason = problem.message
    elif name in outcomes.ungranted:
        reason = outcomes.ungranted[name]
    elif number in outcomes.validated.assembled.left_out:
        reason = outcomes.validated.assembled.left_out[number]
    elif absent is not None and node is not None:
        why = outcomes.validated.closed.get(node, "is not there any more")
        reason = f"runs on {node}, which {why}; waits until it sells cores"
    else:
        reason = absent or outcomes.waiting.get(name) or "waits for the next decision"
        if name in outcomes.kept_apart:
            reason = KEPT_APART
        if outcomes.unplaceable and waiting_method(pod) is not None:
            reason = f"waits: the operator may not place pods: {outcomes.unplaceable}"
        if (
            reason == WAITS_FOR_MATCHING
        ):  # what the last matching had to say about it stands until the next
            before = former().get((pod.metadata.name, pod.metadata.uid), {})
            reason = str(before.get("reason") or reason)
    refused = problem is not None and not problem.reason.startswith("Profile")
    return _without_empty(
        {
            "podUID": pod.metadata.uid,
            "name": pod.metadata.name,
            "node": node,
            "state": "Refused" if refused else "Waiting",
            "reason": clipped(reason, MAX_REASON),
        }
    )
