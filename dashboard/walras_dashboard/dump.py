"""Facts: a cluster in files, with the statuses that are in them, or those it would be given.

Documents of a cluster that an operator has decided on have its statuses. To others, such as an
example or a plan for a new cluster, the operator's own decision adds them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import NAMESPACE_URL, uuid5

from pydantic import ValidationError

from walras_api import cluster, kinds
from walras_api.contract import LOCAL_RUN_LABEL
from walras_api.parse import ResourceError
from walras_cli.cluster.asking import facts_of
from walras_cli.cluster.decided import DERIVED, is_decided, with_statuses
from walras_cli.cluster.dumped import DumpedCluster
from walras_cli.cluster.use import use_in
from walras_cli.cluster_documents import (
    Sorting,
    default_market,
    parsed_document,
    sorted_by_kind,
)
from walras_cli.documents import InputError, read, time_of
from walras_cli.local import course
from walras_cli.what_if.first_look.look import first_look
from walras_cli.what_if.situation import with_jobs_of_labels
from walras_dashboard.samples import FIELDS, FigureSample
from walras_dashboard.state import MarketState, Moved, Origin
from walras_operator.decide.decision import decide
from walras_operator.decide.world import World
from walras_service.failures import BadInput
from walras_service.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from walras_api.cluster import Pod
    from walras_cli.cluster.asking import Wanted
    from walras_cli.cluster_documents import Documents
    from walras_cli.documents import Located
    from walras_dashboard.samples import Kind
    from walras_view.facts import Facts
    from walras_view.first_look import FirstLook

Document = dict[str, Any]

_SHOWN: tuple[Wanted, ...] = ("entitlements", "jobs", "allocations", "market", "nodes")


@dataclass(frozen=True, slots=True)
class Dump:
    """A cluster in files.

    Attributes:
        current: Objects in the files.
        known: The cluster as the operator would know it.
    """

    current: MarketState
    known: World

    @classmethod
    def of(cls, files: Sequence[Path]) -> Dump:
        """Read the documents of a cluster from files.

        Raises:
            BadInput: They cannot be read, or used.
        """
        sorting = Sorting(_parsed)
        try:
            located = read(files, sorting.parsed)
        except InputError as error:
            raise BadInput(*error.problems) from error
        written = tuple(sorting.written)
        return dump_of(located, tuple(map(str, files)), time_of(written), written)

    def state(self) -> MarketState:
        """Return what is in the files."""
        return self.current

    def world(self) -> World:
        """Return the cluster as the operator would know it."""
        return self.known

    def pods_on(self, node: str) -> Sequence[Pod]:
        """Return the pods that run on a node."""
        return [each for each in self.known.objects.pods if each.spec.node_name == node]

    def listen(self, receive: Callable[[str], None]) -> Callable[[], None]:  # noqa: ARG002 - nothing changes
        """Return what ends a watch of files, which do not change."""
        return lambda: None


def _parsed(document: object) -> object:
    if isinstance(document, dict) and document.get("kind") == course.KIND:
        try:
            return course.LocalRun.model_validate(document)
        except ValidationError as error:
            raise ResourceError(
                [f"{course.KIND}: {error.errors()[0]['msg']}; record anew"]
            ) from None
    return parsed_document(document)


def dump_of(
    located: Sequence[Located[Any]],
    files: Sequence[str],
    now: datetime,
    written: Sequence[Mapping[str, Any]] = (),
) -> Dump:
    """Make a state of documents.

    Args:
        located: The documents.
        files: Names of their files.
        now: Time of the state.
        written: These documents and those of kinds that are not used, which tell who owns what.

    Raises:
        BadInput: They are not those of a cluster.
    """
    parsed = [each.resource for each in located]
    documents = sorted_by_kind(parsed)
    objects = replace(documents.objects, pods=[_with_uid(each) for each in documents.objects.pods])
    names = ", ".join(files)
    look = None
    if not objects.entitlements and not objects.jobs:
        look = _first_look(replace(documents, written=tuple(written)), files, names)
    world = World(
        now=rfc3339(now),
        objects=objects,
        markets=documents.markets or (default_market(),),
        allocations=documents.allocations,
        agents=frozenset(node.metadata.name for node in objects.nodes),
    )
    run = next((each for each in parsed if isinstance(each, course.LocalRun)), None)
    shown = now if run is None else datetime.fromtimestamp(run.shown, UTC)
    plain = [dict(each.document) for each in located]
    notes: tuple[str, ...] = () if look is None else look.notes
    if look is None and not is_decided(plain):
        plain, notes = with_statuses(plain, decide(world).writes()), (DERIVED,)
    state = MarketState(
        origin=Origin(_kind(objects.nodes), names, live=False),
        facts=replace(facts_in(plain, names), now=shown),
        profiles={(each.metadata.namespace, each.metadata.name): each for each in objects.profiles},
        notes=notes,
        look=look,
        course=() if run is None else tuple(map(_sample, run.samples)),
        events=() if run is None else tuple(map(_event, reversed(run.events))),
    )
    return Dump(state, world)


def _first_look(documents: Documents, files: Sequence[str], names: str) -> FirstLook:
    """Return what a cluster without Walras would have with it.

    Raises:
        BadInput: It has no nodes, or jobs for Walras, so that something is missing.
    """
    if not documents.objects.nodes or with_jobs_of_labels(documents).jobs:
        raise BadInput(
            f"{names}: contains neither Entitlements nor MarketJobs; make the file by "
            f"`kubectl get ent,mj,sp,mkt,na,nodes,pods,ns -A -o yaml`"
        )
    return first_look(documents, files, use_in(documents.written))


def _sample(of: course.CourseSample) -> FigureSample:
    kinds_: Mapping[Kind, Mapping[str, course.Figures]] = {
        "user": of.user,
        "job": of.job,
        "node": of.node,
    }
    return FigureSample(
        of.time,
        {
            kind: {
                name: tuple(figures.get(each) for each, _ in FIELDS[kind])
                for name, figures in rows.items()
            }
            for kind, rows in kinds_.items()
        },
    )


def _event(of: course.CourseEvent) -> Moved:
    return Moved(rfc3339(datetime.fromtimestamp(of.time, UTC)), of.what)


def _kind(nodes: Iterable[cluster.NodeObject]) -> Literal["file", "local"]:
    local = any(LOCAL_RUN_LABEL in each.metadata.labels for each in nodes)
    return "local" if local else "file"


def _with_uid(pod: Pod) -> Pod:
    """Give a pod of an example an UID, without which the operator grants it nothing."""
    if pod.metadata.uid:
        return pod
    uid = str(uuid5(NAMESPACE_URL, f"{pod.metadata.namespace}/{pod.metadata.name}"))
    return pod.model_copy(update={"metadata": pod.metadata.model_copy(update={"uid": uid})})


def facts_in(documents: Iterable[Document], names: str = "") -> Facts:
    """Return what documents say of a cluster.

    Args:
        documents: The objects; those of a namespace that say none are in the default one.
        names: Names of their files.
    """
    placed = [_in_namespace(each) for each in documents]
    return facts_of(DumpedCluster(placed, names), _SHOWN)


def _in_namespace(document: Document) -> Document:
    if document["kind"] not in kinds.NAMESPACED:
        return document
    return {**document, "metadata": {"namespace": "default", **document["metadata"]}}
