"""How many random examples of a property are tried: in `make test`, a fourth of `make verify`."""

from __future__ import annotations

import os

from hypothesis import settings

ALL = "WALRAS_NEW_EXAMPLES" in os.environ
"""Whether these are the tests of `make verify STAGES=properties`."""


def examples(most: int) -> settings:
    """Return settings for so many examples in `make verify`."""
    return settings(max_examples=most if ALL else max(10, most // 4))
