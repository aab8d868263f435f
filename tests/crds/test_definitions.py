"""The committed CustomResourceDefinitions are those of the models, and fit old and new clusters."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
from pydantic import BaseModel

from admission import CRDS, broken, holds, read_definitions, schema_of
from kind_documents import VALID, WRONG, document
from walras_api.schema import spec_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DEFINITIONS = read_definitions()
NEWEST = "1.37"

Schema = dict[str, Any]


@pytest.mark.system
def test_committed_definitions_are_those_of_the_models(tmp_path: Path) -> None:
    tool = ROOT / "tools" / "make_crds.py"
    subprocess.run([sys.executable, tool, tmp_path], check=True)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {path.name: path.read_text() for path in CRDS.glob("*.yaml")} == made, "make crds"


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_the_newest_kubernetes_knows_every_field(kind: str) -> None:
    kubernetes_validate.validate(DEFINITIONS[kind], NEWEST, strict=True)


def parts(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield a schema and those of all fields, entries and values in it, each with its path."""
    yield path, schema
    for name, each in schema.get("properties", {}).items():
        yield from parts(each, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from parts(schema[name], f"{path}[]")


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_schemas_are_structural(kind: str) -> None:
    """Every part has a type or may be a whole number or a text; alternatives are of looks only."""
    for path, part in parts(schema_of(DEFINITIONS[kind])):
        assert isinstance(part.get("type"), str) or part["x-kubernetes-int-or-string"], path
        assert not {"$ref", "$defs", "title", "const", "nullable", "oneOf"} & set(part), path
        for each in [*part.get("allOf", ()), *part.get("anyOf", ())]:
            assert set(each) <= {"pattern", "format"}, path


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_every_field_is_described(kind: str) -> None:
    for path, part in parts(schema_of(DEFINITIONS[kind])):
        assert path.endswith(("[]", ".metadata")) or part.get("description"), path


def rules(kind: str) -> list[tuple[str, str]]:
    """Return all rules of a kind, each with its path."""
    return [
        (path, rule["rule"])
        for path, part in parts(schema_of(DEFINITIONS[kind]))
        for rule in part.get("x-kubernetes-validations", ())
    ]


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_rules_cost_little_and_need_no_later_function(kind: str) -> None:
    """The API server estimates what a rule can cost, and refuses what has no bound.

    None is about the entries of a list, and every text that one searches is short.
    """
    for path, rule in rules(kind):
        assert "[]" not in path
        assert set(re.findall(r"(\w+)\(", rule)) <= {"has", "double", "find"}, rule
        schema = dict(parts(schema_of(DEFINITIONS[kind])))
        for searched in re.findall(r"self\.(\w+)\.find", rule):
            assert schema[f"{path}.{searched}"]["maxLength"] <= 64


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_every_rule_is_broken_by_a_document_and_kept_by_another(kind: str) -> None:
    schema = schema_of(DEFINITIONS[kind])
    messages = [
        rule["message"]
        for _, part in parts(schema)
        for rule in part.get("x-kubernetes-validations", ())
        if "oldSelf" not in rule["rule"]
    ]
    good = [each for each in VALID if each["kind"] == kind]
    bad = [each.document for each in WRONG if each.by_rule and each.document["kind"] == kind]
    told = [problem.partition(": ")[2] for each in bad for problem in broken(each, schema)]
    assert sorted(set(told)) == sorted(set(messages))
    assert [problem for each in good for problem in broken(each, schema)] == []


def test_a_node_is_not_given_an_older_plan() -> None:
    """The API server fences an operator that lost its lease and does not know it yet."""
    schema = schema_of(DEFINITIONS["NodeAllocation"])
    stored = document("NodeAllocation", epoch=7)
    assert broken(document("NodeAllocation", epoch=7), schema, stored) == []
    assert broken(document("NodeAllocation", epoch=8), schema, stored) == []
    (problem,) = broken(document("NodeAllocation", epoch=6), schema, stored)
    assert "only a later decision may replace it" in problem


def test_rules_compare_amounts_of_all_units_without_rounding_against_anybody() -> None:
    (rule,) = [rule for path, rule in rules("MarketJob") if path.endswith(".memory")]
    for less, more in [("1k", "1Ki"), ("1001", "1.001k"), ("1E", "1Ei"), ("0.3Gi", "322122548")]:
        assert holds(rule, {"min": less, "max": more})
    for least, most in [("1Ki", "1k"), ("1Ei", "1E"), ("2", "1.5")]:
        assert not holds(rule, {"min": least, "max": most})


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_columns_show_fields_that_there_are(kind: str) -> None:
    version = DEFINITIONS[kind]["spec"]["versions"][0]
    known = {path for path, _ in parts(schema_of(DEFINITIONS[kind]))}
    for column in version["additionalPrinterColumns"]:
        path = column["jsonPath"].replace('[?(@.type=="Ready")]', "[]")
        assert path in known or path == ".metadata.creationTimestamp"


@pytest.mark.parametrize(
    ("kind", "short", "scope"),
    [
        ("Entitlement", "ent", "Cluster"),
        ("MarketJob", "mj", "Namespaced"),
        ("SpeedupProfile", "sp", "Namespaced"),
        ("NodeAllocation", "na", "Cluster"),
        ("Market", "mkt", "Cluster"),
    ],
)
def test_names(kind: str, short: str, scope: str) -> None:
    spec = DEFINITIONS[kind]["spec"]
    assert spec["group"] == "walras.dev"
    assert spec["names"]["shortNames"] == [short]
    assert spec["names"]["categories"] == ["walras"]
    assert spec["scope"] == scope
    assert spec["versions"][0]["subresources"] == {"status": {}}


def test_a_field_without_description_is_an_error() -> None:
    class Undescribed(BaseModel):
        """A model with a field that is not described."""

        colour: str

    with pytest.raises(ValueError, match=r"Undescribed\.colour has no description"):
        spec_schema(Undescribed)
