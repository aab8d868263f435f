"""The policy by which an agent writes only what is its own node's.

Its expressions are evaluated by cel-python, with requests as the API server gives them (types
AdmissionRequest and UserInfo): for machines without a cluster that knows such policies.
"""

from __future__ import annotations

from typing import Any

import celpy
import pytest
from celpy.adapter import json_to_cel

from chart import NAMESPACE, needs_helm, of_kind, rendered

pytestmark = [pytest.mark.system, needs_helm]

Document = dict[str, Any]

AGENT = f"system:serviceaccount:{NAMESPACE}:walras-agent"
NODE_NAME = "authentication.kubernetes.io/node-name"
CEL = celpy.Environment()


def policy() -> Document:
    found = of_kind("ValidatingAdmissionPolicy", rendered())["walras-agent"]
    spec: Document = found["spec"]
    return spec


def evaluated(expression: str, names: Document) -> Any:
    activation = {name: json_to_cel(value) for name, value in names.items()}
    return CEL.program(CEL.compile(expression)).evaluate(activation)


def refused(object_: Document, resource: str, node: str | None, user: str = AGENT) -> str:
    """Why a request is refused; empty if it is not."""
    extra = {} if node is None else {NODE_NAME: [node]}
    return refused_to({"username": user, "extra": extra}, object_, resource)


def refused_to(user: Document, object_: Document, resource: str) -> str:
    """Return why a request of a user, given as UserInfo, is refused; empty if it is not."""
    spec = policy()
    request = {"userInfo": user, "resource": {"resource": resource}}
    names: Document = {"request": request, "object": object_}
    if not all(evaluated(each["expression"], names) for each in spec["matchConditions"]):
        return ""
    names["variables"] = {
        each["name"]: str(evaluated(each["expression"], names)) for each in spec["variables"]
    }
    for rule in spec["validations"]:
        if not evaluated(rule["expression"], names):
            message = rule.get("messageExpression")
            return str(evaluated(message, names)) if message else rule["message"]
    return ""


def allocation(name: str) -> Document:
    return {"metadata": {"name": name}, "spec": {"epoch": 1}}


def lease(name: str, holder: str | None) -> Document:
    spec = {} if holder is None else {"holderIdentity": holder}
    return {"metadata": {"name": name}, "spec": spec}


def test_what_is_its_own_nodes_an_agent_may_write() -> None:
    assert refused(allocation("a"), "nodeallocations", "a") == ""
    assert refused(lease("walras-agent-a", "a"), "leases", "a") == ""


@pytest.mark.parametrize(
    ("object_", "resource", "message"),
    [
        (allocation("b"), "nodeallocations", "the agent of a may write only the status of its own"),
        (lease("walras-agent-b", "b"), "leases", "may write only the Lease walras-agent-a"),
        (lease("walras-agent-a", "b"), "leases", "with its node as the holder"),
        (lease("walras-agent-a", None), "leases", "with its node as the holder"),
        (
            lease("walras-operator", "a"),
            "leases",
            "may write only the Lease walras-agent-a",
        ),
    ],
)
def test_what_is_another_nodes_it_may_not(object_: Document, resource: str, message: str) -> None:
    assert message in refused(object_, resource, "a")


def test_a_token_that_is_bound_to_no_node_may_write_nothing() -> None:
    assert "is not bound to a node" in refused(allocation("a"), "nodeallocations", None)


@pytest.mark.parametrize("resource", ["nodeallocations", "leases"])
def test_who_comes_without_anything_extra_is_told_why(resource: str) -> None:
    """A user that is impersonated, or has a token of a Secret, comes without that field."""
    assert "is not bound to a node" in refused_to({"username": AGENT}, allocation("a"), resource)
    others = {"username": AGENT, "extra": {"authentication.kubernetes.io/pod-name": ["p"]}}
    assert "is not bound to a node" in refused_to(others, allocation("a"), resource)


def test_a_lease_without_a_spec_is_refused_with_the_reason() -> None:
    empty = {"metadata": {"name": "walras-agent-a"}}
    assert "with its node as the holder" in refused(empty, "leases", "a")


@pytest.mark.parametrize("user", ["system:serviceaccount:walras-system:walras-operator", "admin"])
def test_others_are_not_the_policys_concern(user: str) -> None:
    assert refused(lease("walras-operator", "x"), "leases", None, user) == ""


def test_it_is_about_every_way_by_which_an_agent_writes() -> None:
    rules = policy()["matchConstraints"]["resourceRules"]
    covered = {
        (each["resources"][0], operation) for each in rules for operation in each["operations"]
    }
    assert covered == {
        ("nodeallocations/status", "UPDATE"),
        ("leases", "CREATE"),
        ("leases", "UPDATE"),
    }


def test_it_is_bound_and_denies() -> None:
    documents = rendered()
    binding = of_kind("ValidatingAdmissionPolicyBinding", documents)["walras-agent"]
    assert binding["spec"]["policyName"] in of_kind("ValidatingAdmissionPolicy", documents)
    assert binding["spec"]["validationActions"] == ["Deny"]
