"""Pure: an immutable set of CPUs, or of NUMA nodes, in the kernel's list format."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")

# Linux supports at most 8192 CPUs today; this limit only keeps a typing error from filling memory.
_HIGHEST_CPU = 65_535


@dataclass(frozen=True, slots=True, init=False, repr=False)
class CpuSet:
    """An immutable set of CPU numbers, iterated in ascending order.

    ``CpuSet.parse`` and ``str`` are inverses in the list format of
    ``Documentation/admin-guide/cputopology.rst`` and cpuset(7): ``"0-3,8"``.

    Raises:
        ValueError: A CPU number is negative or above 65535.
    """

    _members: frozenset[int]

    def __init__(self, cpus: Iterable[int] = ()) -> None:
        members = frozenset(cpus)
        for cpu in members:
            if not 0 <= cpu <= _HIGHEST_CPU:
                raise ValueError(f"CPU {cpu} is not a number from 0 to {_HIGHEST_CPU}")
        object.__setattr__(self, "_members", members)

    @classmethod
    def _known(cls, members: frozenset[int]) -> CpuSet:
        """Return a set without checking its members, which come from other sets."""
        made = cls.__new__(cls)
        object.__setattr__(made, "_members", members)
        return made

    @classmethod
    def parse(cls, text: str) -> CpuSet:
        """Parse the kernel's list format; surrounding white space is ignored.

        Raises:
            ValueError: The text is not such a list; the message names the wrong part.
        """
        return _parse(text.strip())

    def __str__(self) -> str:
        return ",".join(
            f"{first}" if first == last else f"{first}-{last}" for first, last in self._ranges()
        )

    def __repr__(self) -> str:
        return f"CpuSet.parse({str(self)!r})"

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._members))

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, cpu: object) -> bool:
        return cpu in self._members

    def __le__(self, other: CpuSet) -> bool:
        return self._members <= other._members

    def __or__(self, other: CpuSet) -> CpuSet:
        return self._known(self._members | other._members)

    def __and__(self, other: CpuSet) -> CpuSet:
        return self._known(self._members & other._members)

    def __sub__(self, other: CpuSet) -> CpuSet:
        return self._known(self._members - other._members)

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yield the maximal runs of consecutive CPUs as (first, last)."""
        first = last = -1
        for cpu in self:
            if first >= 0 and cpu == last + 1:
                last = cpu
                continue
            if first >= 0:
                yield first, last
            first = last = cpu
        if first >= 0:
            yield first, last


# The cgroups of a node have few different lists.
@lru_cache(maxsize=1024)
def _parse(listed: str) -> CpuSet:
    if not listed:
        return CpuSet()
    return CpuSet(cpu for part in listed.split(",") for cpu in _parse_range(part, listed))


def _parse_range(part: str, listed: str) -> range:
    match = _RANGE.fullmatch(part)
    if match is None:
        raise ValueError(f"CPU list {listed!r}: {part!r} is neither a CPU nor a range like 0-3")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise ValueError(f"CPU list {listed!r}: the range {part!r} runs backwards")
    if last > _HIGHEST_CPU:
        raise ValueError(f"CPU list {listed!r}: {last} is above the highest CPU, {_HIGHEST_CPU}")
    return range(first, last + 1)
