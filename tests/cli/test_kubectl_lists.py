"""Lists as kubectl prints them are read as PyYAML would read them, but for what nobody reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from walras_api.parse import parse_object
from walras_cli.kubectl_lists import printed_by_kubectl
from walras_service.yaml_documents import documents_in

DUMPS = Path(__file__).parent / "dumps"
TAIL = "kind: List\nmetadata:\n  resourceVersion: ''\n"


def items(documents: list[Any] | None) -> list[Any]:
    assert documents is not None
    return [each for document in documents for each in document["items"]]


def assert_is_part(found: Any, whole: Any) -> None:
    """Check that a value is another one, of which keys may be left out."""
    if isinstance(found, dict):
        assert isinstance(whole, dict)
        for key, value in found.items():
            assert_is_part(value, whole[key])
    elif isinstance(found, list):
        assert isinstance(whole, list)
        for one, other in zip(found, whole, strict=True):
            assert_is_part(one, other)
    else:
        assert (type(found), found) == (type(whole), whole)


def assert_says_the_same(found: Any, whole: Any) -> None:
    """Check that nothing that anybody reads is left out of an object."""
    assert_is_part(found, whole)
    assert parse_object(found) == parse_object(whole)
    last_applied = "kubectl.kubernetes.io/last-applied-configuration"
    metadata = dict(whole["metadata"])
    metadata.pop("managedFields", None)
    if "annotations" in metadata:
        kept = {key: text for key, text in metadata["annotations"].items() if key != last_applied}
        metadata["annotations"] = kept or None
    assert found["metadata"] == metadata


@pytest.mark.parametrize("name", ["kubeadm.yaml", "eks.yaml"])
def test_a_dump_is_read_as_by_the_parser_of_all_yaml(name: str) -> None:
    text = (DUMPS / name).read_text()
    found, expected = items(printed_by_kubectl(text)), items(documents_in(text))
    for one, other in zip(found, expected, strict=True):
        assert_says_the_same(one, other)
    # Only an object with a text of several lines that is read goes through the slow parser whole.
    whole = [each for each in found if each["kind"] == "Pod" and "args" in str(each["spec"])]
    assert [each["metadata"]["name"] for each in whole] == (
        ["checkout-5d8f7c9b6-bbbbb"] if name == "kubeadm.yaml" else []
    )


def test_labels_may_have_any_names() -> None:
    """Also those of fields that nobody reads."""
    labels = {"env": "prod", "image": "web", "secret": "none", "state": "on-call", "ports": "b"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"annotations": {"command": "x"}, "labels": labels, "name": "a"},
        "spec": {"containers": [{"env": [{"name": "A"}], "image": "a:1", "name": "main"}]},
    }
    text = yaml.safe_dump(
        {"apiVersion": "v1", "items": [pod], "kind": "List", "metadata": {"resourceVersion": ""}}
    )
    (found,) = items(printed_by_kubectl(text))
    assert found["metadata"] == pod["metadata"]
    assert found["spec"] == {"containers": [{"image": "a:1", "name": "main"}]}


WAITING = {"tolerations": [{"operator": "Exists"}], "volumes": [{"csi": {"driver": "x"}}]}
PORT = {"ports": [{"hostPort": 80}]}
RESIZE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}


@pytest.mark.parametrize(
    ("spec", "container", "status", "kept"),
    [
        ({"nodeName": "n"}, {}, {"phase": "Running"}, ""),
        ({"nodeName": "n", **WAITING}, {}, {"phase": "Running"}, ""),
        (WAITING, {}, {"phase": "Pending"}, "tolerations"),
        ({"nodeName": "n"}, PORT, {"phase": "Running"}, "ports"),
        ({"nodeName": "n"}, {}, {"phase": "Running", **RESIZE}, "conditions"),
        (
            {"nodeName": "n", "initContainers": [{"args": ["a"], "restartPolicy": "Always"}]},
            {"args": ["|", "env:"], "command": ["sh", "-c", "a\n\nenv:\n- b\n"]},
            {"phase": "Running", "containerStatuses": [{"image": "a", "name": "main"}]},
            "restartPolicy",
        ),
    ],
)
def test_of_a_pod_is_read_what_its_state_makes_matter(
    spec: dict[str, Any], container: dict[str, Any], status: dict[str, Any], kept: str
) -> None:
    """Conditions and ports of most pods, and where a placed one could go, say nothing."""
    resources = {"requests": {"cpu": "1"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "main", "resources": resources, **container}], **spec},
        "status": status,
    }
    text = yaml.safe_dump(
        {"apiVersion": "v1", "items": [pod], "kind": "List", "metadata": {"resourceVersion": ""}}
    )
    (found,), (whole,) = items(printed_by_kubectl(text)), items(documents_in(text))
    assert_says_the_same(found, whole)
    assert kept in str(found)
    assert not any(f"'{key}'" in str(found) for key in ("args", "command", "imageID"))


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
        "a: 00c8\n  b: 12345678\n  c: 1e5\n  d: 0b11\n  e: 1a\n  f: 0x1f\n  g: 12e4\n  h: 5d8f7c",
        "a:\n    b: 1\n\n  c: 2",
        "env:\n    x: 1\n  b: 3",
        "quoted/key: 1\n  'k': 2",
        "managedFields:\n  - x: |\n      y\n\n      z\n  b: 2",
    ],
)
@pytest.mark.parametrize(("parent", "unread"), [("", "managedFields"), ("spec", "env")])
def test_whatever_form_an_object_has(lines: str, parent: str, unread: str) -> None:
    place = "  spec:\n    " if parent else "  "
    text = f"apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n{place}"
    text += lines.replace("\n  ", "\n    " if parent else "\n  ") + f"\n{TAIL}"
    (expected,), (found,) = items(documents_in(text)), items(printed_by_kubectl(text))
    (expected.get(parent) or expected).pop(unread, None)
    assert_is_part(found, expected)
    assert found == expected


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
