"""Choices at installation, upgrade and removal of Walras."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from operator_cluster import CRDS
from walras_api.parse import parse_allocation
from walras_operator.command import main
from walras_operator.lifecycle.check import refusals
from walras_operator.lifecycle.default_market import apply, merge_patch
from walras_operator.lifecycle.release import empty_plan, release_progress

Document = dict[str, Any]

VALUES = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def merged(document: Any, patch: Document) -> Document:
    """Return a document with a merge patch applied (RFC 7386, section 2)."""
    found = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value) if isinstance(value, dict) else value
    return found


@pytest.mark.long
@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_makes_one_document_the_other(before: Document, after: Document) -> None:
    patch = merge_patch(before, after)
    assert merged(before, patch) == after
    assert (patch == {}) == (before == after)


def test_what_others_changed_and_the_values_did_not_stays() -> None:
    patch = merge_patch({"mode": "observe", "cores": {"unit": "core"}}, {"mode": "enforce"})
    by_hand = {"mode": "observe", "epochSeconds": 5, "cores": {"unit": "thread"}}
    assert merged(by_hand, patch) == {"mode": "enforce", "epochSeconds": 5}
    patch = merge_patch({"mode": "observe"}, {"mode": "observe", "cores": {"unit": "core"}})
    kept = {"mode": "enforce", "cores": {"unit": "core", "soldBy": "socket"}}
    assert merged({"mode": "enforce", "cores": {"soldBy": "socket"}}, patch) == kept


class Stored:
    """An API server with at most one Market, which patches as RFC 7386 says."""

    def __init__(self) -> None:
        self.market: Document | None = None

    def find(self, path: str) -> Document | None:
        assert path.endswith("/markets/default")
        return self.market

    def request(self, verb: str, path: str, body: Document, **options: str) -> None:
        self.market = body if verb == "POST" else merged(self.market, body)


def test_a_new_market_observes_and_bounds_requests_and_no_upgrade_changes_one_that_is_there() -> (
    None
):
    api: Any = Stored()
    apply(api, {"cores": {"unit": "core"}}, until=0.0)
    assert api.market["spec"] == {
        "mode": "observe",
        "cores": {"requests": "WithinShare", "unit": "core"},
    }
    apply(api, {"epochSeconds": 60}, until=0.0)
    assert api.market["spec"] == {
        "mode": "observe",
        "cores": {"requests": "WithinShare"},
        "epochSeconds": 60,
    }
    annotations = api.market["metadata"]["annotations"]
    api.market = {"metadata": {"annotations": annotations}, "spec": {"mode": "enforce"}}
    apply(api, {"epochSeconds": 30, "cores": {"unit": "thread"}}, until=0.0)
    assert api.market["spec"] == {
        "mode": "enforce",
        "epochSeconds": 30,
        "cores": {"unit": "thread"},
    }


def allocation(name: str, **status: Any) -> Document:
    return {"metadata": {"name": name}, "spec": {"epoch": 9, "grants": []}, "status": status}


def ready(reason: str, message: str) -> list[Document]:
    return [{"type": "Ready", "status": "False", "reason": reason, "message": message}]


@pytest.mark.parametrize(
    ("status", "lives", "state", "reason"),
    [
        ({"epoch": 9, "enforcedEpoch": 9, "mode": "enforce"}, True, "restored", ""),
        ({"epoch": 9, "enforcedEpoch": 9, "mode": "enforce"}, False, "restored", ""),
        ({"epoch": 9, "enforcedEpoch": 4, "mode": "observe"}, True, "restored", ""),
        (
            {"epoch": 8, "enforcedEpoch": 8},
            True,
            "waiting",
            "its agent has not reported yet",
        ),
        ({}, True, "waiting", "its agent has not reported yet"),
        ({"epoch": 9, "conditions": ready("Pending", "/a: busy")}, True, "waiting", "/a: busy"),
        ({"epoch": 9, "conditions": ready("Refused", "static")}, True, "lost", "static"),
        ({"epoch": 8, "enforcedEpoch": 8}, False, "lost", "does not renew its Lease"),
        ({"epoch": 9, "conditions": ready("Pending", "/a: busy")}, False, "lost", "not renew"),
    ],
)
def test_a_node_is_restored_when_its_agent_says_so_of_this_epoch(
    status: Document, lives: bool, state: str, reason: str
) -> None:
    found = release_progress([allocation("a", **status)], 9, {"a"} if lives else set())
    told = {
        "restored": dict.fromkeys(found.restored, ""),
        "waiting": found.waiting,
        "lost": found.lost,
    }
    assert {name for name, nodes in told.items() if nodes} == {state}
    assert reason in told[state]["a"]


def test_a_withdrawn_plan_is_one_that_agents_take() -> None:
    spec = {
        "epoch": 3,
        "mode": "observe",
        "unit": "thread",
        "grants": [{"podUID": "u", "name": "p", "cores": "1"}],
        "profiling": {"id": "m", "podUID": "u"},
    }
    head = {"apiVersion": "walras.dev/v1alpha1", "kind": "NodeAllocation"}
    plan = parse_allocation({**head, "metadata": {"name": "a"}, "spec": empty_plan(spec, 4)})
    assert (plan.spec.epoch, plan.spec.mode, plan.spec.unit) == (4, "enforce", "thread")
    assert plan.spec.grants == []
    assert plan.spec.profiling is None


def test_printed_definitions_are_those_of_the_repository() -> None:
    result = CliRunner().invoke(main, ["crds", "--print"])
    assert result.exit_code == 0
    printed = {each["metadata"]["name"]: each for each in yaml.safe_load_all(result.output)}
    committed = [yaml.safe_load(path.read_text()) for path in CRDS]
    assert printed == {each["metadata"]["name"]: each for each in committed}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["crds", "--kubeconfig", "/nowhere"], 1, "give the API server by --kubeconfig"),
        (["check", "--kubeconfig", "/nowhere"], 1, "give the API server by --kubeconfig"),
        (["release", "--kubeconfig", "/nowhere"], 1, "give the API server by --kubeconfig"),
        (["crds", "--market", "{mode: observe}"], 2, "is not JSON"),
        (["crds", "--market", "[]"], 2, "is not a JSON object, such as {}"),
        (
            ["release", "--timeout", "20"],
            2,
            "it must be more than 35, which is --release-after plus 5 seconds",
        ),
    ],
)
def test_what_cannot_work_is_said_at_once(arguments: list[str], code: int, said: str) -> None:
    result = CliRunner().invoke(main, arguments, env={"KUBECONFIG": None})
    assert result.exit_code == code
    assert said in result.output


def test_a_check_names_nodes_whose_agents_refuse_and_why() -> None:
    def refusing(name: str, reason: str, message: str) -> Document:
        ready = {"type": "Ready", "status": "False", "reason": reason, "message": message}
        return allocation(name, conditions=[ready])

    static, unknown = "the CPU manager is static", "the configuration cannot be read"
    found = [
        refusing("n2", "Refused", static),
        refusing("n1", "Refused", static),
        refusing("n3", "Refused", unknown),
        refusing("n4", "Pending", "memory waits"),
        refusing("elsewhere", "Refused", unknown),
        allocation("n5"),
    ]
    assert list(refusals(found, {f"n{number}" for number in range(1, 6)})) == [
        f"agents of 2 of 5 nodes enforce nothing: n1, n2: {static}",
        f"agents of 1 of 5 nodes enforce nothing: n3: {unknown}",
    ]
