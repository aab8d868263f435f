"""Pure: what a cluster would have of Walras, on one screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from walras_cli.narrow_table import NarrowTable
from walras_cli.output import RULED_STYLE
from walras_cli.what_if.first_look.outlook import (
    LEAST_FRACTION,
    MOST_FRACTION,
    NO_CHANGE,
    STARVING,
)
from walras_view.documents import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from rich.table import Table

    from walras_cli.what_if.first_look.outlook import JobOutlook, Outlook, Range, UserOutlook
    from walras_cli.what_if.first_look.population import Rules

MOST_USERS = 12
MOST_LOANS = 5
MOST_CHANGES = 10
MANIFOLD = 2.0
"""Gain in speed from which on it is told in times instead of percent."""

VISIBLE = 0.05
"""Cores: half of the last digit that is printed."""


@dataclass(frozen=True, slots=True)
class FirstLookPage:
    """The page that ``walras what-if`` shows of a cluster without objects of Walras.

    Attributes:
        outlook: What is shown.
        rules: Who counts as a user.
        again: Command line that makes the page, for the commands that come next.
        notes: Lines for people beside those of the population.
    """

    outlook: Outlook
    rules: Rules
    again: str
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return all of it."""
        of = self.outlook
        return {
            "usersBy": self.rules.users_by,
            "shares": self.rules.shares,
            "cores": number(of.population.cores),
            "nodes": len(of.population.nodes),
            "pods": len(of.population.pods),
            "fractions": {
                "least": LEAST_FRACTION,
                "most": MOST_FRACTION,
                "assumptions": of.assumptions,
                "knownJobs": of.known,
            },
            "podsWithKnownUse": of.use_known,
            "users": [_user_document(each) for each in of.users],
            "loans": [
                {"lender": each.lender, "borrower": each.borrower, "cores": each.cores.document()}
                for each in of.loans
            ],
            "jobs": [_job_document(each) for each in of.jobs],
            "next": list(self._next()),
            "notes": [*of.population.notes, *self.notes],
        }

    def render(self, *, wide: bool) -> list[RenderableType]:  # noqa: ARG002 - one screen is enough
        """Return the most of it that fits on a screen."""
        parts: list[RenderableType] = [Text(each) for each in self._head()]
        parts += [self._users(), *map(Text, self._below())]
        loans = self.outlook.loans[:MOST_LOANS]
        parts += [Text(f"{a} lends {_cores(cores)} cores to {b}") for a, b, cores in loans]
        parts += [Text(), Text("The largest changes", style="bold")]
        changing = [each for each in self.outlook.jobs if _changes(each)]
        parts += [Text(f"- {_sentence(each)}") for each in changing[:MOST_CHANGES]]
        if not changing:
            parts.append(Text("No job would have other cores than today."))
        parts += [Text(), Text("Next", style="bold")]
        parts += [Text(f"  {each}") for each in self._next()]
        notes = [*self.outlook.population.notes, *self.notes]
        return [*parts, *([Text()] if notes else []), *(Text(f"note: {each}") for each in notes)]

    def _head(self) -> Iterator[str]:
        of, there = self.outlook, self.outlook.population
        shares = _SHARES[self.rules.shares]
        yield (
            f"{_count(len(there.nodes), 'node')} with {there.cores:.1f} cores for "
            f"{_count(len(there.pods), 'pod')} of {_count(len(there.jobs), 'job')}. "
            f"Users by {self.rules.users_by}, shares {shares}."
        )
        if of.known < len(there.jobs):
            yield (
                f"How much cores speed up {len(there.jobs) - of.known} of the jobs is "
                f"not known: figures are ranges over parallel fractions F from {LEAST_FRACTION:g} "
                f"to {MOST_FRACTION:g} ({of.assumptions} assumptions)."
            )
        busy = (
            "while all pods are busy"
            if not of.use_known
            else f"with the use of {of.use_known} pods as measured, the others busy"
        )
        yield (
            "Today: plain Kubernetes, where idle time goes to those who want it, by requests. "
            f"Cores {busy}."
        )

    def _users(self) -> Table:
        table = NarrowTable(
            _SPARE,
            **RULED_STYLE,
            padding=(0, 1),
            collapse_padding=True,
            pad_edge=False,
            show_edge=False,
        )
        table.add_column("\nuser", overflow="fold", max_width=20)
        for head in (
            "\npods",
            "cores\ntoday",
            "\nquotas",
            "\nWalras",
            "speed\nquotas",
            "\nWalras",
            "starving\ntoday",
            "\nWalras",
        ):
            table.add_column(head, justify="right", no_wrap=True)
        for each in self.outlook.users[:MOST_USERS]:
            table.add_row(
                each.name,
                str(each.pods),
                f"{each.today:.1f}",
                f"{each.quotas:.1f}",
                _cores(each.market, ".."),
                gain_text(each.quotas_gain),
                gain_text(each.market_gain),
                str(each.starving_today),
                str(each.starving_then),
            )
        return table

    def _below(self) -> Iterator[str]:
        """Yield what is to be said of the table of users."""
        users = self.outlook.users
        if len(users) > MOST_USERS:
            yield f"and {len(users) - MOST_USERS} more; -o json has them all"
        if any(each.starving_today or each.starving_then for each in users):
            yield f"starving: pods with less than {STARVING:g} of a core that would use more"

    def _next(self) -> Iterator[str]:
        """Yield the three commands that come next."""
        other = "requests" if self.rules.shares == "equal" else "equal"
        yield f"{self.again} --shares {other}    # other shares"
        unknown = self.outlook.known < len(self.outlook.population.jobs)
        if unknown:
            yield f"{self.again} --speedups FILE    # lines such as {self._top()}: 0.93"
        else:
            yield f"{self.again} -o json    # all users and jobs"
        yield (
            "helm install walras helm/walras -n walras-system --create-namespace    # only observes"
        )

    def _top(self) -> str:
        return self.outlook.jobs[0].workload.title


_SPARE = (3, 5, 1, 8)
"""Columns to leave out on a narrow terminal: quotas, pods, who would starve then."""

_SHARES = {"equal": "equal", "requests": "as they request", "quota": "by quota"}


def gain_text(gain: Range) -> str:
    """Return a gain in speed as a text; ``unknown`` if its sign depends on what is not known."""
    if not gain.has_a_sign:
        return "unknown"
    if gain.least >= MANIFOLD:
        return f"{_times(gain, '..')}x"
    low, high = round(100 * gain.least), round(100 * gain.most)
    if low == high:
        return "same" if not low else f"{low:+d} %"
    return f"{low:+d}..{high:+d} %".replace("+0", "0").replace("-0", "0")


def _times(gain: Range, between: str) -> str:
    low, high = f"{1 + gain.least:.0f}", f"{1 + gain.most:.0f}"
    return low if low == high else f"{low}{between}{high}"


def _cores(cores: Range, between: str = " to ") -> str:
    low, high = f"{cores.least:.1f}", f"{cores.most:.1f}"
    return low if low == high else f"{low}{between}{high}"


def _count(number_of: int, what: str) -> str:
    return f"{number_of} {what}" if number_of == 1 else f"{number_of} {what}s"


def _changes(job: JobOutlook) -> bool:
    largest = max(abs(job.market.least - job.today), abs(job.market.most - job.today))
    return largest >= VISIBLE


def _sentence(job: JobOutlook) -> str:
    pods = _count(job.pods, "pod")
    text = (
        f"{job.workload.title} ({job.workload.kind}, {pods}, requests {job.requested:g}): "
        f"{job.today:.1f} cores today, {_cores(job.market)} with Walras, {_speed(job.gain)}"
    )
    if job.starving_today != job.starving_then:
        text += f"; pods that starve: {job.starving_today} today, {job.starving_then} then"
    return text


def _speed(gain: Range) -> str:
    if not gain.has_a_sign:
        return "faster or slower: that depends on F"
    if gain.least >= MANIFOLD:
        return f"{_times(gain, ' to ')} times as fast"
    low, high = sorted(round(100 * abs(each)) for each in gain)
    if not high:
        return "as fast as today"
    word = "faster" if gain.most > NO_CHANGE else "slower"
    return f"{high} % {word}" if low == high else f"{low} to {high} % {word}"


def _user_document(user: UserOutlook) -> dict[str, Any]:
    return {
        "name": user.name,
        "part": number(user.part),
        "entitled": number(user.entitled),
        "pods": user.pods,
        "cores": {
            "today": number(user.today),
            "quotas": number(user.quotas),
            "market": _range(user.market),
        },
        "gain": {"quotas": user.quotas_gain.document(), "market": user.market_gain.document()},
        "starvingPods": {"today": user.starving_today, "market": user.starving_then},
    }


def _job_document(job: JobOutlook) -> dict[str, Any]:
    return {
        "namespace": job.workload.namespace,
        "kind": job.workload.kind,
        "name": job.workload.name,
        "user": job.user,
        "pods": job.pods,
        "requested": number(job.requested),
        "cores": {"today": number(job.today), "market": _range(job.market)},
        "gain": job.gain.document(),
        "starvingPods": {"today": job.starving_today, "market": job.starving_then},
    }


def _range(of: Range) -> dict[str, Any]:
    return {"least": number(of.least), "most": number(of.most)}
