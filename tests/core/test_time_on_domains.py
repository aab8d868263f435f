"""How busy pods share the CPUs of a node: worked examples, and what holds for any of them."""

import numpy as np
import pytest

from walras.analysis.domains import BusyPod, Loss, Processors, losses, time_by_grants

MANY = Processors(cores=64, threads=1, sockets=2)


def granted(*cpus: float, isolated: bool = False) -> list[BusyPod]:
    return [BusyPod(granted=each, isolated=isolated) for each in cpus]


def test_a_pod_outside_the_market_keeps_its_request_and_loses_what_it_had_beyond_it() -> None:
    shop, batch = BusyPod(requested=1), BusyPod(granted=15, requested=1)
    assert losses(Processors(16), [shop, batch]) == [Loss(pod=0, plain=8, least=1)]
    assert losses(Processors(16), [shop._replace(limit=1), batch]) == []


def test_what_a_pod_has_no_threads_for_goes_to_the_others_by_weight() -> None:
    few, *others = granted(4, 3, 1)
    assert time_by_grants(Processors(8), [few._replace(most=2), *others]) == [2, 4.5, 1.5]


def test_a_pod_without_a_request_has_next_to_nothing_beside_those_with_grants() -> None:
    pods = [BusyPod(granted=4), BusyPod()]
    assert time_by_grants(Processors(4), pods) == pytest.approx([4 * 4000 / 4002, 4 * 2 / 4002])


def test_whole_cores_of_isolated_pods_are_shared_by_nobody() -> None:
    own, other, guest = *granted(2.5, isolated=True), *granted(1.5), BusyPod(requested=2)
    found = time_by_grants(Processors(4), [own, other, guest])
    assert found == pytest.approx([2, 2 * 1.5 / 3.5, 2 * 2 / 3.5])


def test_one_core_stays_for_all_even_if_everybody_is_isolated() -> None:
    found = time_by_grants(Processors(4), [*granted(4, isolated=True), BusyPod(requested=4)])
    assert found == [3, 1]


@pytest.mark.parametrize("machine", [Processors(16), Processors(32, 2, 2), MANY])
@pytest.mark.parametrize("seed", range(20))
def test_who_fits_has_what_it_was_granted(machine: Processors, seed: int) -> None:
    random = np.random.default_rng(seed)
    cpus = machine.cores * machine.threads
    parts = random.dirichlet(np.full(int(random.integers(2, 20)), 0.7))
    grants = np.maximum(np.floor(parts * cpus * 1000) / 1000, 0.001)
    isolated = bool(random.integers(2))
    found = time_by_grants(machine, granted(*grants, isolated=isolated))
    assert sum(found) == pytest.approx(cpus)
    assert np.all(np.array(found) >= 0.99 * grants - 0.002)
