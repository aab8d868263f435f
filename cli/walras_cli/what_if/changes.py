"""Facts: the cluster that a what-if is about, from files or live, without and with its changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from walras.admission import EntitlementError, check_tree
from walras.resources import cluster, kinds
from walras.resources.assembly import MOST_NAMED, Objects, assemble, assemble_on_one_node
from walras.resources.contract import MARKET_NAME
from walras.resources.parse import parse_object
from walras_cli.documents import InputError, read
from walras_operator.conditions import Problem
from walras_operator.last_decision import account, carried
from walras_operator.status.objects import reference_of
from walras_operator.validation import validate
from walras_service.failures import BadInput, Failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from walras.resources.kinds import AnyResource, MarketSpec
    from walras.snapshot import Snapshot
    from walras_cli.cluster.options import Target
    from walras_operator.validation import Validated
    from walras_operator.world import World

T = TypeVar("T", bound="kinds.Resource | cluster.NodeObject | cluster.Pod | cluster.Namespace")


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents in files.

    Attributes:
        objects: Objects by kind, with the rules of the Market, or the default rules.
        rules: Rules of the Market; None if there is no Market.
    """

    objects: Objects
    rules: kinds.MarketSpec | None


def documents_of(files: Iterable[Path]) -> Documents:
    """Sort the documents of files by kind.

    Raises:
        BadInput: they cannot be read, or used.
    """
    try:
        found = [each.resource for each in read(files, parse_object)]
    except InputError as error:
        raise BadInput(*error.problems) from error

    def those(kind: type[T]) -> list[T]:
        return [each for each in found if isinstance(each, kind)]

    markets = those(kinds.Market)
    rules = [market.spec for market in markets if market.metadata.name == MARKET_NAME]
    if markets and not rules:
        raise BadInput(
            f"Market {markets[0].metadata.name}: only the one named "
            f"{MARKET_NAME} is used; rename it"
        )
    objects = Objects(
        entitlements=those(kinds.EntitlementObject),
        jobs=those(kinds.MarketJob),
        profiles=those(kinds.SpeedupProfile),
        nodes=those(cluster.NodeObject),
        pods=those(cluster.Pod),
        namespaces=those(cluster.Namespace),
        rules=rules[0] if rules else kinds.MarketSpec(),
    )
    return Documents(objects, rules[0] if rules else None)


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
    found = {_name(each): each for each in present}
    for each in changes:
        found[_name(each)] = _with_past(each, found.get(_name(each)))
    return list(found.values())


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


NODE = "localhost"
"""The name of the one node that --cores stands for."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A market that can be cleared.

    Attributes:
        snapshot: Input of the market.
        rules: Rules of the Market.
        notes: one line on everything that takes no part or is not known.
    """

    snapshot: Snapshot
    rules: MarketSpec
    notes: tuple[str, ...]


def situation_of_documents(objects: Objects, names: str, cores: int | None) -> Situation:
    """Take documents as they are; all of them must be right.

    Args:
        objects: Objects in the documents.
        names: Names of their files, for messages.
        cores: Cores of one node in place of Nodes and Pods; None to use those of the documents.

    Raises:
        BadInput: they make no market.
    """
    if not objects.jobs:
        raise BadInput(f"{names}: contains no MarketJob; add the jobs that share the cores")
    try:
        made = assemble(objects) if cores is None else assemble_on_one_node(objects, NODE, cores)
        check_tree(made.snapshot.entitlements)
    except EntitlementError as error:
        raise BadInput(f"{names}: Entitlement {error.entitlement}: {error}") from error
    except ValueError as error:
        raise BadInput(f"{names}: {error}") from error
    return Situation(made.snapshot, objects.rules, made.notes)


def situation_of_world(world: World, objects: Objects) -> Situation:
    """Take a cluster as the operator would, with what it decided last.

    Args:
        world: the cluster.
        objects: Objects to use in place of the world's, with their rules.
    """
    there = _changed(world, objects)
    validated, before, credit = validate(there, objects.rules), carried(world), account(world)
    ledger = None if isinstance(credit, Problem) else credit.closing
    snapshot = replace(validated.assembled.snapshot, held=before.held, ledger=ledger)
    notes = (*_problems(there, validated), *validated.assembled.notes)
    return Situation(snapshot, objects.rules, notes)


def _changed(world: World, objects: Objects) -> World:
    """Return a cluster with other objects: what was broken may be right, and new nodes sell."""
    own: tuple[AnyResource, ...] = (*objects.entitlements, *objects.jobs, *objects.profiles)
    right = {reference_of(each) for each in own}
    known = {each.metadata.name for each in world.objects.nodes}
    new = {each.metadata.name for each in objects.nodes} - known
    return replace(
        world,
        objects=objects,
        broken={name: each for name, each in world.broken.items() if name not in right},
        agents=world.agents | new,
    )


def _problems(world: World, validated: Validated) -> Iterator[str]:
    """Yield a line on each kind of thing that keeps objects out."""
    for reference, broken in sorted(world.broken.items()):
        yield f"{reference.title}: {'; '.join(broken.problems)}"
    for name, problem in validated.entitlements.items():
        yield f"Entitlement {name}: {problem.message}"
    for (namespace, name), problem in validated.jobs.items():
        if (namespace, name) not in validated.assembled.refused:  # those are in the plan
            yield f"MarketJob {namespace}/{name}: {problem.message}"
    shut = [f"{name} {why}" for name, why in validated.closed.items()]
    if shut:
        more = f" and {len(shut) - MOST_NAMED} more" if len(shut) > MOST_NAMED else ""
        yield f"nodes that sell no cores: {', '.join(shut[:MOST_NAMED])}{more}"


@dataclass(frozen=True, slots=True)
class ChangedCluster:
    """A cluster, without and with changes.

    Attributes:
        then: The cluster with the changes.
        now: without them; None if there are none.
        whole_and_live: whether it is a live cluster, as it is.
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
            files: changes, or a cluster of their own.
            dumps: a cluster.
            cores: Cores of one node that takes all jobs of the documents.
            target: Live cluster to read.
            live: whether the files change that, even if they have Nodes.

        Raises:
            BadInput: the documents cannot be used.
            Failure: the live cluster cannot be asked.
        """
        documents = documents_of(files)
        if dumps:
            return _changed_dump(dumps, files, documents, cores)
        if not live and files and (cores is not None or documents.objects.nodes):
            return cls(situation_of_documents(documents.objects, _names(files), cores))
        world = _world(target, files)
        rules = _rules(world)
        if not files:
            return cls(_situation(world, rules, documents), whole_and_live=True)
        now = _situation(world, rules, documents_of(())) if rules else None
        return cls(_situation(world, rules, documents), now)


def _changed_dump(
    dumps: Sequence[Path], files: Sequence[Path], changes: Documents, cores: int | None
) -> ChangedCluster:
    whole = documents_of(dumps).objects
    now = situation_of_documents(whole, _names(dumps), cores)
    if not files:
        return ChangedCluster(now)
    names = _names([*dumps, *files])
    return ChangedCluster(situation_of_documents(overlaid(whole, changes), names, cores), now)


def _world(target: Target, files: Sequence[Path]) -> World:
    from walras_cli.cluster.connection import connected
    from walras_cli.cluster.live import world_of

    try:
        with connected(target) as cluster:
            return world_of(cluster)
    except Failure as error:
        if not files:
            raise
        raise type(error)(
            f"{_names(files)}: contains no Node, so it changes a live cluster: "
            f"{error.format_message()}; to describe a whole cluster instead, add the output of "
            f"`kubectl get nodes,pods -A -o yaml`, or use --cores N"
        ) from error


def _rules(world: World) -> MarketSpec | None:
    return next((each.spec for each in world.markets if each.metadata.name == MARKET_NAME), None)


def _situation(world: World, rules: MarketSpec | None, documents: Documents) -> Situation:
    objects = overlaid(world.objects, documents)
    rules = documents.rules or rules
    if rules is None:
        raise BadInput(f"the cluster has no valid Market named {MARKET_NAME}; add one with -f")
    return situation_of_world(world, replace(objects, rules=rules))


def _names(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))
