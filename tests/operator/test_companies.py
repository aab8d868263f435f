"""What looks at progress tell of the company that pods were in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.resources.assembly import Objects, assemble
from walras.resources.statuses import MOST_COMPANIES, OnlineCompany, OnlineRequest
from walras_operator.measuring.companies import (
    ALONE,
    MOST_LOOKS,
    Company,
    company_of,
    noted_beside,
    penalties_of,
)
from worlds import NOW, job, profile, world

if TYPE_CHECKING:
    from walras_operator.world import Document

SERVE = Company("web", "serve")
REQUEST = OnlineRequest(
    id="r", pod="a-0", pod_uid="u", node="n1", purpose="Progress", since=NOW, until=NOW
)


def looked(*looks: tuple[Company, float]) -> list[OnlineCompany]:
    found: list[OnlineCompany] = []
    for company, ratio in looks:
        found = noted_beside(found, company, ratio, NOW)
    return found


def with_pods(name: str, *pods: tuple[str, str], namespace: str = "lab", **spec: str) -> Document:
    made = job(name, namespace=namespace, **spec)
    made["status"] = {"pods": [{"name": pod, "node": node} for pod, node in pods]}
    return made


def test_a_penalty_is_what_looks_in_company_lack_of_looks_alone() -> None:
    (found,) = penalties_of(looked((ALONE, 1.1), (SERVE, 0.9), (ALONE, 0.9), (SERVE, 0.7)), "file")
    assert (found.namespace, found.profile, found.looks) == ("web", "serve", 2)
    assert float(found.penalty) == pytest.approx(0.2)
    assert found.source == "file"


def test_nothing_is_said_before_there_was_a_look_alone() -> None:
    assert penalties_of(looked((SERVE, 0.5)), "cpuTime") == []


@given(st.lists(st.floats(0.1, 2.0), min_size=30, max_size=40))
def test_the_mean_follows_a_program_that_changes(before: list[float]) -> None:
    looks = [(SERVE, ratio) for ratio in before] + [(SERVE, 0.5)] * 6 * MOST_LOOKS
    (found,) = looked(*looks)
    assert float(found.ratio) == pytest.approx(0.5, abs=0.01)


def test_the_oldest_company_makes_room_and_looks_alone_stay() -> None:
    crowd = [(Company("web", f"p{number}"), 1.0) for number in range(2 * MOST_COMPANIES)]
    found = looked((ALONE, 1.0), *crowd)
    assert len(found) <= MOST_COMPANIES
    assert found[0].profile is None
    assert found[-1].profile == f"p{2 * MOST_COMPANIES - 1}"


@pytest.mark.parametrize(
    ("jobs", "company"),
    [
        ([with_pods("a", ("a-0", "n1"))], ALONE),
        ([with_pods("a", ("a-0", "n1"), ("a-1", "n2"))], ALONE),
        ([with_pods("a", ("a-0", "n1"), ("a-1", "n1"))], Company("lab", "a")),
        (
            [
                with_pods("a", ("a-0", "n1")),
                with_pods("b", ("a-0", "n1"), namespace="web", profile="serve", auto=""),
            ],
            SERVE,
        ),
        ([with_pods("a", ("a-0", "n1"), ("a-1", "n1")), with_pods("b", ("b", "n1"))], None),
    ],
)
def test_who_is_beside_a_pod(jobs: list[Document], company: Company | None) -> None:
    assert company_of(world(*jobs), REQUEST, "lab") == company


def test_measured_penalties_count_like_written_ones_which_come_first() -> None:
    made = profile("a", penalties=[{"profile": "b", "penalty": "0.3"}])
    measured = [
        {"profile": "b", "namespace": "lab", "penalty": "0.1"},
        {"profile": "serve", "namespace": "web", "penalty": "0.2"},
    ]
    rest = {"source": "file", "looks": 1, "finished": NOW}
    made["status"] = {"penalties": [{**each, **rest} for each in measured] + ["nonsense"]}
    (known,) = world(made).objects.profiles
    found = assemble(Objects(profiles=[known])).snapshot.penalties
    assert found == {("lab/a", "lab/b"): 0.3, ("lab/a", "web/serve"): 0.2}
