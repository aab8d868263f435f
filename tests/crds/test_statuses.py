"""Statuses that the models make can be stored whole, read back, and do not outgrow the store."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from admission import admit, read_definitions, schema_of
from full_statuses import FULL, MARKET, MARKET_JOB, NOW
from kind_documents import document
from walras_api.market_job_status import MOST_PODS, MOST_RUNS, MOST_UNDERWAY, RunsReport
from walras_api.market_status import (
    MOST_BALANCES,
    MOST_NODES,
    CreditBalance,
    LedgerReport,
    MarketStatus,
    NodePrice,
)
from walras_api.node_allocation_status import GrantStatus, NodeAllocationStatus
from walras_api.status import Condition, Status, decimals

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMAS = {kind: schema_of(each) for kind, each in read_definitions().items()}

LARGEST_REQUEST = 1_500_000
"""Bytes that etcd takes by default (--max-request-bytes 1.5 MiB)."""


def unset(status: Status, path: str) -> list[str]:
    """Return the paths of the fields of a status that are empty."""
    found = []
    for name in type(status).model_fields:
        value: Any = getattr(status, name)
        if value is None or value in ("", []):
            found.append(f"{path}.{name}")
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Status):
                found += unset(each, f"{path}.{name}")
    return found


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_full_status_is_stored_whole_and_read_back(kind: str) -> None:
    status = FULL[kind]
    assert unset(status, kind) == []
    sent = {**document(kind), "status": status.document()}
    answer = admit(sent, SCHEMAS[kind])
    assert answer.problems == []
    assert answer.stored["status"] == sent["status"]
    assert type(status).read(answer.stored["status"]) == status


@pytest.mark.parametrize("kind", SCHEMAS)
def test_an_empty_status_is_stored_as_it_is(kind: str) -> None:
    """Defaults in a status would be taken for what somebody found."""
    answer = admit({**document(kind), "status": {}}, SCHEMAS[kind])
    assert answer.problems == []
    assert answer.stored["status"] == {}


def whole_numbers(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and schema of all whole numbers in a schema."""
    if schema.get("type") == "integer":
        yield path, schema
    for name, each in schema.get("properties", {}).items():
        yield from whole_numbers(each, f"{path}.{name}")
    if "items" in schema:
        yield from whole_numbers(schema["items"], f"{path}[]")


def test_every_number_that_an_agent_reports_is_bounded() -> None:
    """An agent may have been taken over: a thousand million sockets kill the operator."""
    schema = SCHEMAS["NodeAllocation"]["properties"]["status"]
    found = dict(whole_numbers(schema, "status"))
    assert "status.topology.sockets" in found
    assert [path for path, each in found.items() if each.get("maximum", 2**60) > 2**53] == []
    assert [path for path, each in found.items() if each.get("minimum", -1) < 0] == []
    sent = {**document("NodeAllocation"), "status": FULL["NodeAllocation"].document()}
    topology = sent["status"]["topology"]
    for name, value in {"sockets": 10**9, "cores": -1, "memory": "1e9"}.items():
        odd = {**sent, "status": {**sent["status"], "topology": {**topology, name: value}}}
        (problem,) = admit(odd, SCHEMAS["NodeAllocation"]).problems
        assert f"status.topology.{name}" in problem


def test_what_is_not_known_is_left_out() -> None:
    holding = GrantStatus(pod_uid="u", namespace="a", name="b", state="Absent")
    known = {"podUID": "u", "namespace": "a", "name": "b", "state": "Absent"}
    assert holding.document() == known
    assert NodeAllocationStatus(pods=[holding]).document()["pods"] == [known]


def test_a_status_of_a_later_version_is_read() -> None:
    later = {**MARKET.document(), "colour": "red"}
    assert MarketStatus.read(later) == MARKET
    with pytest.raises(ValidationError):
        MarketStatus.model_validate(later)


def test_the_largest_market_fits_into_the_store() -> None:
    name = "a" * 63
    status = MARKET.model_copy(
        update={
            "prices": [NodePrice(node=name, cores="256", price="1.00001")] * MOST_NODES,
            "ledger": LedgerReport(
                version=1,
                quantum=2**53,
                since=NOW,
                carry="0",
                carry_before="0",
                balances=[
                    CreditBalance(
                        user=name, credits="1000000000000.000001", gained="-1000000.000001"
                    )
                ]
                * MOST_BALANCES,
            ),
        }
    )
    assert len(json.dumps(status.document())) < LARGEST_REQUEST


def test_the_largest_job_fits_into_the_store() -> None:
    pod = MARKET_JOB.pods[0].model_copy(update={"reason": "a" * 1000, "memory_reason": "b" * 1000})
    name, most, digits = "n" * 253, 10**10, "9" * 20
    assert MARKET_JOB.runs is not None
    (finished,), (underway,) = MARKET_JOB.runs.finished, MARKET_JOB.runs.underway
    finished = finished.model_copy(update={"pod": name, "seconds": most, "held_seconds": most})
    sums = {"held_seconds": most, "core_seconds": digits, "memory_seconds": digits}
    underway = underway.model_copy(update={"pod": name, **sums})
    runs = RunsReport(finished=[finished] * MOST_RUNS, underway=[underway] * MOST_UNDERWAY)
    status = MARKET_JOB.model_copy(update={"pods": [pod] * MOST_PODS, "runs": runs})
    assert len(json.dumps(status.document())) < LARGEST_REQUEST


def test_two_conditions_of_one_type_are_refused() -> None:
    twice = [MARKET.conditions[0]] * 2
    with pytest.raises(ValidationError, match="has two conditions of type Ready"):
        MarketStatus(conditions=twice)
    sent = {**document("Market"), "status": {"conditions": [each.document() for each in twice]}}
    assert "conditions" in admit(sent, SCHEMAS["Market"]).problems[0]


@pytest.mark.parametrize("reason", ["", "Not ready", "not-ready"])
def test_a_reason_is_a_word(reason: str) -> None:
    with pytest.raises(ValidationError):
        Condition(
            type="Ready", status="True", reason=reason, message="", last_transition_time="2026"
        )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (2 / 3, "0.666667"),
        (1e-11, "0.00000000001"),
        (123456789.0, "123457000"),
        (2.5, "2.5"),
        (-1.0, "-1"),
    ],
)
def test_decimals_are_plain(value: float, text: str) -> None:
    assert decimals(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30))
def test_decimals_are_near(value: float) -> None:
    assert math.isclose(float(decimals(value)), value, rel_tol=5.1e-6, abs_tol=1e-300)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_no_decimal(value: float) -> None:
    with pytest.raises(ValueError, match="leave the field out"):
        decimals(value)
