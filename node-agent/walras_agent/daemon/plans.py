"""Facts: plans for this node, parsed from NodeAllocation documents.

In a cluster they come from the API server (`informer`), elsewhere from a file with one
NodeAllocation. The file should be replaced atomically (rename(2)); one that is read half-written is
refused, and read again at its next change.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from walras_agent.node_plan import EnforcedGrant, NodePlan
from walras_agent.profiling.request import FileSource, HttpSource, MeasurementRequest
from walras_agent.profiling.watched_counters import WatchedCounter
from walras_api.contract import API_VERSION
from walras_api.node_allocation_status import GrantStatus
from walras_api.parse import ResourceError, parse_allocation

if TYPE_CHECKING:
    from pathlib import Path

    from walras_api.market_job import ProgressSource
    from walras_api.node_allocation import (
        CounterRequest,
        NodeAllocation,
        PodGrant,
        ProfilingRequest,
    )

MAX_BYTES = 4 << 20  # of a plan; one for 110 pods has 20 KiB

_BYTES = re.compile(r"[0-9]{1,20}")


class PlanError(Exception):
    """A plan is invalid; ``problems`` has a line for each error: place, cause and way out."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class PlanWithdrawn(Exception):  # noqa: N818 - nothing went wrong
    """The plan of the node was deleted.

    Attributes:
        empty_plan: Plan to apply instead: no grants, of epoch 0, so that any plan may follow.
    """

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.empty_plan = parse_plan(
            {
                "apiVersion": API_VERSION,
                "kind": "NodeAllocation",
                "metadata": {"name": node},
                "spec": {"epoch": 0},
            }
        )


@dataclass(slots=True)
class PlanFile:
    """Source of plans (`agent.PlanSource`) that reads a file.

    Attributes:
        path: Path of a YAML or JSON file with one NodeAllocation.
    """

    path: Path
    _seen: object = None

    def changed(self) -> NodeAllocation | None:
        """Return the plan if the file has changed since the last call; else None.

        Raises:
            PlanError: The file has changed and is invalid; raised once for each change.
        """
        now = self._signature()
        if now == self._seen:
            return None
        self._seen = now
        return read_plan(self.path)

    def _signature(self) -> object:
        """Return a value that differs after every change of the file."""
        try:
            stat = self.path.stat()
        except OSError as error:
            return str(error)
        return stat.st_ino, stat.st_mtime_ns, stat.st_size


def read_plan(path: Path) -> NodeAllocation:
    """Read a file with one NodeAllocation.

    Raises:
        PlanError: The file cannot be read or is invalid; lists all errors.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}") from error
    if len(text) > MAX_BYTES:
        raise PlanError(f"{path}: has more than {MAX_BYTES} bytes; is it the plan of one node?")
    try:
        return parse_allocation(_load(text))
    except (ValueError, yaml.YAMLError) as error:
        problems = error.problems if isinstance(error, ResourceError) else (f"not YAML: {error}",)
        raise PlanError(*(f"{path}: {' '.join(each.split())}" for each in problems)) from error


def parse_plan(document: object) -> NodeAllocation:
    """Parse a NodeAllocation document of the API server.

    Raises:
        PlanError: The document is invalid; lists all errors.
    """
    try:
        return parse_allocation(document, unknown="ignore")
    except ResourceError as error:
        raise PlanError(*error.problems) from error


def _load(text: bytes) -> Any:
    """Parse YAML; JSON by its own parser, which takes a twentieth of the time."""
    if text.lstrip()[:1] == b"{":
        return json.loads(text)
    documents = [each for each in yaml.safe_load_all(text) if each is not None]
    if len(documents) != 1:
        raise ResourceError([f"has {len(documents)} documents; give one NodeAllocation"])
    return documents[0]


def node_plan(allocation: NodeAllocation) -> NodePlan:
    """Return the spec of a NodeAllocation as a plan for the reconciler."""
    spec = allocation.spec
    return NodePlan(
        epoch=spec.epoch,
        mode=spec.mode,
        grants=tuple(_grant(each) for each in spec.grants),
        unit=spec.unit,
        memory_nodes=spec.memory_nodes,
        keeps_limits=spec.limits == "Kept",
    )


def reported_demands(allocation: NodeAllocation) -> dict[str, int]:
    """Return the bytes of memory that pods could use, by UID, from the status of an allocation."""
    pods = (allocation.status or {}).get("pods")
    demands: dict[str, int] = {}
    for each in pods if isinstance(pods, list) else ():
        try:
            holding = GrantStatus.read(each)
        except ValidationError:
            continue
        if holding.memory_demand is not None and _BYTES.fullmatch(holding.memory_demand):
            demands[holding.pod_uid] = int(holding.memory_demand)
    return demands


def measurement_request(allocation: NodeAllocation) -> MeasurementRequest | None:
    """Return the measurement that an allocation requests; None if it observes or is paused."""
    asked, spec = allocation.spec.profiling, allocation.spec
    if asked is None or spec.mode == "observe" or spec.paused:
        return None
    return MeasurementRequest(
        id=asked.id,
        pod=asked.pod_uid,
        purpose=asked.purpose,
        cores=None if asked.cores is None else tuple(asked.cores),
        sample_seconds=asked.sample_seconds,
        repeats=asked.repeats,
        lease_seconds=asked.lease_seconds,
        renewals=asked.renewals,
        progress=_counter(asked),
    )


def watched_counters(allocation: NodeAllocation) -> tuple[WatchedCounter, ...]:
    """Return the counters that an allocation asks to read; none in observe mode."""
    if allocation.spec.mode == "observe":
        return ()
    sources = ((each, _source(each, each.pod_ip)) for each in allocation.spec.counters)
    return tuple(WatchedCounter(each.pod_uid, source) for each, source in sources if source)


def _counter(asked: ProfilingRequest) -> FileSource | HttpSource | None:
    return None if asked.progress is None else _source(asked.progress, asked.pod_ip)


def _source(
    counter: ProgressSource | CounterRequest, address: str | None
) -> FileSource | HttpSource | None:
    if counter.file is not None:
        return FileSource(counter.file)
    http = counter.http
    if http is None or address is None:
        return None
    return HttpSource(address, http.port, http.path, http.metric)


def _grant(grant: PodGrant) -> EnforcedGrant:
    return EnforcedGrant(
        pod=grant.pod_uid,
        title=f"{grant.namespace}/{grant.name}",
        millicores=int(grant.cores * 1000),
        memory=grant.memory,
        isolated=bool(grant.isolated),
        partner=grant.partner_uid or "",
        user=grant.entitlement or "",
    )
