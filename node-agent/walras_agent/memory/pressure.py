"""Pure: detects that a program is short of memory, by pressure stall information or refaults.

Pressure stall information is the share of time that tasks wait for memory
(``Documentation/accounting/psi.rst``). Its ten-second average tells a shortage from a short stall
but fades slowly; its total tells whether the shortage lasts. Kernels without it show refaults:
memory that is read back soon after it was reclaimed was part of the working set
(``mm/workingset.c``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras.numerics.byte_text import format_bytes
from walras_agent.memory.stats import limit_text

if TYPE_CHECKING:
    from walras_agent.memory.stats import MemorySample

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The pressure and refaults that are not a shortage yet.

    Attributes:
        some: Percentage of the time in which at least one task waits for memory.
        full: Percentage of the time in which all tasks wait for memory.
        refaults: Share of the working set that is read back in a second; at least 1 MiB.
    """

    some: float = 10.0
    full: float = 5.0
    refaults: float = 0.01


def headroom(needed: int) -> int:
    """Return the bytes that a limit leaves for growth: a tenth of what is needed, or 16 MiB."""
    return max(16 * _MIB, needed // 10)


def memory_shortage(
    sample: MemorySample,
    before: MemorySample | None,
    seconds: float,
    tolerance: Tolerance | None = None,
) -> str:
    """Return a message on how a program shows a memory shortage; empty if it shows none.

    Args:
        sample: Present sample of the program's group.
        before: Previous sample; None at first.
        seconds: Seconds between the two.
        tolerance: Pressure and refaults that are not a shortage yet.
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
    # Over at least a second: a single burst is not a rate.
    rate = _rate(sample.refaulted - before.refaulted, max(seconds, 1.0))
    if rate > max(_MIB, sample.working_set * allowed.refaults):
        return f"it reads back {format_bytes(int(rate))} a second of reclaimed memory"
    # A group with reclaimable cache reaches its limit all the time without a shortage.
    gives = sample.inactive_file >= headroom(sample.working_set)
    if sample.refused > before.refused and not gives:
        return f"it is at its limit of {limit_text(sample.limits.hard)}"
    return ""


def _rate(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0 else 0.0
