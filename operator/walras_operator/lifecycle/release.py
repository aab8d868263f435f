"""Effects: restore all nodes, and delete their NodeAllocations.

A plan without grants makes an agent restore its node, and its status confirms that. NodeAllocations
are therefore emptied before they are deleted; a deletion alone would leave no status to confirm it.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from walras_api.contract import AGENT_LEASES
from walras_operator.decide.conditions import conditions_of
from walras_operator.lead.lease import next_epoch
from walras_operator.lifecycle.requests import list_all, retry_transient
from walras_operator.watch.agent_leases import AgentLeases
from walras_operator.watch.cached_objects import CachedAllocation
from walras_service.api_errors import ApiError
from walras_service.kinds import LEASES, OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from walras_operator.lifecycle.lease_takeover import LeaseTakeover
    from walras_service.api import Api, Document

THREADS = 8
"""Most concurrent requests."""

SETTLING = 5.0
"""Seconds after which every agent has noticed a deletion."""

_PAUSE = 2.0  # seconds between two checks
_REPEAT = 20.0  # seconds after which unchanged progress is printed again
_NAMED = 5  # most nodes that a line names

_PLANS = OURS["NodeAllocation"]


State = Literal["restored", "waiting", "lost"]


@dataclass(frozen=True, slots=True)
class ReleaseProgress:
    """The progress of a release.

    Attributes:
        restored: Nodes that are restored.
        waiting: State of nodes that are not restored yet, by node.
        lost: Why a node will not be restored, by node.
    """

    restored: tuple[str, ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)


class NotReleasedError(Exception):
    """Live agents did not restore their nodes in time; a line for each node."""


@dataclass(slots=True)
class Release:
    """Ends all grants.

    Attributes:
        api: Connections to the API server, `THREADS` of them.
        takeover: Takeover of the operator's Lease.
        namespace: Namespace of the agents' Leases.
        echo: Prints a line about the progress.
    """

    api: Api
    takeover: LeaseTakeover
    namespace: str
    echo: Callable[[str], None]
    _epoch: int = 0
    _agents: AgentLeases = field(default_factory=AgentLeases)
    _printed: tuple[str, float] = ("", 0.0)

    def run(self, until: float, release_after: float) -> ReleaseProgress:
        """Empty all NodeAllocations, wait for agents, delete, and wait until agents notice.

        Args:
            until: When to give up waiting, by `time.monotonic`.
            release_after: Seconds after which an agent takes a missing NodeAllocation for deleted.

        Raises:
            NotReleasedError: It took too long; NodeAllocations are empty, but still exist.
            ApiError: The Lease cannot be taken, or the kind NodeAllocation does not exist.
        """
        term = retry_transient(until, self.takeover.take, self.echo)
        self.echo(f"holding the operator's Lease as {self.takeover.identity}; operators stand by")
        self._epoch = next_epoch(term, 0)
        progress = self._wait_for_agents(until)
        deleted = retry_transient(until + SETTLING, self._delete, self.echo)
        self.echo(f"deleted {deleted} NodeAllocations")
        if progress.restored:
            self._settle(release_after + SETTLING)
        return progress

    def _wait_for_agents(self, until: float) -> ReleaseProgress:
        while True:
            progress = retry_transient(until, self._look, self.echo)
            now = time.monotonic()
            if not progress.waiting and now >= self.takeover.alone:
                return progress
            if progress.waiting and now >= until:
                lines = (f"{node}: {reason}" for node, reason in progress.waiting.items())
                raise NotReleasedError("\n".join(lines))
            time.sleep(_PAUSE)

    def _look(self) -> ReleaseProgress:
        """Empty all NodeAllocations, new ones included, and return the progress."""
        self.takeover.renew()
        allocations = self._allocations()
        cached = map(CachedAllocation.read, allocations)
        latest = max((max(each.epoch, each.reported) for each in cached), default=0)
        if latest > self._epoch:  # from an earlier term, or an operator that still decides
            self._epoch = latest + 1
        self._withdraw(allocations)
        now = time.monotonic()
        path = LEASES.path(self.namespace)
        for lease in list_all(self.api, path, {"labelSelector": AGENT_LEASES}):
            self._agents.see(lease["metadata"]["uid"], lease, now)
        progress = release_progress(allocations, self._epoch, self._agents.alive(now))
        self._progress(progress)
        return progress

    def _allocations(self) -> list[Document]:
        return list(list_all(self.api, _PLANS.path()))

    def _withdraw(self, allocations: Iterable[Document]) -> None:
        remaining = [each for each in allocations if each["spec"]["epoch"] != self._epoch]

        def withdraw(allocation: Document) -> None:
            path = _PLANS.path(name=allocation["metadata"]["name"])
            spec = allocation["spec"]
            # Of a paused one, the API server takes no other epoch; the next look empties it.
            after = resumed(spec) if spec.get("paused") else empty_plan(spec, self._epoch)
            document = {**allocation, "spec": after}
            # A conflict is handled by the next check.
            self._unless_changed(lambda: self.api.request("PUT", path, document))

        self._all(withdraw, remaining)

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
        """Hold the Lease until all agents have noticed the deletion and forgotten their epoch.

        An agent that remembers its last epoch refuses plans of an operator that is installed later
        and counts epochs from the start.
        """
        self.echo(f"waiting {seconds:.0f} s until agents have noticed the deletion")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(min(_PAUSE, max(0.0, until - time.monotonic())))
            retry_transient(until, self.takeover.renew, self.echo)

    def _progress(self, progress: ReleaseProgress) -> None:
        """Print the progress if it has changed, or was not printed for a while."""
        names = sorted(progress.waiting)
        rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        waiting = f", waiting for {', '.join(names[:_NAMED])}{rest}" if names else ""
        line = (
            f"{len(progress.restored)} nodes restored, {len(progress.lost)} not restorable{waiting}"
        )
        now = time.monotonic()
        if line != self._printed[0] or now >= self._printed[1] + _REPEAT:
            self.echo(line)
            self._printed = (line, now)


def release_progress(
    allocations: Iterable[Mapping[str, Any]], epoch: int, alive: Collection[str]
) -> ReleaseProgress:
    """Return the progress of a release (pure).

    Args:
        allocations: Empty NodeAllocations from the API server.
        epoch: Epoch with which they were emptied.
        alive: Nodes with a live agent.
    """
    nodes: dict[State, dict[str, str]] = {"restored": {}, "waiting": {}, "lost": {}}
    for each in allocations:
        node = str(each["metadata"]["name"])
        state, reason = _node_state(each.get("status") or {}, epoch, lives=node in alive)
        nodes[state][node] = reason
    return ReleaseProgress(tuple(nodes["restored"]), nodes["waiting"], nodes["lost"])


def empty_plan(spec: Mapping[str, Any], epoch: int) -> dict[str, Any]:
    """Return a spec without grants, in the mode whose success an agent confirms (pure)."""
    kept = {name: value for name, value in spec.items() if name != "profiling"}
    return {**kept, "mode": "enforce", "grants": [], "epoch": epoch}


def resumed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec that `walras pause` holds no longer (pure)."""
    return {name: value for name, value in spec.items() if name != "paused"}


def _node_state(status: Mapping[str, Any], epoch: int, *, lives: bool) -> tuple[State, str]:
    ready = conditions_of(status).get("Ready", {})
    if status.get("epoch") == epoch:
        # In mode observe, an agent restores everything before it reports the epoch.
        if status.get("mode") == "observe" or status.get("enforcedEpoch") == epoch:
            return "restored", ""
        if ready.get("reason") == "Refused":
            return "lost", f"its agent refuses to write: {ready.get('message')}"
    if not lives:
        return "lost", "its agent does not renew its Lease"
    if status.get("epoch") == epoch:
        return "waiting", str(ready.get("message") or "its agent is restoring it")
    return "waiting", "its agent has not reported yet"
