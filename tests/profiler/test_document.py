"""The SpeedupProfile document, and the tables and plot made of the same figures."""

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from walras.speedup.diagnosis import diagnose
from walras.speedup.profile import fit_profile
from walras.speedup.sizes import parse_sizes
from walras_api.kinds import SpeedupProfileSpec
from walras_api.speedup_profile import fit_of
from walras_profiler.campaign import Measurement, samples_of
from walras_profiler.document import profile_document
from walras_profiler.profile_tables import ProfileReport, render
from walras_profiler.speedup_plot import speedup_plot

DECIMAL = re.compile(r"-?\d+(\.\d+)?")


def runs(sizes: str = "10%,20%,40%,50%", fraction: float = 0.8) -> list[Measurement]:
    return [
        Measurement(
            cores,
            size,
            seconds=(1 + 10 * float(size.value)) * (1 - fraction + fraction / cores) * noise,
            user_seconds=1.5,
            system_seconds=0.25,
            peak_memory=(64 << 20) + 1,
            counters={"instructions": 1000, "cache-misses": 7},
        )
        for size in parse_sizes(sizes)
        for cores in (1, 2, 4)
        for noise in (0.99, 1.0, 1.01)
    ]


def document(measurements: list[Measurement]) -> dict[str, Any]:
    samples = samples_of(measurements)
    fit = fit_profile(samples)
    return profile_document("solve", "lab", measurements, fit, diagnose(samples, fit))


def leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for child in value.values():
            yield from leaves(child)
    elif isinstance(value, list):
        for child in value:
            yield from leaves(child)
    else:
        yield value


def test_document_holds_what_was_sampled_measured_and_fitted() -> None:
    made = document(runs())
    assert made["apiVersion"] == "walras.dev/v1alpha1"
    assert made["kind"] == "SpeedupProfile"
    assert made["metadata"] == {"name": "solve", "namespace": "lab"}
    assert made["spec"]["sampling"] == {
        "cores": [1, 2, 4],
        "dataSizes": ["10%", "20%", "40%", "50%"],
        "repeats": 3,
    }
    assert made["spec"]["measurements"][0] == {
        "cores": 1,
        "dataSize": "10%",
        "seconds": ["1.980000", "2.000000", "2.020000"],
        "userSeconds": "1.500000",
        "systemSeconds": "0.250000",
        "peakMemory": "65537Ki",
        "cacheMisses": 7,
        "instructions": 1000,
    }
    status = made["status"]
    assert status["parallelFraction"] == "0.8"
    assert status["parallelFractionByCores"] == [
        {"cores": 2, "value": "0.8"},
        {"cores": 4, "value": "0.8"},
    ]
    assert status["timeModels"][0]["form"] == "Linear"
    assert status["timeModels"][0]["coefficients"] == ["1", "10"]
    assert status["findings"] == []


def test_no_float_and_no_exponent_is_in_the_document() -> None:
    tiny = [
        Measurement(m.cores, m.size, m.seconds * 1e-4) for m in runs(sizes="1000,2000000,40000000")
    ]
    for made in (document(runs()), document(tiny), document(runs("100%"))):
        assert not any(isinstance(leaf, float) for leaf in leaves(made))
        coefficients = [c for model in made["status"]["timeModels"] for c in model["coefficients"]]
        assert all(DECIMAL.fullmatch(text) for text in coefficients)


def cell(cores: int, size: str = "100%") -> dict[str, Any]:
    return {"cores": cores, "dataSize": size, "seconds": ["1.5"]}


def test_json_and_yaml_read_back_the_same() -> None:
    made = document(runs())
    assert json.loads(json.dumps(made)) == made
    assert yaml.safe_load(yaml.safe_dump(made)) == made


@given(st.sampled_from(["10%,20%,40%", "1000,2000", "100%"]), st.floats(0.05, 1.0))
def test_fit_can_be_derived_from_the_document_again(sizes: str, fraction: float) -> None:
    measurements = runs(sizes, fraction)
    again = fit_of(SpeedupProfileSpec.model_validate(document(measurements)["spec"]))
    direct = fit_profile(samples_of(measurements))
    assert again.raw_fraction == pytest.approx(direct.raw_fraction, abs=1e-5)
    assert again.predict_seconds(3, again.sizes[0].size) == pytest.approx(
        direct.predict_seconds(3, direct.sizes[0].size), rel=1e-4
    )


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        ({}, "neither measurements nor parallelFraction"),
        ({"measurements": [cell(1, "many")]}, r"spec.measurements\[0\].dataSize: data size 'many'"),
        ({"measurements": [cell(2)]}, r"spec.measurements: data size 1 has no time on one core"),
        ({"measurements": [cell(1)]}, r"spec.measurements: data size 1 has times on one core only"),
    ],
)
def test_measurements_without_a_speedup_are_refused_by_field(
    broken: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        fit_of(SpeedupProfileSpec.model_validate(broken))


def shown(measurements: list[Measurement]) -> str:
    samples = samples_of(measurements)
    fit = fit_profile(samples)
    console = Console(width=100, file=io.StringIO())
    with console.capture() as captured:
        console.print(render(ProfileReport(measurements, fit, diagnose(samples, fit))))
    return captured.get()


def test_tables_show_times_fractions_models_and_findings() -> None:
    text = shown(runs())
    assert re.search(r"10% │ +1 │ +2\.000 │ ±1\.0 % │ +1\.00 │ +1\.750 │ +64 MiB", text)
    assert re.search(r"all │ +0\.800 │ +0\.800 │ +0\.800 │ +0\.00000", text)
    assert re.search(r"1 │ Linear │ +1 \+ 10 d │ +0\.0000 │ +11\.000", text)
    assert "Parallel fraction: 0.800" in text
    assert "warning" not in text
    assert "warning: 3 data sizes" in shown(runs("10%,20%,30%"))
    once = shown(runs()[1::3])
    assert re.search(r"10% │ +1 │ +2\.000 │ +- │ +1\.00 │", once)
    assert "±" not in once


def test_columns_without_a_value_are_left_out() -> None:
    bare = [Measurement(m.cores, m.size, m.seconds) for m in runs("1000,2000")]
    text = shown(bare)
    assert "peak memory" not in text
    assert "CPU seconds" not in text
    assert "at 100%" not in text


def test_plot_shows_measured_fitted_and_ideal() -> None:
    text = speedup_plot(fit_profile(samples_of(runs())), width=60, height=16)
    lines = text.splitlines()
    assert "\x1b" not in text
    assert len(lines) == 16
    assert max(map(len, lines)) <= 60
    for mark in ("x measured", "* Amdahl, F = 0.80", ". ideal"):
        assert mark in text


def test_plots_do_not_run_into_each_other() -> None:
    fit = fit_profile(samples_of(runs()))
    assert speedup_plot(fit) == speedup_plot(fit)
