"""Pure: reads what kubectl prints, many times as fast as a parser that knows all of YAML.

A dump of a cluster is a million lines, for which PyYAML takes half a minute. kubectl prints one key
to a line, and most of what it prints nobody reads. What is printed in any other form is left to the
parser of all YAML, object by object, so that the result is the same. JSON has its own parser.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from walras_api.fields import WrittenNumber
from walras_service.yaml_documents import YamlError, documents_in

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEAD = "apiVersion: v1\nitems:\n- "
_LAST = "\nkind: List\nmetadata:"
_TAIL = re.compile(r"(?: \{\}\n|\n(?:  [^\n]*\n)*)")
_BEGIN = re.compile(r"\S")

_POD = "apiVersion: v1\n  kind: Pod\n"
_NODE = "apiVersion: v1\n  kind: Node\n"
_OF_KUBERNETES = "apiVersion: v1\n"
_SPEC = "\n  spec:\n"

_UNREAD_METADATA = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
_UNREAD_OF_NODES = (
    "addresses",
    "capacity",
    "daemonEndpoints",
    "images",
    "nodeInfo",
    "volumesAttached",
    "volumesInUse",
)
_UNREAD_OF_PODS = (
    "args",
    "automountServiceAccountToken",
    "command",
    "containerID",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "env",
    "envFrom",
    "ephemeralContainers",
    "hostAliases",
    "hostIP",
    "hostIPs",
    "imageID",
    "imagePullPolicy",
    "imagePullSecrets",
    "lastState",
    "lifecycle",
    "livenessProbe",
    "podIPs",
    "preemptionPolicy",
    "priority",
    "readinessGates",
    "readinessProbe",
    "ready",
    "restartCount",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "started",
    "startupProbe",
    "state",
    "terminationGracePeriodSeconds",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "volumeDevices",
    "volumeMounts",
)
_UNREAD_UNLESS = {
    "hostPort:": ("ports",),
    "PodResize": ("conditions",),
}
"""Keys of a pod that nobody reads unless a text is in it."""

_UNREAD_IF_PLACED = (
    "affinity",
    "nodeSelector",
    "resourceClaims",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
)
"""Keys of the spec of a pod that nobody reads once it has a node."""

_KEY = re.compile(r"([A-Za-z_.][\w./-]*):(?: (.*))?$")
_PLAIN = re.compile(r"[A-Za-z/][\w./@+=-]*(?:[ :,][\w./@+=()-]+)*")
_LIKE_NUMBERS = re.compile(
    r"[1-9][0-9]*(?:m|k|[KMGTP]i?)|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|[0-9]+(?:\.[0-9]+){3}|[0-9]+[acdf][0-9a-f]*"
)
"""Quantities, UIDs, addresses and digests, which no parser takes for numbers."""
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"([^"\\]*)"')
_OF_OTHER_FORMS = frozenset("'\"|>{[&*!%@`#?-,]}")
"""First characters of texts that may go on in the next line, or are no plain text."""

_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})


@lru_cache
def _without(keys: tuple[str, ...]) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return what removes keys with their values from lines, as patterns and what replaces them.

    Below a key are the lines that are indented more, and entries of a list that are as much.
    """
    key = f"(?:{_alternatives(keys)}):.*+"
    below, below_dash = (rf"(?:\n{each}(?: |- ).*+|\n(?=\n))*+" for each in (r"\1", r"\1  "))
    return (
        (re.compile(rf"\n( +){key}{below}"), ""),
        (re.compile(rf"\n( +)- {key}{below_dash}\n\1  (?=\S)"), r"\n\1- "),
    )


def _alternatives(words: Iterable[str]) -> str:
    """Return a pattern of words, a letter after the other, which is matched fast."""
    rests: dict[str, list[str]] = {}
    for word in words:
        rests.setdefault(word[:1], []).append(word[1:])
    branches = [
        re.escape(first) + (f"(?:{_alternatives(rest)})" if any(rest) else "")
        for first, rest in rests.items()
    ]
    return "|".join(sorted(branches, key=len, reverse=True))


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
    for part in text.removeprefix("---\n").split("\n---\n"):
        end = part.rfind(_LAST)
        if not part.startswith(_HEAD) or end < 0:
            return None
        if not _TAIL.fullmatch(f"{part[end + len(_LAST) :].rstrip()}\n"):
            return None
        items = [_item(each) for each in part[len(_HEAD) : end].split("\n- ")]
        lists.append({"apiVersion": "v1", "kind": "List", "items": items})
    return lists


def _in_json(text: str) -> list[Any] | None:
    """Return documents of JSON, one after the other; None if there is anything else."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_object, parse_float=str, parse_int=WrittenNumber, strict=False
    )
    documents = []
    start = _BEGIN.search(text)
    while start is not None:
        try:
            document, end = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            return None  # YAML, or what its parser tells better
        documents.append(document)
        start = _BEGIN.search(text, end)
    return documents


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a key is used twice")
    return fields


def _item(chunk: str) -> Any:
    """Read an object, given without the dash of the list, and without its last end of a line."""
    if chunk.startswith(_OF_KUBERNETES):
        lines = _Lines(f"  {_what_is_read(chunk)}")
        try:
            item = lines.mapping(2)
        except _OtherFormError:
            pass
        else:
            if lines.at == len(lines.lines) - 1:
                return item
    documents = documents_in(f"- {chunk}\n")
    if len(documents) != 1 or not isinstance(documents[0], list) or len(documents[0]) != 1:
        raise YamlError("is not one entry of a list")
    return documents[0][0]


def _what_is_read(chunk: str) -> str:
    """Return the lines of an object without those that nobody reads."""
    unread: tuple[str, ...] = ()
    if chunk.startswith(_NODE):
        unread = _UNREAD_OF_NODES
    elif chunk.startswith(_POD):
        unread = _UNREAD_OF_PODS
        for text, keys in _UNREAD_UNLESS.items():
            unread += keys if text not in chunk else ()
        unread += _UNREAD_IF_PLACED if "\n    nodeName: " in chunk else ()
    # Labels and annotations may have any names, and stand before the spec.
    metadata, spec, rest = chunk.partition(_SPEC)
    for pattern, instead in _without(_UNREAD_METADATA):
        metadata = pattern.sub(instead, metadata)
    rest = f"{spec}{rest}"
    for pattern, instead in _without(unread) if unread else ():
        rest = pattern.sub(instead, rest)
    return f"{metadata}{rest}"


class _Lines:
    """The lines of an object, of which those up to ``at`` are read."""

    def __init__(self, chunk: str) -> None:
        self.lines = [*chunk.rstrip("\n").split("\n"), ""]
        self.depths = [len(each) - len(each.lstrip(" ")) for each in self.lines]
        self.depths[-1] = -1
        self.at = 0

    def mapping(self, column: int) -> dict[str, Any]:
        """Read a mapping whose keys begin at a column; the first may stand behind a dash."""
        fields: dict[str, Any] = {}
        lines, depths = self.lines, self.depths
        while True:
            match = _KEY.match(lines[self.at], column)
            if match is None or match[1] in fields:
                raise _OtherFormError
            key, rest = match.groups()
            self.at += 1
            if rest is None:
                fields[key] = self._below(column)
            else:
                fields[key] = {} if rest == "{}" else [] if rest == "[]" else _scalar(rest)
            depth = depths[self.at]
            if depth < column:
                return fields
            if depth > column:
                raise _OtherFormError

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
        entries: list[Any] = []
        while self.depths[self.at] == column and self.lines[self.at].startswith("- ", column):
            if _KEY.match(self.lines[self.at], column + 2):
                entries.append(self.mapping(column + 2))
            else:
                entries.append(_scalar(self.lines[self.at][column + 2 :]))
                self.at += 1
        return entries


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
        [scalar] = documents_in(text)
    except YamlError:
        raise _OtherFormError from None
    if isinstance(scalar, dict | list):
        raise _OtherFormError
    return scalar
