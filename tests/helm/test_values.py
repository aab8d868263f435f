"""The chart's values: each is documented, used, and refused when it is misspelt."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from chart import CHART, POLICIES, ROOT, HelmError, helm, needs_helm, rendered

if TYPE_CHECKING:
    import pathlib

Document = dict[str, Any]
Path = tuple[str, ...]

VALUES: Document = yaml.safe_load((CHART / "values.yaml").read_text())

NAMES_OF_OTHERS = {
    "affinity",
    "annotations",
    "commonLabels",
    "dnsConfig",
    "labels",
    "nodeSelector",
    "podAnnotations",
    "podLabels",
    "resources",
}
"""Values that have names of whoever sets them, or of Kubernetes."""


def groups(value: Any, path: Path = ()) -> list[Path]:
    """Return the paths of all values that contain others."""
    if not isinstance(value, dict) or NAMES_OF_OTHERS & set(path):
        return []
    return [path, *(each for name in value for each in groups(value[name], (*path, name)))]


def set_at(path: Path, value: Any) -> Document:
    for name in reversed(path):
        value = {name: value}
    return dict(value)


@pytest.mark.system
@needs_helm
@pytest.mark.parametrize("path", groups(VALUES), ids=".".join)
def test_a_misspelt_value_is_refused_by_its_name(path: Path) -> None:
    with pytest.raises(HelmError) as refused:
        rendered(set_at((*path, "replicsa"), 1))
    assert "'replicsa' not allowed" in str(refused.value)
    assert f"at '{''.join(f'/{name}' for name in path)}':" in str(refused.value)


@pytest.mark.system
@needs_helm
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("operator.replicas", "two"),
        ("operator.port", 0),
        ("operator.log.format", "xml"),
        ("operator.leaseSeconds", 1),
        ("agent.mode", "dry-run"),
        ("agent.reservedCpus", "0-"),
        ("agent.stateFolder", "var/lib"),
        ("agent.maxUnavailable", "0%"),
        ("agent.kubelet.cgroupDriver", "cgroup"),
        ("agent.resources.requests.cpu", "20 m"),
        ("operator.resources.limits.memory", "1GiB"),
        ("dashboard.resources.limits.cpu", -1),
        ("hooks.resources.requests", "50m"),
        ("image.agent.digest", "latest"),
        ("image.pullSecrets", ["pull"]),
        ("market.spec", {"mode": "enforced"}),
        ("market.spec", {"cores": {"mechanism": "Amdahl"}}),
        ("market.spec", {"cores": {"hysteresis": 0.02}}),
        ("market.spec", {"epochSeconds": 0}),
        ("admissionPolicy", "yes"),
        ("monitoring.alerts", "on"),
        ("hooks.installSeconds", 29),
        ("hooks.releaseSeconds", 1),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(path: str, value: Any) -> None:
    with pytest.raises(HelmError) as refused:
        rendered(set_at(tuple(path.split(".")), value))
    assert f"at '/{path.replace('.', '/')}" in str(refused.value)


@pytest.mark.system
@needs_helm
@pytest.mark.parametrize("cpu", ["1", 1, 0.5, "20m", "1e3", "1.5", None])
def test_a_quantity_that_kubernetes_takes_is_taken(cpu: Any) -> None:
    memory = {"cpu": "2", "memory": "1.5Gi"}
    assert rendered({"agent": {"resources": {"requests": {"cpu": cpu}, "limits": memory}}})


@pytest.mark.system
@needs_helm
def test_a_placeholder_for_the_registry_is_refused_where_there_is_a_cluster() -> None:
    """Without a cluster, as here by default, helm knows no kinds."""
    cluster = ["v1/Pod", POLICIES]
    with pytest.raises(HelmError, match=r"image\.registry is registry\.walras\.dev, a placeholder"):
        rendered(apis=cluster)
    assert rendered({"image": {"registry": "localhost"}}, apis=cluster)


@pytest.mark.system
@needs_helm
@pytest.mark.parametrize("enabled", [True, False])
def test_a_chart_that_depends_on_this_one_switches_it_on_and_off(
    enabled: bool, tmp_path: pathlib.Path
) -> None:
    dependency = {"name": "walras", "version": "*", "condition": "walras.enabled"}
    head = {"apiVersion": "v2", "name": "platform", "version": "0.1.0"}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump({**head, "dependencies": [dependency]}))
    shutil.copytree(CHART, tmp_path / "charts" / "walras")
    given = yaml.safe_dump({"walras": {"enabled": enabled, "operator": {"replicas": 2}}})
    text = helm("template", "platform", str(tmp_path), "--values", "-", text=given)
    assert any(yaml.safe_load_all(text)) == enabled


@pytest.mark.system
@needs_helm
@pytest.mark.parametrize(
    "spec",
    [
        {"mode": "observe", "epochSeconds": 10},
        {
            "cores": {"mechanism": "BestResponse", "hysteresis": "0.05"},
            "memory": {"sliceSize": "1Gi"},
        },
    ],
)
def test_a_market_that_can_be_is_taken(spec: Document) -> None:
    assert rendered({"market": {"spec": spec}})


@pytest.mark.system
def test_what_is_made_of_the_values_is_committed() -> None:
    tool = ROOT / "tools" / "make_chart.py"
    done = subprocess.run([sys.executable, tool, "--check"], check=False)
    assert done.returncode == 0, "make chart"


def test_every_value_is_used() -> None:
    """Templates name a value in full, or by its name within that of the part."""
    templates = "\n".join(path.read_text() for path in CHART.rglob("templates/**/*.*"))
    for path in leaves(VALUES):
        short = ".".join(path[1:])
        full = f".Values.{'.'.join(path)}"
        names = [full, f"$agent.{short}", f"$image.{path[-1]}", f"$account.{path[-1]}"]
        names += [f"(index .root.Values .part).{short}", f"(index $.Values $part).{short}"]
        assert any(name in templates for name in names), full


def leaves(value: Any, path: Path = ()) -> list[Path]:
    if not isinstance(value, dict) or not value or NAMES_OF_OTHERS & set(path):
        return [path]
    return [each for name in value for each in leaves(value[name], (*path, name))]
