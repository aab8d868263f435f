"""YAML as Kubernetes reads it: the one loader for documents of users and for files of the kubelet.

PyYAML reads YAML 1.1, so do the Go libraries of Kubernetes, but these know fewer types: times are
texts, a plain ``=`` is one, and all keys are. Decimals stay texts, too, as kinds of Walras have
them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any

import yaml

from walras_api.fields import WrittenNumber

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_EXPANSION = 10
"""Most values for each character of a text. Without aliases, every value has its own characters."""


class YamlError(ValueError):
    """A text that is not YAML, or too large; one line that says where, as far as that is known."""


def documents_in(text: str | bytes) -> list[Any]:
    """Return all documents of a text.

    Raises:
        YamlError: It is not YAML, a key is used twice, a plain text has a no-break space, or
            aliases stand for too much.
    """
    documents: list[Any] = _bounded(
        text, lambda each: list(yaml.load_all(text, Loader=each)), _STRICT
    )
    return documents


def first_document(text: str | bytes) -> Any:
    """Return the first document of a text, all that the kubelet reads of a file; None without any.

    Of keys that are used twice, the last counts.

    Raises:
        YamlError: It is not YAML, or aliases stand for too much.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _bounded(text, lambda loader: next(yaml.load_all(text, Loader=loader), None), _LAX)


def line_of(text: str, place: Sequence[int | str]) -> int:
    """Return the line of a value, or of what is nearest around it; lines count from 1.

    Args:
        text: Documents of YAML.
        place: Number of the document, then keys and numbers of entries, from the outside in.
    """
    first, *rest = place
    loader, _ = _STRICT
    node = list(yaml.compose_all(text, Loader=loader))[int(first)]
    line = node.start_mark.line
    for part in rest:
        entries = node.value if isinstance(node, yaml.SequenceNode | yaml.MappingNode) else []
        if isinstance(node, yaml.MappingNode):
            matches = [(key, value) for key, value in entries if key.value == part]
        else:
            matches = [(each, each) for number, each in enumerate(entries) if number == part]
        for key, value in matches:
            line, node = key.start_mark.line, value
    return int(line) + 1


def _bounded(text: str | bytes, load: Any, loaders: tuple[Any, Any]) -> Any:
    """Parse by libyaml, whose errors say little; what is wrong is said by the parser in Python."""
    fast, exact = loaders
    try:
        try:
            parsed = load(fast)
        except yaml.YAMLError:
            parsed = load(exact)
    except yaml.YAMLError as error:
        raise YamlError(_where(error, text)) from None
    except (ValueError, RecursionError) as error:  # digits or a nesting without limits
        raise YamlError(f"cannot be used: {error}; correct the YAML") from None
    if _count(parsed, {}) > MOST_EXPANSION * (len(text) + 1):
        raise YamlError(
            f"cannot be used: its aliases stand for more than {MOST_EXPANSION} times the file; "
            f"correct the YAML"
        )
    return parsed


def _where(error: yaml.YAMLError, text: str | bytes) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    if mark is None:
        return f"is not YAML: {problem}; correct the YAML"
    place = f"line {mark.line + 1}, column {mark.column + 1}: "
    if isinstance(error, _RefusedError):
        return f"{place}{problem}"
    lines = (text if isinstance(text, str) else text.decode(errors="replace")).splitlines()
    odd = _ODD_SPACE.search(lines[mark.line] if mark.line < len(lines) else "")
    if odd:
        return f"line {mark.line + 1}, column {odd.start() + 1}: {_named(odd[0])}"
    return f"{place}is not YAML: {problem}; correct the YAML there"


_ODD_SPACE = re.compile("[\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000\ufeff]")
"""Characters that look like a space, or like nothing, and are a part of a text to YAML."""


def _named(space: str) -> str:
    name = unicodedata.name(space).lower()
    return f"there is a {name} (U+{ord(space):04X}); write a plain space, or quote the text"


def _count(value: Any, counts: dict[int, float]) -> float:
    """Count the values within a value, as often as aliases repeat them; infinite within itself.

    A file of a few lines can stand for more than any program could read.
    """
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in counts:
        counts[id(value)] = float("inf")
        parts = value.values() if isinstance(value, dict) else value
        counts[id(value)] = 1 + sum(_count(each, counts) for each in parts)
    return counts[id(value)]


class _RefusedError(yaml.constructor.ConstructorError):
    """YAML that is taken for a mistake."""


def _check_mapping(node: Any) -> None:
    """Refuse keys that are used twice, and characters that look like a space but are text."""
    seen: set[str] = set()
    for key, value in node.value:
        for part in (key, value):
            if not isinstance(part, yaml.ScalarNode) or part.style:
                continue
            # Within a value it may be meant.
            text = part.value if part is key else f"{part.value[:1]}{part.value[-1:]}"
            odd = _ODD_SPACE.search(text)
            if odd:
                raise _RefusedError(None, None, _named(odd[0]), part.start_mark)
        if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge"):
            if key.value in seen:
                problem = f"the key {key.value} is used twice; keep one"
                raise _RefusedError(None, None, problem, key.start_mark)
            seen.add(key.value)


def _loader(base: Any, *, strict: bool) -> Any:
    """Return a loader class that reads as Kubernetes does.

    Args:
        base: Loader of PyYAML.
        strict: Whether what is likely a mistake is an error.
    """

    def integer(loader: Any, node: Any) -> Any:
        text = loader.construct_scalar(node)
        # YAML 1.1 takes 12:30 for 750, and Kubernetes for a text.
        return text if ":" in text else WrittenNumber(loader.construct_yaml_int(node))

    def mapping(loader: Any, node: Any, deep: bool = False) -> dict[Any, Any]:
        if strict:
            _check_mapping(node)
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge"):
                key.tag = "tag:yaml.org,2002:str"
        values: dict[Any, Any] = base.construct_mapping(loader, node, deep)
        return values

    derived: Any = type(f"Kubernetes{base.__name__}", (base,), {"construct_mapping": mapping})
    for tag in ("float", "timestamp", "value"):
        derived.add_constructor(f"tag:yaml.org,2002:{tag}", base.construct_scalar)
    derived.add_constructor("tag:yaml.org,2002:int", integer)
    return derived


def _loaders(*, strict: bool) -> tuple[Any, Any]:
    """Return the loader of libyaml, if PyYAML was built with it, and the one in Python."""
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return _loader(fast, strict=strict), _loader(yaml.SafeLoader, strict=strict)


yaml.SafeDumper.add_representer(WrittenNumber, yaml.SafeDumper.represent_int)

_STRICT = _loaders(strict=True)
_LAX = _loaders(strict=False)
