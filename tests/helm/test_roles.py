"""The chart's roles are those that operator and agent are tested with, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from chart import NAMESPACE, HelmError, needs_helm, of_kind, rendered
from rights import (
    AGENT_LEASE_RULES,
    AGENT_RULES,
    FOLLOWING_RULES,
    OPERATOR_OWN_RULES,
    OPERATOR_RULES,
    PLACING_RULES,
    QUOTA_RULES,
    Rule,
)

pytestmark = [pytest.mark.system, needs_helm]

Document = dict[str, Any]


def bound(documents: list[Document], account: str) -> tuple[list[Rule], list[Rule]]:
    """Return a ServiceAccount's rights in the whole cluster, and in its own namespace."""
    found: dict[str, list[Rule]] = {"ClusterRole": [], "Role": []}
    for kind, rules in found.items():
        for binding in of_kind(f"{kind}Binding", documents).values():
            (subject,) = binding["subjects"]
            assert subject["namespace"] == NAMESPACE
            if subject["name"] == account:
                assert binding["roleRef"]["kind"] == kind
                rules.extend(of_kind(kind, documents)[binding["roleRef"]["name"]]["rules"])
    return found["ClusterRole"], found["Role"]


def test_the_operator_has_the_rights_that_it_is_tested_with() -> None:
    assert bound(rendered(), "walras-operator") == (OPERATOR_RULES, OPERATOR_OWN_RULES)


def test_only_where_it_places_pods_may_the_operator_change_them() -> None:
    may, _ = bound(rendered({"colocation": {"enabled": True}}), "walras-operator")
    assert [rule for rule in may if rule not in OPERATOR_RULES] == PLACING_RULES
    assert [rule for rule in may if rule not in PLACING_RULES] == OPERATOR_RULES


@pytest.mark.parametrize("source", QUOTA_RULES)
def test_only_where_entitlements_follow_quotas_may_the_operator_write_them(source: str) -> None:
    spec = {"entitlements": {"from": source}}
    may, _ = bound(rendered({"market": {"spec": spec}}), "walras-operator")
    more = [*FOLLOWING_RULES, *QUOTA_RULES[source]]
    assert [rule for rule in may if rule not in OPERATOR_RULES] == more
    assert [rule for rule in may if rule not in more] == OPERATOR_RULES


def test_the_agent_has_the_rights_that_it_is_tested_with() -> None:
    assert bound(rendered(), "walras-agent") == (AGENT_RULES, AGENT_LEASE_RULES)


def test_accounts_of_other_names_have_the_same_rights() -> None:
    values = {part: {"serviceAccount": {"name": f"my-{part}"}} for part in ("operator", "agent")}
    documents = rendered(values)
    assert bound(documents, "my-operator") == (OPERATOR_RULES, OPERATOR_OWN_RULES)
    assert bound(documents, "my-agent") == (AGENT_RULES, AGENT_LEASE_RULES)


def test_no_role_has_wildcards_or_reads_secrets() -> None:
    documents = rendered()
    roles = {**of_kind("ClusterRole", documents), **of_kind("Role", documents)}
    for name, role in roles.items():
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]], name
            assert "secrets" not in rule["resources"], name


GROUP = "team:vision"


def people(*groups: Document, policy: bool = True) -> list[Document]:
    return rendered({"rbac": {"userGroups": list(groups)}, "admissionPolicy": policy})


def given(documents: list[Document]) -> set[tuple[str, str, str]]:
    """Return kind, namespace and role of every binding of the group."""
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["roleRef"]["name"])
        for kind in ("ClusterRoleBinding", "RoleBinding")
        for each in documents
        if each["kind"] == kind
        and each["subjects"][0] == {**each["subjects"][0], "kind": "Group", "name": GROUP}
    }


def test_a_user_gets_jobs_by_namespace_and_entitlements_by_name() -> None:
    documents = people({"group": GROUP, "namespaces": ["a", "b"], "entitlements": ["vision"]})
    bindings = given(documents)
    (own,) = (role for _, _, role in bindings if role.startswith("walras-group-"))
    assert bindings == {
        ("RoleBinding", "a", "walras-user"),
        ("RoleBinding", "b", "walras-user"),
        ("ClusterRoleBinding", "", own),
    }
    (rule,) = of_kind("ClusterRole", documents)[own]["rules"]
    assert rule["resourceNames"] == ["vision"]
    assert rule["verbs"] == ["get", "list", "watch"]


def test_a_namespace_that_yaml_would_take_for_something_else_is_a_name() -> None:
    names = ["123", "true", "a\nkind: ClusterRoleBinding"]
    documents = people({"group": GROUP, "namespaces": names})
    assert {namespace for _, namespace, _ in given(documents)} == {*names}
    assert {kind for kind, _, _ in given(documents)} == {"RoleBinding"}


def test_a_lead_also_gets_the_verb_that_its_policy_asks_for() -> None:
    documents = people({"group": GROUP, "role": "lead", "entitlements": ["vision"]})
    roles = {role for _, _, role in given(documents)}
    assert "walras-lead" in roles
    (own,) = roles - {"walras-lead"}
    assert "divide" in of_kind("ClusterRole", documents)[own]["rules"][0]["verbs"]
    assert "walras-leads" in of_kind("ValidatingAdmissionPolicy", documents)
    for rule in of_kind("ClusterRole", documents)["walras-lead"]["rules"]:
        assert "divide" not in rule["verbs"], "on all Entitlements, that would lift the policy"


def test_an_administrator_gets_the_whole_market_and_its_history() -> None:
    documents = people({"group": GROUP, "role": "admin"})
    assert given(documents) == {
        ("ClusterRoleBinding", "", "walras-admin"),
        ("ClusterRoleBinding", "", "walras-pause"),
        ("RoleBinding", NAMESPACE, "walras-history"),
    }
    (rule,) = of_kind("Role", documents)["walras-history"]["rules"]
    assert rule == {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}


def test_nobody_else_may_read_the_history() -> None:
    """It is about all users, and the operator's ConfigMaps are nobody else's business."""
    documents = people(
        {"group": GROUP, "namespaces": ["a"], "entitlements": ["vision"]},
        {"group": GROUP, "role": "lead", "entitlements": ["vision"]},
    )
    assert "walras-history" not in {role for _, _, role in given(documents)}
    for name, role in of_kind("ClusterRole", documents).items():
        for rule in role["rules"]:
            assert "configmaps" not in rule["resources"], name


def test_without_the_policy_nobody_is_a_lead() -> None:
    assert "walras-lead" not in of_kind("ClusterRole", people(policy=False))
    with pytest.raises(HelmError, match=f"{GROUP} has the role lead, which needs admissionPolicy"):
        people({"group": GROUP, "role": "lead", "entitlements": ["vision"]}, policy=False)


@pytest.mark.parametrize(
    ("group", "complaint"),
    [
        ({"role": "lead", "namespaces": ["a"]}, "nothing to hold it for; set entitlements"),
        ({}, "nothing to hold it for; set entitlements"),
        ({"role": "admin", "namespaces": ["a"]}, "holds for all namespaces and entitlements"),
        ({"role": "owner"}, "userGroups"),
    ],
)
def test_a_group_without_sense_is_refused(group: Document, complaint: str) -> None:
    with pytest.raises(HelmError, match=complaint):
        people({"group": GROUP, **group})


def test_every_account_that_is_used_is_made() -> None:
    documents = rendered()
    accounts = of_kind("ServiceAccount", documents)
    used = {
        each["spec"]["template"]["spec"]["serviceAccountName"]
        for each in documents
        if "template" in each.get("spec", {})
    }
    assert used == set(accounts) - {"walras-check"}


def test_users_may_do_with_their_jobs_what_they_may_do_in_their_namespace() -> None:
    roles = of_kind("ClusterRole", rendered())
    aggregated = {
        (name, label.rpartition("-")[2])
        for name, role in roles.items()
        for label in role["metadata"]["labels"]
        if label.startswith("rbac.authorization.k8s.io/aggregate-to-")
    }
    assert aggregated == {
        ("walras-edit", "admin"),
        ("walras-edit", "edit"),
        ("walras-view", "admin"),
        ("walras-view", "edit"),
        ("walras-view", "view"),
    }
    for name in ("walras-edit", "walras-view"):
        for rule in roles[name]["rules"]:
            assert rule["resources"] == ["marketjobs", "speedupprofiles"], "others are nobody's own"
