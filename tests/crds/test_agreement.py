"""The API server and the models agree on what is a document, and on its defaults.

Otherwise the cluster would store what the operator cannot read, or refuse what `walras what-if`
takes.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission import admit, pruned, read_definitions, schema_of
from kind_documents import VALID, WRONG, Document, Wrong, example_documents
from walras_api.parse import ResourceError, parse_allocation, parse_resource

if TYPE_CHECKING:
    from walras_api.model import Resource

SCHEMAS = {kind: schema_of(each) for kind, each in read_definitions().items()}


def read(document: Document) -> Resource:
    if document["kind"] == "NodeAllocation":
        return parse_allocation(document)
    return parse_resource(document)


def is_read(document: Document) -> bool:
    try:
        read(document)
    except ResourceError:
        return False
    return True


@pytest.mark.parametrize("document", [*VALID, *example_documents()], ids=str)
def test_good_documents_are_taken_by_both_and_mean_the_same(document: Document) -> None:
    answer = admit(document, SCHEMAS[document["kind"]])
    assert answer.problems == []
    if (
        document["kind"] == "Market"
    ):  # a file on one machine enforces, what a cluster makes does not
        document = {**document, "spec": {"mode": "observe", **document["spec"]}}
    assert read(answer.stored) == read(document)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.title)
def test_bad_documents_are_refused_by_both_with_the_field_named(wrong: Wrong) -> None:
    answer = admit(wrong.document, SCHEMAS[wrong.document["kind"]])
    assert wrong.field in " ".join(answer.problems)
    with pytest.raises(ResourceError) as caught:
        read(wrong.document)
    assert wrong.field in " ".join(caught.value.problems)
    assert "\n" not in "".join(caught.value.problems)


@pytest.mark.parametrize("wrong", [each for each in WRONG if each.by_rule], ids=lambda w: w.title)
def test_rules_say_the_same_in_both(wrong: Wrong) -> None:
    """Nothing but one rule refuses these, in the same words."""
    (problem,) = admit(wrong.document, SCHEMAS[wrong.document["kind"]]).problems
    with pytest.raises(ResourceError) as caught:
        read(wrong.document)
    assert caught.value.problems[0].endswith(problem.partition(": ")[2])


TEMPTING: list[Any] = [
    *(
        "",
        "0",
        "0.0",
        "1",
        "1.0",
        "01",
        "1.0000000000001",
        "0.9999",
        "2",
        "1e0",
        "-0",
        "NaN",
        "Inf",
    ),
    *("a", "a.b", "a-", "a" * 253, "a" * 254, "A", "\u00e9", "a\n", "measured", "None", "core"),
    *("1Gi", "1023Mi", "1.5Gi", "1k", "1K", "1000", "0Ki", "0.1", "1Ei", "/a", "/", "127.0.0.1"),
    *(0, 1, 2, -1, 65535, 65536, 2**31 - 1, 2**31, 2**53, 1.5, True, False),
    *([], ["a"], ["a", "a"], [1], ["1"], {}, {"a": "b"}, {"a": 1}),
]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return all containers in a value with the keys of what is in them."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, each in items:
        found.append((value, key))
        if isinstance(each, dict | list):
            found += places(each)
    return found


def vacant(value: Any, schema: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Return the fields that could be added to a document."""
    if isinstance(value, list):
        return [place for each in value for place in vacant(each, schema.get("items", {}))]
    if not isinstance(value, dict):
        return []
    found = []
    for key, part in schema.get("properties", {}).items():
        if key in value:
            found += vacant(value[key], part)
        else:
            found.append((value, key))
    return found


@st.composite
def spoilt(draw: st.DrawFn) -> Document:
    """Draw a good document in which one or two fields are changed, added or left out.

    None has unknown fields, which only the models refuse.
    """
    made: Document = copy.deepcopy(draw(st.sampled_from([*VALID, *example_documents()])))
    schema = SCHEMAS[made["kind"]]["properties"]["spec"]
    for _ in range(draw(st.integers(1, 2))):
        there = places(made["spec"])
        choices = there + vacant(made["spec"], schema)
        if not choices:
            break
        where, key = draw(st.sampled_from(choices))
        if isinstance(where, dict) and key in where and draw(st.booleans()):
            del where[key]
        elif isinstance(where, list) and draw(st.booleans()):
            where.append(copy.deepcopy(where[key]))
        else:
            value = draw(st.sampled_from(TEMPTING) | st.text(max_size=6) | st.integers())
            where[key] = copy.deepcopy(value)
    known: Document = pruned(made, SCHEMAS[made["kind"]])
    return known


@pytest.mark.long
@given(spoilt())
def test_every_document_is_taken_by_both_or_by_neither(document: Document) -> None:
    answer = admit(document, SCHEMAS[document["kind"]])
    assert is_read(document) == (answer.problems == []), answer.problems


@pytest.mark.long
@given(spoilt())
def test_defaults_are_the_same_in_both(document: Document) -> None:
    answer = admit(document, SCHEMAS[document["kind"]])
    if not answer.problems:
        assert read(answer.stored) == read(document)
