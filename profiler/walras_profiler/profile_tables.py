"""Prints a profile: tables of times, parallel fractions and time models, and warnings."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from walras.speedup.diagnosis import NOT_MEASURED, Finding
from walras.speedup.profile import SpeedupFit
from walras.speedup.sizes import DataSize
from walras_profiler.campaign import Measurement

_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class ProfileReport:
    """Result of a profile."""

    measurements: Sequence[Measurement]
    fit: SpeedupFit
    findings: Sequence[Finding]

    @property
    def doubts(self) -> tuple[Finding, ...]:
        """The findings for which there is no parallel fraction; none if it was measured."""
        return tuple(finding for finding in self.findings if finding.code in NOT_MEASURED)


def render(report: ProfileReport) -> RenderableType:
    """Return the whole report as something that Rich can print."""
    parts: list[RenderableType] = [times_table(report.measurements)]
    if not report.doubts:
        parts.append(fraction_table(report.fit))
    if report.fit.time_models:
        parts.append(time_model_table(report.fit, report.measurements[0].size))
    parts.append(summary(report))
    parts += [finding_line(finding) for finding in report.findings]
    return Group(*parts)


def times_table(measurements: Sequence[Measurement]) -> Table:
    """Return a table of times, CPU time and memory by data size and core count."""
    cells: dict[tuple[DataSize, int], list[Measurement]] = {}
    for measurement in measurements:
        cells.setdefault((measurement.size, measurement.cores), []).append(measurement)
    typical = {key: median(run.seconds for run in runs) for key, runs in cells.items()}
    columns: dict[str, list[str]] = {
        "data": [str(size) for size, _ in sorted(cells)],
        "cores": [str(cores) for _, cores in sorted(cells)],
        "seconds": [f"{typical[key]:.3f}" for key in sorted(cells)],
        "spread": [_spread(cells[key]) for key in sorted(cells)],
        "waited": [_waited(cells[key]) for key in sorted(cells)],
        "speedup": [f"{typical[key[0], 1] / typical[key]:.2f}" for key in sorted(cells)],
        "CPU seconds": [_cpu_seconds(cells[key]) for key in sorted(cells)],
        "peak memory": [_peak_memory(cells[key]) for key in sorted(cells)],
    }
    filled = {name: column for name, column in columns.items() if any(column)}
    table = Table(*filled, title="Measured times", title_justify="left")
    for row in zip(*filled.values(), strict=True):
        table.add_row(*row)
    for column in table.columns:
        column.justify = "right"
    return table


def fraction_table(fit: SpeedupFit) -> Table:
    """Return a table of Karp-Flatt fractions by data size and core count (Figures 1 to 3)."""
    table = Table(title="Parallel fraction F (Karp-Flatt)", title_justify="left")
    table.add_column("data", justify="right")
    for cores in fit.by_cores:
        table.add_column(f"{cores} cores", justify="right")
    table.add_column("mean", justify="right")
    table.add_column("variance", justify="right")
    relative = all(size.size <= 1 for size in fit.sizes)
    for size in fit.sizes:
        fractions = {point.cores: f"{point.fraction:.3f}" for point in size.points}
        table.add_row(
            f"{100 * size.size:g}%" if relative else f"{size.size:g}",
            *(fractions.get(cores, "") for cores in fit.by_cores),
            f"{size.mean:.3f}",
            f"{size.variance:.5f}",
        )
    if len(fit.sizes) > 1:
        values = (f"{value:.3f}" for value in fit.by_cores.values())
        table.add_row("all", *values, f"{fit.raw_fraction:.3f}", f"{fit.variance:.5f}")
    return table


def time_model_table(fit: SpeedupFit, size: DataSize) -> Table:
    """Return a table of execution time as a function of data size d, by core count (Figure 4)."""
    unit = "d = fraction of the data" if size.relative else "d = data size"
    table = Table(title=f"Time in seconds, {unit}", title_justify="left")
    for column in ("cores", "form", "T(d)", "residual", *(["at 100%"] if size.relative else [])):
        table.add_column(column, justify="right")
    for cores, model in fit.time_models.items():
        terms = zip(model.coefficients, ("", " d", " d²"), strict=False)
        row = [
            str(cores),
            model.form.value,
            " + ".join(f"{coefficient:.4g}{power}" for coefficient, power in terms),
            f"{model.residual:.4f}",
        ]
        table.add_row(*row, *([f"{model.predict(1.0):.3f}"] if size.relative else []))
    return table


def summary(report: ProfileReport) -> Text:
    """Return a line with the parallel fraction that the market uses, or why there is none."""
    fit, size = report.fit, report.measurements[0].size
    text = Text("Parallel fraction: ")
    if report.doubts:
        text.append("not measured", style="bold")
        return text.append(f", since {' and '.join(each.fault for each in report.doubts)}")
    if size.relative and len(fit.sizes) > 1:
        text.append(f"{fit.fraction_at(1.0):.3f}", style="bold")
        text.append(f" on all data, by which the market goes; {fit.fraction:.3f} on the samples")
        if fit.has_start_up:
            text.append(", where start-up that does not grow with the data weighs more")
        return text
    text.append(f"{fit.fraction:.3f}", style="bold")
    if fit.fraction != fit.raw_fraction:
        text.append(f" (measured {fit.raw_fraction:.3f})")
    return text


def finding_line(finding: Finding) -> Text:
    """Return a finding as a line of warning."""
    return Text.assemble(("warning: ", "yellow"), f"{finding.message} [{finding.code.value}]")


def _spread(runs: Sequence[Measurement]) -> str:
    """Return half the range of the times in per cent of their median; a dash for a single run."""
    if len(runs) < 2:
        return "-"
    seconds = [run.seconds for run in runs]
    return f"±{50 * (max(seconds) - min(seconds)) / median(seconds):.1f} %"


def _waited(runs: Sequence[Measurement]) -> str:
    """Return what the runs waited for CPUs, in per cent of their times without waiting."""
    part = median(run.waited / run.seconds for run in runs)
    return f"+{100 * part:.0f} %" if part > 0 else ""


def _cpu_seconds(runs: Sequence[Measurement]) -> str:
    measured = [
        run.user_seconds + run.system_seconds
        for run in runs
        if run.user_seconds is not None and run.system_seconds is not None
    ]
    return f"{median(measured):.3f}" if measured else ""


def _peak_memory(runs: Sequence[Measurement]) -> str:
    peaks = [run.peak_memory for run in runs if run.peak_memory is not None]
    return f"{max(peaks) / _MEBIBYTE:.0f} MiB" if peaks else ""
