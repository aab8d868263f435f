"""Pure: read from a pod whether it has ended, and for how long it ran."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from walras_operator.decide.world import Lifetime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_operator.decide.world import Document


class PodEnd(NamedTuple):
    """Whether and how a pod ended.

    Attributes:
        over: Whether the pod has ended.
        lifetime: Lifetime, if the run can be compared with others; otherwise None.
    """

    over: bool
    lifetime: Lifetime | None = None


ENDED_WITHOUT_RUN = PodEnd(over=True)


def read_end(pod: Document | None, uid: str) -> PodEnd:
    """Return whether and how a pod ended.

    Only a pod that succeeded, and whose containers each ran once, leaves a run. The time of others
    cannot be attributed to their work.

    Args:
        pod: Pod from the API server; None if there is none of this name.
        uid: UID of the pod; a later pod may have its name.
    """
    metadata, status = _part(pod, "metadata"), _part(pod, "status")
    if metadata.get("uid") != uid:
        return ENDED_WITHOUT_RUN
    phase = status.get("phase")
    if phase not in {"Succeeded", "Failed"}:
        return PodEnd(over=False)
    spec = _part(pod, "spec")
    ran = _listed(status, "containerStatuses")
    before = _listed(status, "initContainerStatuses")
    if phase == "Failed" or len(ran) != len(_listed(spec, "containers")):
        return ENDED_WITHOUT_RUN
    if any(map(_started_again, (*ran, *before))):
        return ENDED_WITHOUT_RUN
    lifetime = _lifetime(ran)
    if lifetime is None or lifetime.finished >= _deletion_requested_at(metadata):
        return ENDED_WITHOUT_RUN
    return PodEnd(over=True, lifetime=lifetime)


def seconds_of(time: object) -> int | None:
    """Return a moment as the API server writes it in seconds since 1970; None if it is none."""
    if not isinstance(time, str):
        return None
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    seconds = int(moment.timestamp()) if moment.tzinfo is UTC else -1
    return None if seconds < 0 else seconds


def _started_again(container: Mapping[str, Any]) -> bool:
    return bool(container.get("restartCount")) or bool(_part(container, "lastState"))


def _lifetime(ran: Iterable[Mapping[str, Any]]) -> Lifetime | None:
    ends = [_part(_part(each, "state"), "terminated") for each in ran]
    started = [seconds_of(each.get("startedAt")) for each in ends]
    finished = [seconds_of(each.get("finishedAt")) for each in ends]
    if not ends or None in started or None in finished:
        return None
    lifetime = Lifetime(min(filter(None, started)), max(filter(None, finished)))
    return lifetime if lifetime.started < lifetime.finished else None


def _deletion_requested_at(metadata: Mapping[str, Any]) -> float:
    """Return when the pod was deleted: who ends after that was cut short, whatever it answered."""
    deletion, grace = (
        metadata.get("deletionTimestamp"),
        metadata.get("deletionGracePeriodSeconds"),
    )
    if deletion is None:
        return float("inf")
    return (seconds_of(deletion) or 0) - (grace if isinstance(grace, int) else 0)


def _part(document: object, field: str) -> Mapping[str, Any]:
    part = document.get(field) if isinstance(document, dict) else None
    return part if isinstance(part, dict) else {}


def _listed(document: Mapping[str, Any], field: str) -> list[Any]:
    entries = document.get(field)
    return entries if isinstance(entries, list) else []
