"""Nodes sold by sockets: who is put where, and what a job in parts is worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.division.sale_units import SocketMarket, sell_by_socket
from walras.mechanisms.amdahl import metrics
from walras.mechanisms.amdahl.equilibrium import find_equilibrium
from walras.mechanisms.amdahl.market import AmdahlMarket, MarketError


def one_node(jobs: int, *, cores: int = 24, users: int | None = None) -> AmdahlMarket:
    count = users or jobs
    return AmdahlMarket([1] * count, [cores], np.arange(jobs) % count, [0] * jobs, [0.9] * jobs)


@st.composite
def divided(draw: st.DrawFn) -> tuple[AmdahlMarket, SocketMarket, list[list[int]]]:
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    users, servers, jobs = (int(random.integers(1, most)) for most in (6, 5, 20))
    sockets = [random.integers(1, 13, random.integers(1, 5)).tolist() for _ in range(servers)]
    market = AmdahlMarket(
        random.uniform(1, 5, users),
        [sum(sizes) for sizes in sockets],
        random.integers(0, users, jobs),
        random.integers(0, servers, jobs),
        random.uniform(0, 1, jobs),
        np.exp(random.standard_normal(jobs)),
    )
    least = random.integers(0, 1 + market.capacities[market.server].astype(int))
    return market, sell_by_socket(market, sockets, minimum=least), sockets


@examples(300)
@given(divided())
def test_only_jobs_larger_than_any_socket_are_in_parts(
    case: tuple[AmdahlMarket, SocketMarket, list[list[int]]],
) -> None:
    market, sold, sockets = case
    parts = np.bincount(sold.job, minlength=market.jobs)
    least = sold.cores_of_jobs(sold.minimum)
    for job in range(market.jobs):
        sizes = sorted(sockets[market.server[job]], reverse=True)
        fewest = next(n for n in range(1, len(sizes) + 1) if sum(sizes[:n]) >= least[job] - 1e-9)
        assert parts[job] == fewest
    node = np.repeat(np.arange(len(sockets)), [len(sizes) for sizes in sockets])
    assert (node[sold.market.server] == market.server[sold.job]).all()
    assert (sold.market.user == market.user[sold.job]).all()
    assert len(np.unique(np.stack([sold.job, sold.market.server]), axis=1).T) == len(sold.job)


@examples(300)
@given(divided(), st.integers(0, 2**32 - 1))
def test_a_job_in_equal_parts_is_worth_what_it_is_worth_whole(
    case: tuple[AmdahlMarket, SocketMarket, list[list[int]]], seed: int
) -> None:
    market, sold, _ = case
    cores = np.random.default_rng(seed).uniform(0.1, 24, market.jobs)
    parts = np.bincount(sold.job, minlength=market.jobs)
    of_parts = (cores / parts)[sold.job]
    done = sold.cores_of_jobs(metrics.job_progress(sold.market, of_parts))
    np.testing.assert_allclose(done, metrics.job_progress(market, cores), rtol=1e-12)
    np.testing.assert_allclose(sold.cores_of_jobs(of_parts), cores)


def test_nodes_of_one_socket_are_sold_as_they_are() -> None:
    random = np.random.default_rng(0)
    market = AmdahlMarket([1, 2, 3], [8, 9], random.integers(0, 3, 12), [0, 1] * 6, [0.5] * 12)
    sold = sell_by_socket(market, [[8], [9]])
    np.testing.assert_array_equal(sold.job, np.arange(12))
    np.testing.assert_array_equal(
        find_equilibrium(sold.market).cores, find_equilibrium(market).cores
    )


def test_jobs_are_spread_by_the_money_behind_them() -> None:
    """Budgets 5, 1, 1, 1, 1 on two sockets: the rich job's socket gets one of the others."""
    market = AmdahlMarket([5, 1, 1, 1, 1], [24], range(5), [0] * 5, [0.9] * 5)
    sold = sell_by_socket(market, [[12, 12]])
    assert sold.market.server.tolist() == [0, 1, 1, 1, 1]


def test_a_job_goes_where_there_is_room_for_its_minimum() -> None:
    market = one_node(4)
    sold = sell_by_socket(market, [[12, 12]], minimum=[8, 8, 4, 4])
    assert sold.market.server.tolist() == [0, 1, 0, 1]
    found = find_equilibrium(sold.market, minimum=sold.minimum, maximum=sold.maximum)
    assert found.converged
    assert found.affordable is not None


def test_a_job_of_more_than_a_socket_spans_as_few_as_hold_it() -> None:
    market = one_node(2, cores=48)
    sold = sell_by_socket(market, [[12, 12, 12, 12]], minimum=[20, 0], maximum=[24, 48])
    assert sold.job.tolist() == [0, 0, 1]
    assert sold.market.server.tolist() == [0, 1, 2]
    assert sold.minimum.tolist() == [10, 10, 0]
    assert sold.maximum.tolist() == [12, 12, 48]
    assert sold.first_socket.tolist() == [0, 4]


@pytest.mark.parametrize(
    ("sockets", "message"),
    [
        ([[12, 11]], r"sockets\[0\] = \[12, 11\]: .* add up to the server's 24 cores"),
        ([[24, 0]], r"sockets\[0\] = \[24, 0\]: positive numbers are needed"),
        ([[24], [24]], "sockets of 2 servers: the market has 1"),
    ],
)
def test_sockets_that_do_not_fit_their_server_are_named(
    sockets: list[list[float]], message: str
) -> None:
    with pytest.raises(MarketError, match=message):
        sell_by_socket(one_node(2), sockets)


def test_a_market_without_jobs_has_sockets_too() -> None:
    sold = sell_by_socket(AmdahlMarket([1.0], [4.0], [], [], []), [[2, 2]])
    assert sold.market.capacities.tolist() == [2, 2]
    assert sold.market.jobs == 0
