"""Facts: what is wanted of this node, from the documents that say so.

In a cluster the API server gives them (`follow`); elsewhere the agent follows a file with one
NodeAllocation. Whoever writes it should replace it at one stroke (rename(2)); one that is caught
half-written is not understood, and read again at the next change.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from walras.resources.kinds import API_VERSION
from walras.resources.node_status import PodHolding
from walras.resources.parse import ResourceError, parse_allocation
from walras_agent.holdings import Grant
from walras_agent.node_plan import NodePlan
from walras_agent.profiling.request import FileCounter, HttpCounter, Request

if TYPE_CHECKING:
    from pathlib import Path

    from walras.resources.allocation import NodeAllocation, PodGrant, ProfilingRequest

LARGEST = 4 << 20  # bytes; a plan for 110 pods has 20 KiB

_BYTES = re.compile(r"[0-9]{1,20}")


class PlanError(Exception):
    """A plan that cannot be used; ``problems`` has one line each: where, what, the way out."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class PlanWithdrawn(Exception):  # noqa: N818 - nothing went wrong
    """There is no plan any more.

    Attributes:
        rest: What is to be instead: no grants, of epoch 0, so that any plan may follow.
    """

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.rest = understood(
            {
                "apiVersion": API_VERSION,
                "kind": "NodeAllocation",
                "metadata": {"name": node},
                "spec": {"epoch": 0},
            }
        )


@dataclass(slots=True)
class PlanFile:
    """A file that says what is wanted of this node.

    Attributes:
        path: Of the file, YAML or JSON.
    """

    path: Path
    _seen: object = None

    def changed(self) -> NodeAllocation | None:
        """What the file says, if it has changed since the last call; else None.

        Raises:
            PlanError: It has changed, and cannot be used. This is said once for each change.
        """
        now = self._signature()
        if now == self._seen:
            return None
        self._seen = now
        return read_plan(self.path)

    def _signature(self) -> object:
        """What is another after every change."""
        try:
            stat = self.path.stat()
        except OSError as error:
            return str(error)
        return stat.st_ino, stat.st_mtime_ns, stat.st_size


def read_plan(path: Path) -> NodeAllocation:
    """Read a file with one NodeAllocation.

    Raises:
        PlanError: With all that is wrong.
    """
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}") from error
    if len(text) > LARGEST:
        raise PlanError(f"{path}: has more than {LARGEST} bytes; is it the plan of one node?")
    try:
        return parse_allocation(_loaded(text))
    except (ValueError, yaml.YAMLError) as error:
        problems = error.problems if isinstance(error, ResourceError) else (f"not YAML: {error}",)
        raise PlanError(*(f"{path}: {' '.join(each.split())}" for each in problems)) from error


def understood(document: object) -> NodeAllocation:
    """A document of the API server as a plan.

    Raises:
        PlanError: With all that is wrong.
    """
    try:
        return parse_allocation(document)
    except ResourceError as error:
        raise PlanError(*error.problems) from error


def _loaded(text: bytes) -> Any:
    """JSON is YAML too, and read by Python's own parser in a twentieth of the time."""
    if text.lstrip()[:1] == b"{":
        return json.loads(text)
    documents = [each for each in yaml.safe_load_all(text) if each is not None]
    if len(documents) != 1:
        raise ResourceError([f"has {len(documents)} documents; give one NodeAllocation"])
    return documents[0]


def node_plan(allocation: NodeAllocation) -> NodePlan:
    """A document as the agent takes it."""
    spec = allocation.spec
    return NodePlan(
        epoch=spec.epoch,
        mode=spec.mode,
        grants=tuple(_grant(each) for each in spec.grants),
        unit=spec.unit,
        memory_nodes=spec.memory_nodes,
    )


def told_demands(allocation: NodeAllocation) -> dict[str, int]:
    """The bytes of memory that pods could use, by UID, as the status that came with a plan says."""
    pods = (allocation.status or {}).get("pods")
    found: dict[str, int] = {}
    for each in pods if isinstance(pods, list) else ():
        try:
            told = PodHolding.read(each)
        except ValidationError:
            continue
        if told.memory_demand is not None and _BYTES.fullmatch(told.memory_demand):
            found[told.pod_uid] = int(told.memory_demand)
    return found


def measurement(allocation: NodeAllocation) -> Request | None:
    """What is to be measured, as the agent takes it; nothing where it only observes."""
    asked = allocation.spec.profiling
    if asked is None or allocation.spec.mode == "observe":
        return None
    return Request(
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


def _counter(asked: ProfilingRequest) -> FileCounter | HttpCounter | None:
    if asked.progress is None:
        return None
    if asked.progress.file is not None:
        return FileCounter(asked.progress.file)
    http = asked.progress.http
    if http is None or asked.pod_ip is None:
        return None
    return HttpCounter(asked.pod_ip, http.port, http.path, http.metric)


def _grant(grant: PodGrant) -> Grant:
    return Grant(
        pod=grant.pod_uid,
        title=f"{grant.namespace}/{grant.name}",
        millicores=int(grant.cores * 1000),
        memory=grant.memory,
    )
