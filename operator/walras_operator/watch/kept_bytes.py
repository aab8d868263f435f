"""Pure: how much memory an object takes that is kept, and how much is kept of each namespace."""

from __future__ import annotations

import sys
from typing import Any

from pydantic import BaseModel

MOST_OF_OBJECT = 2 << 20
"""Bytes that are kept of one object: more than the largest that somebody has a use for."""

MOST_OF_NAMESPACE = 96 << 20
"""Bytes that are kept of the objects of one namespace: some ten thousand pods."""

_OF_MODEL = 64
"""Bytes of an instance, beside those of its fields."""


def kept_bytes(value: Any) -> int:
    """Return the bytes that a parsed object takes, apart from its status if it is ours.

    Users cannot write the statuses of Walras's kinds. A part that several objects share counts for
    each of them.
    """
    size, left = 0, [value]
    while left:
        each = left.pop()
        size += sys.getsizeof(each)
        if isinstance(each, BaseModel):
            fields = each.__dict__
            size += _OF_MODEL + sys.getsizeof(fields) + sys.getsizeof(each.__pydantic_fields_set__)
            left += fields.values()
            left += (each.__pydantic_extra__ or {}).items()
        elif isinstance(each, dict):
            left += each.keys()
            left += each.values()
        elif isinstance(each, list | tuple):
            left += each
    return size
