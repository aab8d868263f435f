"""Findings: each appears on a profile made to deserve it, and on no profile that is sound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.speedup.diagnosis import FindingCode, diagnose
from walras.speedup.profile import Sample, fit_profile

SIZES = (0.1, 0.2, 0.3, 0.4)


def amdahl(
    f: float, *, scale: float = 1.0, spread: float = 0.0, sizes: tuple[float, ...] = SIZES
) -> list[Sample]:
    """Three repeats on 1, 2 and 4 cores, the outer two `spread` below and above the middle."""
    repeats = (1 - spread, 1.0, 1 + spread)
    return [
        Sample(x, d, tuple(scale * (1 + 10 * d) * (1 - f + f / x) * r for r in repeats))
        for x in (1, 2, 4)
        for d in sizes
    ]


def times(by_cores: dict[int, float]) -> list[Sample]:
    return [Sample(cores, 1.0, (seconds,) * 3) for cores, seconds in by_cores.items()]


def codes(samples: list[Sample]) -> set[FindingCode]:
    return {finding.code for finding in diagnose(samples, fit_profile(samples))}


@given(st.floats(0.1, 1.0))
def test_sound_profile_has_no_findings(f: float) -> None:
    assert codes(amdahl(f, spread=0.01)) == set()


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (times({1: 10, 2: 5.5, 4: 4.5}), {FindingCode.PARALLEL_OVERHEAD}),
        (times({1: 10, 2: 4, 4: 1}), {FindingCode.SUPER_LINEAR}),
        (times({1: 10, 2: 12, 4: 13}), {FindingCode.SLOW_DOWN}),
        (times({1: 10, 2: 9.9, 4: 10.1}), {FindingCode.THREADS_FIXED}),
        (times({1: 10, 2: 5, 4: 5.1}), {FindingCode.THREADS_FIXED}),
        (times({1: 12, 2: 6, 4: 4, 8: 4, 16: 3.95}), {FindingCode.THREADS_FIXED}),
        (times({1: 10, 2: 6}), {FindingCode.ONE_CORE_COUNT}),
        (amdahl(0.8, scale=0.04), {FindingCode.TOO_SHORT}),
        (amdahl(0.5, spread=0.2), {FindingCode.TOO_NOISY}),
        (amdahl(0.8, sizes=(0.1,)), {FindingCode.FEW_SIZES}),
        (amdahl(0.8, sizes=(0.1, 0.2, 0.3)), {FindingCode.FEW_SIZES}),
        (
            [*amdahl(0.2, sizes=(0.1,)), *amdahl(0.8, sizes=(0.2, 0.3, 0.4))],
            {FindingCode.SIZES_DISAGREE},
        ),
        (
            [Sample(1, 1.0, (10.0,)), Sample(2, 1.0, (6.0,)), Sample(4, 1.0, (4.0,))],
            {FindingCode.SINGLE_RUNS},
        ),
    ],
)
def test_each_fault_is_found_and_no_other(
    samples: list[Sample], expected: set[FindingCode]
) -> None:
    assert codes(samples) == expected


def test_noise_excuses_what_it_can_explain() -> None:
    falling = {1: 10.0, 2: 5.4, 4: 4.0}
    noisy = [
        Sample(cores, 1.0, (0.8 * seconds, seconds, 1.2 * seconds))
        for cores, seconds in falling.items()
    ]
    assert FindingCode.PARALLEL_OVERHEAD in codes(times(falling))
    assert FindingCode.PARALLEL_OVERHEAD not in codes(noisy)


@pytest.mark.parametrize(("disturbance", "found"), [(0.05, False), (0.3, True)])
def test_busy_machine_is_told(disturbance: float, found: bool) -> None:
    samples = amdahl(0.8)
    findings = diagnose(samples, fit_profile(samples), disturbance)
    assert (FindingCode.BUSY_MACHINE in {finding.code for finding in findings}) is found


def test_every_message_is_one_sentence_with_a_way_out() -> None:
    worst = [Sample(1, 0.1, (0.01, 0.02)), Sample(2, 0.1, (0.02, 0.04))]
    findings = diagnose(worst, fit_profile(worst), disturbance=0.5)
    assert len(findings) >= 4
    for finding in findings:
        assert "\n" not in finding.message
        assert not finding.message.endswith(".")
        assert finding.fault
        assert finding.message.startswith(f"{finding.fault}: ")
        assert any(
            way in finding.message for way in ("run it", "give it", "profile", "measure", "quiet")
        ), finding.message
