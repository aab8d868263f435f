"""Times are text in UTC, whatever zone they come in."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from walras_service.times import rfc3339


def test_a_time_is_in_utc_to_the_second_or_as_in_leases() -> None:
    berlin = timezone(timedelta(hours=1))
    time = datetime(2026, 1, 31, 13, 0, 59, 999_999, tzinfo=berlin)
    assert rfc3339(time) == "2026-01-31T12:00:59Z"
    assert rfc3339(time, "microseconds") == "2026-01-31T12:00:59.999999Z"
    assert rfc3339(1_769_860_800) == "2026-01-31T12:00:00Z"
    assert rfc3339(1_769_860_800, "microseconds") == "2026-01-31T12:00:00.000000Z"
