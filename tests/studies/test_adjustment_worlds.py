"""The study of greedy adjustment: speedups of its programs, their cores, and measuring in it."""

from __future__ import annotations

import numpy as np
import pytest

from walras_studies.adjustment.measuring import CHECKED_EVERY, LONGEST_PAUSE, Measuring
from walras_studies.adjustment.worlds import (
    AMDAHL,
    LINEAR,
    OVERHEADS,
    PROGRAMS,
    THREADS,
    Cluster,
    draw_cluster,
)


def cores_of_all(cluster: Cluster, cores: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.full(cluster.market.jobs, cores)


def measuring(cluster: Cluster, seconds: float = 2.0) -> Measuring:
    return Measuring(cluster, np.random.default_rng(1), seconds)


def test_kinds_of_programs_speed_up_as_they_are_named() -> None:
    def speedups(kind: str, cores: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        cluster = draw_cluster(kind, 0.0, [1])
        found = cluster.progress(cores_of_all(cluster, cores))
        return np.asarray(found / cluster.market.work)

    for kind in PROGRAMS:
        np.testing.assert_allclose(speedups(kind, 1), 1)
        np.testing.assert_allclose(speedups(kind, 0.5), 0.5)
    np.testing.assert_allclose(speedups(LINEAR, 24), 24)
    assert (speedups(AMDAHL, 24) > speedups(AMDAHL, 12)).all()
    np.testing.assert_allclose(speedups(THREADS, 24), speedups(THREADS, 8))
    assert (speedups(OVERHEADS, 24) < speedups(AMDAHL, 24)).all()
    assert (speedups(OVERHEADS, 24) < speedups(OVERHEADS, 12)).any()


def test_bids_buy_parts_of_cores_and_no_server_has_more_than_its_own() -> None:
    cluster = draw_cluster(AMDAHL, 0.0, [2])
    bids = np.random.default_rng(3).uniform(0.01, 1, cluster.market.jobs)
    cores = cluster.cores_for(bids)
    assert (cores > 0).all()
    np.testing.assert_allclose(cluster.market.sum_by_server(cores), cluster.market.capacities)


def test_exact_counters_show_the_true_fraction_of_programs_that_follow_amdahls_law() -> None:
    cluster = draw_cluster(AMDAHL, 0.0, [4])
    known = measuring(cluster)
    cores = cores_of_all(cluster, 4)
    for now in range(6):  # as many jobs as a server has, or more
        slowed = known.pass_minute(now, cores) < cluster.progress(cores)
        assert slowed.sum() <= len(cluster.market.capacities)
        assert slowed.any()
    measured = ~np.isnan(known.alone)
    assert measured.sum() > len(measured) / 2
    np.testing.assert_allclose(known.fraction[measured], cluster.market.fraction[measured])
    np.testing.assert_allclose(known.alone[measured], cluster.market.work[measured])


def test_jobs_with_one_core_are_not_measured() -> None:
    cluster = draw_cluster(AMDAHL, 0.0, [4])
    known = measuring(cluster)
    known.pass_minute(0, cores_of_all(cluster, 1.9))
    assert np.isnan(known.alone).all()
    assert not known.running


def test_longer_samples_take_longer() -> None:
    cluster = draw_cluster(AMDAHL, 0.0, [4])
    known = measuring(cluster, seconds=30.0)
    for now in range(8):
        known.pass_minute(now, cores_of_all(cluster, 16))
        # Three samples of 30 s and half a second before each, on 1, 2, 4, 8 and 16 cores.
        assert np.isnan(known.alone).all() == (now < 7)


def test_jobs_that_are_too_noisy_are_measured_again_after_longer_and_longer_pauses() -> None:
    cluster = draw_cluster(AMDAHL, 3.0, [5])
    known = measuring(cluster)
    tried: list[int] = []
    for now in range(60):
        before = known.failures.sum() + (~np.isnan(known.alone)).sum()
        known.pass_minute(now, cores_of_all(cluster, 8))
        tried.append(int(known.failures.sum() + (~np.isnan(known.alone)).sum() - before))
    assert sum(tried[:20]) > sum(tried[-20:])
    assert (known.due[np.isfinite(known.due)] <= 60 + LONGEST_PAUSE).all()


def test_a_job_that_departs_twice_from_its_prediction_is_measured_again() -> None:
    cluster = draw_cluster(LINEAR, 0.0, [6])
    known = measuring(cluster)
    cores = cores_of_all(cluster, 8)
    known.alone[:] = cluster.market.work
    known.fraction[:] = 1.0
    known.due[:] = np.inf
    known.fraction[0] = 0.5
    for now in range(1, CHECKED_EVERY + 1):
        known.pass_minute(now, cores)
        assert known.fraction[0] == 0.5
    known.pass_minute(CHECKED_EVERY + 1, cores)
    assert known.fraction[0] == pytest.approx(1.0)
    assert not known.running
    assert np.isinf(known.due).all()
