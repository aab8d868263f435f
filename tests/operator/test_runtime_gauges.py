"""Gauges of an operator's process by which an alert sees that the leader does not decide."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kubeconfigs import kubeconfig
from walras_operator.decide.world import Carried, Decision, Writes
from walras_operator.lead.lease import LeaseRecord
from walras_operator.process import Operator, Options

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    address = kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    return Operator(Options("me", str(address)), lambda _: Decision(Carried(), Writes(), Writes))


def gauge(operator: Operator, name: str) -> float | None:
    return operator.metrics.registry.get_sample_value(f"walras_operator_{name}")


def lead(operator: Operator, seconds: float) -> None:
    """Let an operator lead, and have led for so long."""
    now = time.monotonic()
    for asked in (now - seconds, now):
        operator.leadership._candidate.renewed(LeaseRecord("me", transitions=1, version="1"), asked)


def test_a_leader_that_never_decided_is_undecided_since_it_leads(operator: Operator) -> None:
    """Its watches may never become complete, as where a kind may not be listed."""
    lead(operator, 400)
    assert gauge(operator, "complete") == 0
    assert gauge(operator, "last_success_age_seconds") is None
    assert gauge(operator, "undecided_seconds") == pytest.approx(400, abs=60)
    assert gauge(operator, "epoch_seconds") == 30


def test_a_leader_is_undecided_since_its_last_decision(operator: Operator) -> None:
    lead(operator, 4000)
    operator.recompute.succeeded = time.monotonic() - 400
    assert gauge(operator, "undecided_seconds") == pytest.approx(400, abs=60)


def test_decisions_of_an_earlier_leadership_do_not_count(operator: Operator) -> None:
    operator.recompute.succeeded = time.monotonic() - 4000
    assert gauge(operator, "undecided_seconds") == 0, "another operator leads"
    lead(operator, 400)
    assert gauge(operator, "undecided_seconds") == pytest.approx(400, abs=60)
