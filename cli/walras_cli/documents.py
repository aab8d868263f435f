"""Files of documents to objects, with one line for everything that is wrong with them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import yaml

from walras.resources.kinds import NAMESPACED
from walras.resources.parse import ResourceError, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

T = TypeVar("T")

STANDARD_INPUT = Path("-")

MOST_EXPANSION = 10
"""Most values for each character of a file. Without aliases, every value has its own characters."""


def _reading_scalars_as_text(loader: Any) -> Any:
    """Return a YAML loader that reads decimals and times as text, as kinds have them.

    Integers stay integers, except 12:30, which YAML 1.1 takes for 750 and Kubernetes for a text.
    """

    def integer(loader: Any, node: Any) -> Any:
        text = loader.construct_scalar(node)
        return text if ":" in text else loader.construct_yaml_int(node)

    derived: Any = type(f"Text{loader.__name__}", (loader,), {})
    for tag in ("float", "timestamp"):
        derived.add_constructor(f"tag:yaml.org,2002:{tag}", loader.construct_scalar)
    derived.add_constructor("tag:yaml.org,2002:int", integer)
    return derived


LOADER = _reading_scalars_as_text(getattr(yaml, "CSafeLoader", yaml.SafeLoader))
"""libyaml's where PyYAML was built with it: dumps of clusters have many thousand lines."""

EXACT_LOADER = _reading_scalars_as_text(yaml.SafeLoader)
"""The loader in Python, whose errors say where and what is wrong."""


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
    problems: list[str] = []
    found: list[Located[T]] = []
    for file in files:
        for document in _documents(file, problems):
            try:
                resource = parse(document)
            except ResourceError as error:
                problems += [f"{file}: {problem}" for problem in error.problems]
            else:
                if resource is not None:
                    found.append(Located(file, resource, document))
    problems += _duplicates(found)
    if problems:
        raise InputError(problems)
    return found


def _documents(file: Path, problems: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the documents of one file; those of a List, as kubectl prints it, one by one."""
    try:
        text = sys.stdin.read() if file == STANDARD_INPUT else file.read_text(encoding="utf-8")
        documents = _loaded(text)
    except OSError as error:
        problems.append(f"{file}: cannot be read: {error.strerror}")
        return
    except UnicodeDecodeError:
        problems.append(f"{file}: is not a text file; use a YAML file")
        return
    except yaml.YAMLError as error:
        problems.append(f"{file}: {_where(error)}; correct the YAML there")
        return
    except (ValueError, RecursionError) as error:  # a number, aliases or a nesting without limits
        problems.append(f"{file}: cannot be used: {error}; correct the YAML")
        return
    documents = [document for document in documents if document is not None]
    if not documents:
        problems.append(f"{file}: contains no documents; add an Entitlement and a MarketJob")
    for index, document in enumerate(documents):
        if not isinstance(document, dict):
            problems.append(
                f"{file}: document {index + 1}: is not an object; "
                f"begin each document with apiVersion and kind"
            )
        elif document.get("kind") == "List" and isinstance(document.get("items"), list):
            yield from document["items"]
        else:
            yield document


def _loaded(text: str) -> list[Any]:
    """Parse by libyaml, whose errors say little; what is wrong is said by the parser in Python.

    Raises:
        ValueError: A number has too many digits, or aliases stand for too much.
    """
    try:
        found = list(yaml.load_all(text, Loader=LOADER))
    except yaml.YAMLError:
        found = list(yaml.load_all(text, Loader=EXACT_LOADER))
    if _count(found, {}) > MOST_EXPANSION * (len(text) + 1):
        raise ValueError(f"its aliases stand for more than {MOST_EXPANSION} times the file")
    return found


def _count(value: Any, known: dict[int, float]) -> float:
    """Count the values within a value, as often as aliases repeat them; infinite within itself.

    A file of a few lines can stand for more than any program could read.
    """
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = float("inf")
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_count(each, known) for each in parts)
    return known[id(value)]


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    if mark is None:
        return f"is not YAML: {problem}"
    return f"line {mark.line + 1}, column {mark.column + 1}: is not YAML: {problem}"


def _duplicates(found: Sequence[Located[T]]) -> list[str]:
    first: dict[tuple[str, str, str], Located[T]] = {}
    problems = []
    for each in found:
        kind, metadata = each.document["kind"], each.document["metadata"]
        namespace = metadata.get("namespace", "default") if kind in NAMESPACED else ""
        earlier = first.setdefault((kind, namespace, metadata["name"]), each)
        if earlier is not each:
            problems.append(
                f"{each.origin}: metadata.name: is used twice (first in {earlier.file}); "
                f"remove or rename one"
            )
    return problems
