"""Data sizes as a user writes them: shares of the data ("10%") or absolute numbers ("5000")."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation


@dataclass(frozen=True, slots=True, order=True)
class DataSize:
    """One data size.

    Attributes:
        value: A share of the whole in (0, 1] when `relative`, else an absolute number above 0.
        relative: Whether the size is a share of the whole data.
    """

    value: Decimal
    relative: bool = True

    @classmethod
    def parse(cls, text: str) -> "DataSize":
        """Return the size that a text such as "10%" or "5000" stands for.

        Raises:
            ValueError: The text is not a number, or out of range.
        """
        text = text.strip()
        relative = text.endswith("%")
        try:
            number = Decimal(text.removesuffix("%"))
        except InvalidOperation:
            raise ValueError(
                f"data size {text!r}: write a share as 10% or a number as 5000"
            ) from None
        if not number.is_finite() or number <= 0:
            raise ValueError(f"data size {text!r}: a size is above 0")
        if relative and number > 100:
            raise ValueError(f"data size {text!r}: at most 100% of the data can be drawn")
        return cls((number / 100 if relative else number).normalize(), relative)

    @property
    def percent(self) -> str:
        """The share in percent, without the sign."""
        return _plain(self.value * 100)

    @property
    def number(self) -> str:
        """The value as a plain decimal number: "0.1" for 10 %, "5000" for 5000."""
        return _plain(self.value)

    @property
    def is_whole(self) -> bool:
        """Whether this is all of the data."""
        return self.relative and self.value == 1

    def __str__(self) -> str:
        return f"{self.percent}%" if self.relative else self.number


WHOLE = DataSize(Decimal(1))
"""All of the data; the size of programs whose data are not varied."""


def parse_sizes(text: str) -> tuple[DataSize, ...]:
    """Return the sizes in a comma-separated list, ascending.

    Raises:
        ValueError: A size is malformed or repeated, or shares and numbers are mixed.
    """
    sizes = [DataSize.parse(part) for part in text.split(",")]
    check_sizes(sizes)
    return tuple(sorted(sizes))


def check_sizes(sizes: Sequence[DataSize]) -> None:
    """Refuse repeated sizes, and shares mixed with numbers, which no one time model fits.

    Raises:
        ValueError: A size is repeated, or shares and numbers are mixed.
    """
    if len({size.relative for size in sizes}) > 1:
        raise ValueError("data sizes: give all as shares (10%,20%) or all as numbers (1000,2000)")
    repeated = sorted({str(size) for size in sizes if list(sizes).count(size) > 1})
    if repeated:
        raise ValueError(f"data sizes: {repeated[0]} is given twice")


def _plain(value: Decimal) -> str:
    """Return a number without exponent or trailing zeros, where `Decimal` may write 1E+3."""
    return format(value.normalize(), "f")
