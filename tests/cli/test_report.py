"""Sums in a report, and its account of the time that nobody observed."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from walras.outcome.hourly_accounts import COLUMNS, DAY, HOUR, OTHERS, STEPS, Day, HourSums, coarser
from walras_cli.cluster.report.opencost import opencost
from walras_cli.cluster.report.owed import Owed
from walras_cli.cluster.report.page import ReportPage
from walras_cli.cluster.report.report_command import span_of
from walras_cli.cluster.report.sums import Prices, Report, named_users, report_of
from walras_cli.main import main
from walras_cli.output import show
from walras_service.failures import BadInput
from walras_service.times import rfc3339

OCTOBER = int(datetime(2026, 10, 31, tzinfo=UTC).timestamp())
NOVEMBER = OCTOBER + DAY
NAMES = [each.name for each in COLUMNS]


def row(**values: float) -> tuple[int | None, ...]:
    """Stored sums of core-hours and GiB-hours."""
    return tuple(
        None if (value := values.get(each.name)) is None else round(value * each.scale * HOUR)
        for each in COLUMNS
    )


def day(start: int, hours: dict[int, HourSums], step: int = HOUR, without: int = 0) -> Day:
    return Day(start // DAY, {start + HOUR * n: hour for n, hour in hours.items()}, step, without)


ANN = row(entitled=4, bought=5, held=6, used=1.5, borrowed=1, lent=0, paid=4, memoryHeld=2)
BOB = row(entitled=4, bought=3, held=2, borrowed=0, lent=1, paid=3)


def made(**options: Any) -> Report:
    """Return a report on two hours of October, half of one not observed, and one of November."""
    days = [
        day(
            OCTOBER,
            {22: HourSums(3600, {"ann": ANN, "bob": BOB}), 23: HourSums(1800, {"ann": ANN})},
        ),
        day(NOVEMBER, {0: HourSums(3600, {"ann": ANN})}),
    ]
    return report_of(days, OCTOBER + 22 * HOUR, NOVEMBER + HOUR, **options)


def test_rows_are_by_user_and_month_of_utc() -> None:
    rows = {(each.user, each.month): each for each in made().rows}
    assert sorted(rows) == [("ann", "2026-10"), ("ann", "2026-11"), ("bob", "2026-10")]
    ann = rows["ann", "2026-10"]
    assert (ann.cores.entitled, ann.cores.held, ann.cores.paid, ann.cores.price) == (8, 12, 8, 0.8)
    assert ann.cores.used == 3
    assert (ann.memory.held, ann.memory.lent) == (4, None)
    assert rows["bob", "2026-10"].cores.lent == 1


def test_rows_can_be_by_user_or_by_month_alone() -> None:
    assert [(each.user, each.month) for each in made(by_month=False).rows] == [
        ("ann", ""),
        ("bob", ""),
    ]
    assert [each.cores.held for each in made(by_user=False).rows] == [14, 6]


def test_gaps_are_said_and_never_filled() -> None:
    october, november = made().periods
    assert (october.seconds, october.observed_seconds) == (7200, 5400)
    assert [(gap.start, gap.end, gap.missing_seconds) for gap in october.gaps] == [
        ("2026-10-31T23:00:00Z", "2026-11-01T00:00:00Z", 1800)
    ]
    assert (november.seconds, november.observed_seconds, november.gaps) == (3600, 3600, ())


def test_adjacent_hours_without_an_operator_are_one_gap() -> None:
    days = [day(OCTOBER, {0: HourSums(3600), 5: HourSums(3600)})]
    (period,) = report_of(days, OCTOBER, OCTOBER + 6 * HOUR).periods
    (gap,) = period.gaps
    assert (gap.start, gap.end) == (rfc3339(OCTOBER + HOUR), rfc3339(OCTOBER + 5 * HOUR))
    assert gap.missing_seconds == 4 * HOUR


def test_a_part_of_an_hour_at_the_end_is_no_gap() -> None:
    days = [day(OCTOBER, {0: HourSums(3600), 1: HourSums(600)})]
    (period,) = report_of(days, OCTOBER, OCTOBER + HOUR + 600, newest=True).periods
    assert (period.seconds, period.gaps) == (4200, ())


def test_sums_over_several_hours_cover_all_of_them() -> None:
    days = [day(OCTOBER, {0: HourSums(DAY - 600, {"ann": ANN})}, step=DAY)]
    (period,) = report_of(days, OCTOBER, NOVEMBER).periods
    assert period.observed_seconds == DAY - 600
    assert len(period.gaps) == 1


@given(
    st.dictionaries(st.integers(0, 47), st.integers(0, 3600), max_size=48),
    st.integers(0, 24),
    st.integers(25, 48),
)
def test_what_is_observed_and_what_is_missing_make_up_the_whole(
    seconds: dict[int, int], first: int, last: int
) -> None:
    days = [
        day(start, {n - at: HourSums(seconds[n]) for n in seconds if at <= n < at + 24})
        for start, at in ((OCTOBER, 0), (NOVEMBER, 24))
    ]
    start, end = OCTOBER + first * HOUR, OCTOBER + last * HOUR
    periods = report_of(days, start, end).periods
    assert sum(each.seconds for each in periods) == end - start
    for each in periods:
        missing = sum(gap.missing_seconds for gap in each.gaps)
        assert each.observed_seconds + missing == each.seconds
    assert sum(each.observed_seconds for each in periods) == sum(
        seconds.get(n, 0) for n in range(first, last)
    )


def test_prices_give_costs() -> None:
    rows = made(prices=Prices(0.5, 0.25)).rows
    assert [each.cost for each in rows] == [8 * 0.5 + 4 * 0.25, 3 * 0.5, 4 * 0.5 + 2 * 0.25]
    assert [each.cost for each in made().rows] == [None] * 3


def test_csv_has_a_header_and_is_empty_where_nothing_is_known() -> None:
    text = ReportPage(made(prices=Prices(0.5)), "operator").csv()
    first, second, _ = csv.DictReader(io.StringIO(text))
    assert first["user"] == "ann"
    assert first["month"] == "2026-10"
    assert first["coreHoursHeld"] == "12"
    assert (first["coreHoursUsed"], second["coreHoursUsed"]) == ("3", "")
    assert first["gibHoursHeld"] == "4"
    assert first["cost"] == "4"
    assert (first["observedSeconds"], first["seconds"]) == ("5400", "7200")
    assert second["gibHoursHeld"] == ""


STRANGE = (
    '=HYPERLINK("http://evil","x")',
    "@SUM(1+1)",
    "-2",
    "\t=1",
    "\x1b]0;pwn\x07batch",
    "(others)",
    "a/b",
    "a" * 300,
)


def test_rows_that_no_entitlement_can_have_are_left_out_with_a_note() -> None:
    known = {"ann": ANN, OTHERS: BOB}
    days = [
        day(OCTOBER, {0: HourSums(3600, known | dict.fromkeys(STRANGE, BOB))}, without=3),
        day(NOVEMBER, {0: HourSums(3600, {"ann": ANN})}),
    ]
    found, (note,) = named_users(days)
    assert found == (day(OCTOBER, {0: HourSums(3600, known)}, without=3), days[1])
    assert note.startswith(f"{len(STRANGE)} rows are ignored, since no Entitlement can have ")
    assert note.isprintable()
    assert named_users(found) == (found, ())


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("=1", "'=1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@1", "'@1"),
        ("\t=1\r", "'=1"),
        ("a\x1b[2Jb", "a[2Jb"),
        ("a=b", "a=b"),
    ],
)
def test_no_text_of_the_csv_is_a_formula_and_no_number_is_changed(name: str, cell: str) -> None:
    hours = {0: HourSums(3600, {name: row(held=2, paid=-1)})}
    report = report_of([day(OCTOBER, hours)], OCTOBER, OCTOBER + HOUR)
    (found,) = csv.DictReader(io.StringIO(ReportPage(report, "operator").csv()))
    assert (found["user"], found["coreHoursHeld"], found["coreHoursPaid"]) == (cell, "2", "-1")


def test_json_has_rows_periods_and_notes() -> None:
    document = ReportPage(made(), "operator", ("something",)).document()
    assert document["start"] == "2026-10-31T22:00:00Z"
    assert document["rows"][0]["cores"]["borrowed"] == 2
    assert document["periods"][0]["gaps"][0]["missingSeconds"] == 1800
    assert document["notes"] == [
        "something",
        (
            "2026-10: 75.0 % of 2.0 hours were observed; 0.5 hours are missing, most of them "
            "between 2026-10-31T23:00:00Z and 2026-11-01T00:00:00Z"
        ),
    ]
    json.dumps(document, allow_nan=False)


def test_what_users_owe_each_other_has_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    owed = (Owed("ann", -2.04, 2.5), Owed("bob", 2.04, None))
    page = ReportPage(made(), "operator", (), owed)
    assert page.document()["account"] == [
        {"user": "ann", "coreHours": -2.04, "gibHours": 2.5},
        {"user": "bob", "coreHours": 2.04, "gibHours": None},
    ]
    show(page, "table")
    _, table = capsys.readouterr().out.split("Account now")
    rows = [line.split() for line in table.splitlines()]
    assert ["ann", "-2.0", "2.5"] in rows
    assert ["bob", "2.0", "-"] in rows


def test_users_without_a_row_are_named_as_others() -> None:
    days = [day(OCTOBER, {0: HourSums(3600, {OTHERS: BOB, "ann": ANN})}, without=7)]
    page = ReportPage(report_of(days, OCTOBER, OCTOBER + HOUR), "operator")
    assert [each.user for each in page.report.rows] == ["(others)", "ann"]
    assert page.remarks() == (
        (
            "(others) are the users who held least on a day or came later, on one day at least 7: "
            "the operator had no room for a row of each"
        ),
    )


def test_opencost_has_a_set_of_allocations_for_each_month() -> None:
    document = opencost(made(), Prices(0.5, 0.25))
    assert (document["code"], document["status"]) == (200, "success")
    october, november = document["data"]
    assert sorted(october) == ["ann", "bob"]
    ann = october["ann"]
    assert ann["name"] == "ann"
    assert ann["window"] == {"start": "2026-10-31T22:00:00Z", "end": "2026-11-01T00:00:00Z"}
    assert (ann["start"], ann["end"]) == (ann["window"]["start"], ann["window"]["end"])
    assert ann["minutes"] == 90
    assert (ann["cpuCoreHours"], ann["cpuCores"]) == (12, 8)
    assert ann["cpuCoreUsageAverage"] == 2
    assert ann["cpuEfficiency"] == 0.25
    assert ann["ramByteUsageAverage"] is None
    assert (ann["ramByteHours"], ann["cpuCost"], ann["ramCost"]) == (4 * 2**30, 4, 1)
    assert ann["totalCost"] == 5
    assert november["ann"]["minutes"] == 60


NOW = datetime(2026, 11, 24, 18, 40, 30, tzinfo=UTC)


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def test_a_time_begins_at_a_full_hour_and_ends_at_one_or_with_what_is_written() -> None:
    start, end = seconds("2026-11-24T16:00:00Z"), seconds("2026-11-24T18:20:00Z")
    assert span_of(timedelta(hours=2), None, NOW, 660) == (start, end, True)
    assert span_of(timedelta(hours=2), timedelta(minutes=20), NOW, 660) == (start, end, True)
    with pytest.raises(BadInput, match="choose an earlier start"):
        span_of(timedelta(days=1), timedelta(days=2), NOW, 660)
    with pytest.raises(BadInput, match="choose an earlier start"):
        span_of(timedelta(minutes=150), timedelta(minutes=145), NOW, 660)


@given(st.integers(0, 95), st.sampled_from(STEPS))
def test_consecutive_reports_charge_every_second_at_most_once(half_hours: int, step: int) -> None:
    """A user holds one core for two days; a report ends and the next begins at any time."""
    hour = HourSums(HOUR, {"ann": row(held=1)})
    days = [
        coarser(day(start, dict.fromkeys(range(24), hour)), step) for start in (OCTOBER, NOVEMBER)
    ]
    between = datetime.fromtimestamp(OCTOBER, UTC) + half_hours * timedelta(minutes=30)
    ends = [datetime.fromtimestamp(each, UTC) for each in (OCTOBER - DAY, NOVEMBER + DAY)]
    spans = [span_of(*each, NOW, 660) for each in ((ends[0], between), (between, ends[1]))]
    assert spans[0].end == spans[1].start
    held = 0.0
    for span in spans:
        report = report_of(days, span.start, span.end, by_month=False)
        observed = sum(each.observed_seconds for each in report.periods)
        mine = sum(each.cores.held or 0 for each in report.rows)
        assert mine == pytest.approx(observed / HOUR)
        held += mine
    divided = spans[0].end % step != 0
    assert held == pytest.approx(48 - (step / HOUR if divided else 0))


def test_the_sum_that_is_still_made_counts_in_a_report_up_to_now_alone() -> None:
    days = [day(NOVEMBER, {0: HourSums(12 * HOUR + 600, {"ann": row(held=9)})}, step=DAY)]
    end = NOVEMBER + 12 * HOUR + 600
    assert [each.cores.held for each in report_of(days, NOVEMBER, end, newest=True).rows] == [9]
    before = report_of(days, NOVEMBER, NOVEMBER + 6 * HOUR)
    assert (before.rows, before.periods[0].observed_seconds) == ((), 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--since", "soon"], "'soon' is not a time; write how long ago, such as 30d"),
        (["--since", "0d"], "is not a time"),
        (["--by", "team"], "write user, month, or user,month"),
        (["--format", "opencost", "-o", "csv"], "drop -o csv"),
        (["--format", "opencost", "--by", "user"], "drop --by"),
        (["--prometheus", "ftp://x"], "write a URL such as http://prometheus:9090"),
        (["--prometheus", "file:///etc/passwd"], "write a URL"),
        (["--prometheus", "http://x", "--prometheus-token", "/nowhere"], "/nowhere"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(main, ["report", *arguments], prog_name="walras")
    assert done.exit_code == 2
    assert message in done.output


def test_the_page_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Three users for a month, in which no operator led for three hours."""
    users = {
        "batch": row(
            entitled=9, bought=8.68, held=8.6, used=7.9, lent=0.32, borrowed=0, paid=9,
            memoryEntitled=10, memoryHeld=0, memoryUsed=6.1, memoryLent=3.6, memoryBorrowed=0,
        ),
        "speech-lab": row(
            entitled=4.5, bought=4.4, held=4.42, used=2.85, lent=0.1, borrowed=0, paid=4.5,
            memoryEntitled=5, memoryHeld=4, memoryUsed=3.2, memoryLent=0.2, memoryBorrowed=0,
        ),
        "vision-lab": row(
            entitled=13.5, bought=13.92, held=14, used=13.1, lent=0, borrowed=0.42, paid=13.5,
            memoryEntitled=15, memoryHeld=12, memoryUsed=10.4, memoryLent=0, memoryBorrowed=4.5,
        ),
    }  # fmt: skip
    start = NOVEMBER - 31 * DAY
    away = range(start + 11 * DAY + 2 * HOUR, start + 11 * DAY + 5 * HOUR)
    days = [
        Day(
            first // DAY,
            {
                time: HourSums(HOUR, users)
                for time in range(first, first + DAY, HOUR)
                if time not in away
            },
        )
        for first in range(start, NOVEMBER, DAY)
    ]
    made = report_of(days, start, NOVEMBER, prices=Prices(0.03, 0.004))
    show(ReportPage(made, "operator"), "table")
    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    shown = page.partition("```console\n$ ")[2].partition("```")[0].splitlines()[1:]
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == shown
