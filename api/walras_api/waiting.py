"""Pods that wait for Walras to place them: how they wait, what they need, and which nodes fit.

A pod waits by the scheduling gate `COLOCATION_GATE` or by naming a scheduler of that name, so that
no other scheduler binds it. Node labels, taints and allocatable resources are matched here as
kube-scheduler matches them; pods with rules about other pods, volumes or host ports are left to
kube-scheduler.
"""

from __future__ import annotations

from collections import defaultdict
from decimal import ROUND_FLOOR
from typing import TYPE_CHECKING, Literal

from walras_api.api_object import MOST_UNITS, whole_units
from walras_api.cluster import PODS
from walras_api.contract import COLOCATION_GATE, PARTNER_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras_api.cluster import NodeObject, Pod, Requirement, Taint, Term, Toleration

WaitingMethod = Literal["gate", "scheduler"]
"""How a pod waits."""

_NAME_OF_NODE = "metadata.name"


def waiting_method(pod: Pod) -> WaitingMethod | None:
    """Return how a pod waits for Walras to place it; None if it does not."""
    if pod.spec.node_name is not None or not pod.alive:
        return None
    gates = [gate.name for gate in pod.spec.scheduling_gates]
    if COLOCATION_GATE in gates:
        return "gate"
    return "scheduler" if pod.spec.scheduler_name == COLOCATION_GATE and not gates else None


def placement_blocker(pod: Pod) -> str:
    """Return why a pending pod cannot be placed yet, or at all; empty if it can."""
    others = [gate.name for gate in pod.spec.scheduling_gates if gate.name != COLOCATION_GATE]
    if others:
        return f"waits for its other scheduling gates first: {', '.join(others[:3])}"
    rule = left_to_the_scheduler(pod)
    return f"has {rule}, which only a scheduler can judge" if rule else ""


def left_to_the_scheduler(pod: Pod) -> str:
    """Return the kind of a pod's rules that only a scheduler can check; empty if there are none."""
    spec, affinity = pod.spec, pod.spec.affinity
    among_pods = () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity)
    if any(
        each and each.required_during_scheduling_ignored_during_execution for each in among_pods
    ):
        return "required pod affinity"
    if any(each.when_unsatisfiable == "DoNotSchedule" for each in spec.topology_spread_constraints):
        return "topology spread constraints"
    if any(each.persistent_volume_claim or each.ephemeral for each in spec.volumes):
        return "persistent volumes"
    if any(each.csi for each in spec.volumes):
        return "CSI volumes"
    if any(container.ports for container in (*spec.containers, *spec.init_containers)):
        return "ports of its host"
    return "resource claims" if spec.resource_claims else ""


def node_of(pod: Pod) -> str | None:
    """Return the node that a pod is bound to, or that Walras has pinned it to; None if neither."""
    if pod.spec.node_name is not None or PARTNER_ANNOTATION not in pod.metadata.annotations:
        return pod.spec.node_name
    pinned = {_pinned(term) for term in required_terms(pod) or ()}
    return pinned.pop() if len(pinned) == 1 else None


def required_terms(pod: Pod) -> Sequence[Term] | None:
    """Return a pod's required node affinity terms, one of which must hold; None without any."""
    affinity = pod.spec.affinity
    nodes = None if affinity is None else affinity.node_affinity
    terms = None if nodes is None else nodes.required_during_scheduling_ignored_during_execution
    return None if terms is None else terms.node_selector_terms


def room_of(nodes: Iterable[NodeObject], pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """Return the resources that are still free on each node, by name and resource.

    Pods that are bound or pinned to a node and have not ended use its resources.
    """
    room = {
        node.metadata.name: {
            PODS: MOST_UNITS,
            **{
                resource: whole_units(resource, amount, ROUND_FLOOR)
                for resource, amount in node.status.allocatable.items()
            },
        }
        for node in nodes
    }
    taken: defaultdict[tuple[str, str], int] = defaultdict(int)
    for pod in pods:
        node = node_of(pod) if pod.alive else None
        if node in room:
            for resource, amount in pod.effective_requests:
                taken[node, resource] += amount
    for (node, resource), amount in taken.items():
        room[node][resource] = room[node].get(resource, 0) - amount
    return room


class EligibleNodes:
    """A cache of the nodes that admit a pod, shared by pods with the same constraints.

    Args:
        nodes: Nodes that are not closed.
    """

    def __init__(self, nodes: Sequence[NodeObject]) -> None:
        self._nodes = nodes
        self._tainted = any(node.spec.taints for node in nodes)
        self._known: dict[str, frozenset[str] | None] = {}

    def of(self, pod: Pod) -> frozenset[str] | None:
        """Return the names of the nodes that admit a pod; None for all nodes."""
        spec = pod.spec
        terms = required_terms(pod)
        if not spec.node_selector and terms is None and not self._tainted:
            return None
        key = spec.node_constraints
        if key not in self._known:
            self._known[key] = frozenset(
                node.metadata.name for node in self._nodes if may_take(node, pod)
            )
        return self._known[key]


def may_take(node: NodeObject, pod: Pod) -> bool:
    """Return whether a node's labels and taints admit a pod."""
    labels = node.metadata.labels
    terms = required_terms(pod)
    return (
        all(labels.get(key) == value for key, value in pod.spec.node_selector.items())
        and (terms is None or any(_holds(term, node) for term in terms))
        and all(_tolerated(taint, pod.spec.tolerations) for taint in node.spec.taints)
    )


def _holds(term: Term, node: NodeObject) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False  # as in Kubernetes, an empty term selects nothing
    fields = {_NAME_OF_NODE: node.metadata.name}
    return all(is_met(each, node.metadata.labels) for each in term.match_expressions) and all(
        is_met(each, fields) for each in term.match_fields
    )


def is_met(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Return whether labels, or fields of a node, meet a requirement."""
    value, values = labels.get(requirement.key), requirement.values
    if requirement.operator == "In":
        return value in values
    if requirement.operator == "NotIn":
        return value not in values
    if requirement.operator == "Exists":
        return value is not None
    if requirement.operator == "DoesNotExist":
        return value is None
    if value is None or len(values) != 1 or requirement.operator not in {"Gt", "Lt"}:
        return False
    try:
        have, bound = int(value), int(values[0])
    except ValueError:
        return False
    return have > bound if requirement.operator == "Gt" else have < bound


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    if taint.effect not in {"NoSchedule", "NoExecute"}:
        return True
    return any(
        each.effect in {"", taint.effect}
        and (
            (not each.key and each.operator == "Exists")
            or (each.key == taint.key and (each.operator == "Exists" or each.value == taint.value))
        )
        for each in tolerations
    )


def _pinned(term: Term) -> str | None:
    for each in term.match_fields:
        if each.key == _NAME_OF_NODE and each.operator == "In" and len(each.values) == 1:
            return each.values[0]
    return None
