"""Compressed tables of whole numbers over time: the form in which the market's history is stored.

A block has one table: for each moment and each name, such as a user's, a value in every column.
Values are stored as differences from the moment before, as JSON and compressed by zlib, since most
of them do not change from one minute to the next. So any program can read a block.

A block comes from storage that others may have written. `unpack` therefore checks everything, and
stops at a bound when it expands the data.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Values = tuple[int | None, ...]
"""The values of one name at one moment, in the order of the columns; None where unknown."""

Table = dict[str, Values]
"""Values of all names at one moment, by name."""

Row = list[int | None]

VERSION = 1

LARGEST = 64 * 2**20
"""Most bytes of a block when it is expanded; a block that was written here has a tenth of that."""

MOST_VALUE = 10**30
"""Largest value that is believed; sums over a day of the largest cluster are far below it."""

_LEVEL = 6


class CorruptBlockError(ValueError):
    """Data are no block, or one of a later version of the software."""


@dataclass(frozen=True, slots=True)
class Block:
    """A table over time.

    Attributes:
        times: Moments in ascending order, in seconds since 1970.
        names: Names of all rows.
        columns: Values of each column, as differences from the last known ones, by moment and name;
            None where a value is unknown.
        step: Seconds for which an entry of the block holds.
        seconds: Seconds of each entry that were observed; empty if entries are moments.
        without: Names that were left out because the block would have been too large.
    """

    times: tuple[int, ...]
    names: tuple[str, ...]
    columns: Mapping[str, Sequence[Row]]
    step: int
    seconds: tuple[int, ...] = ()
    without: int = 0
    _places: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._places.update({name: place for place, name in enumerate(self.names)})

    def values(self, name: str, column: str) -> list[int | None]:
        """Return the values of a name at all moments; None where unknown."""
        place, rows = self._places.get(name), self.columns.get(column)
        if place is None or rows is None:
            return [None] * len(self.times)
        values: list[int | None] = []
        last = 0
        for row in rows:
            change = row[place]
            last += change or 0
            values.append(None if change is None else last)
        return values

    def tables(self, columns: Sequence[str]) -> list[Table]:
        """Return the table of each moment, without names of which nothing is known."""
        absolute = [_summed(self.columns.get(each), self) for each in columns]
        return [
            {
                name: values
                for name, values in zip(
                    self.names, zip(*(rows[moment] for rows in absolute), strict=True), strict=True
                )
                if any(value is not None for value in values)
            }
            for moment in range(len(self.times))
        ]


def block_of(
    times: Sequence[int],
    tables: Sequence[Mapping[str, Values]],
    columns: Sequence[str],
    step: int,
    seconds: Sequence[int] = (),
    without: int = 0,
) -> Block:
    """Return the block of tables at ascending times."""
    names = sorted({name for table in tables for name in table})
    nothing: Values = (None,) * len(columns)
    by_column: list[list[Row]] = [[] for _ in columns]
    last: list[list[int]] = [[0] * len(names) for _ in columns]
    for table in tables:
        values = [table.get(name, nothing) for name in names]
        by_name = list(zip(*values, strict=True)) if values else [()] * len(columns)
        for place, row in enumerate(by_name):
            before = last[place]
            by_column[place].append(
                [
                    None if value is None else value - known
                    for value, known in zip(row, before, strict=True)
                ]
            )
            last[place] = [
                known if value is None else value for value, known in zip(row, before, strict=True)
            ]
    return Block(
        tuple(times),
        tuple(names),
        dict(zip(columns, by_column, strict=True)),
        step,
        tuple(seconds),
        without,
    )


def pack(block: Block) -> bytes:
    """Return a block as it is stored."""
    document = {
        "version": VERSION,
        "step": block.step,
        "times": block.times,
        "seconds": block.seconds,
        "without": block.without,
        "names": block.names,
        "columns": block.columns,
    }
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), _LEVEL)


def unpack(data: bytes) -> Block:
    """Return a block from storage.

    Raises:
        CorruptBlockError: The data are no block that this version of the software can read.
    """
    try:
        expander = zlib.decompressobj()
        text = expander.decompress(data, LARGEST)
        if not expander.eof:
            raise CorruptBlockError("it is cut short or too large")
        document = json.loads(text)
    except (zlib.error, ValueError, RecursionError) as error:
        raise CorruptBlockError(str(error)) from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise CorruptBlockError("it has no version that this software reads")
    try:
        return _read(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptBlockError(f"it is incomplete ({type(error).__name__}: {error})") from error


def _read(document: dict[str, Any]) -> Block:
    times, names = _numbers(document["times"]), document["names"]
    seconds, (step, without) = (
        _numbers(document["seconds"]),
        _numbers([document["step"], document["without"]]),
    )
    _require(list(times) == sorted(set(times)), "its times are out of order")
    _require(len(seconds) in {0, len(times)}, "its seconds are not those of its times")
    _require(step > 0 and without >= 0, "its step is not positive")
    _require(set(map(type, names)) <= {str} and len(set(names)) == len(names), "bad names")
    columns = document["columns"]
    for rows in columns.values():
        _require(len(rows) == len(times), "a column is incomplete")
        for row in rows:
            _require(
                isinstance(row, list)
                and len(row) == len(names)
                and set(map(type, row)) <= {int, type(None)},
                "a row is malformed",
            )
            known = [each for each in row if each]
            _require(not known or -MOST_VALUE <= min(known) <= max(known) <= MOST_VALUE, "a value")
    return Block(times, tuple(names), columns, step, seconds, without)


def _numbers(values: Any) -> tuple[int, ...]:
    _require(
        isinstance(values, list)
        and set(map(type, values)) <= {int}
        and all(0 <= each <= MOST_VALUE for each in values),
        "a number is malformed",
    )
    return tuple(values)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise CorruptBlockError(what)


def _summed(rows: Sequence[Row] | None, block: Block) -> list[Row]:
    """Return the values of a column at each moment; unknown if the block has no such column."""
    if rows is None:
        return [[None] * len(block.names)] * len(block.times)
    last = [0] * len(block.names)
    values: list[Row] = []
    for row in rows:
        last = [known + (change or 0) for known, change in zip(last, row, strict=True)]
        values.append(
            [None if change is None else value for value, change in zip(last, row, strict=True)]
        )
    return values
