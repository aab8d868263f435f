"""Pure: build the requests that bind a pod to a node or leave it to the scheduler.

For a gated pod, one merge patch adds a required node affinity and removes the gate. Node affinity
may only be narrowed while there is a gate, so a second patch, of a former leader, is refused as a
whole. A pod with Walras as its scheduler gets a Binding, which is possible once, too. Both name the
pod's UID.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_api.cluster import Pod, Requirement, Term
from walras_api.contract import COLOCATION_GATE, PARTNER_ANNOTATION
from walras_api.waiting import required_terms
from walras_operator.decide.world import Placement, reference_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def gate_removal(pod: Pod, node: str = "", partner: str = "") -> Placement:
    """Return the request that removes Walras's scheduling gate from a pod.

    Args:
        pod: Gated pod.
        node: Only node on which it may run; empty to leave that to the scheduler.
        partner: UID of its co-runner; empty for none.
    """
    gates = [
        {"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != COLOCATION_GATE
    ]
    spec: dict[str, Any] = {"schedulingGates": gates or None}
    metadata: dict[str, Any] = {"uid": pod.metadata.uid}
    if node:
        terms = [_document(term) for term in _narrowed(required_terms(pod), node)]
        spec["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
        metadata["annotations"] = {PARTNER_ANNOTATION: partner}
    patch = {"metadata": metadata, "spec": spec}
    return Placement(reference_of(pod), "gate", node, patch, _after(pod, patch))


def binding(pod: Pod, node: str, partner: str = "") -> Placement:
    """Return the request that binds a pod whose scheduler is Walras."""
    named = {
        "name": pod.metadata.name,
        "namespace": pod.metadata.namespace,
        "uid": pod.metadata.uid,
        "annotations": {PARTNER_ANNOTATION: partner},
    }
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": named, "target": target}
    after = _after(pod, {"metadata": named, "spec": {"nodeName": node}})
    return Placement(reference_of(pod), "scheduler", node, body, after)


def _narrowed(terms: Sequence[Term] | None, node: str) -> list[Term]:
    """Return node selector terms that match one node only.

    Any of the terms may match, so each is narrowed; Kubernetes allows only additions.
    """
    here = Requirement.model_validate({"key": "metadata.name", "operator": "In", "values": [node]})
    if not terms:
        return [Term.model_construct(match_expressions=[], match_fields=[here])]
    return [term.model_copy(update={"match_fields": [*term.match_fields, here]}) for term in terms]


def _document(term: Term) -> Mapping[str, Any]:
    return term.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _after(pod: Pod, change: Mapping[str, Any]) -> Pod:
    """Return the pod as the request changes it."""
    spec, annotations = change["spec"], change["metadata"].get("annotations", {})
    fields: dict[str, Any] = {}
    if "nodeName" in spec:
        fields["node_name"] = spec["nodeName"]
    else:
        fields["scheduling_gates"] = [
            gate for gate in pod.spec.scheduling_gates if gate.name != COLOCATION_GATE
        ]
    if "affinity" in spec:
        fields["affinity"] = type(pod.spec).model_validate({"affinity": spec["affinity"]}).affinity
    metadata = pod.metadata.model_copy(
        update={"annotations": {**pod.metadata.annotations, **annotations}}
    )
    return pod.model_copy(update={"metadata": metadata, "spec": pod.spec.model_copy(update=fields)})
