"""The command ``walras report``."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from walras_cli.cluster.options import CHARTS_OPERATOR, target_options
from walras_service.failures import BadInput, Failure

if TYPE_CHECKING:
    from walras.outcome.hourly_accounts import Day
    from walras_cli.cluster.options import Target
    from walras_cli.cluster.report.owed import Owed

WRITTEN = 660
"""Seconds after which the operator has written everything that was before."""

_SPAN = re.compile(r"([1-9][0-9]{0,4})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


class When(click.ParamType[timedelta | datetime, str]):
    """A time: as long ago, such as 30d, or a date or time in UTC."""

    name = "when"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | datetime:
        """Return a time or how long ago it is."""
        if isinstance(value, timedelta | datetime):
            return value
        span = _SPAN.fullmatch(value)
        if span:
            return timedelta(**{_UNITS[span[2]]: int(span[1])})
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is not a time; write how long ago, such as 30d, 12h or 4w, or a date "
                f"such as 2026-11-01",
                param,
                ctx,
            )
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


class By(click.ParamType[frozenset[str], str]):
    """Dimensions by which rows are separated."""

    name = "by"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> frozenset[str]:
        """Return the columns that tell rows apart."""
        if isinstance(value, frozenset):
            return value
        columns = frozenset(value.split(","))
        if not columns <= {"user", "month"}:
            self.fail(f"{value!r}; write user, month, or user,month", param, ctx)
        return columns


@click.command(short_help="Show what users were entitled to, held and paid over weeks or months.")
@target_options("Namespace of the operator.  [default: the one that the Market names]")
@click.option(
    "--since", type=When(), default="30d", show_default=True, metavar="WHEN", help="Start."
)
@click.option("--until", type=When(), metavar="WHEN", help="End, a full hour.  [default: now]")
@click.option(
    "--by",
    type=By(),
    default="user,month",
    show_default=True,
    metavar="COLUMNS",
    help="What has a row of its own: user, month, or user,month.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    help="Output format.  [default: table]",
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["walras", "opencost"]),
    default="walras",
    show_default=True,
    help="Form of the JSON: opencost is that of OpenCost's allocation API.",
)
@click.option(
    "--core-hour-price",
    type=click.FloatRange(min=0),
    metavar="PRICE",
    help="Cost of a core-hour at the market's mean price.",
)
@click.option(
    "--gib-hour-price",
    type=click.FloatRange(min=0),
    metavar="PRICE",
    help="Cost of a GiB of granted memory for an hour.",
)
@click.option("--prometheus", metavar="URL", help="Compute it from the metrics in this Prometheus.")
@click.option(
    "--prometheus-match",
    default=CHARTS_OPERATOR,
    show_default=True,
    metavar="LABELS",
    help="Label matchers that only the operator's metrics have in it.",
)
@click.option("--prometheus-token", metavar="FILE", help="File with a bearer token for Prometheus.")
def report(
    *,
    target: Target,
    since: timedelta | datetime,
    until: timedelta | datetime | None,
    by: frozenset[str],
    form: Literal["table", "csv", "json"] | None,
    style: Literal["walras", "opencost"],
    core_hour_price: float | None,
    gib_hour_price: float | None,
    prometheus: str | None,
    prometheus_match: str,
    prometheus_token: str | None,
) -> None:
    """Show the core-hours and GiB-hours of users, by month, and what they paid for their cores.

    \b
      entitled  what the user's share of the cluster was worth
      bought    what its jobs bought in the market; held: what its pods hold
      lent      entitled and not bought; borrowed: bought beyond that
      paid      bought times price, where 1 is the mean price of the cluster

    If the market keeps an account, a second table shows what users owe each other now.

    The operator keeps these sums by the hour for 400 days. To read them, you need the right to get
    ConfigMaps in its namespace; if that cannot be found, name it with -n. With --prometheus, they
    are computed from its metrics, and no cluster is needed. Months are those of UTC. Time without a
    leading operator is in no sum; a note says how long it was.

    \b
    Examples:
      walras report --since 30d
      walras report --since 2026-10-01 --until 2026-11-01 -o csv
      walras report --by user --core-hour-price 0.03 --gib-hour-price 0.004
      walras report --format opencost --core-hour-price 0.03
      walras report --prometheus http://prometheus:9090 -o json

    Exit codes: 0 success, 1 the cluster or Prometheus cannot be read, 2 invalid input.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    if style == "opencost":
        if form in {"table", "csv"}:
            raise BadInput(f"--format opencost is JSON; drop -o {form}")
        if by != {"user", "month"}:
            raise BadInput("--format opencost has rows by user and month; drop --by")
    from walras_cli.cluster.report.page import ReportPage
    from walras_cli.cluster.report.sums import Prices, named_users, report_of
    from walras_cli.output import show

    prices = Prices(core_hour_price, gib_hour_price)
    account: tuple[Owed, ...] = ()
    if prometheus is None:
        span, days, notes, account = _from_operator(target, since, until)
        source = "operator"
    else:
        span, days, notes = _from_prometheus(
            prometheus, prometheus_match, prometheus_token, since, until
        )
        source = "prometheus"
    days, strange = named_users(days)
    made = report_of(
        days,
        span.start,
        span.end,
        by_user="user" in by,
        by_month="month" in by,
        prices=prices,
        newest=span.newest,
    )
    page = ReportPage(made, source, (*notes, *strange), account)
    if style == "opencost":
        from walras_cli.cluster.report.opencost import opencost

        click.echo(json.dumps(opencost(made, _one_for_cores(prices)), indent=2))
    elif form == "csv":
        click.echo(page.csv(), nl=False)
    else:
        show(page, form or "table")


class Span(NamedTuple):
    """The time of a report, in seconds since 1970.

    Attributes:
        start: Start, a full hour.
        end: End, a full hour or the newest time that is known.
        newest: Whether the end is the newest time that is known.
    """

    start: int
    end: int
    newest: bool


def _from_operator(
    target: Target, since: timedelta | datetime, until: timedelta | datetime | None
) -> tuple[Span, tuple[Day, ...], tuple[str, ...], tuple[Owed, ...]]:
    from walras_cli.cluster.connection import connected
    from walras_cli.cluster.operator_history import HistoryReader, namespace_of_operator
    from walras_cli.cluster.report.owed import read_owed

    with connected(target) as cluster:
        namespace = target.namespace or namespace_of_operator(cluster)
        span = span_of(since, until, cluster.now, WRITTEN)
        accounts = HistoryReader(cluster, namespace).accounts(span.start, span.end)
        account = () if accounts.forbidden else read_owed(cluster)
    if accounts.forbidden:
        raise Failure(*accounts.notes)
    return span, accounts.days, accounts.notes, account


def _from_prometheus(
    url: str,
    match: str,
    token_file: str | None,
    since: timedelta | datetime,
    until: timedelta | datetime | None,
) -> tuple[Span, tuple[Day, ...], tuple[str, ...]]:
    from walras_cli.cluster.prometheus import Prometheus, days_of

    server = Prometheus.at(url, match, token_file)
    span = span_of(since, until, datetime.now(UTC), 0)
    days = days_of(server, span.start, span.end)
    notes = () if days else (f"{url} has no metrics of a Walras operator at that time",)
    return span, days, notes


def span_of(
    since: timedelta | datetime,
    until: timedelta | datetime | None,
    now: datetime,
    written: int,
) -> Span:
    """Return the time of a report.

    Sums are kept by the hour: a report that ended within an hour would charge all of that hour, and
    one that goes on from there would charge it again.

    Args:
        since: Start, or how long ago it is.
        until: End, or how long ago it is; None for now.
        now: Current time.
        written: Seconds after which everything is known.

    Raises:
        BadInput: The end is not after the start.
    """
    first = int(_time(since, now).timestamp())
    first -= first % 3600
    complete = int(now.timestamp()) - written
    complete -= complete % 600
    last = complete if until is None else int(_time(until, now).timestamp())
    newest = last >= complete
    last = complete if newest else last - last % 3600
    if last <= first:
        raise BadInput("--since: no full hour has ended since then; choose an earlier start")
    return Span(first, last, newest)


def _time(when: timedelta | datetime, now: datetime) -> datetime:
    return when if isinstance(when, datetime) else now - when


def _one_for_cores(prices: Any) -> Any:
    from walras_cli.cluster.report.sums import Prices

    core = 1.0 if prices.core_hour is None else prices.core_hour
    return Prices(core, prices.gib_hour)
