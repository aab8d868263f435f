"""`walras explain` in worlds for which the real decision was made."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from examples import examples
from seen import decided, seen
from walras_api.contract import COLOCATION_GATE
from walras_api.market_job_status import LearnedDemand, MarketJobStatus, PodColocation
from walras_api.node_allocation_status import NodeAllocationStatus
from walras_cli.cluster.explain.render import render_job, render_node, render_user
from walras_cli.cluster.report.owed import owed_of
from walras_view.explain.job import explain_job
from walras_view.explain.lending import balances, purchases_of, together
from walras_view.explain.margin import Buyer, one_more
from walras_view.explain.node import explain_node
from walras_view.explain.user import CoreCreditFigures, MemoryLoan, explain_user
from walras_view.rows.users import user_rows
from walras_view.sentences.job import can_use_sentence
from whole_decisions import decide
from worlds import enforced, entitlement, job, market, node, outcome, pod, profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from walras_operator.decide.world import Document
    from walras_view.facts import Facts


def printed(parts: Sequence[RenderableType]) -> str:
    """Return what is printed on a wide terminal."""
    console = Console(width=200, record=True, file=StringIO())
    console.print(*parts)
    return console.export_text()


def buyer(**fields: Any) -> Buyer:
    default = {"job": "lab/a", "pod": "a-0", "node": "n1", "cores": 4.0, "price": 1.0}
    return Buyer(**{**default, "fraction": 0.9, **fields})


def two_users(*more: Document, **rules: Any) -> list[Document]:
    """Return two nodes, two users and a job of each on both: there is something to trade."""
    return [
        market(**rules),
        entitlement("vision", namespaces=["lab"]),
        entitlement("speech", namespaces=["lab"]),
        node("n1", "10"),
        node("n2", "10"),
        *(
            document
            for user, fractions in (("vision", ("0.53", "0.93")), ("speech", ("0.96", "0.68")))
            for place, fraction in zip(("n1", "n2"), fractions, strict=True)
            for name in (f"{user}-{place}",)
            for document in (
                job(name, user, parallelFraction=fraction),
                pod(name, name, place),
            )
        ),
        *more,
    ]


def test_one_more_core_brings_what_amdahls_law_says() -> None:
    found = one_more(buyer(cores=4.0, fraction=0.9), [], budget=8.0)
    assert found.speedup == pytest.approx(4 / (0.9 + 0.1 * 4))
    assert found.gain == pytest.approx(5 / (0.9 + 0.1 * 5) - 4 / (0.9 + 0.1 * 4))
    assert (found.cost, found.cost_part) == (1.0, 0.125)
    assert found.instead is None
    assert not found.worthwhile


def test_it_is_paid_by_the_pod_that_loses_least() -> None:
    """The one with the lower F has hardly any use for its cores; prices differ by node."""
    serial = buyer(pod="serial", node="n2", price=2.0, fraction=0.5)
    parallel = buyer(pod="parallel", fraction=0.99)
    found = one_more(buyer(cores=2.0), [parallel, serial], budget=None)
    assert found.instead is not None
    assert (found.instead.pod, found.instead.node, found.instead.cores) == ("serial", "n2", 0.5)
    assert found.instead.loss == pytest.approx(4 / (0.5 + 0.5 * 4) - 3.5 / (0.5 + 0.5 * 3.5))
    assert found.worthwhile


def test_weights_of_jobs_count() -> None:
    light = buyer(pod="light", fraction=0.99, work=0.01)
    heavy = buyer(pod="heavy", fraction=0.9, work=10.0)
    found = one_more(buyer(cores=2.0), [heavy, light], budget=None)
    assert found.instead is not None
    assert found.instead.pod == "light"


@pytest.mark.parametrize(
    "poor", [buyer(cores=0.5), buyer(cores=4.0, least=4), buyer(price=0.0)], ids=str
)
def test_nobody_pays_with_what_it_does_not_have_or_must_keep(poor: Buyer) -> None:
    assert one_more(buyer(), [poor], budget=None).instead is None


def test_a_job_at_its_maximum_has_no_use_for_more() -> None:
    found = one_more(buyer(most=4), [buyer(pod="b", fraction=0.1)], budget=None)
    assert found.bound
    assert not found.worthwhile


def test_at_the_equilibrium_no_trade_of_a_whole_core_is_worth_it() -> None:
    """An equilibrium has every user's cores where they bring that user most."""
    facts = seen(decided(*two_users()))
    trades = [each for one in facts.jobs.values() for each in explain_job(facts, one).one_more]
    assert len(trades) == 4
    assert all(each.instead is not None and not each.worthwhile for each in trades)


@examples(20)
@given(
    fractions=st.lists(st.integers(1, 99), min_size=4, max_size=4),
    shares=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_what_is_lent_on_a_node_is_borrowed_there(
    fractions: list[int], shares: tuple[int, int]
) -> None:
    documents = two_users()
    jobs = [each for each in documents if each["kind"] == "MarketJob"]
    for each, fraction in zip(jobs, fractions, strict=True):
        each["spec"]["parallelFraction"] = f"0.{fraction:02}"
    users = [each for each in documents if each["kind"] == "Entitlement"]
    for each, share in zip(users, shares, strict=True):
        each["spec"]["shares"] = share
    facts = seen(decided(*documents))
    bought = purchases_of(facts)
    assert bought is not None
    vision, speech = balances(bought, {"vision"}), balances(bought, {"speech"})
    assert [each.node for each in vision] == ["n1", "n2"]
    for mine, theirs in zip(vision, speech, strict=True):
        assert mine.lent == pytest.approx(-theirs.lent, abs=1e-4)
        assert mine.lent == pytest.approx(mine.entitled - mine.bought)
        assert sum(each.cores for each in mine.partners) == pytest.approx(mine.lent, abs=0.006)
    assert all(each.name == "speech" for each in together(vision))


def test_a_parent_lends_what_those_below_it_do_together() -> None:
    documents = two_users(entitlement("lab", shares=1, namespaces=None))
    for each in documents:
        if each["kind"] == "Entitlement" and each["metadata"]["name"] == "vision":
            each["spec"]["parent"] = "lab"
    facts = seen(decided(*documents))
    found = explain_user(facts, "lab")
    assert found.below == ("vision",)
    assert found.nodes == explain_user(facts, "vision").nodes
    assert [place.parent for place in explain_user(facts, "vision").places] == ["lab", ""]


def test_a_user_sees_what_a_quantum_cost_it_and_whose_memory_it_has() -> None:
    documents = two_users(memory={"sliceSize": "1Gi"})
    for each in documents:
        if each["kind"] == "MarketJob":
            greedy = each["spec"]["entitlement"] == "vision"
            each["spec"]["memory"] = {"demand": "14Gi" if greedy else "2Gi"}
    facts = seen(decided(*documents))
    taker, giver = (explain_user(facts, name).quantum for name in ("vision", "speech"))
    assert taker is not None
    assert giver is not None
    loans = {each.name: each.memory for each in taker.borrowed}
    assert giver.lent == (MemoryLoan("vision", loans["speech"]),)
    assert sum(loans.values()) == int(taker.spent) << 30
    table = render_user(explain_user(facts, "vision"), wide=False)[1]
    text = Console(width=200, record=True, file=StringIO())
    text.print(table)
    assert "borrowed 16Gi from nobody, 4Gi from speech" in text.export_text()


def test_what_a_short_status_leaves_out_is_told_from_the_pods_of_the_node() -> None:
    facts = seen(decided(*two_users()))
    whole = explain_user(facts, "speech")
    cut_short(facts, "vision")
    assert explain_user(facts, "speech") == whole


def test_without_a_nodes_allocation_or_its_jobs_what_is_cut_is_unknown() -> None:
    facts = seen(decided(*two_users()))
    first = cut_short(facts, "vision")
    for hidden in (replace(facts, allocations={}), replace(facts, jobs={})):
        found = explain_user(hidden, "speech")
        assert [each.node for each in found.nodes] == [first]
        assert found.unknown_nodes == 1
        assert "unknown for 1 node, whose" in printed(render_user(found, wide=False))


def cut_short(facts: Facts, user: str) -> str:
    """Leave one node in what an Entitlement's status lists; return its name."""
    status = facts.entitlements[user].status
    short = status.model_copy(update={"spend_by_node": status.spend_by_node[:1], "other_nodes": 1})
    object.__setattr__(facts.entitlements[user], "status", short)
    return status.spend_by_node[0].node


SOURCES = {
    "given by spec.parallelFraction": job("a"),
    "written in SpeedupProfile p": job("a", profile="p"),
    "assumed until it is measured": job("a", auto=True),
    "assumed, since the measurements of SpeedupProfile noisy": job("a", profile="noisy"),
}


@pytest.mark.parametrize(("source_text", "document"), SOURCES.items(), ids=SOURCES.keys())
def test_it_is_said_where_f_is_from(source_text: str, document: Document) -> None:
    written = profile("p", parallelFraction="0.7")
    times = [{"cores": 1, "seconds": ["10"]}, {"cores": 4, "seconds": ["4", "10"]}]
    profiles = (written, profile("noisy", measurements=times))
    facts = seen(decided(market(), entitlement(), node(), document, pod("a-0", "a"), *profiles))
    found = explain_job(facts, facts.jobs["lab", "a"])
    assert found.source_text.startswith(source_text)
    fractions = {"given": 0.9, "written": 0.7, "assumed": 0.8}
    how = source_text.replace(",", " ").split()[0]
    assert found.parallel_fraction == pytest.approx(fractions[how])


@pytest.mark.parametrize(
    ("seconds", "sentence"),
    [
        (900, "2.00 ± 0.05 CPUs at once, last seen at 2026-01-31T11:00:00Z (v1)"),
        (0, "at most 2.00 CPUs at once, the number of its threads (v1)"),
    ],
)
def test_it_is_said_how_many_cpus_a_program_can_use(seconds: int, sentence: str) -> None:
    known = decided(market(), entitlement(), node(), job("a"), pod("a-0", "a"))
    found = seen(known).jobs["lab", "a"]
    learned = LearnedDemand(
        images="v1", cpus="2", error="0.05", seen="2026-01-31T11:00:00Z", seconds=seconds
    )
    told = replace(found, status=found.status.model_copy(update={"demand": [learned]}))
    (can_use,) = explain_job(seen(known), told).can_use
    assert can_use_sentence(can_use) == sentence


@pytest.mark.parametrize("source", ["Written", "Measured", "Online"])
def test_an_f_that_no_profile_of_the_cluster_has_is_not_put_down_to_one(source: str) -> None:
    """As in the record of a run on one machine."""
    facts = seen(decided(market(), entitlement(), node(), job("a"), pod("a-0", "a")))
    found = facts.jobs["lab", "a"]
    assert found.status.profile is not None
    profile_ = found.status.profile.model_copy(update={"source": source, "name": None})
    status = found.status.model_copy(update={"profile": profile_})
    object.__setattr__(found, "status", status)
    text = explain_job(facts, found).source_text
    assert text
    assert "None" not in text
    assert "SpeedupProfile" not in text


def test_what_is_wrong_is_put_down_to_the_object_to_change() -> None:
    facts = seen(
        decided(
            market(),
            entitlement("vision", parent="nobody"),
            node(),
            job("a"),
            job("b", "gone"),
            pod("a-0", "a"),
            pod("b-0", "b"),
        )
    )
    below = explain_job(facts, facts.jobs["lab", "a"]).faults
    assert ("Entitlement vision", "ParentMissing") in {(x.object, x.reason) for x in below}
    (alone,) = explain_job(facts, facts.jobs["lab", "b"]).faults
    assert (alone.object, alone.condition) == ("MarketJob lab/b", "Admitted")
    assert "create it" in alone.message


def test_a_measurement_under_way_is_told_with_f_and_is_no_problem() -> None:
    facts = seen(decided(market(), entitlement(), node(), job("a"), pod("a-0", "a")))
    found = facts.jobs["lab", "a"]
    running = {
        "type": "Profiled",
        "status": "False",
        "reason": "Measuring",
        "message": "measuring pod lab/a-0 on node n1 since 2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    conditions = [
        running if each.type == "Profiled" else each.document() for each in found.status.conditions
    ]
    status = {
        **found.status.document(),
        "conditions": conditions,
        "profile": {"parallelFraction": "0.9", "source": "Assumed"},
    }
    shown = explain_job(facts, replace(found, status=MarketJobStatus.read(status)))
    assert shown.faults == ()
    assert shown.source_text == f"assumed; {running['message']}"


def test_a_nodes_arithmetic_comes_to_what_it_sells() -> None:
    documents = [
        market(cores={"reservedCores": 1}),
        entitlement(),
        node("n1", "8"),
        job("a"),
        pod("a-0", "a"),
        pod("web", "web", cpu="1500m"),
        pod("db", "db", cpu="2"),
        pod("done", "done", cpu="2", phase="Succeeded"),
    ]
    told = enforced(decided(*documents))
    facts = seen(told)
    found = explain_node(facts, "n1", told.objects.pods)
    supply = found.supply
    assert (supply.cpus, supply.reserved, supply.unmanaged) == (8.0, 1, 3.5)
    assert found.node.cores == 8 - 1 - 3.5
    assert [each.name for each in supply.others] == ["db", "web"]
    (holder,) = found.holders
    assert (holder.pod, holder.job, holder.user, holder.state) == ("a-0", "a", "vision", "Enforced")
    assert explain_node(facts, "n1", None).supply.unmanaged is None


def test_pods_outside_the_market_that_have_less_beside_it_say_so() -> None:
    """A pod that requests 1 beside one that requests 1 has half of the node, and keeps 1 of it."""
    pods = pod("a-0", "a", cpu="1"), pod("shop", "shop", cpu="1"), pod("small", "small", cpu="1")
    pods[2]["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1"}
    told = enforced(decided(market(), entitlement(), node("n1", "16"), job("a"), *pods))
    found = explain_node(seen(told), "n1", told.objects.pods)
    (granted,) = found.holders
    shop, small = found.supply.others
    assert (shop.name, small.name) == ("shop", "small")
    assert shop.plain == pytest.approx((16 - 1) / 2)
    assert shop.least == pytest.approx(16 / (granted.held + 2))
    assert (small.plain, small.least) == (None, None), "it is limited to what it keeps"
    assert "on plain Kubernetes 7.5" in printed(render_node(found, wide=True))


def test_a_node_without_an_agent_says_so() -> None:
    found = explain_node(seen(decided(market(), node(), agents=set())), "n1", [])
    assert found.node.agent == "Silent"
    assert "walras-agent-n1" in found.faults[0].message


@pytest.mark.parametrize(("mode", "problems"), [("concur", ["Weights"]), ("smp", [])])
def test_a_node_whose_kernel_counts_weights_by_threads_says_so(
    mode: str, problems: list[str]
) -> None:
    facts = seen(enforced(decided(market(), node())))
    reported = facts.allocations["n1"]
    kernel = {"release": "7.3.4", "cgroupMode": mode}
    status = NodeAllocationStatus.read(reported.status.document() | {"kernel": kernel})
    found = explain_node(
        replace(facts, allocations={"n1": replace(reported, status=status)}), "n1", []
    )
    assert [each.condition for each in found.faults] == problems


def test_who_a_pod_was_placed_beside_and_whom_it_would_rather_share_with_is_told() -> None:
    penalties = [{"profile": name, "penalty": cost} for name, cost in (("a", "0.4"), ("b", "0.1"))]
    profiles = [
        profile(name, parallelFraction="0.9", penalties=penalties[:: -1 if name == "b" else 1])
        for name in "ab"
    ]
    waiting = []
    for name in ("a-0", "a-1", "b-0", "b-1"):
        made = pod(name, name[0], None)
        made["spec"]["schedulerName"] = COLOCATION_GATE
        waiting.append(made)
    rules = market(colocation={"policy": "Complementary"})
    jobs = [job(name, profile=name) for name in "ab"]
    nodes = [node("n1"), node("n2")]
    facts = seen(decided(rules, entitlement(), *profiles, *jobs, *nodes, *waiting))
    found = explain_job(facts, facts.jobs["lab", "a"])
    (first, _) = found.pods
    assert first.co_runner is not None
    assert first.co_runner.partner == "lab/b (b-1)"
    assert (first.co_runner.measured, first.co_runner.companion) == (0.1, None)
    console = Console(width=200, record=True, file=StringIO())
    console.print(*render_job(found, wide=False))
    text = " ".join(console.export_text().split())
    assert "placed beside lab/b (b-1), where it loses 10.0% of its throughput (measured)" in text
    assert "advice: stay" in text


@pytest.mark.parametrize(
    ("partner", "exploration", "told"),
    [
        ("lab/b (b-0)", "0.004", "it loses 5.0% of its throughput (predicted), to learn how much"),
        ("lab/b (b-0)", "0.004", "slow each other down at an expected cost of 0.4% of its"),
        ("lab/b (b-0)", "-0.01", "to learn how much programs slow each other down at no expected"),
        (None, "0.002", "on a socket of its own, to learn how fast it is alone at an expected"),
        ("lab/b (b-0)", None, "(predicted); advice: stay"),
    ],
)
def test_what_a_pair_was_made_to_learn_is_told_with_its_cost(
    partner: str | None, exploration: str | None, told: str
) -> None:
    facts = seen(decided(market(), entitlement(), node(), job(), pod("train-0")))
    found = facts.jobs["lab", "train"]
    placed = PodColocation(partner=partner, predicted_penalty="0.05", exploration=exploration)
    pods = [each.model_copy(update={"colocation": placed}) for each in found.status.pods]
    status = found.status.model_copy(update={"pods": pods})
    console = Console(width=400, record=True, file=StringIO())
    console.print(*render_job(explain_job(facts, replace(found, status=status)), wide=False))
    assert told in console.export_text()


RUNS = [
    {"cores": cores, "memory": memory, "utility": utility}
    for cores, memory, utility in (
        ("0.5", "0.2", "0.0032"),
        ("0.2", "0.5", "0.0017"),
        ("0.7", "0.3", "0.0046"),
        ("0.3", "0.7", "0.0025"),
    )
]


@pytest.mark.parametrize(
    ("auction", "told"),
    [
        (
            {"weights": {"cores": "3"}},
            "weights 3.00 of cores and 1.00 of memory, given by spec",
        ),
        ({}, "weights 1.00 of cores and 1.00 of memory, the default: 0 runs, 0 recorded"),
        ({"runs": RUNS[:1]}, "the default: 1 run, 0 recorded, too few to"),
        ({"runs": RUNS}, "(95 % intervals), estimated from 4 runs, 0 recorded"),
        ({"runs": RUNS, "utility": "Log"}, "(95 % intervals), estimated from 4 runs, 0 recorded"),
        ({"runs": RUNS[:1] * 3}, "the default: 3 runs, 0 recorded, whose shares are too similar"),
    ],
)
def test_what_a_job_bids_by_is_told_with_how_sure_that_is(auction: Document, told: str) -> None:
    both: Document = {"cores": {"mechanism": "Auction"}, "memory": {"mechanism": "Auction"}}
    spec: Document = {"auction": auction, "memory": {"demand": "4Gi"}}
    facts = seen(decided(market(**both), entitlement(), node(), job(**spec), pod("train-0")))
    console = Console(width=300, record=True, file=StringIO())
    console.print(*render_job(explain_job(facts, facts.jobs["lab", "train"]), wide=False))
    (line,) = (each for each in console.export_text().splitlines() if "bids with" in each)
    assert told in line


def test_nothing_is_said_of_weights_where_nothing_is_auctioned() -> None:
    facts = seen(decided(market(), entitlement(), node(), job(), pod("train-0")))
    assert explain_job(facts, facts.jobs["lab", "train"]).weights is None


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ((38.04, 0.21, 0.0, 1.12), ("is owed 38.0 core-hours", "its budget is 12% larger now")),
        ((-3, -0.1, 0.25, 0.95), ("owes 3.0 core-hours, 0.25 less each hour", "5% smaller now")),
        ((-3, -0.1, -0.25, 0.95), ("owes 3.0 core-hours, 0.25 more each hour", "5% smaller now")),
        ((3, 0.1, 0.0, 1.001), ("is owed 3.0 core-hours", "its budget is that of its shares")),
        ((3, 0.1, 1.5, None), ("3.0 core-hours, 1.50 more each hour", "no budget without jobs")),
        ((0.01, 0.0, 0.0, 1), ("nothing", "its budget is that of its shares")),
    ],
)
def test_what_is_owed_is_told_in_a_table(
    stored: tuple[float, float, float, float | None], told: tuple[str, str]
) -> None:
    known = decided(market(), entitlement(), node(), job(), pod("train-0"))
    facts = seen(known)
    explained = replace(explain_user(facts, "vision"), core_credits=CoreCreditFigures(*stored))
    console = Console(width=200, record=True, file=StringIO())
    console.print(*render_user(explained, wide=False))
    _, account = console.export_text().split("Account", 1)
    (line,) = (each for each in account.splitlines() if each.strip().startswith("cores"))
    assert all(each in line for each in told)


def test_what_is_owed_in_memory_is_told_in_gib_hours() -> None:
    """A credit buys a slice for a quantum: 1 GiB for 36 s are a hundredth of a GiB-hour."""
    rules = market(memory={"sliceSize": "1Gi", "quantumSeconds": 36})
    known = decided(rules, entitlement(), node(), job(), pod("train-0"))
    explained = explain_user(seen(known), "vision")
    row = replace(explained.user, credits_above_mean=-250.0)
    text = printed(render_user(replace(explained, user=row, gib_hours=-2.5), wide=False))
    assert "owes 2.5 GiB-hours" in text
    facts = seen(known)
    users = [
        replace(each, credits_above_mean=-250.0) for each in user_rows(facts, lambda row: row.name)
    ]
    assert explain_user(facts, "vision", users).gib_hours == pytest.approx(-2.5)


def test_core_credits_of_a_cluster_are_explained() -> None:
    rules = market(cores={"credits": {"halfLifeHours": 1}})
    users = [entitlement("ada"), entitlement("bob")]
    known = decided(rules, node(cpu="8"), *users, job("ada", "ada"), pod("ada", "ada"))
    later = "2026-01-31T12:05:00Z"
    known = outcome(known, decide(replace(known, now=later)))
    ada, bob = (
        printed(render_user(explain_user(seen(known), name), wide=False)) for name in ("ada", "bob")
    )
    assert "owes 0.3 core-hours, 4.00 more each hour" in ada
    assert "is owed 0.3 core-hours, 4.00 more each hour" in bob
    owed = {each.user: each.core_hours for each in owed_of(seen(known))}
    assert owed == pytest.approx({"ada": -1 / 3, "bob": 1 / 3}, rel=0.05)
