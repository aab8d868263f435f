"""Pure: pods that hold next to nothing, and pods that hold less than they requested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras.outcome.reasons import BELOW_REQUEST
from walras_view.documents import Shown
from walras_view.figures import number

if TYPE_CHECKING:
    from walras_view.facts import Facts

STARVES = 0.1
"""Cores below which a pod hardly runs: a tenth of the time of one core."""


@dataclass(frozen=True, slots=True)
class ShortPod(Shown):
    """A pod that starves, or holds less than it requested.

    Attributes:
        namespace: Namespace of the pod.
        job: Name of its MarketJob.
        pod: Name of the pod.
        node: Name of its node.
        user: Entitlement that pays for it.
        held: Cores that it holds.
        starves: Whether that is less than a tenth of a core.
        below_request: Whether that is less than it requested.
        reason: Why it holds what it holds, in a sentence.
    """

    namespace: str
    job: str
    pod: str
    node: str
    user: str
    held: float
    starves: bool
    below_request: bool
    reason: str


def short_pods(facts: Facts) -> tuple[ShortPod, ...]:
    """Return such pods of the jobs that may be seen: those that starve first, the least held first.

    Pods that their job's status has no room for are not among them.
    """
    pods = []
    for job in facts.jobs.values():
        for pod in job.status.pods:
            has = number(pod.held)
            if has is None or pod.node is None or pod.state in {"Refused", "Waiting"}:
                continue
            below = BELOW_REQUEST in pod.reason
            if has < STARVES or below:
                user = str(job.spec.get("entitlement", ""))
                pods.append(
                    ShortPod(
                        namespace=job.namespace,
                        job=job.name,
                        pod=pod.name,
                        node=pod.node,
                        user=user,
                        held=has,
                        starves=has < STARVES,
                        below_request=below,
                        reason=pod.reason,
                    )
                )
    return tuple(
        sorted(pods, key=lambda each: (not each.starves, each.held, each.namespace, each.pod))
    )
