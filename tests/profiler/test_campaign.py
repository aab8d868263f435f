"""The order of runs, and how runs become samples; the runs themselves are made up here."""

from collections import Counter
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.speedup.profile import Sample
from walras.speedup.sizes import WHOLE, DataSize, parse_sizes
from walras_profiler.campaign import (
    Measurement,
    MeasurementError,
    Trial,
    default_core_counts,
    disturbance_of,
    plan_trials,
    run_campaign,
    samples_of,
)

SIZES = parse_sizes("10%,20%,50%")


class MadeUp:
    """Takes as many seconds as it has cores, and fails at the run told."""

    description = "nothing"
    notes: Sequence[str] = ()

    def __init__(self, fails_at: int | None = None) -> None:
        self.made: list[Trial] = []
        self.fails_at = fails_at

    def run(self, trial: Trial) -> Measurement:
        self.made.append(trial)
        if len(self.made) == self.fails_at:
            raise MeasurementError(f"{trial}: failed")
        return Measurement(trial.cores, trial.size, seconds=float(trial.cores))


def ignore(trial: Trial, measurement: Measurement | None) -> None:
    """Ignore a trial and its measurement."""


@given(st.integers(1, 5), st.integers(0, 99))
def test_each_repeat_visits_every_core_count_and_size_once(repeats: int, seed: int) -> None:
    trials = plan_trials((1, 2, 4), SIZES, repeats, seed)
    everything = Counter(product((1, 2, 4), SIZES))
    for repeat in range(1, repeats + 1):
        block = trials[9 * (repeat - 1) : 9 * repeat]
        assert Counter((trial.cores, trial.size) for trial in block) == everything
        assert {trial.repeat for trial in block} == {repeat}


def test_order_is_shuffled_and_follows_the_seed() -> None:
    first, again, other = (plan_trials((1, 2, 4), SIZES, 3, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    cores = [trial.cores for trial in first]
    assert cores != sorted(cores)
    assert cores[:9] != cores[9:18]


def test_warm_up_has_the_most_cores_and_data_and_is_not_counted() -> None:
    runner, trials = MadeUp(), plan_trials((1, 2), SIZES, 2, 0)
    measured = run_campaign(runner, trials, ignore)
    assert runner.made[0] == Trial(2, SIZES[-1], repeat=0)
    assert tuple(runner.made[1:]) == trials
    assert len(measured) == len(trials)


def test_observer_is_told_before_and_after_each_run() -> None:
    seen: list[tuple[int, float | None]] = []

    def observe(trial: Trial, measurement: Measurement | None) -> None:
        seen.append((trial.cores, measurement.seconds if measurement else None))

    run_campaign(MadeUp(), [Trial(2, WHOLE, 1)], observe)
    assert seen == [(2, None), (2, 2.0)] * 2


def test_first_failing_run_ends_the_campaign() -> None:
    runner = MadeUp(fails_at=3)
    with pytest.raises(MeasurementError):
        run_campaign(runner, plan_trials((1, 2), SIZES, 2, 0), ignore)
    assert len(runner.made) == 3


def test_samples_gather_the_repeats_of_a_cell() -> None:
    runs = [Measurement(2, DataSize.parse("10%"), 3.0), Measurement(1, DataSize.parse("10%"), 5.0)]
    runs.append(Measurement(2, DataSize.parse("10%"), 4.0))
    assert samples_of(runs) == (Sample(1, 0.1, (5.0,)), Sample(2, 0.1, (3.0, 4.0)))


@pytest.mark.parametrize(
    ("machine", "counts"),
    [(2, (1, 2)), (3, (1, 2, 3)), (8, (1, 2, 4, 8)), (12, (1, 2, 4, 8, 12)), (1, (1,))],
)
def test_default_counts_are_powers_of_two_and_the_machine(
    machine: int, counts: tuple[int, ...]
) -> None:
    assert default_core_counts(machine) == counts


def test_disturbance_is_the_mean_of_what_is_known() -> None:
    shares = (0.1, None, 0.3)
    runs = [Measurement(1, WHOLE, 1.0, others=share) for share in shares]
    assert disturbance_of(runs) == pytest.approx(0.2)
    assert disturbance_of([Measurement(1, WHOLE, 1.0)]) == 0


@pytest.mark.parametrize(
    ("trial", "text"),
    [
        (Trial(1, WHOLE, 1), "1 core"),
        (Trial(2, WHOLE, 1), "2 cores"),
        (Trial(2, DataSize.parse("10%"), 1), "2 cores, data size 10%"),
        (Trial(1, DataSize.parse("5000"), 1), "1 core, data size 5000"),
    ],
)
def test_trial_is_named_for_people(trial: Trial, text: str) -> None:
    assert str(trial) == text
