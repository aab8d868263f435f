"""Computes how much of a run's CPUs other programs took, the main cause of bad profiles.

A cpuset keeps a program on its CPUs, but does not keep others off them.
"""

import os
from pathlib import Path

from walras_agent.cpuset import CpuSet

_STAT = Path("/proc/stat")
# Fields of a "cpu" line that count as busy, after the name (proc_stat(5)): user, nice, system, irq,
# softirq, and the time that the hypervisor gave to other guests (steal).
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)


def busy_seconds(cpus: CpuSet, stat: Path = _STAT) -> float:
    """Return the seconds for which `cpus` have been busy since boot, summed over them."""
    ticks = 0
    for line in stat.read_text().splitlines():
        name, *fields = line.split()
        number = name.removeprefix("cpu")
        if name.startswith("cpu") and number.isdigit() and int(number) in cpus:
            ticks += sum(int(fields[index]) for index in _BUSY_FIELDS if index < len(fields))
    return ticks / os.sysconf("SC_CLK_TCK")


def share_of_others(busy: float, own: float, seconds: float, cpus: CpuSet) -> float:
    """Return the fraction of the CPUs' time that other programs took, from 0 to 1.

    Args:
        busy: Increase of `busy_seconds` during the run.
        own: CPU time of the run itself, in seconds.
        seconds: Wall time of the run.
        cpus: CPUs of the run.
    """
    return min(1.0, max(0.0, busy - own) / (seconds * len(cpus)))
