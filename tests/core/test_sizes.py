"""Data sizes as users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.speedup.sizes import WHOLE, DataSize, parse_sizes


@pytest.mark.parametrize(
    ("text", "value", "relative", "shown"),
    [
        ("10%", 0.1, True, "10%"),
        (" 12.50 % ".replace(" %", "%"), 0.125, True, "12.5%"),
        ("100%", 1.0, True, "100%"),
        ("0.5%", 0.005, True, "0.5%"),
        ("1000", 1000, False, "1000"),
        ("1e6", 1_000_000, False, "1000000"),
        ("2.5", 2.5, False, "2.5"),
    ],
)
def test_size_is_read_and_shown(text: str, value: float, relative: bool, shown: str) -> None:
    size = DataSize.parse(text)
    assert (float(size.value), size.relative, str(size)) == (value, relative, shown)


@given(st.integers(1, 10_000).map(lambda n: f"{n / 100:g}%") | st.integers(1, 10**9).map(str))
def test_text_round_trips(text: str) -> None:
    assert DataSize.parse(str(DataSize.parse(text))) == DataSize.parse(text)


def test_whole_is_what_100_percent_means() -> None:
    assert DataSize.parse("100%") == WHOLE
    assert WHOLE.is_whole
    assert not DataSize.parse("1").is_whole
    assert (WHOLE.percent, WHOLE.number) == ("100", "1")


def test_list_comes_out_ascending() -> None:
    assert [str(size) for size in parse_sizes("50%, 10%,20%")] == ["10%", "20%", "50%"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "write a share as 10%"),
        ("10%,", "write a share as 10%"),
        ("ten", "data size 'ten'"),
        ("0%", "above 0"),
        ("-5", "above 0"),
        ("nan", "above 0"),
        ("inf", "above 0"),
        ("120%", "at most 100%"),
        ("10%,1000", "all as shares"),
        ("10%,10.0%", "10% is given twice"),
    ],
)
def test_malformed_sizes_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_sizes(text)
