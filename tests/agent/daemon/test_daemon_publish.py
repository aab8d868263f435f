"""The status and the Lease are written when there is reason to, and again until they are."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from scripted_api import ScriptedServer
from waiting import eventually
from walras_agent.daemon.api import AgentClient
from walras_agent.daemon.api_monitor import ApiMonitor
from walras_agent.daemon.informer import AllocationInformer, ObservedAllocation
from walras_agent.daemon.publish import StatusPublisher
from walras_api.node_allocation_status import NodeAllocationStatus
from walras_service.api import Api
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.system

NODE = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "node-uid"}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes follow each other at once."""
    monkeypatch.setattr("walras_agent.daemon.publish._GATHER", 0.01)
    monkeypatch.setattr("walras_agent.daemon.publish.jittered", lambda _: 0.01)


@dataclass
class Harness:
    """The publisher and its dependencies."""

    server: ScriptedServer
    monitor: ApiMonitor
    plans: AllocationInformer
    publisher: StatusPublisher
    alive: bool = False

    def see(self, resync: int) -> None:
        """Let the NodeAllocation be known, as by a list."""
        self.plans.generation = 1
        self.plans.cached = ObservedAllocation("u1", resync, [{**NODE, "controller": True}])

    def publish(self, epoch: int) -> None:
        self.publisher.write(NodeAllocationStatus(epoch=epoch, mode="enforce"))

    def written(self, end: str) -> list[Any]:
        return [document for _, path, document in self.server.written if path == end]


@contextmanager
def publishing() -> Iterator[Harness]:
    server, monitor = ScriptedServer(None), ApiMonitor()
    plans = AllocationInformer(Api(server.settings(), "test"), "n", monitor, lambda: None, 30)
    harness: Harness
    publisher = StatusPublisher(
        AgentClient(server.settings(), "n"), monitor, plans, lambda: harness.alive, "system"
    )
    harness = Harness(server, monitor, plans, publisher)
    publisher.start()
    try:
        yield harness
    finally:
        publisher.stop()
        server.close()


def test_status_is_written_when_it_is_another_and_after_a_list() -> None:
    with publishing() as harness:
        harness.publish(1)
        harness.see(1)
        harness.publish(1)
        assert eventually(lambda: harness.written("status"))
        (patch,) = harness.written("status")
        assert patch == [
            {"op": "test", "path": "/metadata/uid", "value": "u1"},
            {"op": "add", "path": "/status", "value": {"mode": "enforce", "epoch": 1}},
        ]
        harness.publish(1)
        harness.publish(2)
        assert eventually(lambda: len(harness.written("status")) == 2)
        harness.see(2)
        assert eventually(lambda: len(harness.written("status")) == 3)
        assert harness.written("status")[2] == harness.written("status")[1]


@pytest.mark.parametrize("code", [403, 404, 409, 422, 500])
def test_status_that_is_refused_is_tried_again(code: int) -> None:
    with publishing() as harness:
        harness.server.refusals.extend([code, code])
        harness.see(1)
        harness.publish(1)
        assert eventually(lambda: len(harness.written("status")) == 3)
    failures = [each for family in harness.monitor.collect() for each in family.samples]
    assert [each.value for each in failures if each.labels.get("task") == "status"] == [2]


def test_lease_is_made_and_goes_with_its_node() -> None:
    with publishing() as harness:
        harness.see(1)
        harness.server.refusals.append(404)
        harness.alive = True
        assert eventually(lambda: harness.written("leases"))
        (lease,) = harness.written("leases")
        assert lease["metadata"]["name"] == "walras-agent-n"
        assert lease["metadata"]["ownerReferences"] == [NODE]
        assert lease["spec"]["leaseDurationSeconds"] == 45


@pytest.mark.parametrize("answers", [[403], [404, 403]], ids=["changed", "created"])
def test_lease_is_renewed_without_owner_where_owners_need_the_right_to_delete(
    answers: list[int],
) -> None:
    """The admission plugin OwnerReferencesPermissionEnforcement, as on OpenShift."""
    server = ScriptedServer(None)
    server.refusals.extend(answers)
    client = AgentClient(server.settings(), "n")
    try:
        for _ in range(2):
            client.renew_lease("system", 45, [NODE])
    finally:
        server.close()
    refused, *renewed = server.written[len(answers) - 1 :]
    assert refused[2]["metadata"]["ownerReferences"] == [NODE]
    assert [document["spec"]["holderIdentity"] for _, _, document in renewed] == ["n", "n"]
    assert all("ownerReferences" not in document["metadata"] for _, _, document in renewed)


def test_lease_keeps_its_owner_after_a_refusal_for_another_reason() -> None:
    server = ScriptedServer(None)
    server.refusals.extend([403, 403])
    client = AgentClient(server.settings(), "n")
    try:
        with pytest.raises(ApiError, match="verbs"):
            client.renew_lease("system", 45, [NODE])
        client.renew_lease("system", 45, [NODE])
    finally:
        server.close()
    assert server.written[-1][2]["metadata"]["ownerReferences"] == [NODE]


def test_lease_is_not_renewed_while_nobody_looks_at_the_node() -> None:
    with publishing() as harness:
        harness.see(1)
        harness.publish(1)
        assert eventually(lambda: harness.written("status"))
        assert harness.written("walras-agent-n") == []
        harness.alive = True
        assert eventually(lambda: harness.written("walras-agent-n"))
