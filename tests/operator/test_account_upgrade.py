"""The account through an upgrade, a rollback and the next upgrade.

The version before kept core credits in the statuses of Entitlements, and nowhere else; under its
definitions, the API server drops the account from the Market's status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from held_api import HeldApi, path_of
from held_operators import Leader
from worlds import entitlement, job, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Mapping

Document = dict[str, Any]

USERS = ("ada", "bob", "cyd")
CREDITS = {"ada": -2.0, "bob": -4.0, "cyd": 6.0}
DOUBLED = {user: 2 * hours for user, hours in CREDITS.items()}
MARKET = market(cores={"credits": {"halfLifeHours": 8760}})


class Cluster(HeldApi):
    """Three users, of whom the third has no jobs.

    Attributes:
        before: Whether the definitions are those of the version before.
    """

    def __init__(self) -> None:
        self.before = True
        jobs = [job(user, user) for user in USERS[:2]]
        pods = [pod(f"{user}-0", user) for user in USERS[:2]]
        super().__init__([MARKET, node(), *map(entitlement, USERS), *jobs, *pods])

    def _store(self, path: str, document: Document, writer: str) -> Document:
        if self.before and document["kind"] == "Market":
            document.get("status", {}).pop("account", None)
        return super()._store(path, document, writer)

    def status(self, document: Document) -> Document:
        status: Document = (self.get(path_of(document)) or {}).get("status", {})
        return status

    def told(self) -> dict[str, float]:
        """Return the credits that statuses of Entitlements have, in core-hours."""
        found = {user: self.status(entitlement(user)).get("coreCredits", {}) for user in USERS}
        return {user: float(each.get("coreHours", 0)) for user, each in found.items()}

    def account(self) -> dict[str, float]:
        balances = self.status(MARKET).get("account", {}).get("balances", ())
        return {each["entitlement"]: float(each["coreHours"]) for each in balances}

    def ready(self) -> str:
        (reason,) = (e["reason"] for e in self.status(MARKET)["conditions"] if e["type"] == "Ready")
        return str(reason)

    def run_version_before(self, credits_: Mapping[str, float]) -> None:
        """Write what the version before makes of the credits; it writes all statuses anew."""
        for user, hours in credits_.items():
            credit = {"coreCredits": {"coreHours": f"{hours:g}", "level": "0"}}
            self._status(entitlement(user), credit)
        self._status(MARKET, self.status(MARKET))

    def _status(self, document: Document, status: Document) -> None:
        path = path_of(document)
        self._store(path, {**(self.get(path) or {}), "status": status}, "the version before")

    def run_operator(self, term: int) -> None:
        """Let an operator that has just started decide twice."""
        operator = Leader(self, f"operator-{term}", term)
        for _ in range(2):
            operator.receive()
            operator.recompute._round(operator.current)
            operator.passed += 30.0
        operator.publisher.close()


def test_credits_survive_an_upgrade_a_rollback_and_the_next_upgrade() -> None:
    cluster = Cluster()
    cluster.run_version_before(CREDITS)

    cluster.run_operator(term=1)  # the definitions come later
    assert cluster.ready() == "AccountDropped"
    assert cluster.account() == {}
    assert cluster.told() == CREDITS

    cluster.before = False
    cluster.run_operator(term=2)
    assert cluster.ready() == "Cleared"
    assert cluster.account() == CREDITS
    assert cluster.told() == CREDITS, "where the version before finds them"

    cluster.before = True
    cluster.run_version_before(DOUBLED)
    assert cluster.account() == {}

    cluster.before = False
    cluster.run_operator(term=3)
    assert cluster.account() == DOUBLED, "and not what was stored before the rollback"
    assert cluster.ready() == "Cleared"
