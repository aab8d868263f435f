"""YAML as Kubernetes reads it: the one loader for documents of users and for files of the kubelet.

PyYAML reads YAML 1.1, so do the Go libraries of Kubernetes, but these know fewer types: times are
texts, a plain ``=`` is one, and all keys are. Decimals stay texts, too, as kinds of Walras have
them.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

MOST_EXPANSION = 10
"""Most values for each character of a text. Without aliases, every value has its own characters."""


class YamlError(ValueError):
    """A text that is not YAML, or too large; one line that says where, as far as that is known."""


def documents_in(text: str | bytes) -> list[Any]:
    """Return all documents of a text.

    Raises:
        YamlError: It is not YAML, a key is used twice, or aliases stand for too much.
    """
    found: list[Any] = _bounded(text, lambda each: list(yaml.load_all(text, Loader=each)), _STRICT)
    return found


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


def _bounded(text: str | bytes, load: Any, loaders: tuple[Any, Any]) -> Any:
    """Parse by libyaml, whose errors say little; what is wrong is said by the parser in Python."""
    fast, exact = loaders
    try:
        try:
            found = load(fast)
        except yaml.YAMLError:
            found = load(exact)
    except yaml.YAMLError as error:
        raise YamlError(_where(error)) from None
    except (ValueError, RecursionError) as error:  # digits or a nesting without limits
        raise YamlError(f"cannot be used: {error}; correct the YAML") from None
    if _count(found, {}) > MOST_EXPANSION * (len(text) + 1):
        raise YamlError(
            f"cannot be used: its aliases stand for more than {MOST_EXPANSION} times the file; "
            f"correct the YAML"
        )
    return found


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    if isinstance(error, _TwoKeysError):
        return f"{place}{problem}"
    return f"{place}is not YAML: {problem}; correct the YAML there"


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


class _TwoKeysError(yaml.constructor.ConstructorError):
    """A key that is used twice."""


def _loader(base: Any, *, strict: bool) -> Any:
    """Return a loader class that reads as Kubernetes does.

    Args:
        base: Loader of PyYAML.
        strict: Whether a key that is used twice is an error.
    """

    def integer(loader: Any, node: Any) -> Any:
        text = loader.construct_scalar(node)
        # YAML 1.1 takes 12:30 for 750, and Kubernetes for a text.
        return text if ":" in text else loader.construct_yaml_int(node)

    def mapping(loader: Any, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag.endswith(":merge"):
                continue
            if strict and key.value in seen:
                raise _TwoKeysError(
                    None, None, f"the key {key.value} is used twice; keep one", key.start_mark
                )
            seen.add(key.value)
            key.tag = "tag:yaml.org,2002:str"
        found: dict[Any, Any] = base.construct_mapping(loader, node, deep)
        return found

    derived: Any = type(f"Kubernetes{base.__name__}", (base,), {"construct_mapping": mapping})
    for tag in ("float", "timestamp", "value"):
        derived.add_constructor(f"tag:yaml.org,2002:{tag}", base.construct_scalar)
    derived.add_constructor("tag:yaml.org,2002:int", integer)
    return derived


def _loaders(*, strict: bool) -> tuple[Any, Any]:
    """Return the loader of libyaml, if PyYAML was built with it, and the one in Python."""
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return _loader(fast, strict=strict), _loader(yaml.SafeLoader, strict=strict)


_STRICT = _loaders(strict=True)
_LAX = _loaders(strict=False)
