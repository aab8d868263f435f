"""Every object that the chart can make is one that Kubernetes knows, field by field."""

from __future__ import annotations

import io
import re
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml

from chart import (
    CHART,
    MONITORING,
    POLICIES,
    ROOT,
    HelmError,
    events,
    helm,
    needs_helm,
    of_kind,
    rendered,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = [pytest.mark.system, needs_helm]

Document = dict[str, Any]

OLDEST, NEWEST = "1.34", "1.37"
"""Versions of Kubernetes that are supported."""

EXTRAS: Document = {
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "operator"}},
}

VARIANTS: dict[str, Document] = {
    "as it is": {},
    "one node without a network for pods": {"hostNetwork": True},
    "everything on": {
        "commonLabels": {"team": "platform"},
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
        "image": {
            "registry": "registry.example.com/team/",
            "pullSecrets": [{"name": "pull"}],
            "operator": {"tag": "dev"},
            "agent": {"digest": "sha256:" + "0" * 64},
        },
        "market": {"spec": {"mode": "observe", "cores": {"reservedCores": 1}}},
        "operator": {
            **EXTRAS,
            "topologySpreadConstraints": [SPREAD],
            "replicas": 2,
            "log": {"format": "text", "verbose": True},
            "tolerations": [{"key": "control-plane", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "podLabels": {"a": "b"},
            "podAnnotations": {"a": "b"},
            "priorityClassName": "system-cluster-critical",
            "serviceAccount": {"name": "operator", "annotations": {"a": "b"}},
        },
        "agent": {
            **EXTRAS,
            "updateType": "OnDelete",
            "mode": "observe",
            "reservedCpus": "0-1,8",
            "kubelet": {"cgroupDriver": "systemd", "configFolder": "/etc/kubelet"},
            "profiling": {"memoryBandwidth": True, "files": True},
            "log": {"verbose": True},
            "podLabels": {"a": "b"},
            "podAnnotations": {"a": "b"},
            "affinity": {"nodeAffinity": {}},
            "priorityClassName": "system-node-critical",
            "serviceAccount": {"name": "agent", "annotations": {"a": "b"}},
        },
        "networkPolicy": {
            "apiServerPorts": [443, 6443],
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        },
        "metrics": {"tlsSecret": "walras-tls", "authorize": True},
        "monitoring": {"labels": {"release": "prometheus"}},
    },
    "as little as possible": {
        "market": {"create": False},
        "crds": {"install": False},
        "hooks": {"release": False},
        "rbac": {"aggregate": False},
        "networkPolicy": {"enabled": False},
        "admissionPolicy": False,
        "monitoring": {
            "serviceMonitor": False,
            "alerts": False,
            "dashboard": {"enabled": False},
        },
        "agent": {"profiling": {"instructions": False}},
    },
    "privileged": {"agent": {"privileged": True}},
    "only a market": {"crds": {"install": False}},
}


def complaints(document: Document, version: str) -> str:
    """Return errors and warnings of a strict validation of an object."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            return f"{error.message} at {list(error.path)}"
    return said.getvalue()


@pytest.mark.parametrize(
    ("version", "variant"),
    [*((NEWEST, each) for each in VARIANTS), (OLDEST, "everything on")],
)
def test_every_object_is_known_field_by_field(version: str, variant: str) -> None:
    documents = rendered(VARIANTS[variant], f"{version}.0", MONITORING)
    for each in documents:
        if not each["apiVersion"].startswith("monitoring."):  # not Kubernetes' own
            name = f"{each['kind']} {each['metadata']['name']}"
            assert complaints(each, version) == "", name


@pytest.mark.parametrize(
    ("version", "threads"),
    [("v1.35.2-gke.100", False), ("1.36.0", True), ("1.37.0", True)],
)
def test_a_version_that_is_given_counts_as_that_version(version: str, threads: bool) -> None:
    """As with `helm template --kube-version`, which knows no kinds."""
    documents = rendered({"operator": {"replicas": 2}}, version)
    assert ("walras-threads" in of_kind("MutatingAdmissionPolicy", documents)) is threads


def test_older_versions_of_kubernetes_are_refused() -> None:
    with pytest.raises(HelmError, match="incompatible with Kubernetes v1"):
        rendered(version="1.33.9")


def test_what_a_cluster_serves_counts_more_than_its_version() -> None:
    """An API server can be told not to serve a kind."""
    values = {"image": {"registry": "localhost"}}
    documents = rendered(values, "1.37.0", ["v1/Pod"])
    assert not of_kind("MutatingAdmissionPolicy", documents)
    documents = rendered(values, "1.37.0", ["v1/Pod", POLICIES])
    assert of_kind("MutatingAdmissionPolicy", documents)


def test_one_value_sets_the_registry_of_all_images() -> None:
    values = VARIANTS["everything on"] | {"dashboard": {"enabled": True}}
    text = yaml.safe_dump_all(rendered(values, apis=MONITORING))
    images = re.findall(r"\bimage: (\S+)/([\w-]+)", text)
    assert {registry for registry, _ in images} == {"registry.example.com/team"}
    assert {name for _, name in images} == {"walras-operator", "walras-agent", "walras-dashboard"}


@pytest.mark.parametrize("source", ["helm/walras", "walras-0.1.0.tgz"])
def test_the_chart_is_installed_from_files_as_its_page_says(tmp_path: Path, source: str) -> None:
    page = (CHART / "README.md").read_text()
    (options,) = re.findall(rf"^helm install walras {source} (.*)$", page, re.MULTILINE)
    (tmp_path / "helm").symlink_to(CHART.parent)
    helm("package", str(CHART), "--destination", str(tmp_path))
    documents = helm(
        "install", "walras", source, *options.split(), "--dry-run=client", cwd=tmp_path
    )
    (registry,) = re.findall(r"image\.registry=(\S+)", options)
    assert f"image: {registry}/walras-agent:0.1.0" in documents


@pytest.mark.parametrize("variant", VARIANTS)
def test_names_are_unique_and_belong_to_the_release(variant: str) -> None:
    documents = rendered(VARIANTS[variant], apis=MONITORING)
    names = [(each["kind"], each["metadata"]["name"]) for each in documents]
    assert len(names) == len(set(names))
    for each in documents:
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "walras", each
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels.get("team") == VARIANTS[variant].get("commonLabels", {}).get("team")


class _OneOfEach(yaml.SafeLoader):
    """A loader that refuses a key that a mapping has twice, as strict parsers do."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        made = super().construct_mapping(node, deep)
        assert len(made) == len(node.value), f"a key is there twice{node.start_mark}"
        return made


def test_labels_of_values_replace_the_charts_own_but_not_those_that_select_pods() -> None:
    part_of, selects = "app.kubernetes.io/part-of", "app.kubernetes.io/component"
    common, more = ({part_of: each, selects: each} for each in ("common", "more"))
    values = {
        "commonLabels": {**common, "helm.sh/chart": "common"},
        "monitoring": {"labels": more, "dashboard": {"labels": more}},
        "operator": {"podLabels": more},
        "agent": {
            "podLabels": more,
            "podAnnotations": {"kubectl.kubernetes.io/default-container": "mine"},
        },
        "dashboard": {"enabled": True, "podLabels": more},
    }
    known = [argument for each in MONITORING for argument in ("--api-versions", each)]
    text = helm("template", "w", str(CHART), "--values", "-", *known, text=yaml.safe_dump(values))
    documents = [each for each in yaml.load_all(text, _OneOfEach) if each]
    for each in documents:
        labels = each["metadata"]["labels"]
        assert labels["helm.sh/chart"] == "common"
        assert labels[selects] not in {"common", "more"}
        has_more = each["kind"] in {"ConfigMap", "PrometheusRule", "ServiceMonitor"}
        assert labels[part_of] == ("more" if has_more else "common")
    for kind in ("Deployment", "DaemonSet"):
        for made in of_kind(kind, documents).values():
            labels = made["spec"]["template"]["metadata"]["labels"]
            assert labels[part_of] == "more"
            assert made["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_has_nothing_to_complain_of(variant: str) -> None:
    text = yaml.safe_dump(VARIANTS[variant])
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), "--values", "-", text=text)


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == chart["version"] == project["version"]


def selected(selector: Document, documents: Sequence[Document]) -> list[str]:
    """Return the kinds of the objects that create pods with these labels."""
    made = [each for each in documents if "template" in each.get("spec", {})]
    return [
        each["kind"]
        for each in made
        if selector.items() <= each["spec"]["template"]["metadata"]["labels"].items()
    ]


def test_selectors_select_their_own_pods_alone() -> None:
    documents = rendered({"operator": {"replicas": 2}}, apis=MONITORING)
    kinds = {"operator": ["Deployment"], "agent": ["DaemonSet"]}
    for part, wanted in kinds.items():
        name = f"walras-{part}"
        spec = {kind: of_kind(kind, documents)[name]["spec"] for kind in (*wanted, "Service")}
        selector = spec[wanted[0]]["selector"]["matchLabels"]
        assert selected(selector, documents) == wanted
        assert spec["Service"]["selector"] == selector
        policy = of_kind("NetworkPolicy", documents)[name]
        assert policy["spec"]["podSelector"]["matchLabels"] == selector
        monitor = of_kind("ServiceMonitor", documents)[name]["spec"]["selector"]["matchLabels"]
        assert monitor.items() <= of_kind("Service", documents)[name]["metadata"]["labels"].items()
    budget = of_kind("PodDisruptionBudget", documents)["walras-operator"]
    assert selected(budget["spec"]["selector"]["matchLabels"], documents) == ["Deployment"]


def test_an_upgrade_of_the_chart_alone_starts_no_pod_anew() -> None:
    """Nothing in a pod's template names the chart's version, nor is random."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    for kind in ("Deployment", "DaemonSet"):
        (made,) = of_kind(kind, rendered()).values()
        labels = made["spec"]["template"]["metadata"]["labels"]
        assert not any(chart["version"] in value for value in labels.values())
        assert made == next(iter(of_kind(kind, rendered({"rbac": {}})).values()))


def test_rights_of_hooks_live_only_as_long_as_these() -> None:
    """Only the Job itself stays if it fails, for its log."""
    hooks = [each for each in rendered() if events(each)]
    assert {each["kind"] for each in hooks} > {"Job", "Pod"}
    for each in hooks:
        annotations = each["metadata"]["annotations"]
        policy = annotations["helm.sh/hook-delete-policy"]
        assert "before-hook-creation" in policy
        if each["kind"] != "Pod":
            assert ("hook-failed" in policy) == (each["kind"] != "Job"), each
        if each["kind"] not in {"Job", "Pod"}:
            assert "hook-succeeded" in policy, each
            assert annotations["helm.sh/hook-weight"] == "-5"


def test_what_is_not_there_is_not_used() -> None:
    kinds = {each["kind"] for each in rendered(version="1.34.0")}
    assert not kinds & {"ServiceMonitor", "PrometheusRule", "MutatingAdmissionPolicy"}


def test_what_is_asked_for_is_made_wherever_it_is() -> None:
    values = {"threadsPolicy": True, "monitoring": {"serviceMonitor": True, "alerts": True}}
    kinds = {each["kind"] for each in rendered(values, "1.34.0")}
    assert kinds >= {"ServiceMonitor", "PrometheusRule", "MutatingAdmissionPolicyBinding"}


def test_what_is_added_to_pods_is_in_all_of_them() -> None:
    documents = rendered(VARIANTS["everything on"])
    for kind, part in (("Deployment", "operator"), ("DaemonSet", "agent")):
        spec = of_kind(kind, documents)[f"walras-{part}"]["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        for name, there in (
            ("extraEnv", container["env"]),
            ("extraVolumes", spec["volumes"]),
            ("extraVolumeMounts", container["volumeMounts"]),
        ):
            assert EXTRAS[name][0] in there
        assert spec["dnsConfig"] == VARIANTS["everything on"]["dnsConfig"]
    (strategy,) = (
        each["spec"]["updateStrategy"] for each in of_kind("DaemonSet", documents).values()
    )
    assert strategy == {"type": "OnDelete"}


def test_the_values_of_a_release_name_every_image_by_its_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digests = {
        part: f"sha256:{number:064}"
        for number, part in enumerate(("operator", "agent", "dashboard"))
    }
    lines = [f"host:5000/team/walras-{part}@{digest}\n" for part, digest in digests.items()]
    monkeypatch.syspath_prepend(ROOT / "tools")
    values = yaml.safe_load(import_module("release").pinning(lines))
    values["image"]["registry"] = "host:5000/team"
    values["dashboard"] = {"enabled": True}

    text = yaml.safe_dump_all(rendered(values, NEWEST))

    named = re.findall(r"^ *-? *image: (.*)", text, re.MULTILINE)
    assert {f"{each}\n" for each in named} == set(lines)
