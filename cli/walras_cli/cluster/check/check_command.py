"""``walras check``: its options and its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from walras_cli.cluster.options import (
    all_namespaces_option,
    cluster_options,
    dump_option,
    form_option,
)

if TYPE_CHECKING:
    from walras_cli.cluster.check.findings import Finding
    from walras_cli.cluster.options import Target
    from walras_cli.output import Form

ERRORS_FOUND = 3
"""Exit code if something keeps the market from working."""


@click.command("check", short_help="Find what works against the market, such as autoscalers.")
@cluster_options
@dump_option
@all_namespaces_option
@form_option
def check(*, target: Target, form: Form) -> None:
    """Find objects in the cluster that work against the market, and say what to do about each.

    Finds a Pod Security level that admits no agents, nodes whose agent cannot enforce grants or
    whose kernel counts weights by threads, namespaces that name an Entitlement which does not admit
    them, autoscalers of workloads in the market that act on what the market changes, and pods that
    hold less than they request. The command checks all nodes and agents, and the other objects of
    one namespace or, with -A, of all.

    \b
    Examples:
      walras check -A
      walras check -n vision -o json

    Exit codes: 0 no errors (there may be warnings), 1 the cluster cannot be read, 2 invalid input,
    3 errors found.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    from walras_cli.cluster.check.findings import findings
    from walras_cli.cluster.check.seen import seen_of
    from walras_cli.cluster.connection import connected
    from walras_cli.cluster.dumped import cluster_of
    from walras_cli.output import show

    with connected(target, cluster_of) as cluster:
        seen = seen_of(cluster, "" if target.everywhere else cluster.namespace)
    problems = tuple(findings(seen))
    show(CheckPage(problems, tuple(seen.withheld)), form)
    if any(each.level == "error" for each in problems):
        raise SystemExit(ERRORS_FOUND)


@dataclass(frozen=True, slots=True)
class CheckPage:
    """The output of ``walras check``."""

    findings: tuple[Finding, ...]
    withheld: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return it for scripts."""
        from walras_view.documents import plain

        return {
            "findings": [plain(each) for each in self.findings],
            "withheld": list(self.withheld),
        }

    def render(self, *, wide: bool) -> list[Any]:  # noqa: ARG002 - nothing is left out
        """Return it for people, part by part."""
        from rich.text import Text

        from walras_view.text import missing_rights

        lines = [f"{each.level}: {each.object}: {each.message}" for each in self.findings]
        if not lines:
            lines.append("no problems found")
        if self.withheld:
            lines.append(f"not checked, since {missing_rights(self.withheld)}")
        return [Text(each) for each in lines]
