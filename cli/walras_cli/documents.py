"""Files of documents to objects, with one line for everything that is wrong with them."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from walras_api.contract import PLURALS
from walras_api.kinds import NAMESPACED
from walras_api.parse import ResourceError, describe
from walras_cli.kubectl_lists import printed_by_kubectl
from walras_cli.patience import patience
from walras_service.yaml_documents import YamlError, documents_in, line_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from walras_api.parse import Place

T = TypeVar("T")

STANDARD_INPUT = Path("-")

_SUFFIXES = frozenset({".yaml", ".yml", ".json"})

_CLUSTER_WIDE = {*PLURALS, "Node", "Namespace"} - NAMESPACED


class InputError(Exception):
    """Documents that cannot be used; ``problems`` has one line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Located(Generic[T]):
    """An object and where it was read."""

    file: Path
    resource: T
    document: Mapping[str, Any]

    @property
    def origin(self) -> str:
        """File and object, for messages."""
        return f"{self.file}: {describe(self.document)}"


def read(files: Iterable[Path], parse: Callable[[object], T | None]) -> list[Located[T]]:
    """Read all documents of some files; those that ``parse`` makes nothing of are passed over.

    Raises:
        InputError: Lists all problems: file, object, field, and the way out.
    """
    with _no_search_for_cycles(), patience("reading files") as tell:
        return _read(files, parse, tell)


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Keep Python from looking for garbage among a dump's objects, all of which are kept.

    Looking at them again and again takes a quarter of the time, also of what comes after.
    """
    wanted = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if wanted:
            gc.enable()


def _read(
    files: Iterable[Path], parse: Callable[[object], T | None], tell: Callable[[str], None]
) -> list[Located[T]]:
    problems: list[str] = []
    objects: list[Located[T]] = []
    for file, found in _files_in(files, problems):
        tell(str(file))
        text = _text(file, problems)
        written = () if text is None else _documents(file, text, problems, found=found)
        for number, (place, each) in enumerate(written):
            document = _named(_of_its_kind(each), number)
            if found and not _says_what_it_is(document):
                continue
            try:
                resource = parse(document)
            except ResourceError as error:
                problems += [
                    f"{file}: line {line_of(text or '', (*place, *within))}: {problem}"
                    for problem, within in zip(error.problems, error.places, strict=True)
                ]
            else:
                if resource is not None:
                    objects.append(Located(file, resource, document))
    unique, repeated = _unique(objects)
    problems += repeated
    if problems:
        raise InputError(problems)
    return unique


def _files_in(files: Iterable[Path], problems: list[str]) -> Iterator[tuple[Path, bool]]:
    """Yield files, and those in folders, with whether they were found in a folder."""
    for file in files:
        if not file.is_dir():
            yield file, False
            continue
        within = [each for each in sorted(file.rglob("*")) if each.suffix in _SUFFIXES]
        if not within:
            problems.append(f"{file}: has no files of the names {', '.join(sorted(_SUFFIXES))}")
        yield from ((each, True) for each in within)


def _of_its_kind(document: Any) -> Any:
    """Return an object with the kind that its fields show, if it says none.

    Support bundles keep objects as the API server lists them, where the list says the kind.
    """
    if not isinstance(document, dict) or document.get("kind"):
        return document
    spec, status = document.get("spec"), document.get("status")
    spec = spec if isinstance(spec, dict) else {}
    status = status if isinstance(status, dict) else {}
    for kind, shows in _SHOWN_BY.items():
        if shows(spec, status):
            return {**document, "apiVersion": "v1", "kind": kind}
    return document


_SHOWN_BY: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], bool]] = {
    "Node": lambda _, status: "allocatable" in status,
    "Pod": lambda spec, _: "containers" in spec,
    "Namespace": lambda spec, status: (
        "finalizers" in spec and status.get("phase") in {"Active", "Terminating"}
    ),
}
"""What shows that an object without a kind is of one, by kind."""


def _says_what_it_is(document: Any) -> bool:
    """Return whether a document has a kind and a name; folders hold others, too."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return bool(isinstance(metadata, dict) and metadata.get("name") and document.get("kind"))


def _text(file: Path, problems: list[str]) -> str | None:
    try:
        return sys.stdin.read() if file == STANDARD_INPUT else file.read_text(encoding="utf-8")
    except OSError as error:
        problems.append(f"{file}: cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        problems.append(f"{file}: is not a text file; use a YAML file")
    return None


def _documents(
    file: Path, text: str, problems: list[str], *, found: bool
) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the documents of one file with their places, those of lists one by one.

    Args:
        file: The file.
        text: Its text.
        problems: List to which problems are appended.
        found: Whether it was found in a folder, where files may hold anything.
    """
    try:
        documents = printed_by_kubectl(text) or documents_in(text)
    except YamlError as error:
        problems.append(f"{file}: {error}")
        return
    if all(document is None for document in documents):
        problems.append(f"{file}: contains no documents; add an Entitlement and a MarketJob")
    for index, document in enumerate(documents):
        if isinstance(document, dict):
            yield from _items((index,), document)
        elif isinstance(document, list) and all(isinstance(each, dict) for each in document):
            for number, each in enumerate(document):
                yield from _items((index, number), each)
        elif document is not None and not found:
            problems.append(
                f"{file}: document {index + 1}: is not an object; "
                f"begin each document with apiVersion and kind"
            )


def _items(place: Place, document: dict[str, Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield a document, or those of a list of any kind, which need not say what they are."""
    kind = str(document.get("kind", "List"))
    if not kind.endswith("List") or "items" not in document:
        yield place, document
        return
    known = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
    for number, each in enumerate(document["items"] or ()):
        within = (*place, "items", number)
        if isinstance(each, dict):
            yield from _items(within, each if kind == "List" else {**known, **each})
        else:
            yield within, each


def _named(document: Any, number: int) -> Any:
    """Return a document with a name, if the API server would have made one of `generateName`."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict) or metadata.get("name") or not metadata.get("generateName"):
        return document
    name = f"{metadata['generateName']}{number}"
    return {**document, "metadata": {**metadata, "name": name}}


def _unique(objects: Sequence[Located[T]]) -> tuple[list[Located[T]], list[str]]:
    """Return each object once, and a line for each name that two objects have.

    One object of a cluster, as its UID tells, may be in several lists.
    """
    first: dict[tuple[str, str, str], Located[T]] = {}
    problems = []
    for each in objects:
        kind, metadata = each.document["kind"], each.document["metadata"]
        namespace = metadata.get("namespace", "default" if kind in NAMESPACED else "")
        namespace = "" if kind in _CLUSTER_WIDE else namespace
        earlier = first.setdefault((kind, namespace, metadata["name"]), each)
        uid = metadata.get("uid")
        if earlier is not each and not (uid and uid == earlier.document["metadata"].get("uid")):
            problems.append(
                f"{each.origin}: metadata.name: is used twice (first in {earlier.file}); "
                f"remove or rename one"
            )
    return list(first.values()), problems


def time_of(documents: Iterable[Mapping[str, Any]]) -> datetime:
    """Return the time of documents: of the newest Lease, which lives if they were printed then.

    Without Leases, it is that of the Market's last decision, and of documents without any, now.
    """
    of_leases: list[datetime] = []
    of_markets: list[datetime] = []
    for each in documents:
        if each.get("kind") == "Lease":
            of_leases += _times(each, "spec", "renewTime")
        elif each.get("kind") == "Market":
            of_markets += _times(each, "status", "epoch", "time")
    return max(of_leases or of_markets, default=datetime.now(UTC))


def _times(document: Mapping[str, Any], *path: str) -> list[datetime]:
    """Return the time at a place of a document, if one is there."""
    value: Any = document
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return []
    return [time] if time.tzinfo else []
