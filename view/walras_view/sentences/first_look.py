"""Pure: what is said of a cluster without Walras: today, and with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_view.first_look import MANIFOLD, NO_CHANGE, STARVING, cores_text, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_view.first_look import FirstLook, JobOutlook, Loan, Range

MOST_LOANS = 3
MOST_CHANGES = 10

VISIBLE = 0.05
"""Cores: half of the last digit that is printed."""

_SHARES = {"equal": "equal shares", "requests": "shares as they request", "quota": "their quotas"}


def cluster_sentence(look: FirstLook) -> str:
    """Return what there is to divide, and among whom."""
    nodes, pods, jobs = (
        _count(number, noun)
        for number, noun in ((look.nodes, "node"), (look.pods, "pod"), (len(look.jobs), "job"))
    )
    users = f"Users by {look.users_by}, with {_SHARES[look.shares]}."
    return f"{nodes} with {look.cores:.1f} cores for {pods} of {jobs}. {users}"


def result_sentences(look: FirstLook) -> Iterator[str]:
    """Yield what Walras would change, for users and for pods that starve."""
    gains = [each.gain.market for each in look.users]
    slower = [each for each in look.users if each.gain.market and _slows(each.gain.market)]
    faster = sum(each is not None and each.most > NO_CHANGE for each in gains)
    unknown = gains.count(None)
    counted = {
        "faster": faster,
        "slower": len(slower),
        "as fast": len(gains) - faster - len(slower) - unknown,
        "unknown": unknown,
    }
    parts = ", ".join(f"{many} {noun}" for noun, many in counted.items() if many)
    yield f"{_count(len(gains), 'user')} with Walras, compared with today: {parts}."
    if slower and all(each.cores.today > each.entitled for each in slower):
        yield "Only users with more cores than their share today would be slower."
    today = sum(each.starving_pods.today for each in look.users)
    then = sum(each.starving_pods.market for each in look.users)
    if today or then:
        yield (
            f"Pods that starve, with less than {STARVING:g} of a core: {today} today, "
            f"{then} with Walras."
        )


def meaning_of_columns(look: FirstLook) -> Iterator[str]:
    """Yield what the columns of users are about, and what is assumed."""
    yield "today: plain Kubernetes, by requests; quotas: fixed shares of nodes; Walras: the market."
    pods = look.pods_with_known_use
    use = "they use all that they can"
    if pods:
        verb = "uses" if pods == 1 else "use"
        use = f"{_count(pods, 'pod')} {verb} what was measured, and the others all that they can"
    yield f"Cores are what pods have while {use}."
    unknown = len(look.jobs) - look.fractions.known_jobs
    if unknown:
        yield (
            f"Ranges: how well {_count(unknown, 'job')} use cores is unknown; parallel fractions F "
            f"from {look.fractions.least:g} to {look.fractions.most:g} are assumed."
        )


def loan_sentences(look: FirstLook) -> Iterator[str]:
    """Yield the largest loans."""
    for each in look.loans[:MOST_LOANS]:
        yield _loan(each)


def _loan(loan: Loan) -> str:
    return f"{loan.lender} lends {cores_text(loan.cores)} cores of its share to {loan.borrower}"


def change_sentences(look: FirstLook) -> list[str]:
    """Return the largest changes, a sentence each; empty if nothing changes."""
    return [_change(each) for each in look.jobs if _changes(each)][:MOST_CHANGES]


def _changes(job: JobOutlook) -> bool:
    now, then = job.cores.today, job.cores.market
    return max(abs(then.least - now), abs(then.most - now)) >= VISIBLE


def _change(job: JobOutlook) -> str:
    starving = job.starving_pods
    today = _starving(starving.today, job.pods) if starving.today != starving.market else ""
    then = _starving(starving.market, job.pods) if starving.today != starving.market else ""
    several = f", {job.pods} pods" if job.pods > 1 else ""
    return (
        f"{job.namespace}/{job.name} ({job.kind}{several}, requests {job.requested:g}): "
        f"{job.cores.today:.1f} cores today{today}, "
        f"{cores_text(job.cores.market)} with Walras{then}, {_speed(job.gain)}"
    )


def _starving(starving: int, pods: int) -> str:
    if not starving:
        return ""
    return " (starving)" if starving == pods == 1 else f" ({starving} starving)"


def _speed(gain: Range | None) -> str:
    if gain is None:
        return "faster or slower: that depends on F"
    if gain.least >= MANIFOLD:
        return f"{times(gain, ' to ', 'over ')} times as fast"
    low, high = sorted(round(100 * abs(each)) for each in (gain.least, gain.most))
    if not high:
        return "as fast as today"
    word = "faster" if gain.most > NO_CHANGE else "slower"
    return f"{high} % {word}" if low == high else f"{low} to {high} % {word}"


def _slows(gain: Range) -> bool:
    return gain.least < -NO_CHANGE


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
