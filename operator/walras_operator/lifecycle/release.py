"""Apply: have every node put back what it was before Walras, and take its NodeAllocation away.

An agent takes a plan without grants as an order to restore, and its status confirms that this was
done; so plans are withdrawn before they are deleted. A deletion alone ends the count of epochs
too, but leaves nobody to say what became of it.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_operator.lifecycle.pages import everything
from walras_operator.lifecycle.patience import patiently
from walras_operator.lifecycle.verdicts import Verdicts, judge, withdrawn
from walras_operator.runtime.agents import Agents
from walras_operator.runtime.kinds import AGENT_LABEL
from walras_operator.runtime.lease import next_epoch
from walras_operator.runtime.mirror import CachedAllocation
from walras_service.api_errors import ApiError
from walras_service.kinds import LEASES, OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from walras_operator.lifecycle.takeover import Takeover
    from walras_service.api import Api, Document

THREADS = 8
"""Requests at a time."""

SETTLING = 5.0
"""Seconds that agents may notice a deletion later than it was made."""

_PAUSE = 2.0  # seconds between two looks
_REPEAT = 20.0  # seconds after which progress is told again though there was none
_NAMED = 5  # nodes of a line

_PLANS = OURS["NodeAllocation"]


class NotReleasedError(Exception):
    """Agents live that did not put everything back in time; a line for each node."""


@dataclass(slots=True)
class Release:
    """Ends all grants.

    Attributes:
        api: To the API server, for as many threads as `THREADS`.
        takeover: Of the operator's Lease.
        namespace: Of the agents' Leases.
        tell: Is given lines about how it goes.
    """

    api: Api
    takeover: Takeover
    namespace: str
    tell: Callable[[str], None]
    _epoch: int = 0
    _agents: Agents = field(default_factory=Agents)
    _told: tuple[str, float] = ("", 0.0)

    def run(self, until: float, release_after: float) -> Verdicts:
        """Withdraw, wait, delete, and wait until agents have forgotten.

        Args:
            until: When to give up waiting, by `time.monotonic`.
            release_after: Seconds for which agents must miss a plan before they take it for gone.

        Raises:
            NotReleasedError: It took too long; plans are withdrawn, and still there.
            ApiError: The operator's Lease is not to be had, or nobody knows the kind.
        """
        term = patiently(until, self.takeover.take, self.tell)
        self.tell(f"leading as {self.takeover.identity}; operators stand by")
        self._epoch = next_epoch(term, 0)
        found = self._awaited(until)
        deleted = patiently(until + SETTLING, self._delete, self.tell)
        self.tell(f"deleted {deleted} NodeAllocations")
        if found.restored:
            self._settle(release_after + SETTLING)
        return found

    def _awaited(self, until: float) -> Verdicts:
        while True:
            found = patiently(until, self._look, self.tell)
            now = time.monotonic()
            if not found.waiting and now >= self.takeover.alone:
                return found
            if found.waiting and now >= until:
                lines = (f"{node}: {reason}" for node, reason in found.waiting.items())
                raise NotReleasedError("\n".join(lines))
            time.sleep(_PAUSE)

    def _look(self) -> Verdicts:
        """Withdraw what is not yet, also what somebody has just made; see how far nodes are."""
        self.takeover.renew()
        allocations = self._allocations()
        known = map(CachedAllocation.read, allocations)
        latest = max((max(each.epoch, each.reported) for each in known), default=0)
        if latest > self._epoch:  # of an earlier term, or of an operator that still leads
            self._epoch = latest + 1
        self._withdraw(allocations)
        now = time.monotonic()
        path = LEASES.path(self.namespace)
        for lease in everything(self.api, path, {"labelSelector": AGENT_LABEL}):
            self._agents.see(lease["metadata"]["uid"], lease, now)
        found = judge(allocations, self._epoch, self._agents.alive(now))
        self._progress(found)
        return found

    def _allocations(self) -> list[Document]:
        return list(everything(self.api, _PLANS.path()))

    def _withdraw(self, allocations: Iterable[Document]) -> None:
        todo = [each for each in allocations if each["spec"]["epoch"] != self._epoch]

        def withdraw(allocation: Document) -> None:
            path = _PLANS.path(name=allocation["metadata"]["name"])
            document = {**allocation, "spec": withdrawn(allocation["spec"], self._epoch)}
            # One that has changed or gone meanwhile is seen at the next look.
            self._unless_changed(lambda: self.api.request("PUT", path, document))

        self._all(withdraw, todo)

    def _delete(self) -> int:
        allocations = self._allocations()

        def delete(allocation: Document) -> None:
            metadata = allocation["metadata"]
            options = {"preconditions": {"uid": metadata["uid"]}}
            path = _PLANS.path(name=metadata["name"])
            self._unless_changed(lambda: self.api.request("DELETE", path, options))

        self._all(delete, allocations)
        return len(allocations)

    def _all(self, do: Callable[[Document], None], documents: Sequence[Document]) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(do, documents))

    def _unless_changed(self, ask: Callable[[], object]) -> None:
        try:
            ask()
        except ApiError as error:
            if error.reason not in {"conflict", "missing"}:
                raise

    def _settle(self, seconds: float) -> None:
        """Go on to lead until agents take the deletion for one, and so begin to count epochs anew.

        An agent that still remembers the last epoch refuses the plans of an operator that is
        installed later and counts from the beginning.
        """
        self.tell(f"waiting {seconds:.0f} s until agents have forgotten their plans")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(min(_PAUSE, max(0.0, until - time.monotonic())))
            patiently(until, self.takeover.renew, self.tell)

    def _progress(self, found: Verdicts) -> None:
        """Say how far nodes are, when that is news or was not said for long."""
        names = sorted(found.waiting)
        rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        waiting = f", waiting for {', '.join(names[:_NAMED])}{rest}" if names else ""
        line = f"{len(found.restored)} nodes restored, {len(found.lost)} lost{waiting}"
        now = time.monotonic()
        if line != self._told[0] or now >= self._told[1] + _REPEAT:
            self.tell(line)
            self._told = (line, now)
