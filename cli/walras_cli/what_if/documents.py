"""Facts: the documents of a cluster in files, by kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from walras_api import cluster, kinds
from walras_api.assembly import Objects
from walras_api.cluster import CLUSTER_KINDS, Workload
from walras_api.contract import API_VERSION, MARKET_NAME
from walras_api.parse import parse_object
from walras_cli.documents import InputError, read
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents in files.

    Attributes:
        objects: Objects by kind, with the rules of the Market, or the default rules.
        markets: The Market that is used, if there is one.
        ignored: Number of objects of each kind that is not used.
    """

    objects: Objects
    markets: tuple[kinds.Market, ...]
    ignored: Counter[str] = field(default_factory=Counter)

    @property
    def rules(self) -> kinds.MarketSpec | None:
        """Rules of the Market; None if there is no Market."""
        return self.markets[0].spec if self.markets else None


def default_market() -> kinds.Market:
    """Return a Market with the default rules, for documents that contain none."""
    head = {"apiVersion": API_VERSION, "kind": "Market", "metadata": {"name": MARKET_NAME}}
    return kinds.Market.model_validate({**head, "spec": {}})


def documents_of(files: Iterable[Path]) -> Documents:
    """Sort the documents of files by kind.

    Raises:
        BadInput: they cannot be read, or used.
    """
    ignored: Counter[str] = Counter()

    def parsed(document: object) -> object:
        head = document if isinstance(document, dict) else {}
        kind = str(head.get("kind"))
        is_workload = CLUSTER_KINDS.get((str(head.get("apiVersion")), kind)) is Workload
        found = None if is_workload else parse_object(document)
        ignored[kind] += found is None
        return found

    try:
        found = [each.resource for each in read(files, parsed)]
    except InputError as error:
        raise BadInput(*error.problems) from error
    return replace(sorted_by_kind(found), ignored=ignored)


def sorted_by_kind(found: Sequence[object]) -> Documents:
    """Sort objects by kind.

    Raises:
        BadInput: There is no Market of the name that is used, but another.
    """

    def those(kind: type[T]) -> list[T]:
        return [each for each in found if isinstance(each, kind)]

    given = those(kinds.Market)
    markets = tuple(each for each in given if each.metadata.name == MARKET_NAME)
    if given and not markets:
        raise BadInput(
            f"Market {given[0].metadata.name}: only the one named {MARKET_NAME} is used; rename it"
        )
    objects = Objects(
        entitlements=those(kinds.EntitlementObject),
        jobs=those(kinds.MarketJob),
        profiles=those(kinds.SpeedupProfile),
        nodes=those(cluster.NodeObject),
        pods=those(cluster.Pod),
        namespaces=those(cluster.Namespace),
        rules=markets[0].spec if markets else kinds.MarketSpec(),
    )
    return Documents(objects, markets)
