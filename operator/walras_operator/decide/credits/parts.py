"""Pure: split balances that do not fit into the Market's status into parts, and join them again.

Each part is an immutable ConfigMap. All parts are written before the status that names them, with
their digests, and deleted only after another status has taken its place. Their names contain
digests of the data and of the Market's version that the decision was based on. A leader deletes
only parts of versions before its own write, so it never deletes a part that a later leader is about
to name.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from walras_api.market_status import MOST_BALANCES, AccountReport, LedgerPart, LedgerReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Row = Sequence[Any]

MOST_INLINE = 200_000
"""Characters of all names for which the balances are listed in the Market's status."""

LARGEST_PART = 500_000
"""Most characters of one part, half of what a ConfigMap may have."""


def part_names(status: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names of the ConfigMaps with balances of a Market's status; usually none."""
    names: list[str] = []
    for field, model in (("ledger", LedgerReport), ("account", AccountReport)):
        try:
            report = model.read((status or {}).get(field))
        except ValueError:
            continue
        names += (each.name for each in report.parts or ())
    return tuple(names)


def fit_inline(rows: Sequence[Row]) -> bool:
    """Return whether rows, each of which begins with a name, fit into the Market's status."""
    return len(rows) <= MOST_BALANCES and sum(len(row[0]) for row in rows) <= MOST_INLINE


def in_parts(
    rows: Iterable[Row], version: str, former: Sequence[LedgerPart]
) -> tuple[list[LedgerPart], dict[str, str]]:
    """Return the parts of rows, and the data of each by name.

    Args:
        rows: Rows that JSON can hold.
        version: The resourceVersion of the Market that the decision is based on.
        former: Parts that the status names now; they are kept if they have the same data.
    """
    texts = list(_texts(rows))
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    origin = hashlib.sha256(version.encode()).hexdigest()[:16]
    parts = [
        LedgerPart(name=f"walras-ledger-{origin}-{digest[:16]}", digest=digest)
        for digest in digests
    ]
    if [each.digest for each in former] == digests:
        parts = list(former)
    return parts, {part.name: text for part, text in zip(parts, texts, strict=True)}


def joined(parts: Iterable[LedgerPart], texts: Mapping[str, str]) -> Iterator[Row]:
    """Yield the rows of all parts.

    Args:
        parts: Parts as the status names them.
        texts: Data of ConfigMaps, by name.

    Raises:
        ValueError: A part is missing, or is not the one that was stored.
    """
    for part in parts:
        text = texts.get(part.name)
        if text is None:
            raise ValueError(f"ConfigMap {part.name}, a part of them, is missing")
        if hashlib.sha256(text.encode()).hexdigest() != part.digest:
            raise ValueError(f"ConfigMap {part.name}, a part of them, was changed")
        yield from map(json.loads, text.splitlines())


def _texts(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the data of parts: a row as JSON on each line."""
    lines: list[str] = []
    size = 0
    for row in rows:
        line = json.dumps(row)
        if lines and size + len(line) > LARGEST_PART:
            yield "\n".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    yield "\n".join(lines)
