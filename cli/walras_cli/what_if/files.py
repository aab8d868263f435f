"""Facts: the documents of files, by kind, and what they change of others (pure)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from walras.resources import cluster, kinds
from walras.resources.assembly import Objects
from walras.resources.contract import MARKET_NAME
from walras.resources.parse import parse_object
from walras_cli.documents import InputError, read
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

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
        raise BadInput(f"Market {markets[0].metadata.name}: only one named {MARKET_NAME} is used")
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
