"""Makes the SpeedupProfile document of a profile, as a plain dictionary for YAML or JSON.

Measurements are in `spec`, since `kubectl apply` drops `status`; the status can be derived from
them again (`walras_api.speedup_profile`). All numbers but counts are decimal strings.
"""

from collections.abc import Sequence
from statistics import median
from typing import Any

from walras.speedup.diagnosis import NOT_MEASURED, Finding
from walras.speedup.profile import SpeedupFit
from walras.speedup.sizes import DataSize
from walras.speedup.time_model import TimeModel
from walras_api.contract import API_VERSION
from walras_api.status import decimals
from walras_profiler.campaign import Measurement

KIND = "SpeedupProfile"

_KIBIBYTE = 1024

Document = dict[str, Any]


def profile_document(
    name: str,
    namespace: str,
    measurements: Sequence[Measurement],
    fit: SpeedupFit,
    findings: Sequence[Finding],
) -> Document:
    """Return the SpeedupProfile document of a finished profile.

    Args:
        name: Name of the object.
        namespace: Namespace of the object.
        measurements: Measurements of all counted runs.
        fit: Speedup fitted to their times.
        findings: Doubts about the fit.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": _spec(_cells(measurements)),
        "status": _status(fit, findings, relative=measurements[0].size.relative),
    }


_Cells = dict[tuple[DataSize, int], list[Measurement]]


def _cells(measurements: Sequence[Measurement]) -> _Cells:
    """Return the runs of each data size and core count, in ascending order."""
    cells: _Cells = {}
    for measurement in sorted(measurements, key=lambda m: (m.size, m.cores)):
        cells.setdefault((measurement.size, measurement.cores), []).append(measurement)
    return cells


def _spec(cells: _Cells) -> Document:
    return {
        "sampling": {
            "cores": sorted({cores for _, cores in cells}),
            "dataSizes": [str(size) for size in sorted({size for size, _ in cells})],
            "repeats": max(len(runs) for runs in cells.values()),
        },
        "measurements": [_measurement(size, cores, runs) for (size, cores), runs in cells.items()],
    }


def _measurement(size: DataSize, cores: int, runs: Sequence[Measurement]) -> Document:
    """Return one entry: all times, the largest peak memory, the medians of all else."""
    entry: Document = {
        "cores": cores,
        "dataSize": str(size),
        "seconds": [_seconds(run.seconds) for run in runs],
    }
    if error := median(run.error for run in runs):
        entry["error"] = decimals(error)
    for key, values in (
        ("userSeconds", [run.user_seconds for run in runs]),
        ("systemSeconds", [run.system_seconds for run in runs]),
    ):
        if counted := [value for value in values if value is not None]:
            entry[key] = _seconds(median(counted))
    if peaks := [run.peak_memory for run in runs if run.peak_memory is not None]:
        entry["peakMemory"] = f"{-(-max(peaks) // _KIBIBYTE)}Ki"
    for event in sorted({event for run in runs for event in run.counters}):
        counts = [run.counters[event] for run in runs if event in run.counters]
        entry[_camel(event)] = round(median(counts))
    return entry


def _status(fit: SpeedupFit, findings: Sequence[Finding], *, relative: bool) -> Document:
    whole = {"wholeDataParallelFraction": decimals(fit.fraction_at(1.0))} if relative else {}
    fractions = {
        "parallelFraction": decimals(fit.fraction),
        **whole,
        "rawParallelFraction": decimals(fit.raw_fraction),
    }
    measured = NOT_MEASURED.isdisjoint(finding.code for finding in findings)
    return {
        **(fractions if measured else {}),
        "variance": decimals(fit.variance),
        "parallelFractionByCores": [
            {"cores": cores, "value": decimals(value)} for cores, value in fit.by_cores.items()
        ],
        "timeModels": [_time_model(cores, model) for cores, model in fit.time_models.items()],
        "findings": [
            {"code": finding.code.value, "message": finding.message} for finding in findings
        ],
    }


def _time_model(cores: int, model: TimeModel) -> Document:
    return {
        "cores": cores,
        "form": model.form.value,
        "coefficients": [decimals(coefficient) for coefficient in model.coefficients],
        "residualSeconds": decimals(model.residual),
    }


def _seconds(value: float) -> str:
    return f"{value:.6f}"


def _camel(event: str) -> str:
    """Return the field name of an event: cacheMisses for cache-misses."""
    first, *rest = event.split("-")
    return first + "".join(word.capitalize() for word in rest)
