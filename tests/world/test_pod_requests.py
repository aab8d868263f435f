"""What pods request, as `PodRequests` of Kubernetes' component-helpers counts it.

Each case is an object as an API server gives it, and the CPUs that the
scheduler sets aside for it. Memory, in GiB, always has the same numbers.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from walras_api.assembly import Objects, assemble
from walras_api.cluster import NodeObject, Pod
from walras_api.kinds import EntitlementObject, MarketJob
from walras_api.waiting import room_of

if TYPE_CHECKING:
    from collections.abc import Mapping

GIB = 1 << 30


def amounts(number: float) -> dict[str, str]:
    return {"cpu": f"{round(1000 * number)}m", "memory": f"{round(1024 * number)}Mi"}


def asks(number: float | None = None, limit: float | None = None) -> dict[str, Any]:
    """Return the resources of a container, or of a pod."""
    given = {"requests": number, "limits": limit}
    return {key: amounts(each) for key, each in given.items() if each is not None}


def container(name: str, number: float | None = None, limit: float | None = None) -> Any:
    return {"name": name, "resources": asks(number, limit)}


def sidecar(name: str, number: float) -> Any:
    return {**container(name, number), "restartPolicy": "Always"}


def report(name: str, allocated: float | None, actual: float | None) -> Any:
    """Return the status of a container: what its kubelet and its runtime gave it."""
    found: dict[str, Any] = {"name": name}
    if allocated is not None:
        found["allocatedResources"] = amounts(allocated)
    if actual is not None:
        found["resources"] = asks(actual)
    return found


def pending(reason: str) -> dict[str, Any]:
    return {"conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}]}


def running(*reports: Any, **more: Any) -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": list(reports), **more}


def resize(
    asked: float, allocated: float | None, actual: float | None, **status: Any
) -> tuple[Any, Any]:
    return (
        {"containers": [container("a", asked)]},
        running(report("a", allocated, actual), **status),
    )


CASES: dict[str, tuple[float, Mapping[str, Any], Mapping[str, Any]]] = {
    "a pod's own requests replace those of its containers": (
        4,
        {"resources": asks(4, 4), "containers": [container("a", 1), container("b")]},
        running(),
    ),
    "containers may request less than the pod": (
        2,
        {"resources": asks(2), "containers": [container("a", 0.5), container("b", 0.5)]},
        running(),
    ),
    "a pod's limit is its request if no container has one": (
        3,
        {"resources": asks(limit=3), "containers": [container("a")]},
        running(),
    ),
    "what containers request is the request of a pod that has a limit": (
        1.5,
        {"resources": asks(limit=3), "containers": [container("a", 1), container("b", 0.5)]},
        running(),
    ),
    "a pod's own requests replace those of its init containers": (
        2,
        {
            "resources": asks(2),
            "initContainers": [container("i", 1)],
            "containers": [container("a", 1)],
        },
        running(),
    ),
    "overhead is added to a pod's own requests": (
        2.25,
        {"resources": asks(2), "overhead": amounts(0.25), "containers": [container("a")]},
        running(),
    ),
    "empty resources of a pod say nothing": (
        1,
        {"resources": {}, "containers": [container("a", 1)]},
        running(),
    ),
    "a sidecar runs beside the init container after it": (
        5,
        {
            "initContainers": [sidecar("s", 2), container("i", 3)],
            "containers": [container("a", 1)],
        },
        running(),
    ),
    "a sidecar does not run beside the init container before it": (
        3,
        {
            "initContainers": [container("i", 3), sidecar("s", 2)],
            "containers": [container("a", 1)],
        },
        running(),
    ),
    "each init container has the sidecars before it": (
        6,
        {
            "initContainers": [
                container("i", 4),
                sidecar("s", 1),
                container("j", 3),
                sidecar("t", 1),
                container("k", 4),
            ],
            "containers": [container("a", 2)],
        },
        running(),
    ),
    "sidecars run beside containers": (
        4,
        {
            "initContainers": [sidecar("s", 1), sidecar("t", 1), container("i", 1)],
            "containers": [container("a", 1), container("b", 1)],
        },
        running(),
    ),
    "a decrease waits until it is actuated": (4, *resize(1, 4, 4)),
    "a decrease that is allocated waits until it is actuated": (4, *resize(1, 1, 4)),
    "a decrease that is actuated counts": (1, *resize(1, 1, 1)),
    "an increase counts from when it is asked for": (7, *resize(7, 2, 2)),
    "a deferred increase counts": (7, *resize(7, 2, 2, **pending("Deferred"))),
    "an infeasible increase does not count": (2, *resize(7, 2, 2, **pending("Infeasible"))),
    "an infeasible one leaves what is allocated": (3, *resize(7, 3, 2, **pending("Infeasible"))),
    "what is allocated counts without a report of what is set": (4, *resize(1, 4, None)),
    "without any report, what is asked for counts": (
        2,
        *resize(2, None, None, **pending("Infeasible")),
    ),
    "containers are resized one by one": (
        5,
        {"containers": [container("a", 1), container("b", 2)]},
        running(report("b", 2, 2), report("a", 3, 1)),
    ),
    "sidecars are resized": (
        4,
        {"initContainers": [sidecar("s", 1)], "containers": [container("a", 1)]},
        running(report("a", 1, 1), initContainerStatuses=[report("s", 3, 3)]),
    ),
    "a pod's own requests are resized": (
        4,
        {"resources": asks(1), "containers": [container("a")]},
        running(allocatedResources=amounts(2), resources=asks(4)),
    ),
    "an infeasible one of a pod does not count": (
        2,
        {"resources": asks(7), "containers": [container("a")]},
        running(allocatedResources=amounts(2), resources=asks(2), **pending("Infeasible")),
    ),
    "a kubelet reports a pod with its overhead": (
        2.25,
        {"resources": asks(2), "overhead": amounts(0.25), "containers": [container("a")]},
        running(allocatedResources=amounts(2.25), resources=asks(2.25)),
    ),
}


def pod(spec: Mapping[str, Any], status: Mapping[str, Any], **labels: str) -> Pod:
    head = {"name": "p", "namespace": "lab", "uid": "1", "labels": labels}
    return Pod.model_validate(
        {"kind": "Pod", "metadata": head, "spec": {"nodeName": "n1", **spec}, "status": status}
    )


NODE = NodeObject.model_validate(
    {
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}},
    }
)
LAB = EntitlementObject.model_validate(
    {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "Entitlement",
        "metadata": {"name": "lab"},
        "spec": {"shares": 1, "namespaces": ["lab"]},
    }
)
JOB = MarketJob.model_validate(
    {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "MarketJob",
        "metadata": {"name": "job", "namespace": "lab"},
        "spec": {
            "entitlement": "lab",
            "parallelFraction": "0.9",
            "selector": {"matchLabels": {"app": "job"}},
        },
    }
)


@pytest.mark.parametrize(("requested", "spec", "status"), CASES.values(), ids=CASES.keys())
def test_all_parts_of_walras_count_a_pods_request_as_the_scheduler(
    requested: float, spec: Mapping[str, Any], status: Mapping[str, Any]
) -> None:
    found = pod(spec, status)
    assert found.cpus_requested == Decimal(str(requested))
    assert found.memory_requested == requested * GIB
    # Supply: what is left of the node.
    others = assemble(Objects(entitlements=[LAB], nodes=[NODE], pods=[found]))
    (node,) = others.snapshot.nodes
    assert (node.cores, node.memory) == (8 - requested, (8 - requested) * GIB)
    # The dispatcher: the room for pods that wait.
    room = room_of([NODE], [found])["n1"]
    assert (room["cpu"], room["memory"]) == (1000 * (8 - requested), (8 - requested) * GIB)
    # Floors: what a pod of the market keeps.
    mine = assemble(
        Objects(entitlements=[LAB], nodes=[NODE], jobs=[JOB], pods=[pod(spec, status, app="job")])
    )
    (job,) = mine.snapshot.jobs
    assert (job.requested, job.floor) == (requested, requested)


@pytest.mark.parametrize(
    ("resources", "guaranteed"),
    [(asks(4, 4), True), (asks(limit=4), True), (asks(2, 4), False), (asks(4), False)],
)
def test_a_pods_own_resources_say_whether_it_is_guaranteed(
    resources: Any, guaranteed: bool
) -> None:
    spec = {"resources": resources, "containers": [container("a", 1, 2)]}
    assert pod(spec, {"phase": "Pending"}).is_guaranteed is guaranteed


def test_a_pods_own_resources_have_only_what_pods_can_request() -> None:
    """The API server takes CPUs, memory and huge pages; a GPU stays a request of a container."""
    gpu = {"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    whole = {"requests": {"cpu": "2", "hugepages-2Mi": "4Mi", "nvidia.com/gpu": "5"}}
    found = pod({"containers": [gpu], "resources": whole}, running())
    assert dict(found.effective_requests) == {
        "pods": 1,
        "cpu": 2000,
        "hugepages-2Mi": 4 << 20,
        "nvidia.com/gpu": 1,
    }
