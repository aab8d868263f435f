"""Tables on narrow terminals: whole columns are left out, and told of; no heading is cut."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from walras_cli.cluster.top.tables import users
from walras_cli.narrow_table import NarrowTable

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADS = ("user", "cores\nheld", "\nused", "memory\nheld", "\nused", "gain")
ROW = ("vision-lab", "13.75", "12.10", "10Gi", "-", "+36.7%")


def table(spare: Sequence[int]) -> NarrowTable:
    made = NarrowTable(spare, box=None, pad_edge=False)
    for head in HEADS:
        made.add_column(head, no_wrap=True)
    made.add_row(*ROW)
    return made


def drawn(made: NarrowTable, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(made)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_all_columns_are_there_where_they_fit() -> None:
    assert [each.split() for each in drawn(table([1, 2, 3, 4]), 60)] == [
        ["cores", "memory"],
        ["user", "held", "used", "held", "used", "gain"],
        list(ROW),
    ]


def test_what_has_no_value_is_left_out_first() -> None:
    lines = drawn(table([1, 2, 3, 4]), 44)
    assert [each.split() for each in lines[:3]] == [
        ["cores", "memory"],
        ["user", "held", "used", "held", "gain"],
        ["vision-lab", "13.75", "12.10", "10Gi", "+36.7%"],
    ]
    said = " ".join(" ".join(lines[3:]).split())
    assert said == "left out, as the terminal is narrow: memory used"


def test_a_title_over_columns_stays_with_those_that_stay() -> None:
    rows = drawn(table([1, 4, 3]), 27)
    assert rows[0].split() == ["cores"]
    assert rows[0].index("cores") == rows[1].index("used")
    assert rows[1].split() == ["user", "used", "gain"]
    said = " ".join(rows[3:])
    assert "cores held, memory held, memory used" in said


@pytest.mark.parametrize("wide", [True, False])
def test_users_fit_into_60_columns_but_where_all_is_asked_for(*, wide: bool) -> None:
    made = users([], None, wide=wide)
    figures = ["13.75", "14.24", "3.1", "15Gi", "12Gi", "8Gi", "4.258", "+2.4%", "-64.0"]
    columns = len(made.columns) - 2
    made.add_row("  vision-lab", *(figures if columns == 9 else ["13.75"] * columns), "Ready")
    fitted = made.fitted(Console(file=io.StringIO(), width=60))
    heads = [" ".join(str(each.header).split()) for each in fitted.columns]
    if wide:
        assert len(heads) == len(made.columns)
        return
    assert [each.split()[-1] for each in heads[:3]] == ["user", "entitled", "held"]
    assert heads[-2:] == ["gain over entitled", "state"]
    lines = drawn(made, 60)
    assert all(len(line) <= 60 for line in lines)
    assert not re.search("…", "".join(lines))
