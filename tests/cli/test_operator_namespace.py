"""Only Leases and history in the operator's namespace count, which the Market names.

Users of other namespaces can create objects of the same names and labels. The cluster is faked by
its objects, since what matters is in which namespace they are asked for.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from walras_api.contract import MARKET_NAME
from walras_api.market_status import EpochReport, MarketStatus
from walras_cli.cluster import asking
from walras_cli.cluster.asking import facts_of
from walras_cli.cluster.live import world_of
from walras_cli.cluster.operator_history import HistoryReader, namespace_of_operator
from walras_service.api_errors import ApiError
from walras_service.kinds import LEASES, OURS
from walras_view.facts import Leases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_cli.cluster.asking import Wanted
    from walras_operator.decide.world import Document
    from walras_service.kinds import Kind

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
EPOCH: Document = {"number": 1, "time": "2026-01-31T11:00:00Z", "durationMilliseconds": 1}
NEVER_ENDING = "9999-12-31T23:59:59.999999Z"


def lease(namespace: str, name: str, holder: str, renewed: str | timedelta) -> Document:
    when = renewed if isinstance(renewed, str) else (NOW + renewed).isoformat()
    spec = {"holderIdentity": holder, "renewTime": when, "leaseDurationSeconds": 15}
    return {"metadata": {"namespace": namespace, "name": name}, "spec": spec}


class FakeCluster:
    """A cluster that has Leases and a Market, and notes what is asked for."""

    host, namespace, now, notes = "https://cluster", "default", NOW, ()

    def __init__(self, *leases: Document, named: str = "", forbidden: bool = False) -> None:
        self.leases, self.forbidden = leases, forbidden
        status = {"epoch": EPOCH, **({"operatorNamespace": named} if named else {})}
        metadata = {"name": MARKET_NAME, "uid": "u", "resourceVersion": "1"}
        self.market: Document | None = {"metadata": metadata, "status": status}
        self.asked: list[str] = []

    def every(self, kind: Kind, namespace: str = "", **selectors: str) -> Iterator[Document]:
        if kind == OURS["Market"] and self.market is not None:
            head = {"apiVersion": kind.api_version, "kind": "Market", "spec": {}}
            yield {**head, **self.market}
        for each in self.leases if kind == LEASES else ():
            prefix = "walras-operator" if "fieldSelector" in selectors else "walras-agent-"
            there = namespace in {"", each["metadata"]["namespace"]}
            if there and each["metadata"]["name"].startswith(prefix):
                yield each

    def get(self, path: str, _: object = None) -> Document:
        self.asked.append(path)
        if self.forbidden:
            raise ApiError("no", "forbidden")
        if path == OURS["Market"].path(name=MARKET_NAME) and self.market is not None:
            return self.market
        raise ApiError("no", "missing")


def leases_of(*leases: Document, named: str = "", decided: bool = True) -> Leases:
    cluster: Any = FakeCluster(*leases)
    epoch = EpochReport.read(EPOCH) if decided else None
    return asking.leases_of(cluster, MarketStatus(operator_namespace=named or None, epoch=epoch))


def own(namespace: str, renewed: timedelta) -> tuple[Document, ...]:
    return (
        lease(namespace, "walras-operator", "op", renewed),
        lease(namespace, "walras-agent-n1", "n1", renewed),
    )


DEAD = timedelta(hours=-2)
ALIVE = timedelta(seconds=-3)
FORGED = (
    lease("tenant", "walras-operator", "me", NEVER_ENDING),
    lease("tenant", "walras-operator", "me", ALIVE),
    lease("tenant", "walras-agent-x", "n1", ALIVE),
)


@pytest.mark.parametrize("named", ["", "walras-system", "market"])
def test_leases_of_other_namespaces_do_not_count(named: str) -> None:
    where = named or "walras-system"
    found = leases_of(*own(where, DEAD), *FORGED, named=named)
    assert (found.known, found.operator_alive, found.operator) == (True, False, NOW + DEAD)
    assert found.agents == {"n1": False}
    found = leases_of(*own(where, ALIVE), *FORGED, named=named)
    assert (found.operator_alive, found.agents) == (True, {"n1": True})


def test_where_no_namespace_is_named_nothing_is_known_of_an_operator_elsewhere() -> None:
    assert not leases_of(*FORGED).known
    assert leases_of(*FORGED, named="market") == Leases(known=True)
    assert leases_of(*FORGED, decided=False) == Leases(known=True), "it has never decided"


@pytest.mark.parametrize(
    ("renewed", "alive"),
    [
        (ALIVE, True),
        (timedelta(minutes=59), True),
        (timedelta(minutes=61), False),
        (timedelta(seconds=-19), True),
        (timedelta(seconds=-21), False),
        (NEVER_ENDING, False),
        ("2026-01-31T12:00:00", True),
        ("0001-01-01T00:00:00Z", False),
        ("soon", False),
    ],
)
def test_an_operator_lives_that_has_renewed_its_lease_now(
    renewed: str | timedelta, alive: bool
) -> None:
    found = leases_of(lease("walras-system", "walras-operator", "op", renewed))
    assert found.operator_alive is alive


def test_all_readers_look_in_the_namespace_that_the_market_names() -> None:
    cluster: Any = FakeCluster(*FORGED, own("market", ALIVE)[1], named="market")
    facts = facts_of(cluster, ("market", "leases"))
    assert (facts.leases.operator, facts.leases.agents) == (None, {"n1": True})
    only: tuple[Wanted, ...] = ("leases",)
    assert facts_of(cluster, only).leases == facts.leases
    assert world_of(cluster).agents == {"n1"}
    cluster.asked.clear()
    HistoryReader(cluster).accounts(0, 0)
    assert cluster.asked[1:]
    assert {each.split("/")[4] for each in cluster.asked[1:]} == {"market"}


def test_the_usual_namespace_counts_until_the_market_names_one() -> None:
    cluster: Any = FakeCluster(*FORGED)
    assert namespace_of_operator(cluster) == "walras-system"
    reader = HistoryReader(cluster)
    reader.accounts(0, 0)
    assert cluster.asked[-1].startswith("/api/v1/namespaces/walras-system/")
    cluster.market["status"]["operatorNamespace"] = "market"
    reader.accounts(0, 0)
    assert cluster.asked[-1].startswith("/api/v1/namespaces/market/")
    cluster.market = None
    assert namespace_of_operator(cluster) == "walras-system"
    cluster.forbidden = True
    assert namespace_of_operator(cluster) == "walras-system"
