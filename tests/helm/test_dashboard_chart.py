"""The dashboard: off by default, without rights of its own, and behind a proxy only with care."""

from __future__ import annotations

from typing import Any

import pytest

from chart import HelmError, needs_helm, of_kind, rendered

pytestmark = [pytest.mark.system, needs_helm]

Document = dict[str, Any]
NAME = "walras-dashboard"
PROXY = {
    "enabled": True,
    "secretName": "proxy",
    "from": [{"podSelector": {"matchLabels": {"app": "oauth2-proxy"}}}],
}


def with_dashboard(**values: Any) -> list[Document]:
    return rendered({"dashboard": {"enabled": True, **values}})


def pod(documents: list[Document]) -> Document:
    spec: Document = of_kind("Deployment", documents)[NAME]["spec"]["template"]["spec"]
    return spec


def test_it_is_off_by_default() -> None:
    for kind in ("Deployment", "Service", "ServiceAccount", "NetworkPolicy"):
        assert NAME not in of_kind(kind, rendered())


def test_it_has_no_rights_and_no_token_of_its_own() -> None:
    documents = with_dashboard()
    assert NAME not in of_kind("ClusterRole", documents)
    assert NAME not in of_kind("ClusterRoleBinding", documents)
    assert NAME not in of_kind("Role", documents)
    assert pod(documents)["automountServiceAccountToken"] is False
    assert of_kind("ServiceAccount", documents)[NAME]["automountServiceAccountToken"] is False
    subjects = [
        subject["name"]
        for each in documents
        if each["kind"] in {"ClusterRoleBinding", "RoleBinding"}
        for subject in each["subjects"]
    ]
    assert NAME not in subjects


def test_it_can_write_nowhere_but_to_tmp() -> None:
    (container,) = pod(with_dashboard())["containers"]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    writable = [each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")]
    assert writable == ["/tmp"]  # noqa: S108 - of the pod


def test_behind_a_proxy_it_may_impersonate_and_nothing_else() -> None:
    documents = with_dashboard(proxyHeaders=PROXY)
    assert of_kind("ClusterRole", documents)[NAME]["rules"] == [
        {"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]}
    ]
    spec = pod(documents)
    assert "--proxy-secret-file=/etc/walras/proxy/secret" in spec["containers"][0]["args"]
    assert {"name": "proxy", "secret": {"secretName": "proxy", "defaultMode": 0o440}} in spec[
        "volumes"
    ]


def test_behind_a_proxy_only_the_proxy_can_connect() -> None:
    policy = of_kind("NetworkPolicy", with_dashboard(proxyHeaders=PROXY))[NAME]["spec"]
    assert policy["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": "http"}], "from": PROXY["from"]}
    ]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"dashboard": {"proxyHeaders": {**PROXY, "secretName": ""}}}, "proxyHeaders.secretName"),
        ({"dashboard": {"proxyHeaders": {**PROXY, "from": []}}}, "proxyHeaders.from"),
        ({"dashboard": {"proxyHeaders": PROXY}, "hostNetwork": True}, "hostNetwork: true"),
        (
            {"dashboard": {"proxyHeaders": PROXY}, "networkPolicy": {"enabled": False}},
            "networkPolicy.enabled",
        ),
    ],
)
def test_a_proxy_that_others_could_pose_as_is_refused(values: Document, field: str) -> None:
    values["dashboard"]["enabled"] = True
    with pytest.raises(HelmError, match=field):
        rendered(values)


def test_a_certificate_makes_it_serve_https() -> None:
    (container,) = pod(with_dashboard(tlsSecret="dashboard-tls"))["containers"]
    assert "--tls-cert-file=/etc/walras/tls/tls.crt" in container["args"]


def test_it_links_to_the_logs_that_the_values_name() -> None:
    template = "https://logs.example/?namespace={namespace}&pod={pod}"
    (container,) = pod(with_dashboard(logs=template))["containers"]
    assert f"--logs={template}" in container["args"]
    (container,) = pod(with_dashboard())["containers"]
    assert not any(each.startswith("--logs") for each in container["args"])


def test_probes_have_a_port_of_their_own_that_viewers_cannot_reach() -> None:
    documents = with_dashboard(tlsSecret="dashboard-tls")
    (container,) = pod(documents)["containers"]
    (page, probes) = (each["containerPort"] for each in container["ports"])
    assert f"--probe-port={probes}" in container["args"]
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[name]["httpGet"] == {"path": "/healthz", "port": "probes"}
    policy = of_kind("NetworkPolicy", documents)[NAME]
    assert policy["spec"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": "http"}]
    assert page != probes


def test_it_connects_to_api_servers_and_dns_only_if_their_ports_are_known() -> None:
    def policy(**values: Any) -> Document:
        documents = rendered({"dashboard": {"enabled": True}, **values})
        return dict(of_kind("NetworkPolicy", documents)[NAME]["spec"])

    assert policy()["policyTypes"] == ["Ingress"]
    closed = policy(networkPolicy={"apiServerPorts": [6443]})
    assert closed["policyTypes"] == ["Ingress", "Egress"]
    (egress,) = closed["egress"]
    assert [each["port"] for each in egress["ports"]] == [6443, 53, 53]


def test_it_listens_by_ipv4_and_ipv6() -> None:
    (container,) = pod(with_dashboard())["containers"]
    assert "--listen=::" in container["args"]


def test_its_arguments_are_options_of_the_program() -> None:
    from walras_dashboard.in_cluster_command import main

    known = {option for each in main.params for option in each.opts}
    for documents in (with_dashboard(tlsSecret="x"), with_dashboard(proxyHeaders=PROXY)):
        (container,) = pod(documents)["containers"]
        assert {each.partition("=")[0] for each in container["args"]} <= known
