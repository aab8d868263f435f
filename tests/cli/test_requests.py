"""What workloads should request: the less of what their pods use and what they buy."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import walras_here
from page_fields import untold
from walras_view.requests import (
    HEADROOM,
    LEAST,
    WORTH_IT,
    Advice,
    PodOfWorkload,
    Room,
    advice_on,
)

ROOT = Path(__file__).parents[2]
GIB = 2.0**30


def pod(
    name: str = "web",
    requested: float = 1.0,
    used: float | None = None,
    bought: float = 4.0,
    node: str = "n1",
    **more: Any,
) -> PodOfWorkload:
    workload = ("shop", more.get("kind", "Deployment"), name)
    return PodOfWorkload(
        workload, node, requested, GIB, used, bought, containers=more.get("containers", 1)
    )


def advised(*pods: PodOfWorkload) -> Advice:
    (advice,) = advice_on(pods, {"n1": Room(8.0, 64 * GIB, 100)})
    return advice


@pytest.mark.parametrize(
    ("each", "right"),
    [
        (pod(requested=2, used=0.2), 0.23),
        (pod(requested=2, used=3.9, bought=3.005), 3.0),
        (pod(requested=0.5, used=2.0), 2.3),
        (pod(requested=0.0, used=0.001), LEAST),
        (pod(requested=1.0, used=0.85), 1.0),
        (pod(requested=1.0, used=None, bought=4.0), 1.0),
        (pod(requested=6.0, used=None, bought=4.0), 4.0),
        (pod(requested=0.0, used=None), 0.0),
    ],
    ids=[
        "idle: what it uses, and headroom",
        "busier than its share pays for: what it buys, and no thousandth more",
        "busy: more than it requests now",
        "next to nothing: the least",
        "a change that is not worth a rollout: none",
        "use unknown: as now",
        "use unknown, and more than it buys: what it buys",
        "use unknown, and nothing requested: nothing",
    ],
)
def test_a_pod_requests_the_less_of_what_it_uses_and_buys(
    each: PodOfWorkload, right: float
) -> None:
    assert advised(each).request == pytest.approx(right)


def test_a_workload_requests_what_its_busiest_pod_needs() -> None:
    advice = advised(pod(requested=2, used=0.1), pod(requested=2, used=1.0))
    assert (advice.pods, advice.used) == (2, 1.0)
    assert advice.request == pytest.approx(HEADROOM)


def test_the_use_of_a_workload_is_unknown_while_that_of_one_pod_is() -> None:
    assert advised(pod(used=0.1), pod(used=None)).used is None


def test_more_pods_fit_where_others_request_less_until_memory_or_their_number_ends() -> None:
    pods = [pod("idle", requested=6.0, used=1.0), pod("web", requested=1.0, used=0.9)]
    wide = {each.name: each for each in advice_on(pods, {"n1": Room(1.0, 64 * GIB, 100)})}
    assert (wide["web"].fit_now, wide["web"].fit_then) == (1, 5)
    full = {each.name: each for each in advice_on(pods, {"n1": Room(1.0, 3 * GIB, 100)})}
    assert full["web"].fit_then == 3
    crowded = {each.name: each for each in advice_on(pods, {"n1": Room(1.0, 64 * GIB, 2)})}
    assert crowded["web"].fit_then == 2


@pytest.mark.parametrize(
    ("each", "command"),
    [
        (pod(used=0.2), "kubectl set resources deployment/web -n shop --requests=cpu=230m"),
        (pod(used=0.2, containers=2), ""),
        (pod(used=0.2, kind="Job"), ""),
        (pod(used=None), ""),
    ],
    ids=["a Deployment", "several containers", "a kind that has no such command", "no change"],
)
def test_a_command_sets_a_request_where_one_can(each: PodOfWorkload, command: str) -> None:
    assert advised(each).command == command


CPUS = st.floats(0.0, 64.0).map(lambda each: round(each, 3))


@given(
    st.lists(
        st.tuples(CPUS, st.none() | CPUS, CPUS, st.sampled_from("abc"), st.sampled_from("mn")),
        min_size=1,
        max_size=8,
    )
)
def test_no_request_is_above_what_the_pods_buy_unless_it_stays(
    drawn: list[tuple[float, float | None, float, str, str]],
) -> None:
    pods = [pod(name, now, used, buys, node) for now, used, buys, name, node in drawn]
    for each in advice_on(pods, {"m": Room(9, 9e9, 9), "n": Room(9, 9e9, 9)}):
        buys = max(x.bought for x in pods if x.workload[2] == each.name)
        if each.changes:
            assert LEAST <= each.request <= max(buys, LEAST) + 1e-9 or each.request == 0
            assert abs(each.request - each.requested) >= WORTH_IT * each.requested - 1e-9


@pytest.mark.parametrize("file", ["tests/cli/dumps/kubeadm.yaml", "examples/what-if/cluster.yaml"])
def test_scripts_get_every_workload_and_every_field_is_on_the_page(file: str) -> None:
    done = walras_here("what-if", "-f", str(ROOT / file), "--requests", "-o", "json")
    found = json.loads(done.stdout)
    assert len(found["requests"]) == 4
    assert untold(found, "what-if.md") == set()


def test_people_get_what_is_unknown_in_words_and_commands_that_a_shell_takes() -> None:
    dump = str(ROOT / "tests" / "cli" / "dumps" / "kubeadm.yaml")
    said = walras_here("what-if", "-f", dump, "--requests").stdout
    assert "the use of 4 of 4 workloads is unknown" in said
    for line in said.splitlines():
        if line.startswith("kubectl"):
            assert shlex.split(line)[:3] == ["kubectl", "set", "resources"]
