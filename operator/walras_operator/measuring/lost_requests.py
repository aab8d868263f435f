"""Pure: find requests that nodes have received but no profile has recorded.

A namespace that is being deleted accepts no new profile, and a status may be refused. If the
request were made anew with each decision, the pod would be narrowed to one core again and again,
and nobody would read the result. The request of the node therefore stays, and is recorded once that
is possible.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from walras.resources.statuses import OnlineRequest
from walras_operator.measuring.queue import NewRequest, last_end
from walras_operator.measuring.requests import name_of, until_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.resources.allocation import NodeAllocation, ProfilingRequest
    from walras_operator.measuring.subjects import Candidate, Subject

_STAMP = re.compile(r"[0-9]{14}")


def lost_request(subject: Subject, allocations: Mapping[str, NodeAllocation]) -> NewRequest | None:
    """Return what a node was asked for a profile, if that notes neither it nor what came of it.

    Args:
        subject: a profile of which nothing is being measured, as far as it notes.
        allocations: have what nodes are asked for.
    """
    for each in subject.candidates:
        allocation = allocations.get(each.node)
        order = None if allocation is None else allocation.spec.profiling
        if order is None or order.pod_uid != each.pod.cgroup_uid:
            continue
        since = _since(order, subject)
        if since is not None and since > last_end(subject.record):
            return NewRequest(_request(order, each, since), order)
    return None


def _request(order: ProfilingRequest, chosen: Candidate, since: str) -> OnlineRequest:
    return OnlineRequest(
        id=order.id,
        pod=chosen.pod.metadata.name,
        pod_uid=order.pod_uid,
        node=chosen.node,
        purpose=order.purpose,
        since=since,
        until=until_of(order, since),
    )


def _since(order: ProfilingRequest, subject: Subject) -> str | None:
    """Return when a profile's request was made, as its name says; None if it is another's."""
    stamp = order.id.rpartition("-")[2]
    if _STAMP.fullmatch(stamp) is None:
        return None
    try:
        since = datetime.strptime(stamp, "%Y%m%d%H%M%S").strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return None
    return since if order.id == name_of(subject.key, since) else None
