"""A local run as documents of a cluster, for ``walras dashboard``.

The run's jobs become pods of one node, and the operator's code writes the statuses of the run's own
plan, so that a run looks like a cluster with one node.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from walras.analysis.plan_quality import evaluate_plan, proportional_progress
from walras_agent.cpuset import CpuSet
from walras_agent.daemon.report import topology_of
from walras_api import kinds
from walras_api.assembly import Objects
from walras_api.contract import API_VERSION, LOCAL_RUN_LABEL
from walras_api.status import decimals
from walras_cli.cluster_documents import default_market
from walras_cli.local.course import Course
from walras_cli.local.documents import NODE
from walras_cli.local.state import FractionSource
from walras_cli.what_if.situation import on_one_node
from walras_operator.decide.enforcement import Enforcement
from walras_operator.decide.job_outcomes import JobOutcomes
from walras_operator.decide.status.entitlement import EntitlementOutcomes
from walras_operator.decide.status.market import cleared, market_status
from walras_operator.decide.status.objects import participant_statuses
from walras_operator.decide.validation import validate
from walras_operator.decide.world import World
from walras_service.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from walras.market.plan import Plan
    from walras_cli.local.loop import Loop, View
    from walras_cli.local.state import JobState

Document = dict[str, Any]

SECONDS = 1.0
"""Least seconds between two records of a run."""


@dataclass(slots=True)
class Recording:
    """A view that also keeps a record of the run in a file, for others to follow.

    Attributes:
        view: The view of the user who started the run.
        loop: The run.
        file: File of the record.
        clock: Returns the time, in seconds since 1970.
    """

    view: View
    loop: Loop
    file: Path
    clock: Callable[[], float] = time.time
    _course: Course = field(default_factory=Course)
    _written: float = -SECONDS
    _most: int = 0
    _fullest: list[Document] = field(default_factory=list)
    _fullest_at: float = 0.0
    _failed: bool = False

    def event(self, now: float, text: str) -> None:
        """Receive an event."""
        self._course.keep_event(self.clock(), text)
        self.view.event(now, text)

    def refresh(self, now: float, jobs: Mapping[str, JobState]) -> None:
        """Write the record, if the last time is long enough ago."""
        self.view.refresh(now, jobs)
        at = self.clock()
        self._course.follow(at, jobs)
        if now - self._written < SECONDS:
            return
        self._written = now
        documents = documents_of_run(self.loop)
        pods = sum(each["kind"] == "Pod" for each in documents)
        if pods:
            self._course.take(at, documents, jobs.values())
            self._write([*documents, self._course.document(at)])
        if pods >= self._most:
            self._most, self._fullest, self._fullest_at = pods, documents, at

    def close(self) -> None:
        """Leave the record of the time when most jobs ran, with the whole course, at last."""
        if self._fullest:
            self._write([*self._fullest, self._course.document(self._fullest_at)])

    def _write(self, documents: Iterable[Document]) -> None:
        """Write the record; if that fails, say so once, since the run does not need it."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)})
        try:
            _replace(self.file, text)
        except OSError as error:
            if not self._failed:
                self.view.event(
                    max(self._written, 0.0),
                    f"the record {self.file} cannot be written ({error.strerror or error}), and "
                    f"is tried again; the run goes on",
                )
            self._failed = True


def _replace(file: Path, text: str) -> None:
    """Write a file as a whole, by a new one whose name nobody can have taken before.

    Raises:
        OSError: It cannot be written, and is as before.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def documents_of_run(loop: Loop) -> list[Document]:
    """Return a run as it is now; only its Entitlements and its Market while no job has a grant."""
    now = rfc3339(datetime.now(UTC))
    states = {
        (state.job.namespace, state.job.name): state
        for state in loop.jobs.values()
        if state.takes_part and state.grant is not None
    }
    objects, market = _objects(loop, states)
    world = World(now, objects, (market,), agents=frozenset({NODE}))
    validated = validate(world, objects.rules)
    plan = _plan(loop, states)
    documents = [_document(each, {}) for each in (market, *objects.entitlements, *objects.jobs)]
    if plan is not None:
        enforced = {(NODE, _uid(key)): _enforcement(state) for key, state in states.items()}
        outcomes = JobOutcomes.of(validated, plan, {}, enforced, world.kept)
        snapshot = validated.assembled.snapshot
        scores, rival = evaluate_plan(snapshot, plan), proportional_progress(snapshot, plan)
        conditions = {"Ready": cleared(plan)}
        status = market_status(
            *(market, objects.rules, snapshot, plan, scores, rival, conditions),
            waiting=None,
            ledger=None,
            owed=None,
            pools=None,
            gains=[],
            predictions=[],
            before={},
            now=now,
        )
        documents = [_document(market, status)]
        by_reference = {
            (each.metadata.namespace, each.metadata.name): each for each in objects.jobs
        }
        by_name = {each.metadata.name: each for each in objects.entitlements}
        for update in participant_statuses(
            world, outcomes, EntitlementOutcomes.of(validated, plan, {})
        ):
            reference = update.object
            if reference.kind == "Entitlement":
                documents.append(_document(by_name[reference.name], update.after))
            else:
                key = reference.namespace, reference.name
                documents.append(
                    _document(by_reference[key], _with_source(update.after, states[key]))
                )
    return [*documents, *_machine(loop, states, objects, now)]


def _objects(
    loop: Loop, states: Mapping[tuple[str, str], JobState]
) -> tuple[Objects, kinds.Market]:
    resources = loop.market.resources
    jobs = [
        _with_fraction(each, states[each.metadata.namespace, each.metadata.name])
        for each in resources
        if isinstance(each, kinds.MarketJob)
        and (each.metadata.namespace, each.metadata.name) in states
    ]
    given = next((each for each in resources if isinstance(each, kinds.Market)), None)
    market = given or default_market()
    objects = Objects(
        entitlements=[each for each in resources if isinstance(each, kinds.EntitlementObject)],
        jobs=jobs,
        rules=market.spec,
    )
    objects = on_one_node(objects, len(loop.sold.units))
    pods = [
        pod.model_copy(
            update={
                "metadata": pod.metadata.model_copy(
                    update={"uid": _uid((pod.metadata.namespace, pod.metadata.name))}
                )
            }
        )
        for pod in objects.pods
    ]
    return replace(objects, pods=pods), market.model_copy(update={"spec": objects.rules})


def _uid(key: tuple[str, str]) -> str:
    return str(uuid5(NAMESPACE_URL, "/".join(key)))


def _with_fraction(job: kinds.MarketJob, state: JobState) -> kinds.MarketJob:
    """Return a job with the parallel fraction that it bids with."""
    given = {"parallelFraction": f"{state.fraction:.6f}", "profile": None}
    spec = job.spec.model_dump(by_alias=True, mode="json", exclude_unset=True, exclude_none=True)
    made = type(job.spec).model_validate(
        {name: each for name, each in {**spec, **given}.items() if each is not None}
    )
    return job.model_copy(update={"spec": made})


def _plan(loop: Loop, states: Mapping[tuple[str, str], JobState]) -> Plan | None:
    """Return the plan in force, each job's grant as that of its one pod."""
    plan = loop.plan
    if plan is None or not states:
        return None
    grants = tuple(
        each._replace(pod=each.name)
        for each in plan.grants
        if (each.namespace, each.name) in states
    )
    return replace(plan, grants=grants)


def _enforcement(state: JobState) -> Enforcement:
    return Enforcement("Failed", state.trouble) if state.trouble else Enforcement("Enforced")


def _with_source(status: Document, state: JobState) -> Document:
    sources = {FractionSource.MEASURED: "Measured", FractionSource.ASSUMED: "Assumed"}
    profile = status.get("profile")
    if profile is None or state.source not in sources:
        return status
    return {**status, "profile": {**profile, "source": sources[state.source]}}


def _document(resource: Any, status: Document) -> Document:
    """Return an object with its status, without environment variables, which often are secrets."""
    metadata = {"name": resource.metadata.name}
    if resource.kind in kinds.NAMESPACED:
        metadata["namespace"] = resource.metadata.namespace
    spec = resource.spec.model_dump(
        by_alias=True, mode="json", exclude={"env"}, exclude_unset=True, exclude_none=True
    )
    made = {"apiVersion": API_VERSION, "kind": resource.kind, "metadata": metadata, "spec": spec}
    return {**made, "status": status} if status else made


def _ready(loop: Loop, states: Mapping[tuple[str, str], JobState], now: str) -> Document:
    """Return the condition that says whether every job has its CPUs."""
    failed = [state.job.title for state in states.values() if state.trouble]
    if failed:
        state = {
            "status": "False",
            "reason": "Failed",
            "message": f"not held: {', '.join(failed)}",
        }
    elif loop.market.rules.mode == "observe":
        state = {"status": "True", "reason": "Observed", "message": "nothing is enforced"}
    else:
        others = loop.others.sentence if loop.others else ""
        message = "every grant is enforced" + (f", but {others}" if others else "")
        state = {"status": "True", "reason": "Enforced", "message": message}
    return {"type": "Ready", "lastTransitionTime": now, **state}


def _machine(
    loop: Loop, states: Mapping[tuple[str, str], JobState], objects: Objects, now: str
) -> list[Document]:
    """Return the node, what its agent would report, and the pods."""
    topology = loop.sold.topology
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "labels": {LOCAL_RUN_LABEL: "true"}},
        "status": {"allocatable": {"cpu": str(len(topology.cpus)), "memory": str(memory)}},
    }
    grants, holdings = [], []
    for key, state in states.items():
        whose = {"podUID": _uid(key), "namespace": key[0], "name": key[1]}
        grants.append({**whose, "cores": f"{state.held:.3f}"})
        holding = {**whose, "state": "Failed" if state.trouble else "Enforced"}
        if state.cpus is not None:
            holding["cpus"] = str(state.cpus)
        if elapsed := state.elapsed(loop.now):
            holding["usedCpus"] = decimals(state.cpu_seconds / elapsed)
        holdings.append({**holding, "reason": state.trouble} if state.trouble else holding)
    allocation = {
        "apiVersion": API_VERSION,
        "kind": "NodeAllocation",
        "metadata": {"name": NODE},
        "spec": {
            "epoch": len(loop.totals.decisions),
            "mode": loop.market.rules.mode,
            "unit": loop.sold.unit,
            "grants": grants,
        },
        "status": {
            "epoch": len(loop.totals.decisions),
            "topology": topology_of(topology, CpuSet(), memory).document(),
            "pods": holdings,
            "conditions": [_ready(loop, states, now)],
        },
    }
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": each.metadata.name,
                "namespace": each.metadata.namespace,
                "uid": each.metadata.uid,
            },
            "spec": {"nodeName": NODE},
            "status": {"phase": "Running"},
        }
        for each in objects.pods
    ]
    return [node, allocation, *pods]
