"""Alerts and the dashboard ask for metrics that exist, by labels that these have."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from chart import CHART, MONITORING, needs_helm, of_kind, rendered
from machines import machine
from model_kernel import ModelKernel
from model_node import LAYOUT
from walras_agent.cpuset import CpuSet
from walras_agent.daemon.api_monitor import ApiMonitor
from walras_agent.daemon.metrics import AgentMetrics
from walras_agent.daemon.report import ReconcileReport, topology_of
from walras_agent.status import NodeStatus
from walras_api.assembly import Objects
from walras_api.parse import parse_object
from walras_operator.decide.world import Carried, Decision, World, Writes
from walras_operator.metrics.market_metrics import MarketGauges
from walras_operator.process import Operator, Options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Document = dict[str, Any]
Series = dict[str, frozenset[str]]
"""Labels of metrics, by the name that a query has them by."""

ALERTS: Document = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
RULES: list[Document] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DASHBOARD: Document = json.loads((CHART / "files" / "dashboard.json").read_text())
PANELS: list[Document] = [each for each in DASHBOARD["panels"] if each["type"] != "row"]
QUERIES = [
    *((rule["alert"], rule["expr"]) for rule in RULES),
    *((panel["title"], each["expr"]) for panel in PANELS for each in panel["targets"]),
]

FROM_THE_SCRAPE = frozenset({"node", "pod", "namespace"})
"""Labels that a ServiceMonitor adds."""


PROMTOOL = shutil.which("promtool", path=os.environ.get("WALRAS_PROMETHEUS") or None) or ""


def families(registry: CollectorRegistry) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield name, type and labels of every metric, also of those without samples."""
    for collector in list(registry._collector_to_names):
        if isinstance(collector, MetricWrapperBase):
            (family,) = collector.collect()
            yield family.name, family.type, frozenset(collector._labelnames)
        else:
            for family in collector.collect():
                yield family.name, family.type, frozenset(getattr(family, "_labelnames", ()))


def series(*registries: CollectorRegistry) -> Series:
    """Return metrics in Prometheus' form (https://prometheus.io/docs/concepts/metric_types/)."""
    found: Series = {}
    for registry in registries:
        for name, kind, labels in families(registry):
            if kind == "histogram":
                found |= {f"{name}_count": labels, f"{name}_sum": labels}
                found[f"{name}_bucket"] = labels | {"le"}
            else:
                found[f"{name}_total" if kind == "counter" else name] = labels
    return found


def operator_registry(folder: Path) -> CollectorRegistry:
    """Return the metrics of an operator that has decided once, and has a Market."""
    kubeconfig = folder / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {"clusters": [cluster], "contexts": [context], "current-context": "c"}
    kubeconfig.write_text(yaml.safe_dump({**config, "users": [{"name": "u", "user": {}}]}))
    made = Operator(
        Options("test", str(kubeconfig)), lambda _: Decision(Carried(), Writes(), Writes)
    )
    made.recompute.succeeded = 0.0
    return made.metrics.registry


def market_registry() -> CollectorRegistry:
    head = {"apiVersion": "walras.dev/v1alpha1", "kind": "Market", "spec": {}}
    market: Any = parse_object({**head, "metadata": {"name": "default"}})
    registry = CollectorRegistry()
    registry.register(MarketGauges(lambda: World("", objects=Objects(), markets=[market])))
    return registry


def agent_registry() -> CollectorRegistry:
    """Return the metrics of an agent in a cluster, after one round."""
    metrics = AgentMetrics(ModelKernel(2), LAYOUT)
    metrics.registry.register(ApiMonitor())
    metrics.notify(
        ReconcileReport(NodeStatus(1, "enforce"), 0.1, topology_of(machine(), CpuSet(), 1))
    )
    return metrics.registry


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Series:
    folder = tmp_path_factory.mktemp("operator")
    return series(operator_registry(folder), market_registry(), agent_registry())


def asked(query: str) -> tuple[list[promql_parser.VectorSelector], set[str]]:
    """Return the metrics in a query, and the labels by which it aggregates them."""
    selectors: list[promql_parser.VectorSelector] = []
    labels: set[str] = set()

    def visit(expression: promql_parser.Expr) -> bool:
        if isinstance(expression, promql_parser.VectorSelector):
            selectors.append(expression)
        if isinstance(expression, promql_parser.AggregateExpr) and expression.modifier:
            labels.update(expression.modifier.labels)
        return True

    promql_parser.walk(promql_parser.parse(query.replace("$node", "any")), visit)
    return selectors, labels


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=lambda each: str(each)[:40])
def test_every_query_is_of_metrics_and_labels_that_exist(
    title: str, query: str, known: Series
) -> None:
    selectors, summed = asked(query)
    assert selectors, title
    labels = FROM_THE_SCRAPE
    for selector in selectors:
        name = str(selector.name)
        assert name in known, f"{title}: nobody tells {name}"
        labels |= known[name]
        matched = {each.name for each in selector.matchers.matchers}
        assert matched <= known[name] | FROM_THE_SCRAPE, title
    assert summed <= labels, title


@pytest.mark.parametrize("program", ["operator", "agent"])
def test_every_metric_is_on_its_page_and_no_other(program: str, known: Series) -> None:
    page = (CHART.parents[1] / "docs" / f"{program}.md").read_text()
    part = re.compile(r"_(bucket|count|sum)$")
    told = {part.sub("", name) for name in known if name.startswith(f"walras_{program}_")}
    assert set(re.findall(rf"`(walras_{program}_\w+)", page)) == told


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_says_what_is_wrong_what_that_means_and_what_to_do(rule: Document) -> None:
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    for text in rule["annotations"].values():
        assert len(text) > 10


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alerts_name_only_labels_that_their_query_leaves(rule: Document, known: Series) -> None:
    told = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    selectors, summed = asked(rule["expr"])
    left = summed or FROM_THE_SCRAPE.union(*(known[str(each.name)] for each in selectors))
    assert told <= left


@pytest.mark.system
@pytest.mark.skipif(
    not PROMTOOL,
    reason="needs promtool: put it on PATH, or its folder in WALRAS_PROMETHEUS (Debian: apt "
    "install prometheus)",
)
@pytest.mark.parametrize(
    ("epoch_seconds", "undecided", "minutes", "fires"),
    [
        (30, "0+60x300", 4, False),
        (30, "0+60x300", 7, True),  # it never decides
        (30, "0 30 0 30 0 30 0 30 0 30", 9, False),
        (3600, "0+60x300", 180, False),
        (3600, "0+60x300", 190, True),
    ],
)
def test_decisions_are_stale_after_three_epochs_and_a_while(
    epoch_seconds: int, undecided: str, minutes: int, fires: bool, tmp_path: Path
) -> None:
    series = {
        'walras_operator_undecided_seconds{pod="leader"}': undecided,
        'walras_operator_undecided_seconds{pod="standby"}': "0x300",
        'walras_operator_epoch_seconds{pod="leader"}': f"{epoch_seconds}x300",
        'walras_operator_epoch_seconds{pod="standby"}': "30x300",
    }
    (rule,) = [each for each in RULES if each["alert"] == "WalrasDecisionsStale"]
    texts = json.dumps(rule["annotations"]).replace("{{ $value | humanizeDuration }}", "AGE")
    age = f"{minutes // 60}h {minutes % 60}m 0s" if minutes >= 60 else f"{minutes}m 0s"
    expected = {
        "exp_labels": rule["labels"],
        "exp_annotations": json.loads(texts.replace("AGE", age)),
    }
    test = {
        "rule_files": ["alerts.yaml"],
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": values} for name, values in series.items()
                ],
                "alert_rule_test": [
                    {
                        "eval_time": f"{minutes}m",
                        "alertname": rule["alert"],
                        "exp_alerts": [expected] if fires else [],
                    }
                ],
            }
        ],
    }
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(ALERTS))
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))
    command = [PROMTOOL, "test", "rules", str(tmp_path / "test.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_do_not_overlap_and_are_of_the_datasource_that_is_chosen() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    identities = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(identities) == len(set(identities))
    for panel in PANELS:
        assert panel["description"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"


@pytest.mark.system
@needs_helm
def test_helm_leaves_both_as_they_are() -> None:
    documents = rendered(apis=MONITORING)
    assert of_kind("PrometheusRule", documents)["walras"]["spec"] == ALERTS
    text = of_kind("ConfigMap", documents)["walras-dashboard"]["data"]["walras.json"]
    assert json.loads(text) == DASHBOARD


def scraped(endpoint: Document, target: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    """Return the labels of a series as Prometheus stores them (its documentation of relabelling).

    Args:
        endpoint: Endpoint of a ServiceMonitor.
        target: Labels of the pod that is scraped.
        own: Labels that the metric has in the page of that pod.
    """
    if endpoint["honorLabels"]:
        found = target | own
    else:
        renamed = {f"exported_{name}" if name in target else name: own[name] for name in own}
        found = renamed | target
    for rule in endpoint["metricRelabelings"]:
        if rule.get("action") == "labeldrop":
            found = {k: v for k, v in found.items() if not re.fullmatch(rule["regex"], k)}
        else:
            value = ";".join(found.get(each, "") for each in rule["sourceLabels"])
            if re.fullmatch(rule["regex"], value):
                found[rule["targetLabel"]] = value
    return found


@pytest.mark.system
@needs_helm
@pytest.mark.parametrize("part", ["operator", "agent"])
def test_no_metric_can_claim_the_job_or_the_address_of_another(part: str) -> None:
    monitor = of_kind("ServiceMonitor", rendered(apis=MONITORING))[f"walras-{part}"]
    (endpoint,) = monitor["spec"]["endpoints"]
    scrape = {"job": f"walras-{part}", "service": f"walras-{part}", "instance": "10.0.0.1:8080"}
    target = {**scrape, "namespace": "walras-system", "pod": "walras-0", "node": "n1"}
    forged = dict.fromkeys(scrape, "walras-operator")
    described = {"namespace": "lab", "pod": "train-0", "node": "n2"}
    found = scraped(endpoint, target, {**forged, **described})
    assert found.items() >= (scrape | described).items()
    assert scraped(endpoint, target, {}) == target
