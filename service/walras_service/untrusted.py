"""Pure: texts that anybody may have written, made safe to show in a terminal."""

from __future__ import annotations

import unicodedata

_KEPT = "\n\t"


def printable(text: str) -> str:
    """Return a text with `?` for every control or formatting character.

    Names, messages and statuses come from users of the cluster. An escape sequence in one of them
    could hide text, forge other lines, or change the settings of the reader's terminal, and a
    bidirectional override could reorder what is read.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each in _KEPT or unicodedata.category(each) not in {"Cc", "Cf", "Cs"} else "?"
        for each in text
    )
