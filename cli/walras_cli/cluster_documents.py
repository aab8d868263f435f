"""Facts: the documents of a cluster in files, by kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from walras_api import cluster, kinds
from walras_api.assembly import Objects
from walras_api.cluster import CLUSTER_KINDS, Workload
from walras_api.contract import API_VERSION, JOB_LABEL, MARKET_NAME
from walras_api.node_allocation import NodeAllocation
from walras_api.parse import ResourceError, parse_allocation, parse_object
from walras_api.supply import reported_processors
from walras_cli.documents import InputError, read
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from walras_api.supply import ProcessorCounts

T = TypeVar("T")

READ_ELSEWHERE = frozenset({"PodMetrics", "NodeMetrics"})
"""Kinds of documents that are no objects of the market, and are read from what is written."""


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents in files.

    Attributes:
        objects: Objects by kind, with the rules of the Market, or the default rules.
        markets: The Market that is used, if there is one.
        allocations: NodeAllocations by node, whose agents have reported what the nodes are.
        ignored: Number of objects of each kind that is not used.
        written: All documents, also those of other kinds.
    """

    objects: Objects
    markets: tuple[kinds.Market, ...]
    allocations: Mapping[str, NodeAllocation] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)
    written: tuple[Mapping[str, Any], ...] = ()

    @property
    def rules(self) -> kinds.MarketSpec | None:
        """Rules of the Market; None if there is no Market."""
        return self.markets[0].spec if self.markets else None

    @property
    def topologies(self) -> dict[str, ProcessorCounts]:
        """Processors that agents have reported, by node."""
        reported = {
            name: reported_processors(each.status) for name, each in self.allocations.items()
        }
        return {name: each for name, each in reported.items() if each is not None}


def default_market() -> kinds.Market:
    """Return a Market with the default rules, for documents that contain none."""
    head = {"apiVersion": API_VERSION, "kind": "Market", "metadata": {"name": MARKET_NAME}}
    return kinds.Market.model_validate({**head, "spec": {}})


def documents_of(files: Iterable[Path]) -> Documents:
    """Sort the documents of files by kind.

    Raises:
        BadInput: they cannot be read, or used.
    """
    sorting = Sorting()
    try:
        objects = [each.resource for each in read(files, sorting.parsed)]
    except InputError as error:
        raise BadInput(*error.problems) from error
    return sorting.documents(objects)


def documents_from(written: Iterable[Mapping[str, Any]]) -> Documents:
    """Sort the documents that an API server gave by kind; it counts those that are not valid."""
    sorting = Sorting()
    objects = []
    for each in written:
        try:
            objects.append(sorting.parsed(each))
        except ResourceError:
            sorting.ignored[f"invalid {each.get('kind')}"] += 1
    return sorting.documents([each for each in objects if each is not None])


def parsed_document(document: object) -> object:
    """Return what a document says; None of a kind that is not used.

    Raises:
        ResourceError: It is of a kind that is used, and invalid.
    """
    if isinstance(document, dict) and document.get("kind") == "NodeAllocation":
        return parse_allocation(document, "ignore")
    return parse_object(document)


class Sorting:
    """Parses documents one by one, and keeps them all.

    Args:
        parse: Returns what a document says; None of a kind that is not used.

    Attributes:
        ignored: Number of objects of each kind that is not used.
        written: All documents.
    """

    def __init__(self, parse: Callable[[object], object] = parsed_document) -> None:
        self.ignored: Counter[str] = Counter()
        self.written: list[Mapping[str, Any]] = []
        self._parse = parse

    def parsed(self, document: object) -> object:
        """Return an object; None of a kind, or a workload without a label, that is not used."""
        head = document if isinstance(document, dict) else {}
        self.written.append(head)
        kind = str(head.get("kind"))
        parsed = None if _is_unlabelled_workload(head) else self._parse(document)
        self.ignored[kind] += parsed is None and kind not in READ_ELSEWHERE
        return parsed

    def documents(self, objects: Sequence[object]) -> Documents:
        """Return objects by kind, with all documents that were parsed."""
        return replace(sorted_by_kind(objects), ignored=self.ignored, written=tuple(self.written))


def _is_unlabelled_workload(document: Mapping[str, Any]) -> bool:
    kind = CLUSTER_KINDS.get((str(document.get("apiVersion")), str(document.get("kind"))))
    metadata = document.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return kind is Workload and not (isinstance(labels, dict) and JOB_LABEL in labels)


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
        workloads=those(Workload),
        rules=markets[0].spec if markets else kinds.MarketSpec(),
    )
    allocations = {each.metadata.name: each for each in those(NodeAllocation)}
    return Documents(objects, markets, allocations)
