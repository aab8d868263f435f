"""Pure choice: which nodes have put everything back, which are to be waited for, which are lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

State = Literal["restored", "waiting", "lost"]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How far nodes are.

    Attributes:
        restored: Nodes on which everything is as it was.
        waiting: What their agents say, by node.
        lost: Why there is nothing to wait for, by node.
    """

    restored: tuple[str, ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)


def judge(allocations: Iterable[Mapping[str, Any]], epoch: int, alive: Collection[str]) -> Verdicts:
    """Say how far nodes are.

    Args:
        allocations: NodeAllocations without grants, as the API server has them.
        epoch: Since which they have none.
        alive: Nodes whose agent renews its Lease.
    """
    found: dict[State, dict[str, str]] = {"restored": {}, "waiting": {}, "lost": {}}
    for each in allocations:
        node = str(each["metadata"]["name"])
        state, reason = _verdict(each.get("status") or {}, epoch, lives=node in alive)
        found[state][node] = reason
    return Verdicts(tuple(found["restored"]), found["waiting"], found["lost"])


def withdrawn(spec: Mapping[str, Any], epoch: int) -> dict[str, Any]:
    """What a node is to hold: nothing, in the mode whose success an agent confirms."""
    kept = {name: value for name, value in spec.items() if name != "profiling"}
    return {**kept, "mode": "enforce", "grants": [], "epoch": epoch}


def _verdict(status: Mapping[str, Any], epoch: int, *, lives: bool) -> tuple[State, str]:
    ready = _ready(status)
    if status.get("epoch") == epoch:
        # An agent that was told to observe has put everything back before it says so.
        if status.get("mode") == "observe" or status.get("enforcedEpoch") == epoch:
            return "restored", ""
        if ready.get("reason") == "Refused":
            return "lost", f"its agent may write nothing: {ready.get('message')}"
    if not lives:
        return "lost", "its agent does not renew its Lease"
    if status.get("epoch") == epoch:
        return "waiting", str(ready.get("message") or "its agent is at it")
    return "waiting", "its agent has not answered yet"


def _ready(status: Mapping[str, Any]) -> Mapping[str, Any]:
    conditions: Iterable[Mapping[str, Any]] = status.get("conditions") or ()
    return next((each for each in conditions if each.get("type") == "Ready"), {})
