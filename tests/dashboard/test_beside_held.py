"""What stands beside the cores that are held: use, debts, logs, and how good predictions were."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from dashboard_clusters import lab, troubled
from walras_api.market_status import PredictionReport
from walras_dashboard.dashboard_command import dashboard
from walras_dashboard.dump import facts_in
from walras_dashboard.log_links import address
from walras_dashboard.state import MarketState, Origin
from walras_dashboard.views import Views

if TYPE_CHECKING:
    from walras_view.facts import Facts

LOGS = "https://logs.example/?namespace={namespace}&pod={pod}"


def views_of(facts: Facts) -> Views:
    return Views(MarketState(Origin("file", "cluster", live=False), facts=facts))


def test_use_stands_beside_what_pods_hold_wherever_they_are_listed() -> None:
    documents = lab()
    uses: dict[tuple[str, str], float] = {}
    for each in documents:
        if each["kind"] == "NodeAllocation":
            topology = each["status"]["topology"]
            for number, pod in enumerate(each["status"]["pods"]):
                cpus = 0.25 * (number + 1)
                pod["usedCpus"] = str(cpus)
                # The market sells cores; agents count time of threads.
                uses[pod["namespace"], pod["name"]] = cpus * topology["cores"] / topology["threads"]
    views = views_of(facts_in(documents))
    shown: dict[tuple[str, str], float | None] = {}
    for name in ("node-1", "node-2", "node-3"):
        detail = views.node(name, None)
        assert detail is not None
        shown |= {(each.namespace, each.pod): each.used for each in detail.grants}
    assert shown == pytest.approx(uses)
    of_job = views.job("vision", "train")
    assert of_job is not None
    assert [each.used for each in of_job.explanation.pods] == [
        uses["vision", "train-0"],
        uses["vision", "train-1"],
    ]
    assert of_job.row.used == uses["vision", "train-0"] + uses["vision", "train-1"]
    astronomy = next(each for each in views.overview.users if each.name == "astronomy")
    assert astronomy.cores.used == pytest.approx(
        sum(used for (namespace, _), used in uses.items() if namespace == "astronomy")
    )


def test_use_that_nobody_counts_is_unknown() -> None:
    detail = views_of(facts_in(lab())).node("node-1", None)
    assert detail is not None
    assert {each.used for each in detail.grants} == {None}


def credited(name: str, credits_: dict[str, Any]) -> Views:
    documents = troubled()
    for each in documents:
        if each["kind"] == "Entitlement" and each["metadata"]["name"] == name:
            each["status"]["coreCredits"] = credits_
    return views_of(facts_in(documents))


@pytest.mark.parametrize(
    ("hours", "factor", "owed", "effect"),
    [
        ("12.5", "1.25", "is owed 12.5 core-hours, 2.00 more each hour", "25% larger"),
        ("-12.5", "0.8", "owes 12.5 core-hours, 2.00 less each hour", "20% smaller"),
    ],
)
def test_a_user_sees_its_account_and_what_follows_from_it(
    hours: str, factor: str, owed: str, effect: str
) -> None:
    account = {"coreHours": hours, "level": "0.1", "cores": "2", "budgetFactor": factor}
    detail = credited("research", account).user("research")
    assert detail is not None
    (line,) = (each for each in detail.account if each.of == "cores")
    assert line.owed == owed
    assert effect in line.effect
    assert not any("core-hours" in each for each in detail.text)


def test_predictions_are_told_beside_what_came() -> None:
    facts = facts_in(lab())
    assert views_of(facts).overview.predictions == []
    assert facts.market is not None
    report = PredictionReport.model_validate(
        {
            "of": "Finish",
            "number": 8,
            "coverage": "0.75",
            "width": "0.2",
            "crps": "0.05",
            "widening": "1",
        }
    )
    status = facts.market.status.model_copy(update={"predictions": [report]})
    (said,) = views_of(
        replace(facts, market=replace(facts.market, status=status))
    ).overview.predictions
    assert "75% of 8 predicted ends came within their error" in said


def test_pods_lead_to_their_logs_where_the_server_knows_them() -> None:
    views = views_of(facts_in(lab()))
    without, found = views.job("vision", "train"), views.job("vision", "train", LOGS)
    assert without is not None
    assert found is not None
    assert without.logs == []
    assert found.logs == [
        f"https://logs.example/?namespace=vision&pod={each.name}" for each in found.explanation.pods
    ]


def test_no_name_of_a_pod_leads_elsewhere() -> None:
    assert address(LOGS, "a", "b&pod=c/../#{pod}") == (
        "https://logs.example/?namespace=a&pod=b%26pod%3Dc%2F..%2F%23%7Bpod%7D"
    )


@pytest.mark.parametrize(
    "template",
    [
        "javascript:alert({pod})",
        "logs.example/{pod}",
        "https://logs.example/",
        "https://logs.example/{pod.__class__}",
        "https://logs.example/{pod!r}",
        "https://logs.example/{pod}/{uid}",
        "https://logs.example/{pod}/{",
    ],
)
def test_a_template_that_leads_to_no_logs_is_refused(template: str) -> None:
    said = CliRunner().invoke(dashboard, ["-f", "absent.yaml", "--logs", template])
    assert said.exit_code == 2
    assert f"--logs {template}: " in said.output
    assert "https://logs.example/?namespace={namespace}&pod={pod}" in said.output
