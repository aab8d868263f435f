"""A process that runs the operator's runtime with a decision of its own, which tests can predict.

Every node with the label `LABEL` gets a NodeAllocation with one core for each of its pods, and
every Entitlement with this label a condition that counts those nodes. A pod named ``poison`` makes
the whole decision raise an error, and one named ``mute`` only its part with statuses and events.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from walras_operator.decide.world import (
    Carried,
    Decision,
    Event,
    NodeWrite,
    Reference,
    StatusWrite,
    World,
    Writes,
)
from walras_operator.lead.lease import Times
from walras_operator.process import Operator, Options
from walras_service.logs import configure_logging

if TYPE_CHECKING:
    from walras_api.cluster import NodeObject
    from walras_api.kinds import EntitlementObject, MarketSpec
    from walras_operator.decide.world import Document

LABEL = "walras.dev/runtime-test"
TIMES = Times(duration=4, deadline=2.5, retry=0.5)


def decide(world: World) -> Decision:
    """Make the decision that this module describes."""
    if any(pod.metadata.name == "poison" for pod in world.objects.pods):
        raise ValueError("a pod that is called poison")
    mine = [node for node in world.objects.nodes if LABEL in node.metadata.labels]
    told = [each for each in world.objects.entitlements if LABEL in each.metadata.labels]
    message = f"{len(mine)} nodes"
    nodes = tuple(filter(None, (_node(world, node) for node in mine)))
    statuses = tuple(filter(None, (_status(world, each, message) for each in told)))
    events = tuple(
        Event(write.object, "Normal", "Counted", "the nodes were counted") for write in statuses
    )
    rules: MarketSpec | None = next((each.spec for each in world.markets), None)

    def rest() -> Writes:
        if any(pod.metadata.name == "mute" for pod in world.objects.pods):
            raise ValueError("a pod that is called mute")
        return Writes(statuses=statuses, events=events)

    return Decision(Carried(rules), Writes(nodes), rest)


def _node(world: World, node: NodeObject) -> NodeWrite | None:
    name = node.metadata.name
    here = [pod for pod in world.objects.pods if pod.spec.node_name == name]
    grants: list[Document] = [
        {
            "podUID": pod.metadata.uid,
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "cores": "1",
        }
        for pod in sorted(here, key=lambda pod: pod.metadata.uid)
    ]
    known = world.allocations.get(name)
    if known and sorted(each.pod_uid for each in known.spec.grants) == [
        each["podUID"] for each in grants
    ]:
        return None
    return NodeWrite(name, node.metadata.uid, {"grants": grants})


def _status(world: World, entitlement: EntitlementObject, message: str) -> StatusWrite | None:
    before = (entitlement.status or {}).get("conditions") or [{}]
    if before[0].get("message") == message:
        return None
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Counted",
        "message": message,
        "lastTransitionTime": world.now,
    }
    metadata = entitlement.metadata
    named = Reference("Entitlement", metadata.name, uid=metadata.uid)
    return StatusWrite(named, {"conditions": [condition]})


def main(kubeconfig: str, namespace: str, identity: str, port: str) -> None:
    """Run until SIGTERM."""
    configure_logging("walras_operator", "text")
    options = Options(
        identity=identity,
        kubeconfig=kubeconfig,
        namespace=namespace,
        times=TIMES,
        listen=("127.0.0.1", int(port)),
    )
    operator = Operator(options, decide)
    with operator.listening():
        operator.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
