"""Lists as kubectl prints them are read as PyYAML would read them, but for what nobody reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from walras_cli import kubectl_lists
from walras_cli.kubectl_lists import printed_by_kubectl
from walras_service.yaml_documents import documents_in

DUMPS = Path(__file__).parent / "dumps"
TAIL = "kind: List\nmetadata:\n  resourceVersion: ''\n"


def read(value: Any) -> Any:
    """Return a value without the keys that nobody reads."""
    if isinstance(value, dict):
        unread = kubectl_lists._UNREAD
        return {key: read(each) for key, each in value.items() if key not in unread}
    return [read(each) for each in value] if isinstance(value, list) else value


def items(documents: list[Any] | None) -> list[Any]:
    assert documents is not None
    return [each for document in documents for each in document["items"]]


@pytest.mark.parametrize("name", ["kubeadm.yaml", "eks.yaml"])
def test_a_dump_is_read_as_by_the_parser_of_all_yaml(name: str) -> None:
    text = (DUMPS / name).read_text()
    found, expected = items(printed_by_kubectl(text)), items(documents_in(text))
    assert read(found) == read(expected)
    # Only an object with a text of several lines that is read goes through the slow parser whole.
    whole = [each for each in found if each["kind"] == "Pod" and "args" in str(each["spec"])]
    assert [each["metadata"]["name"] for each in whole] == (
        ["checkout-5d8f7c9b6-bbbbb"] if name == "kubeadm.yaml" else []
    )


@pytest.mark.parametrize(
    "lines",
    [
        "a: |\n    env:\n    - x\n\n    z: 1\n  b: 2",
        "a: >-\n    folded\n    text\n  b: 2",
        'a: "two\n    lines"\n  b: 2',
        "a: plain\n    goes on\n  b: 2",
        "a: {b: [1, 2], c: d}\n  b: [x, y]",
        "a: &x\n    b: 1\n  c: *x",
        "a: # nothing\n  b: 2 # two",
        "a:\n  - - 1\n    - 2\n  - x\n  b: []",
        "a:\n    - x: 1\n      y:\n      - 2\n    - {}\n  b: {}",
        "a: 'it''s'\n  b: \"\\u00e9\"\n  c: ''\n  d: \"\"",
        "a: true\n  b: no\n  c: null\n  d: ~\n  e: 010\n  f: 0x1f\n  g: 1e3\n  h: 1.5\n  i: 12:30",
        "a: 2026-11-01T10:00:00Z\n  b: 10.1.0.0\n  c: 12345678\n  d: -3\n  e: 3920m\n  f: =",
        "a:\n    b: 1\n\n  c: 2",
        "env:\n    x: 1\n  b: 3",
        "quoted/key: 1\n  'k': 2",
        "managedFields:\n  - x: |\n      y\n\n      z\n  b: 2",
    ],
)
def test_whatever_form_an_object_has(lines: str) -> None:
    text = f"apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  {lines}\n{TAIL}"
    expected = documents_in(text)
    found = items(printed_by_kubectl(text))
    assert read(found) == read(items(expected))
    types = [type(each) for each in found[0].values()]
    assert types == [type(each) for each in read(items(expected))[0].values()]


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: Pod\n",
        f"apiVersion: v1\nitems:\n- apiVersion: v1\n  a: [\n{TAIL}",
        f"apiVersion: v1\nitems:\n- apiVersion: v1\n  a: 1\n  a: 2\n{TAIL}",
        f"apiVersion: v1\nitems:\n- apiVersion: v1\nb: 1\n{TAIL}",
        f"apiVersion: v1\nitems:\n- apiVersion: v1\n  a: 1\n{TAIL}more: 1\n",
        '{"a": 1, "a": 2}',
        '{"a": 1} b',
        "{a: 1}",
    ],
)
def test_other_texts_are_left_to_the_parser_of_all_yaml(text: str) -> None:
    assert printed_by_kubectl(text) is None


def test_json_is_read_with_numbers_as_they_are_written() -> None:
    text = ' {"a": [1, 1.50, "x", null, true]}\n{"b": {}} '
    assert printed_by_kubectl(text) == [{"a": [1, "1.50", "x", None, True]}, {"b": {}}]
    first = text.splitlines()[0]
    assert printed_by_kubectl(first) == documents_in(first)
