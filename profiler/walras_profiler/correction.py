"""Takes out of the times of a campaign what other programs on the machine have added to them.

Where runs waited for CPUs, a time is what the run would have taken without waiting
(`walras_agent.waiting`). A busy machine also slows the CPUs themselves, by their caches and by
second threads of their cores, so that the same work takes more CPU time. So each time is given for
the least CPU time of its runs; and where some run on more cores took no more CPU time than some run
on one core, the work is taken to be the same on both, since the difference is not seen.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from walras.speedup.profile import Sample
from walras.speedup.sizes import DataSize
from walras_agent.waiting import QUIET
from walras_profiler.campaign import Measurement


def without_waiting(measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return the measurements with the times that the runs would have taken on a quiet machine.

    They are left as they are where hardly any run waited, or where it is not known of every run.
    Of those for which it is not known, the error then is what others took of their CPUs.
    """
    waited = [
        1 - (each.unwaited.busy + each.unwaited.idle) / each.seconds
        for each in measurements
        if each.unwaited is not None and each.cpu_seconds
    ]
    if len(waited) < len(measurements) or fmean(waited) <= QUIET:
        return tuple(map(_with_unknown_waiting, measurements))
    work = _work(measurements)
    return tuple(_without_waiting(each, *work[each.size, each.cores]) for each in measurements)


def _with_unknown_waiting(run: Measurement) -> Measurement:
    if run.unwaited is not None or run.others is None or run.others <= QUIET:
        return run
    return replace(run, error=run.others)


def _without_waiting(run: Measurement, cpu_seconds: float, error: float) -> Measurement:
    """Return a run with the time that it would have taken for some CPU time."""
    if run.unwaited is None or not run.cpu_seconds:
        return run
    busy, idle, uncertain = run.unwaited
    scale = cpu_seconds / run.cpu_seconds
    seconds = idle + busy * scale
    waited = max(run.seconds - seconds, 0.0)
    return replace(run, seconds=seconds, waited=waited, error=error + uncertain * scale / seconds)


def _work(measurements: Sequence[Measurement]) -> dict[tuple[DataSize, int], tuple[float, float]]:
    """Return the CPU seconds of the work by data size and cores, and their relative error.

    The error is that of the work relative to one core's, so that one core has none.
    """
    taken: dict[tuple[DataSize, int], tuple[float, ...]] = {}
    for each in measurements:
        key = each.size, each.cores
        taken[key] = (*taken.get(key, ()), each.cpu_seconds or 0.0)
    work_and_error = {}
    for size in {size for size, _ in taken}:
        alone = taken[size, 1]
        alike = {c for at, c in taken if at == size and min(taken[at, c]) <= max(alone)}
        together = tuple(value for cores in sorted(alike) for value in taken[size, cores])
        error = Sample(1, 1.0, together).uncertainty
        for (at, cores), own in taken.items():
            if at == size:
                work = together if cores in alike else own
                work_and_error[at, cores] = min(work), 0.0 if cores == 1 else error
    return work_and_error
