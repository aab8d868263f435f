"""Pure: record the runs of jobs: what their pods held, and how long they took.

Everything known of runs is in ``status.runs`` of their MarketJob, so any later leader continues
from there. A pod is followed from when an agent first enforces a grant of its, and holds each grant
that replaces an enforced one. When it no longer runs,
its end is looked up (`walras_operator.watch.lookups`). It stays underway until the answer comes,
and the answer is kept until it is in a status.
"""

from __future__ import annotations

import re
from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from walras_api.auction_weights import finished_runs, records_runs, run_of
from walras_api.fields import DECIMAL
from walras_api.market_job_status import (
    MOST_RUNS,
    MOST_SECONDS,
    MOST_UNDERWAY,
    FinishedRun,
    RunUnderway,
)
from walras_operator.decide.allocations import MILLI
from walras_operator.decide.conditions import listed
from walras_operator.decide.enforcement import replaced
from walras_operator.decide.runs.lifetimes import seconds_of
from walras_operator.decide.runs.tally import HeldShares, Tally
from walras_operator.decide.world import Reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from walras.market.snapshot import Snapshot
    from walras_api.cluster import Pod
    from walras_api.job_inputs import Name
    from walras_api.kinds import MarketJob, MarketSpec
    from walras_operator.decide.allocations import Allocations, GrantSpec
    from walras_operator.decide.enforcement import Enforcement
    from walras_operator.decide.job_outcomes import JobOutcomes
    from walras_operator.decide.world import Document, World


FINISHED, UNDERWAY = (
    frozenset(field.alias or "" for field in model.model_fields.values())
    for model in (FinishedRun, RunUnderway)
)
"""Fields of finished and of unfinished runs in a status."""

FIGURES = ("cores", "memory", "utility")
DECIMALS = re.compile(DECIMAL)

NOT_HELD: tuple[Pod | None, Enforcement | None, HeldShares | None] = (None, None, None)


class RecordedEnds(NamedTuple):
    """A world in which all known ends of pods are recorded as runs.

    Attributes:
        world: World with the runs in the statuses of their jobs.
        pods: Followed pods that no longer run, whether or not their end is known.
    """

    world: World
    pods: tuple[Reference, ...] = ()


def record_ends(world: World, rules: MarketSpec) -> RecordedEnds:
    """Find pods that have ended, and take in what is known of their ends."""
    alive: frozenset[str] | None = None
    jobs: list[MarketJob] = []
    pods: list[Reference] = []
    for job in world.objects.jobs:
        jobs.append(job)
        runs = _runs(job.status)
        if not listed(runs, "underway") or not records_runs(job, rules):
            continue
        alive = world.live_pods() if alive is None else alive
        gone = [
            Reference("Pod", str(each.get("pod")), job.metadata.namespace, uid)
            for each in listed(runs, "underway")
            if (uid := _uid(each)) and uid not in alive
        ]
        pods += gone
        if any(each.uid in world.ends for each in gone):
            status = {**(job.status or {}), "runs": _with_finished(runs, world)}
            jobs[-1] = job.model_copy(update={"status": status})
    if not pods:
        return RecordedEnds(world)
    return RecordedEnds(replace(world, objects=replace(world.objects, jobs=jobs)), tuple(pods))


def _with_finished(runs: Mapping[str, Any], world: World) -> Document:
    """Return the runs of a job after some of its pods have ended; each leaves at most one run."""
    finished, underway = finished_runs(runs), []
    recorded = set(map(_uid, finished))
    for entry in listed(runs, "underway"):
        uid = _uid(entry)
        if uid not in world.ends:
            underway.append(entry)
            continue
        lifetime, tally = world.ends[uid], Tally.read(entry)
        run = None if lifetime is None or tally is None else tally.run(lifetime)
        if run is not None and uid not in recorded:
            finished.append(run.document())
    finished.sort(key=lambda each: str(each.get("finished")))  # all of them in UTC
    return _document(finished, underway)


def runs_by_job(
    world: World,
    rules: MarketSpec,
    snapshot: Snapshot,
    allocations: Allocations,
    outcomes: JobOutcomes,
) -> dict[Name, Document]:
    """Return the field ``runs`` of statuses, by job; jobs without runs are left out.

    Args:
        world: World with all known ends.
        rules: Rules of the Market.
        snapshot: Input of the market: what nodes sell.
        allocations: Specs of all NodeAllocations: what pods are granted.
        outcomes: Whether grants are enforced.
    """
    by_job: dict[Name, Document] = {}
    holdings: _Holdings | None = None
    for job in world.objects.jobs:
        runs = _runs(job.status)
        if records_runs(job, rules):
            holdings = holdings or _Holdings(world, snapshot, allocations, outcomes)
            after = _updated_runs(job, runs, holdings)
        elif runs:
            after = _document(finished_runs(runs), [])
        else:
            continue
        if after:
            by_job[job.metadata.namespace, job.metadata.name] = after
    return by_job


def runs_without_grants(status: Mapping[str, Any] | None, now: str) -> Document:
    """Return the runs of a job that takes no part, so that its pods hold nothing."""
    runs = _runs(status)
    underway = []
    for entry in listed(runs, "underway"):
        tally = Tally.read(entry)
        if tally is not None:
            underway.append(_as_entry(entry, tally, tally.until(seconds_of(now) or 0)))
    return _document(finished_runs(runs), underway)


class _Holdings:
    """Shares of their nodes that pods hold; looked up for followed pods only."""

    def __init__(
        self, world: World, snapshot: Snapshot, allocations: Allocations, outcomes: JobOutcomes
    ) -> None:
        self.now = seconds_of(world.now) or 0
        self.alive = world.live_pods()
        # Entries of an earlier version may no longer be accepted by the API server.
        self.rewrite = world.carried is None
        self._sold = {
            node.name: (round(node.cores * MILLI), node.memory) for node in snapshot.nodes
        }
        self._outcomes, self._allocations = outcomes, allocations
        self._enforced = replaced(allocations, world)
        self._portions: dict[str, dict[str, GrantSpec]] = {}

    def of(self, job: MarketJob) -> Iterator[tuple[Pod, Enforcement | None, HeldShares | None]]:
        """Yield the pods of a job with their enforcement and shares; None for those without."""
        objects = self._outcomes.validated.objects
        key = job.metadata.namespace, job.metadata.name
        for number in self._outcomes.pods.get(key, ()):
            pod = objects.pods[number]
            node = pod.spec.node_name or ""
            held = self._enforced.get((node, pod.metadata.uid))
            yield pod, held, None if held is None else self._shares(node, pod.metadata.uid)

    def _shares(self, node: str, uid: str) -> HeldShares | None:
        if node not in self._portions:
            grants = self._allocations.desired[node].grants
            self._portions[node] = {each.uid: each for each in grants}
        portion = self._portions[node].get(uid)
        if portion is None or portion.memory is None or node not in self._sold:
            return None
        cores, memory = self._sold[node]
        return HeldShares.of((portion.millicores, cores), (portion.memory, memory))


def _updated_runs(job: MarketJob, runs: Mapping[str, Any], holdings: _Holdings) -> Document:
    """Return the runs of a job with what its pods hold from now on.

    Entries that have not changed since this operator last read them are not parsed again.
    """
    held = {
        pod.metadata.uid: (pod, enforcement, shares)
        for pod, enforcement, shares in holdings.of(job)
    }
    before = listed(runs, "underway")
    underway: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    for entry in before:
        uid = _uid(entry)
        if not uid or uid in seen:
            continue
        seen.add(uid)
        _, enforcement, shares = held.get(uid, NOT_HELD)
        if not holdings.rewrite and _is_unchanged(entry, enforcement, shares):
            underway.append(entry)
            continue
        tally = Tally.read(entry)
        if tally is None:
            seen.remove(uid)
        elif uid in held:
            after = tally.holding(_known_shares(tally, enforcement, shares), holdings.now)
            underway.append(_as_entry(entry, tally, after))
        elif uid not in holdings.alive:
            underway.append(_as_entry(entry, tally, tally))  # until its end is known
    for uid in sorted(held.keys() - seen):
        pod, enforcement, shares = held[uid]
        if len(underway) < MOST_UNDERWAY and shares is not None and _enforced(enforcement):
            tally = Tally(uid, pod.metadata.name).holding(shares, holdings.now)
            underway.append(tally.document())
    same = len(before) == len(underway) and all(map(is_, before, underway))
    if same and not holdings.rewrite:
        return dict(runs)
    return _document(finished_runs(runs), underway)


def _is_unchanged(
    entry: Mapping[str, Any], enforcement: Enforcement | None, shares: HeldShares | None
) -> bool:
    """Return whether a pod still holds what its status says, so that nothing changes."""
    return (
        _enforced(enforcement)
        and shares is not None
        and "heldSince" in entry
        and (entry.get("cores"), entry.get("memory")) == shares
    )


def _known_shares(
    before: Tally, enforcement: Enforcement | None, shares: HeldShares | None
) -> HeldShares | None:
    """Return what a pod is known to hold; None if that is not known.

    If the agent has not reported since the grants of others changed, an unchanged grant still
    holds.
    """
    unchanged = before.since is not None and before.shares == shares
    unreported = enforcement is not None and enforcement.state == "Unreported"
    return shares if _enforced(enforcement) or (unreported and unchanged) else None


def _enforced(enforcement: Enforcement | None) -> bool:
    return enforcement is not None and enforcement.state == "Enforced"


def _as_entry(entry: Mapping[str, Any], before: Tally, after: Tally) -> Mapping[str, Any]:
    """Return a tally in the form of a status; the previous object if nothing has changed."""
    return entry if after == before and entry.keys() <= UNDERWAY else after.document()


def _uid(run: Mapping[str, Any]) -> str:
    uid = run.get("podUID")
    return uid if isinstance(uid, str) else ""


def _runs(status: Mapping[str, Any] | None) -> Mapping[str, Any]:
    runs = (status or {}).get("runs")
    return runs if isinstance(runs, dict) else {}


def _document(
    finished: Iterable[Mapping[str, Any]], underway: Sequence[Mapping[str, Any]]
) -> Document:
    """Return the newest runs in the form of a status, without entries that the schema refuses."""
    sound = [each for each in finished if run_of(each) is not None and _sound(each)]
    parts = {"finished": sound[-MOST_RUNS:], "underway": list(underway[:MOST_UNDERWAY])}
    return {name: part for name, part in parts.items() if part}


def _sound(run: Mapping[str, Any]) -> bool:
    return (
        run.keys() == FINISHED
        and all(isinstance(run[each], str) and DECIMALS.fullmatch(run[each]) for each in FIGURES)
        and _uid(run) != ""
        and isinstance(run["pod"], str)
        and seconds_of(run["finished"]) is not None
        and all(type(run[each]) is int for each in ("seconds", "heldSeconds"))
        and all(1 <= run[each] <= MOST_SECONDS for each in ("seconds", "heldSeconds"))
    )
