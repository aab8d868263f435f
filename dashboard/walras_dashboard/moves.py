"""Pure: what an agent's report says about CPUs that changed hands since the report before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walras_api.node_allocation_status import NodeAllocationStatus
    from walras_view.facts import ApiObject


def moves(
    before: ApiObject[NodeAllocationStatus] | None, after: ApiObject[NodeAllocationStatus] | None
) -> tuple[str, ...]:
    """Return a sentence for every pod whose CPUs changed; none for a first report.

    Args:
        before: The NodeAllocation before; None if there was none.
        after: The NodeAllocation now; None if it was deleted.
    """
    if before is None:
        return ()
    old = _cpus(before)
    new = {} if after is None else _cpus(after)
    return tuple(
        _sentence(title, old.get(key, ""), new.get(key, ""))
        for key, title in {**_titles(before), **({} if after is None else _titles(after))}.items()
        if old.get(key, "") != new.get(key, "")
    )


def _cpus(report: ApiObject[NodeAllocationStatus]) -> dict[str, str]:
    return {each.pod_uid: each.cpus or "" for each in report.status.pods}


def _titles(report: ApiObject[NodeAllocationStatus]) -> dict[str, str]:
    return {each.pod_uid: f"{each.namespace}/{each.name}" for each in report.status.pods}


def _sentence(title: str, before: str, after: str) -> str:
    if not before:
        return f"{title} got CPUs {after}"
    if not after:
        return f"{title} left CPUs {before}"
    return f"{title} moved from CPUs {before} to {after}"
