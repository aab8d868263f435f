"""The policy that binds leads to their subtree, by the engine of a real API server.

Persons are ServiceAccounts of namespaces whose groups the chart gives a role. Dry runs are refused
as writes are.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from admission import read_definitions
from chart import CHART, helm, needs_helm
from live_api import API, RefusedError
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [needs_helm, needs_cluster]

Document = dict[str, Any]

RIGHTS, POLICIES = "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
ENTITLEMENTS = "/apis/walras.dev/v1alpha1/entitlements"
MANY = ["people-lead", *(f"people-lead-{number}" for number in range(2, 9))]
PERSONS: dict[str, Document] = {
    "people-lead": {"role": "lead", "namespaces": MANY, "entitlements": ["vision"]},
    "people-user": {"namespaces": ["people-user"], "entitlements": ["vision"]},
    "people-admin": {"role": "admin"},
}
"""Values of the chart for a group, by the namespace of its person."""


def entitlement(name: str, parent: str | None, **spec: Any) -> Document:
    above = {} if parent is None else {"parent": parent}
    head = {"apiVersion": "walras.dev/v1alpha1", "kind": "Entitlement", "metadata": {"name": name}}
    return {**head, "spec": {"shares": 1, **above, **spec}}


class People:
    """A cluster with a person of each role, and entitlements of two teams."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self.folder = folder
        self.admin, self._opened = API.connect(KUBECONFIG), opened
        opened.enter_context(self.admin.installed(read_definitions().values()))
        for namespace in PERSONS:
            self._make("/api/v1/namespaces", {"metadata": {"name": namespace}})
            accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
            self._make(accounts, {"metadata": {"name": "person"}})
        for namespace in MANY[1:]:
            self._make("/api/v1/namespaces", {"metadata": {"name": namespace}})
        for team in ("vision", "speech"):
            self._make(ENTITLEMENTS, entitlement(team, None))
        self._make(ENTITLEMENTS, entitlement("vision.old", "vision"))
        groups = [{"group": f"system:serviceaccounts:{each}", **PERSONS[each]} for each in PERSONS]
        values = folder / "values.json"
        image = {"registry": "localhost"}
        follow = {"spec": {"entitlements": {"from": "Kueue"}}}
        values.write_text(
            json.dumps({"image": image, "rbac": {"userGroups": groups}, "market": follow})
        )
        documents = [
            each
            for each in yaml.safe_load_all(
                helm(
                    *("template", "walras", str(CHART), "--namespace", "default"),
                    *("--values", str(values), "--dry-run=server"),
                )
            )
            if each
        ]
        for kind, path in (
            ("ServiceAccount", "/api/v1/namespaces/default/serviceaccounts"),
            ("ClusterRole", f"{RIGHTS}/clusterroles"),
            ("ClusterRoleBinding", f"{RIGHTS}/clusterrolebindings"),
            ("RoleBinding", ""),
            ("ValidatingAdmissionPolicy", f"{POLICIES}/validatingadmissionpolicies"),
            ("ValidatingAdmissionPolicyBinding", f"{POLICIES}/validatingadmissionpolicybindings"),
        ):
            for each in documents:
                metadata = each["metadata"]
                labels = metadata.get("labels") or {}
                part = labels.get("app.kubernetes.io/component")
                if each["kind"] == kind and part in {"users", "operator"}:
                    inside = f"{RIGHTS}/namespaces/{metadata.get('namespace')}/rolebindings"
                    self._make(path or inside, each)

    def _make(self, path: str, document: Document) -> None:
        self._opened.enter_context(self.admin.made(path, document))

    def person(self, namespace: str, account: str = "person") -> API:
        """A client of the person of a namespace."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        token = self.admin.call("POST", path, {"spec": {"audiences": []}})["status"]["token"]
        document = yaml.safe_load(Path(KUBECONFIG).read_text())
        document["users"] = [
            {"name": each["name"], "user": {"token": token}} for each in document["users"]
        ]
        file = self.folder / namespace
        file.write_text(yaml.safe_dump(document))
        return API.connect(str(file))

    def is_guarded(self) -> bool:
        """Whether the policy is in force."""
        try:
            create(self.person("people-lead"), entitlement("guarded", None))
        except RefusedError as refused:
            return "walras-leads" in refused.message
        return False


def create(person: API, document: Document) -> Document:
    return person.call("POST", f"{ENTITLEMENTS}?dryRun=All", document)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    with ExitStack() as opened:
        made = People(tmp_path_factory.mktemp("people"), opened)
        assert eventually(made.is_guarded, 60, pause=0.2)
        yield made


def test_the_operator_may_write_entitlements_that_follow_quotas(people: People) -> None:
    """It is no lead of anybody, so the policy must let it pass."""
    operator = people.person("default", "walras-operator")
    document = entitlement("cohort-all", None, namespaces=[f"n{each}" for each in range(9)])
    assert create(operator, document)["spec"] == document["spec"]


@pytest.fixture(scope="module")
def lead(people: People) -> API:
    return people.person("people-lead")


@pytest.mark.parametrize(
    "document",
    [
        entitlement("vision.nlp", "vision"),
        entitlement("vision.nlp", "vision", namespaces=["people-lead"]),
        entitlement("vision.nlp", "vision", namespaces=MANY),
        entitlement("vision.nlp.eval", "vision.nlp"),
        entitlement("vision.a.b.c.d", "vision.a.b.c"),
    ],
    ids=["child", "child with a namespace", "child with eight", "grandchild", "four below"],
)
def test_a_lead_divides_what_is_its_own(lead: API, document: Document) -> None:
    assert create(lead, document)["spec"] == document["spec"]


REFUSED = {
    "a root": (entitlement("nlp", None), "a lead writes only Entitlements named PARENT.NAME"),
    "a child of another": (entitlement("speech.x", "speech"), "needs the verb divide on"),
    "a name that lies": (entitlement("vision.x", "speech"), "must have spec.parent: vision"),
    "no parent": (entitlement("vision.x", None), "must have spec.parent: vision"),
    "a look-alike": (entitlement("vision2.x", "vision2"), "needs the verb divide on"),
    "beside its parent": (entitlement("x.vision", "vision"), "needs the verb divide on"),
    "a selector": (
        entitlement("vision.x", "vision", namespaceSelector={}),
        "not with a namespaceSelector",
    ),
    "a namespace of others, last": (
        entitlement("vision.x", "vision", namespaces=[*MANY[:7], "people-user"]),
        "in each of which the lead may create MarketJobs",
    ),
    "a namespace of others": (
        entitlement("vision.x", "vision", namespaces=["people-lead", "people-user"]),
        "in each of which the lead may create MarketJobs",
    ),
    "too many namespaces": (
        entitlement("vision.x", "vision", namespaces=[f"n{each}" for each in range(9)]),
        "at most 8 namespaces",
    ),
}


@pytest.mark.parametrize(("document", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_nothing_else_a_lead_may_create(lead: API, document: Document, reason: str) -> None:
    with pytest.raises(RefusedError, match=reason) as refused:
        create(lead, document)
    assert refused.value.code == 403


def test_its_own_share_a_lead_may_not_change_or_delete(lead: API) -> None:
    for name in ("vision", "speech"):
        for method, body in (("PATCH", {"spec": {"shares": 99}}), ("DELETE", None)):
            with pytest.raises(RefusedError, match="you may not write the Entitlement") as refused:
                lead.call(method, f"{ENTITLEMENTS}/{name}?dryRun=All", body)
            assert refused.value.code == 403


def test_what_is_below_a_lead_may_change_and_delete_but_not_move_elsewhere(lead: API) -> None:
    path = f"{ENTITLEMENTS}/vision.old"
    assert lead.call("PATCH", f"{path}?dryRun=All", {"spec": {"shares": 5}})["spec"]["shares"] == 5
    with pytest.raises(RefusedError, match=r"must have spec.parent: vision"):
        lead.call("PATCH", f"{path}?dryRun=All", {"spec": {"parent": "speech"}})
    lead.call("DELETE", f"{path}?dryRun=All")


def test_a_lead_writes_no_status(lead: API) -> None:
    with pytest.raises(RefusedError, match="forbidden"):
        lead.call("PATCH", f"{ENTITLEMENTS}/vision.old/status", {"status": {"jobs": 7}})


def test_a_user_sees_its_entitlement_and_writes_none(people: People) -> None:
    user = people.person("people-user")
    assert user.call("GET", f"{ENTITLEMENTS}/vision")["spec"]["shares"] == 1
    for refused in (f"{ENTITLEMENTS}/speech", ENTITLEMENTS, "/api/v1/nodes", "/api/v1/pods"):
        with pytest.raises(RefusedError, match="forbidden"):
            user.call("GET", refused)
    with pytest.raises(RefusedError, match="forbidden"):
        create(user, entitlement("vision.x", "vision"))


def test_an_administrator_of_the_market_writes_every_entitlement(people: People) -> None:
    admin = people.person("people-admin")
    create(admin, entitlement("anything", "speech", namespaceSelector={}))
    create(people.admin, entitlement("anything", "speech", namespaceSelector={}))
    path = f"{ENTITLEMENTS}/speech?dryRun=All"
    assert admin.call("PATCH", path, {"spec": {"shares": 2}})["spec"]["shares"] == 2
