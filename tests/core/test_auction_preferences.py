"""The worth of cores and memory to a job: as given, as its runs show, or equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.clearing import clear
from walras_api.assembly import Objects, assemble, policy_of
from walras_api.auction_weights import weights_of
from walras_api.kinds import Market, MarketJob
from walras_api.parse import parse_object
from worlds import entitlement as entitled
from worlds import job, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_api.auction_weights import Weights

EXTREMES = ("0", "0.000000000001", "0.5", "0.500000000001", "1", "999999999999.999999999999")

SHARES = ((0.5, 0.2), (0.2, 0.5), (0.7, 0.3), (0.3, 0.7), (0.4, 0.4))


def runs(cores: float, memory: float, noise: Sequence[float] = (0,) * 5) -> list[dict[str, str]]:
    """Return runs of a job with these weights, each with a relative error of its utility."""
    return [
        {"cores": str(c), "memory": str(m), "utility": f"{(cores * c + memory * m) * (1 + e):.9f}"}
        for (c, m), e in zip(SHARES, noise, strict=True)
    ]


def weights(**auction: Any) -> Weights:
    found = parse_object(job(auction=auction))
    assert isinstance(found, MarketJob)
    return weights_of(found)


def test_exact_runs_show_exact_weights_that_add_up_to_two() -> None:
    found = weights(runs=runs(0.006, 0.002))
    assert (found.source, found.runs) == ("Estimated", 5)
    assert found.cores == pytest.approx((1.5, 1.5, 1.5), abs=1e-5)
    assert found.memory == pytest.approx((0.5, 0.5, 0.5), abs=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_noisy_runs_of_a_ratio_of_six_show_it_roughly_and_say_how_roughly(seed: int) -> None:
    """Section 7 finds a ratio of 6 between 5 and 9, from five runs."""
    noise = np.random.default_rng(seed).normal(0, 0.02, 5)
    found = weights(runs=runs(6, 1, noise.tolist()))
    assert 4 < found.cores.value / found.memory.value < 9
    for each in (found.cores, found.memory):
        assert 0 <= each.lower <= each.value <= each.upper
    assert found.cores.upper - found.cores.lower > 0.01


def test_what_is_given_counts_and_not_the_runs() -> None:
    found = weights(weights={"cores": "3", "memory": "1"}, runs=runs(1, 5))
    assert (found.source, found.cores.value, found.memory.value) == ("Given", 3, 1)


def products(cores: float, memory: float, unit: float = 1e-3) -> list[dict[str, str]]:
    """Runs whose utility is the product of shares to these powers, in some unit."""
    return [
        {"cores": str(c), "memory": str(m), "utility": f"{unit * c**cores * m**memory:.12f}"}
        for c, m in SHARES
    ]


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e8])
def test_runs_of_a_product_show_its_powers_in_any_unit(unit: float) -> None:
    found = weights(utility="Log", runs=products(0.6, 0.2, unit))
    assert (found.source, found.runs, found.cause) == ("Estimated", 5, None)
    assert found.cores == pytest.approx((1.5, 1.5, 1.5), abs=1e-5)
    assert found.memory == pytest.approx((0.5, 0.5, 0.5), abs=1e-5)


def test_a_run_without_a_share_is_left_out_of_a_product() -> None:
    """A share of 0 would have made the product 0, whatever its weight."""
    without = [{"cores": "0", "memory": "0.5", "utility": "1"}]
    found = weights(utility="Log", runs=products(0.6, 0.2) + without)
    assert (found.source, found.runs) == ("Estimated", 5)
    assert found.cores.value == pytest.approx(1.5, abs=1e-5)
    assert weights(runs=runs(6, 1) + without).runs == 6
    few = weights(utility="Log", runs=products(0.6, 0.2)[:3] + without)
    assert (few.source, few.cause, few.runs) == ("Equal", "TooFew", 3)


ALIKE = [{"cores": "0.5", "memory": "0.5", "utility": str(u)} for u in (1, 1.1, 0.9, 1)]
IN_STEP = [
    {"cores": f"{share}", "memory": f"{share / 2}", "utility": f"{share}"}
    for share in (0.2, 0.4, 0.6, 0.8)
]
ONE_STEADY = [
    {"cores": "0.5", "memory": f"{share}", "utility": f"{share}"} for share in (0.2, 0.4, 0.6, 0.8)
]
FALLING = [{"cores": f"{c}", "memory": f"{m}", "utility": f"{1 / (c * m):.6f}"} for c, m in SHARES]


@pytest.mark.parametrize(
    ("auction", "cause"),
    [
        ({}, "TooFew"),
        ({"runs": runs(6, 1)[:2]}, "TooFew"),
        ({"utility": "Log", "runs": products(0.6, 0.2)[:3]}, "TooFew"),
        ({"runs": ALIKE}, "TooSimilar"),
        ({"utility": "Log", "runs": ALIKE}, "TooSimilar"),
        ({"runs": IN_STEP}, "TooSimilar"),
        ({"utility": "Log", "runs": IN_STEP}, "TooSimilar"),
        ({"utility": "Log", "runs": ONE_STEADY}, "TooSimilar"),
        ({"utility": "Log", "runs": FALLING}, "NoGain"),
    ],
)
def test_weights_that_runs_do_not_tell_are_equal(auction: dict[str, Any], cause: str) -> None:
    found = weights(**auction)
    assert (found.source, found.cause, found.cores.value) == ("Equal", cause, 1)
    assert (found.memory.value, found.runs) == (1, len(auction.get("runs", ())))


@examples(200)
@given(
    st.sampled_from(["Linear", "Log"]),
    st.lists(st.tuples(*[st.sampled_from(EXTREMES)] * 3), max_size=8),
)
def test_extreme_runs_give_finite_weights(form: str, extremes: list[tuple[str, ...]]) -> None:
    given_runs = [
        {"cores": cores, "memory": memory, "utility": utility}
        for cores, memory, utility in extremes
        if all(float(each) <= 1 for each in (cores, memory)) and float(utility) > 0
    ]
    found = weights(utility=form, runs=given_runs)
    for each in (found.cores, found.memory):
        assert 0.02 <= each.value <= 2
        assert 0 <= each.lower <= each.upper


def test_no_resource_is_quite_worthless() -> None:
    found = weights(runs=runs(5, 0))
    assert found.memory.value == pytest.approx(0.02)


def test_who_was_seen_to_gain_by_cores_bids_for_cores() -> None:
    """Two jobs with equal budgets, one of which has runs that show that it needs cores."""
    memory = {"demand": "16Gi"}
    documents = [
        entitled(), node(), pod("a-0", "a"), pod("b-0", "b"),
        job("a", auction={"runs": runs(6, 1)}, memory=memory), job("b", memory=memory),
    ]  # fmt: skip
    found = [each for each in map(parse_object, documents) if each is not None]
    by_kind: dict[str, list[Any]] = {}
    for each in found:
        by_kind.setdefault(each.kind, []).append(each)
    rules = parse_object(market(cores={"mechanism": "Auction"}, memory={"mechanism": "Auction"}))
    objects = Objects(
        entitlements=by_kind["Entitlement"],
        jobs=by_kind["MarketJob"],
        nodes=by_kind["Node"],
        pods=by_kind["Pod"],
    )
    assert isinstance(rules, Market)
    plan = clear(assemble(objects).snapshot, policy_of(rules.spec))
    cores = {grant.name: grant.bought for grant in plan.grants}
    granted = {grant.name: grant.memory or 0 for grant in plan.grants}
    assert cores["a"] > cores["b"]
    assert granted["a"] < granted["b"]
