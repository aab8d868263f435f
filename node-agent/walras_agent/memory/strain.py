"""Pure choice: whether a program lacks what was taken from it.

Pressure stall information says it best: the share of time that tasks spend waiting for memory
(``Documentation/accounting/psi.rst``). Its average over ten seconds tells strain from a hitch, but
fades slowly; its total tells whether the strain still lasts. Refaults say it where there is none:
memory that is read back soon after it was reclaimed was taken from the working set
(``mm/workingset.c``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_agent.memory.pressure import size

if TYPE_CHECKING:
    from walras_agent.memory.pressure import Sample

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What is still no strain.

    Attributes:
        some: Percent of the time in which a task waits for memory.
        full: Percent of the time in which all tasks do.
        refaults: Share of the working set that is read back in a second, a MiB at least.
    """

    some: float = 10.0
    full: float = 5.0
    refaults: float = 0.01


def headroom(needed: int) -> int:
    """What a program may grow by before a limit above its needs is felt: a tenth, or 16 MiB."""
    return max(16 * _MIB, needed // 10)


def strain(
    sample: Sample, before: Sample | None, seconds: float, tolerance: Tolerance | None = None
) -> str:
    """Say by what a program shows that it lacks memory; empty when it does not.

    Args:
        sample: The group now.
        before: At the last look, if there was one.
        seconds: Since then.
        tolerance: What is still no strain.
    """
    allowed = tolerance or Tolerance()
    if before is None:
        return ""
    if sample.stall and before.stall:
        now, then = sample.stall, before.stall
        some = min(now.some, 100 * _rate(now.some_total - then.some_total, seconds))
        full = min(now.full, 100 * _rate(now.full_total - then.full_total, seconds))
        if some > allowed.some or full > allowed.full:
            return f"its tasks wait for memory {max(some, full):.0f}% of the time"
    # Over a second at least: what comes at once is no rate yet.
    rate = _rate(sample.refaulted - before.refaulted, max(seconds, 1.0))
    if rate > max(_MIB, sample.working_set * allowed.refaults):
        return f"it reads back {size(int(rate))} a second of what was taken"
    # With cache to give, a group comes up against its limit all the time and lacks nothing.
    gives = sample.inactive_file >= headroom(sample.working_set)
    if sample.refused > before.refused and not gives:
        return f"it is at its limit of {size(sample.limits.hard)}"
    return ""


def _rate(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0 else 0.0
