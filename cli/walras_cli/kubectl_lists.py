"""Pure: reads what kubectl prints, many times as fast as a parser that knows all of YAML.

A dump of a cluster is a million lines, for which PyYAML takes half a minute. kubectl prints one key
to a line, and most of what it prints nobody reads. What is printed in any other form is left to the
parser of all YAML, object by object, so that the result is the same. JSON has its own parser.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from walras_api.fields import WrittenNumber
from walras_service.yaml_documents import YamlError, documents_in

_HEAD = "apiVersion: v1\nitems:\n"
_TAIL = re.compile(r"^kind: List\nmetadata:(?: \{\}\n|\n(?:  [^\n]*\n)*)\Z", re.MULTILINE)
_BEGIN = re.compile(r"\S")
_BETWEEN = re.compile(r"^---\n", re.MULTILINE)
_ITEM = re.compile(r"^(?=- )", re.MULTILINE)
_OF_KUBERNETES = "- apiVersion: v1\n"

_UNREAD = frozenset(
    {
        # of all objects
        "kubectl.kubernetes.io/last-applied-configuration",
        "managedFields",
        # of pods
        "args",
        "command",
        "configMap",
        "downwardAPI",
        "emptyDir",
        "env",
        "envFrom",
        "hostPath",
        "imagePullSecrets",
        "lastState",
        "lifecycle",
        "livenessProbe",
        "projected",
        "readinessProbe",
        "secret",
        "securityContext",
        "startupProbe",
        "state",
        "volumeMounts",
        # of nodes
        "addresses",
        "images",
        "nodeInfo",
        "volumesAttached",
        "volumesInUse",
    }
)
"""Keys whose values nobody reads, wherever they stand in a Node, a Pod or a Namespace."""

_KEY = re.compile(r"([A-Za-z_.][\w./-]*):(?: (.*))?$")
_PLAIN = re.compile(r"[A-Za-z/][\w./@+=-]*(?:[ :,][\w./@+=()-]+)*")
_LIKE_NUMBERS = re.compile(
    r"[1-9][0-9]*(?:m|k|[KMGTP]i?)|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|[0-9]+(?:\.[0-9]+){3}"
)
"""Quantities, UIDs and addresses, which no parser takes for numbers."""
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"([^"\\]*)"')
_OF_OTHER_FORMS = frozenset("'\"|>{[&*!%@`#?-,]}")
"""First characters of texts that may go on in the next line, or are no plain text."""

_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})


class _OtherFormError(Exception):
    """An object that is printed in another form."""


def printed_by_kubectl(text: str) -> list[Any] | None:
    """Return the documents of a text: JSON, or Lists as kubectl prints them; None of any other.

    Keys of Nodes, Pods and Namespaces that nobody reads are left out.
    """
    if text.lstrip()[:1] == "{":
        return _in_json(text)
    try:
        return _lists(text)
    except YamlError:
        return None  # whose place in the text the parser of all YAML tells


def _lists(text: str) -> list[Any] | None:
    lists = []
    for part in _BETWEEN.split(text):
        tail = _TAIL.search(part)
        if not part.startswith(_HEAD) or tail is None:
            return None
        chunks = _ITEM.split(part[len(_HEAD) : tail.start()])[1:]
        items = [_item(each) for each in chunks]
        lists.append({"apiVersion": "v1", "kind": "List", "items": items})
    return lists


def _in_json(text: str) -> list[Any] | None:
    """Return documents of JSON, one after the other; None if there is anything else."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_object, parse_float=str, parse_int=WrittenNumber, strict=False
    )
    found = []
    start = _BEGIN.search(text)
    while start is not None:
        try:
            document, end = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            return None  # YAML, or what its parser tells better
        found.append(document)
        start = _BEGIN.search(text, end)
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is used twice")
    return found


def _item(chunk: str) -> Any:
    if chunk.startswith(_OF_KUBERNETES):
        lines = _Lines(chunk)
        try:
            found = lines.mapping(2)
        except _OtherFormError:
            pass
        else:
            if lines.at == len(lines.lines) - 1:
                return found
    documents = documents_in(chunk)
    if len(documents) != 1 or not isinstance(documents[0], list) or len(documents[0]) != 1:
        raise YamlError("is not one entry of a list")
    return documents[0][0]


class _Lines:
    """The lines of an object, of which those up to ``at`` are read."""

    def __init__(self, chunk: str) -> None:
        self.lines = [*chunk.rstrip("\n").split("\n"), ""]
        self.depths = [len(each) - len(each.lstrip(" ")) for each in self.lines]
        self.depths[-1] = -1
        self.at = 0

    def mapping(self, column: int) -> dict[str, Any]:
        """Read a mapping whose keys begin at a column; the first may stand behind a dash."""
        found: dict[str, Any] = {}
        lines, depths = self.lines, self.depths
        while True:
            match = _KEY.match(lines[self.at], column)
            if match is None or match[1] in found:
                raise _OtherFormError
            key, rest = match.groups()
            self.at += 1
            if key in _UNREAD:
                self._skip(column)
            elif rest is None:
                found[key] = self._below(column)
            else:
                found[key] = {} if rest == "{}" else [] if rest == "[]" else _scalar(rest)
            depth = depths[self.at]
            if depth < column:
                return found
            if depth > column:
                raise _OtherFormError

    def _skip(self, column: int) -> None:
        while self._is_below(column) or (not self.lines[self.at] and self.depths[self.at] == 0):
            self.at += 1

    def _is_below(self, column: int) -> bool:
        depth = self.depths[self.at]
        return depth > column or (depth == column and self.lines[self.at].startswith("- ", column))

    def _below(self, column: int) -> Any:
        """Read the value of a key that stands alone on its line."""
        if not self._is_below(column):
            return None
        inner = self.depths[self.at]
        if self.lines[self.at].startswith("- ", inner):
            return self._sequence(inner)
        return self.mapping(inner)

    def _sequence(self, column: int) -> list[Any]:
        found: list[Any] = []
        while self.depths[self.at] == column and self.lines[self.at].startswith("- ", column):
            if _KEY.match(self.lines[self.at], column + 2):
                found.append(self.mapping(column + 2))
            else:
                found.append(_scalar(self.lines[self.at][column + 2 :]))
                self.at += 1
        return found


@lru_cache(maxsize=1 << 14)
def _scalar(text: str) -> Any:
    """Return the value of a text behind a key or a dash."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if _LIKE_NUMBERS.fullmatch(text):
        return text
    if _NUMBER.fullmatch(text):
        return WrittenNumber(text)
    quoted = _SINGLE.fullmatch(text) or _DOUBLE.fullmatch(text)
    if quoted:
        return quoted[1]
    if text in {"true", "false"}:
        return text == "true"
    if text == "null":
        return None
    if text[:1] in _OF_OTHER_FORMS or text[-1:] == ":" or " #" in text or ": " in text:
        raise _OtherFormError
    try:
        [found] = documents_in(text)
    except YamlError:
        raise _OtherFormError from None
    if isinstance(found, dict | list):
        raise _OtherFormError
    return found
