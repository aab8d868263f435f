from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_agent.cpuset import CpuSet

cpu_numbers = st.sets(st.integers(0, 300), max_size=40)


@given(cpu_numbers)
def test_text_and_set_are_inverse(numbers: set[int]) -> None:
    assert CpuSet.parse(str(CpuSet(numbers))) == CpuSet(numbers)


@given(cpu_numbers)
def test_text_lists_maximal_ascending_ranges(numbers: set[int]) -> None:
    edges = [int(n) for part in str(CpuSet(numbers)).split(",") if part for n in part.split("-")]
    assert edges == sorted(set(edges))
    parts = [part.split("-") for part in str(CpuSet(numbers)).split(",")]
    gaps = [int(after[0]) - int(part[-1]) for part, after in pairwise(parts)]
    assert all(gap > 1 for gap in gaps)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-3,8", [0, 1, 2, 3, 8]),
        ("0\n", [0]),
        ("\n", []),
        ("", []),
        ("5-5", [5]),
        ("8,0-1,1-2", [0, 1, 2, 8]),
    ],
)
def test_reads_what_the_kernel_writes(text: str, numbers: list[int]) -> None:
    assert list(CpuSet.parse(text)) == numbers


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("0-3,", "''"),
        ("a", "'a'"),
        ("-1", "'-1'"),
        ("3-1", "'3-1' runs backwards"),
        ("1,2 ,3", "'2 '"),
        ("0-3:1/2", "'0-3:1/2'"),
        ("+1", r"'\+1'"),
        ("٣", "'٣'"),
        ("0-99999999999", "99999999999 is above"),
    ],
)
def test_malformed_text_is_refused_by_naming_its_part(text: str, culprit: str) -> None:
    with pytest.raises(ValueError, match=culprit):
        CpuSet.parse(text)


@given(cpu_numbers, cpu_numbers)
def test_algebra_is_that_of_sets(left: set[int], right: set[int]) -> None:
    a, b = CpuSet(left), CpuSet(right)
    assert set(a | b) == left | right
    assert set(a & b) == left & right
    assert set(a - b) == left - right
    assert (a <= b) == (left <= right)
    assert (a == b) == (left == right)
    assert len(a) == len(left)
    assert bool(a) == bool(left)
    assert list(a) == sorted(left)
