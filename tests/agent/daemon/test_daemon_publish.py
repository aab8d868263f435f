"""The status and the Lease are written when there is reason to, and again until they are."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from scripted_api import ScriptedServer
from waiting import eventually
from walras.resources.node_status import NodeAllocationStatus
from walras_agent.daemon.api import Api
from walras_agent.daemon.contact import Contact
from walras_agent.daemon.follow import Follower, Known
from walras_agent.daemon.publish import Publisher

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
class Told:
    """The publisher, and what it depends on."""

    server: ScriptedServer
    contact: Contact
    plans: Follower
    publisher: Publisher
    alive: bool = False

    def see(self, listing: int) -> None:
        """Let the NodeAllocation be known, as by a list."""
        self.plans.generation = 1
        self.plans.known = Known("u1", listing, [{**NODE, "controller": True}])

    def tell(self, epoch: int) -> None:
        self.publisher.write(NodeAllocationStatus(epoch=epoch, mode="enforce"))

    def written(self, end: str) -> list[Any]:
        return [document for _, path, document in self.server.written if path == end]


@contextmanager
def publishing() -> Iterator[Told]:
    server, contact = ScriptedServer(None), Contact()
    plans = Follower(Api(server.settings(), "n"), contact, lambda: None, 30)
    told: Told
    publisher = Publisher(Api(server.settings(), "n"), contact, plans, lambda: told.alive, "system")
    told = Told(server, contact, plans, publisher)
    publisher.start()
    try:
        yield told
    finally:
        publisher.stop()
        server.close()


def test_status_is_written_when_it_is_another_and_after_a_list() -> None:
    with publishing() as told:
        told.tell(1)
        told.see(1)
        told.tell(1)
        assert eventually(lambda: told.written("status"))
        (patch,) = told.written("status")
        assert patch == [
            {"op": "test", "path": "/metadata/uid", "value": "u1"},
            {"op": "add", "path": "/status", "value": {"mode": "enforce", "epoch": 1}},
        ]
        told.tell(1)
        told.tell(2)
        assert eventually(lambda: len(told.written("status")) == 2)
        told.see(2)
        assert eventually(lambda: len(told.written("status")) == 3)
        assert told.written("status")[2] == told.written("status")[1]


@pytest.mark.parametrize("code", [403, 404, 409, 422, 500])
def test_status_that_is_refused_is_tried_again(code: int) -> None:
    with publishing() as told:
        told.server.refusals.extend([code, code])
        told.see(1)
        told.tell(1)
        assert eventually(lambda: len(told.written("status")) == 3)
    failures = [each for family in told.contact.collect() for each in family.samples]
    assert [each.value for each in failures if each.labels.get("task") == "status"] == [2]


def test_lease_is_made_and_goes_with_its_node() -> None:
    with publishing() as told:
        told.see(1)
        told.server.refusals.append(404)
        told.alive = True
        assert eventually(lambda: told.written("leases"))
        (lease,) = told.written("leases")
        assert lease["metadata"]["name"] == "walras-agent-n"
        assert lease["metadata"]["ownerReferences"] == [NODE]
        assert lease["spec"]["leaseDurationSeconds"] == 45


def test_lease_is_not_renewed_while_nobody_looks_at_the_node() -> None:
    with publishing() as told:
        told.see(1)
        told.tell(1)
        assert eventually(lambda: told.written("status"))
        assert told.written("walras-agent-n") == []
        told.alive = True
        assert eventually(lambda: told.written("walras-agent-n"))
