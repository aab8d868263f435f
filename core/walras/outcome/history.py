"""The last day of the market: samples of users, nodes and jobs, in a ring of parts.

A sample is taken about once a minute. The samples of a slot of 20 minutes are one part, and there
are `SLOTS` places for parts: a new one takes the place of the one that is a day old. No part is
larger than `LARGEST_PART`, so the ring is never larger than `RING`, whatever the cluster is like:

- The blocks of users and of nodes are made first, and that of jobs of what room they leave.
- A block that does not fit keeps every second of its samples, always the newest, until it fits.
- If a single sample does not fit, it keeps the half of its rows with most cores, until it fits,
  and says how many it left out.

`History` is what readers get: series at equal steps, with None where nothing was sampled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from walras.outcome.blocks import Block, CorruptBlockError, Table, block_of, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.outcome.blocks import Values

Kind = Literal["user", "node", "job"]
KINDS: tuple[Kind, ...] = get_args(Kind)

STEP = 60
"""Seconds between two samples."""

SLOT = 1200
"""Seconds of a part."""

LENGTH = 86_400
"""Seconds for which samples are kept."""

SLOTS = LENGTH // SLOT + 1
"""Places for parts: the last day, and the part that is being filled."""

LARGEST_PART = 384 * 2**10
"""Most bytes of a part, well under the 1 MiB that a ConfigMap may have."""

RING = SLOTS * LARGEST_PART
"""Most bytes of all parts: 27.4 MiB."""

GIB = 2**30


class Field(NamedTuple):
    """A figure that is sampled.

    Attributes:
        name: Name of the figure.
        unit: Unit of its values: cores, GiB, credits, price or times.
        scale: Units of storage in one unit: values are rounded to its inverse.
    """

    name: str
    unit: str
    scale: int = 1000


FIELDS: Mapping[Kind, tuple[Field, ...]] = {
    "user": (
        Field("entitled", "cores"),
        Field("bought", "cores"),
        Field("held", "cores"),
        Field("used", "cores"),
        Field("lent", "cores"),
        Field("borrowed", "cores"),
        Field("credits", "credits"),
        Field("price", "price"),
        Field("paid", "cores"),
        Field("memoryEntitled", "GiB", 1024),
        Field("memoryHeld", "GiB", 1024),
        Field("memoryUsed", "GiB", 1024),
        Field("memoryLent", "GiB", 1024),
        Field("memoryBorrowed", "GiB", 1024),
    ),
    "node": (Field("price", "price"), Field("sold", "cores")),
    "job": (Field("held", "cores"), Field("bought", "cores"), Field("speedup", "times")),
}
"""Figures of each kind. A job is named by namespace and name, as ``vision/train``. Credits are
those above the mean of all users, which `walras top` shows, too."""

_REMEMBERED = 2000
"""Most rows of a block that stays unpacked."""

_RANKS: Mapping[Kind, int] = {"user": 0, "node": 1, "job": 0}
"""Figure by which the largest rows are kept, by its place."""


@dataclass(frozen=True, slots=True)
class MarketSample:
    """The market at one moment.

    Attributes:
        time: Seconds since 1970.
        tables: Stored values by kind and name (`stored`).
    """

    time: int
    tables: Mapping[Kind, Table] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """The samples of a slot, as they are stored.

    Attributes:
        slot: Number of the slot: its start, divided by `SLOT`.
        blocks: Packed block of each kind.
    """

    slot: int
    blocks: Mapping[Kind, bytes]

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(map(len, self.blocks.values()))


class Series(NamedTuple):
    """A figure over time.

    Attributes:
        name: Name of the figure.
        unit: Unit of its values.
        values: A value for each of the history's times; None where nothing is known.
    """

    name: str
    unit: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class History:
    """The market over time.

    Attributes:
        source: Program that kept it; none if it is not available.
        step: Seconds between two times.
        times: Multiples of the step, in seconds since 1970. A value is the last one in its step.
        parts: Parts that it consists of, in any order.
        notes: Lines for people about figures that are left out.
    """

    source: Literal["operator", "prometheus", "none"]
    step: int
    times: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    _known: dict[tuple[int, Kind], Block] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Return the names of all users, nodes or jobs that were sampled."""
        return tuple(sorted({name for block in self._blocks(kind) for name in block.names}))

    def series(self, kind: Kind, name: str) -> tuple[Series, ...]:
        """Return all figures of a user, node or job; none if it was never sampled."""
        blocks = [block for block in self._blocks(kind) if name in block.names]
        if not blocks:
            return ()
        return tuple(
            Series(figure.name, figure.unit, self._values(blocks, name, figure))
            for figure in FIELDS[kind]
        )

    def _blocks(self, kind: Kind) -> list[Block]:
        """Return the blocks of a kind; large ones are unpacked each time, to save memory."""
        blocks = []
        for number, part in enumerate(self.parts):
            block = self._known.get((number, kind))
            if block is None and kind in part.blocks:
                block = unpack(part.blocks[kind])
                if len(block.names) <= _REMEMBERED:
                    self._known[number, kind] = block
            if block is not None:
                blocks.append(block)
        return blocks

    def _values(
        self, blocks: Sequence[Block], name: str, figure: Field
    ) -> tuple[float | None, ...]:
        places = {time: place for place, time in enumerate(self.times)}
        values: list[float | None] = [None] * len(self.times)
        for block in sorted(blocks, key=lambda each: each.times):
            for time, value in zip(block.times, block.values(name, figure.name), strict=True):
                # A sample of a thinned block holds for all steps up to the next one.
                last = max(time, time + block.step - STEP)
                for moment in range(time - time % self.step, last + 1, self.step):
                    if moment in places:
                        values[places[moment]] = None if value is None else value / figure.scale
        return tuple(values)


def stored(values: Iterable[float | None], kind: Kind) -> Values:
    """Return the values of a row in units of storage; None for what is no finite number."""
    return tuple(
        round(value * figure.scale) if value is not None and math.isfinite(value) else None
        for value, figure in zip(values, FIELDS[kind], strict=True)
    )


def slot_of(time: int) -> int:
    """Return the slot to which a moment belongs."""
    return time // SLOT


def place_of(slot: int) -> int:
    """Return the place of a slot in the ring."""
    return slot % SLOTS


def part_of(slot: int, samples: Iterable[MarketSample], largest: int = LARGEST_PART) -> Part:
    """Return the part of a slot; samples of other slots are left out.

    Args:
        slot: The slot.
        samples: Samples in any order; of two at the same time, the later one counts.
        largest: Most bytes of the part.
    """
    chosen = merged(each for each in samples if slot_of(each.time) == slot)
    room, blocks = largest, {}
    for kind in KINDS:
        data = _fitted([each for each in chosen if each.tables.get(kind)], kind, room)
        if data:
            blocks[kind] = data
            room -= len(data)
    return Part(slot, blocks)


def merged(samples: Iterable[MarketSample]) -> list[MarketSample]:
    """Return samples in the order of time; kinds of several samples at one time are joined."""
    by_time: dict[int, MarketSample] = {}
    for each in samples:
        before = by_time.get(each.time)
        tables = {**(before.tables if before else {}), **each.tables}
        by_time[each.time] = replace(each, tables=tables)
    return [by_time[time] for time in sorted(by_time)]


def samples_of(part: Part) -> tuple[list[MarketSample], list[str]]:
    """Return the samples of a part, and a line about each block that cannot be read."""
    samples: list[MarketSample] = []
    notes = []
    for kind, data in part.blocks.items():
        try:
            block = unpack(data)
        except CorruptBlockError as error:
            notes.append(f"{kind}s of slot {part.slot} cannot be read: {error}")
            continue
        tables = block.tables([figure.name for figure in FIELDS[kind]])
        samples += [
            MarketSample(time, {kind: table})
            for time, table in zip(block.times, tables, strict=True)
            if slot_of(time) == part.slot
        ]
    return merged(samples), notes


def history_of_parts(parts: Iterable[Part], now: int, since: int, step: int) -> History:
    """Return the history of the last seconds from the parts that are stored.

    Args:
        parts: Parts in any order; corrupt blocks are left out with a note.
        now: Current time, in seconds since 1970.
        since: Seconds to look back, at most `LENGTH`.
        step: Seconds between two times, at least `STEP`.
    """
    step, since = max(step, STEP), min(max(since, 0), LENGTH)
    first = -(-(now - since) // step) * step
    notes: list[str] = []
    good = []
    for part in parts:
        if (part.slot + 1) * SLOT <= first or part.slot > slot_of(now):
            continue  # of another day
        readable, lines = _readable(part)
        notes += lines
        good.append(readable)
    return History(
        "operator",
        step,
        tuple(range(first, now + 1, step)),
        tuple(good),
        tuple(dict.fromkeys(notes)),
    )


def _readable(part: Part) -> tuple[Part, list[str]]:
    """Return a part without the blocks that cannot be read, and what is to be said about it."""
    blocks, lines = {}, []
    for kind, data in part.blocks.items():
        try:
            block = unpack(data)
        except CorruptBlockError as error:
            lines.append(f"{kind}s of 20 minutes of the history cannot be read: {error}")
            continue
        if any(slot_of(time) != part.slot for time in block.times):
            lines.append(f"{kind}s of 20 minutes of the history are of another time")
            continue
        blocks[kind] = data
        if block.without:
            lines.append(f"the history has no room for {block.without} {kind}s with few cores")
    return replace(part, blocks=blocks), lines


def _fitted(samples: Sequence[MarketSample], kind: Kind, largest: int) -> bytes:
    """Return the packed block of a kind, thinned until it fits; empty if nothing does."""
    step, without = STEP, 0
    chosen, names = list(samples), [figure.name for figure in FIELDS[kind]]
    while chosen:
        tables = [each.tables[kind] for each in chosen]
        times = [each.time for each in chosen]
        data = pack(block_of(times, tables, names, step, without=without))
        if len(data) <= largest:
            return data
        if len(chosen) > 1:
            most = 2 ** max(1, int(math.log2(len(data) / max(largest, 1))))
            chosen, step = chosen[::-most][::-1], min(most * step, SLOT)
            continue
        table = _largest_half(tables[0], kind)
        without += len(tables[0]) - len(table)
        chosen = [replace(chosen[0], tables={kind: table})] if table else []
    return b""


def _largest_half(table: Table, kind: Kind) -> Table:
    rank = _RANKS[kind]
    order = sorted(table, key=lambda name: (-(table[name][rank] or 0), name))
    return {name: table[name] for name in order[: len(order) // 2]}
