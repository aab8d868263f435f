"""Facts: the command ``ledger``, which checks a cluster's credits against its operators' logs."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

import click

from walras_api.contract import MARKET_NAME, OPERATOR
from walras_operator.publish.ledger_parts import LedgerParts, part_of
from walras_service.failures import Failure
from walras_service.options import kubeconfig_option, namespace_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from walras.mechanisms.karma.ledger import Ledger

MAX_PROBLEMS = 20
"""Most problems that are listed; the others are counted."""


@click.command()
@click.option(
    "--log",
    "logs",
    type=click.File(),
    multiple=True,
    required=True,
    help="An operator's log in JSON, - for standard input; give all there are, oldest first.",
)
@click.option(
    "--market",
    type=click.File(),
    help="The Market as JSON, as `kubectl get market default -o json` prints it; by default it is "
    "read from the cluster.",
)
@click.option(
    "--parts",
    type=click.File(),
    help="The ConfigMaps with parts of a large ledger as JSON, with --market, as `kubectl get "
    "configmaps -l walras.dev/ledger=part -o json` prints them.",
)
@namespace_option("Namespace of the operator, with the parts of a large ledger.")
@kubeconfig_option
def ledger(
    logs: tuple[IO[str], ...],
    market: IO[str] | None,
    parts: IO[str] | None,
    namespace: str,
    kubeconfig: str | None,
) -> None:
    """Settle all quanta of a log again, and compare that with the credits in the Market.

    Each quantum in the log must follow from its demands, begin with the credits that the one before
    ended with, and the last one must end with those in the status of the Market. Other lines of the
    log are passed over.

    Exit codes: 0 when the ledger follows from the log, 1 when it does not or cannot be known, a
    line for each reason.
    """
    from walras.mechanisms.karma.audit import audit
    from walras.mechanisms.karma.ledger import KarmaError, in_credits

    if market:
        items = json.load(parts)["items"] if parts else []
        kept = _kept(json.load(market), {each["metadata"]["name"]: part_of(each) for each in items})
    else:
        kept = _kept(*_read(kubeconfig, namespace))
    try:
        audited = audit((record for log in logs for record in records(log)), kept)
    except KarmaError as error:
        raise Failure(f"the log cannot be used: {error}") from error
    if audited.problems:
        more = len(audited.problems) - MAX_PROBLEMS
        rest = (f"and {more} more problems",) if more > 0 else ()
        raise Failure(*audited.problems[:MAX_PROBLEMS], *rest)
    click.echo(
        f"quanta {audited.first} to {audited.last} were settled again from {audited.records} "
        f"records: the ledger follows, {in_credits(kept.total())} credits of {len(kept.users)} "
        f"entitlements after quantum {kept.quantum}"
    )


def records(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the record of each quantum in a log; other lines are skipped."""
    for line in lines:
        start = line.find("{")  # container runtimes put time and stream before it
        if '"quantum"' not in line or start < 0:
            continue
        try:
            entry = json.loads(line[start:])
        except ValueError:
            continue  # cut short as its operator died
        if isinstance(entry, dict) and entry.get("event") == "quantum":
            yield entry.get("record") or {}


def _read(kubeconfig: str | None, namespace: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the Market and the parts of its ledger from the API server."""
    from walras_operator.decide.credits.parts import part_names
    from walras_service.api import Api, settings
    from walras_service.api_errors import ApiError
    from walras_service.kinds import OURS

    try:
        api = Api(settings(kubeconfig), OPERATOR)
        market = api.request("GET", OURS["Market"].path(name=MARKET_NAME))
        return market, LedgerParts(api, namespace).read(part_names(market.get("status")))
    except ApiError as error:
        raise Failure(str(error)) from error


def _kept(market: dict[str, Any], parts: Mapping[str, str]) -> Ledger:
    from walras.mechanisms.karma.ledger import Ledger
    from walras_operator.decide.conditions import Problem
    from walras_operator.decide.credits.quanta import read_credits

    account = read_credits(market.get("status"), parts)
    if isinstance(account, Problem):
        raise Failure(f"Market {market['metadata']['name']}: {account.message}")
    return account.closing or Ledger.open(())
