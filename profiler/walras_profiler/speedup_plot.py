"""Draws the speedup of a profiled program over its cores, for terminals."""

import plotext

from walras.speedup.profile import SpeedupFit

_CURVE_POINTS = 200


def speedup_plot(fit: SpeedupFit, width: int = 72, height: int = 20) -> str:
    """Return a plot of speedup over cores as lines of text.

    Measured points are marked x (one per data size), the fitted curve *, the ideal line ``.``.
    """
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(width, height)
    most = max(fit.by_cores)
    curve = [1 + (most - 1) * step / _CURVE_POINTS for step in range(_CURVE_POINTS + 1)]
    points = [(p.cores, p.speedup) for size in fit.sizes for p in size.points]
    # Later curves cover earlier ones, so the measurements come last.
    for label, marker, xs, ys in (
        ("ideal", ".", curve, curve),
        (f"Amdahl, F = {fit.fraction:.2f}", "*", curve, [fit.speedup(x) for x in curve]),
        ("measured", "x", [1, *(x for x, _ in points)], [1.0, *(y for _, y in points)]),
    ):
        signal = figure.signal(xs, ys, marker=marker)
        signal.label(label)
        figure.draw(signal)
    figure.title("Speedup over one core")
    figure.label("cores")
    ticks = sorted({1, *fit.by_cores})
    figure.ruler("x").ticks(ticks, [str(tick) for tick in ticks])
    text: str = figure.build().string(colorless=True)
    figure.clear()
    return "\n".join(line.rstrip() for line in text.splitlines())
