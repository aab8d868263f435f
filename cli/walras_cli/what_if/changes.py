"""Facts: the cluster that a what-if is about, from files or live, without and with its changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from walras_api import cluster, kinds
from walras_api.contract import MARKET_NAME
from walras_cli.cluster_documents import Documents, documents_from, documents_of
from walras_cli.what_if.situation import (
    Situation,
    WithoutMarketError,
    situation_of_documents,
    situation_of_world,
    with_jobs_of_labels,
)
from walras_service.failures import BadInput, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from walras_api.assembly import Objects
    from walras_api.kinds import MarketSpec
    from walras_cli.cluster.connection import Cluster
    from walras_cli.cluster.options import Target
    from walras_operator.decide.world import World
    from walras_view.facts import Use

T = TypeVar("T", bound="kinds.Resource | cluster.NodeObject | cluster.Pod | cluster.Namespace")


def overlaid(objects: Objects, documents: Documents) -> Objects:
    """Return objects with those of the same name replaced, and the others added (pure).

    What the API server and the operator have said of an object stays, as if it were applied.
    """
    changes = documents.objects
    return replace(
        objects,
        entitlements=_applied(objects.entitlements, changes.entitlements),
        jobs=_applied(objects.jobs, changes.jobs),
        profiles=_applied(objects.profiles, changes.profiles),
        nodes=_applied(objects.nodes, changes.nodes),
        pods=_applied(objects.pods, changes.pods),
        namespaces=_applied(objects.namespaces, changes.namespaces),
        rules=objects.rules if documents.rules is None else documents.rules,
    )


def _applied(present: Sequence[T], changes: Sequence[T]) -> list[T]:
    by_name = {_name(each): each for each in present}
    for each in changes:
        by_name[_name(each)] = _with_past(each, by_name.get(_name(each)))
    return list(by_name.values())


def _with_past(changed: T, before: T | None) -> T:
    if not isinstance(changed, kinds.Resource) or not isinstance(before, kinds.Resource):
        return changed
    metadata = changed.metadata.model_copy(
        update={
            "uid": before.metadata.uid,
            "generation": before.metadata.generation,
            "creation_timestamp": before.metadata.creation_timestamp,
        }
    )
    return changed.model_copy(update={"metadata": metadata, "status": before.status})


def _name(each: Any) -> tuple[str, str]:
    return each.metadata.namespace, each.metadata.name


@dataclass(frozen=True, slots=True)
class ChangedCluster:
    """A cluster, without and with changes.

    Attributes:
        then: The cluster with the changes.
        now: The cluster without the changes; None if there are no changes.
        whole_and_live: Whether it is a live cluster, without changes.
    """

    then: Situation
    now: Situation | None = None
    whole_and_live: bool = False

    @classmethod
    def of(
        cls,
        files: Sequence[Path],
        dumps: Sequence[Path],
        cores: int | None,
        target: Target,
        *,
        live: bool,
    ) -> ChangedCluster:
        """Find out what is meant.

        Args:
            files: Files with changes, or with a whole cluster.
            dumps: Files that describe a cluster in place of the live one; empty for none.
            cores: Cores of one node that takes all jobs of the documents.
            target: Live cluster to read.
            live: Whether the files change the live cluster even if they contain Nodes.

        Raises:
            BadInput: the documents cannot be used.
            Failure: the live cluster cannot be asked.
        """
        documents, whole = documents_of(files), documents_of(dumps)
        changed = cls._of(documents, whole, files, dumps, cores, target, live=live)
        ignored = documents.ignored + whole.ignored
        if not ignored:
            return changed
        listed = ", ".join(f"{number} {kind}" for kind, number in sorted(ignored.items()))
        note = f"ignored objects: {listed}"
        return replace(changed, then=replace(changed.then, notes=(*changed.then.notes, note)))

    @classmethod
    def _of(
        cls,
        documents: Documents,
        whole: Documents,
        files: Sequence[Path],
        dumps: Sequence[Path],
        cores: int | None,
        target: Target,
        *,
        live: bool,
    ) -> ChangedCluster:
        if dumps:
            return _changed_dump(whole, dumps, files, documents, cores)
        if not live and files and (cores is not None or documents.objects.nodes):
            return cls(situation_of_documents(documents, _names(files), cores))
        world, use = _world(target, files)
        rules = _rules(world)
        then = replace(_situation(world, rules, documents), use=use)
        if not files:
            return cls(then, whole_and_live=True)
        now = _situation(world, rules, documents_of(())) if rules else None
        return cls(then, now)


def _changed_dump(
    whole: Documents,
    dumps: Sequence[Path],
    files: Sequence[Path],
    changes: Documents,
    cores: int | None,
) -> ChangedCluster:
    if not files:
        return ChangedCluster(situation_of_documents(whole, _names(dumps), cores))
    now = None
    if with_jobs_of_labels(whole).jobs:
        now = situation_of_documents(whole, _names(dumps), cores)
    changed = replace(whole, objects=overlaid(whole.objects, changes))
    return ChangedCluster(situation_of_documents(changed, _names([*dumps, *files]), cores), now)


def _world(target: Target, files: Sequence[Path]) -> tuple[World, Use]:
    from walras_cli.cluster.connection import connected
    from walras_cli.cluster.live import world_of
    from walras_cli.cluster.use import use_of

    try:
        with connected(target) as cluster:
            if not files:
                _require_walras(cluster)
            return world_of(cluster), use_of(cluster, "")
    except WithoutMarketError:
        raise
    except Failure as error:
        if not files:
            raise type(error)(
                f"{error.format_message()}; for a cluster in files, use -f FILE or --from FILE"
            ) from error
        raise type(error)(
            f"{_names(files)}: contains no Node, so it changes a live cluster: "
            f"{error.format_message()}; to describe a whole cluster instead, add the output of "
            f"`kubectl get nodes,pods -A -o yaml`, or use --cores N"
        ) from error


def _require_walras(cluster: Cluster) -> None:
    """See that Walras is installed in a cluster.

    Raises:
        WithoutMarketError: It is not; with the objects that the cluster has.
    """
    from walras_cli.cluster.live import documents_of_cluster, knows_walras
    from walras_cli.cluster.use import use_of

    if not knows_walras(cluster):
        raise WithoutMarketError(
            f"{cluster.host}: Walras is not installed in this cluster; install it, or drop the "
            f"options that need MarketJobs",
            documents_from(documents_of_cluster(cluster)),
            use_of(cluster, ""),
        )


def _rules(world: World) -> MarketSpec | None:
    return None if world.market is None else world.market.spec


def _situation(world: World, rules: MarketSpec | None, documents: Documents) -> Situation:
    objects = overlaid(world.objects, documents)
    rules = documents.rules or rules
    if rules is None:
        raise BadInput(f"the cluster has no valid Market named {MARKET_NAME}; add one with -f")
    return situation_of_world(world, replace(objects, rules=rules))


def _names(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))
