"""Pure: what is said of a cluster without Walras: today, and with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_view.first_look import MANIFOLD, NO_CHANGE, STARVING, cores_text, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_view.first_look import FirstLook, JobOutlook, Range, UserOutlook

MOST_LOANS = 3
MOST_LOSERS = 3
MOST_CHANGES = 10

VISIBLE = 0.05
"""Cores: half of the last digit that is printed."""

_SHARES = {"equal": "equal shares", "requests": "shares as they request", "quota": "their quotas"}


def use_sentence(look: FirstLook) -> str:
    """Return what is known of the use of CPUs, on which everything else depends."""
    known = look.pods_with_known_use
    if not known:
        return (
            "Worst case: no use of CPUs is known, so all pods count as busy at once "
            "(PodMetrics, --prometheus)."
        )
    if known == look.pods:
        return f"The use of all {_count(known, 'pod')} is known, from {look.use_from}."
    return (
        f"The use of {known} of {look.pods} pods is known, from {look.use_from}; the others count "
        "as busy."
    )


def cluster_sentence(look: FirstLook) -> str:
    """Return what there is to divide, and among whom."""
    nodes, pods, jobs = (
        _count(number, noun)
        for number, noun in ((look.nodes, "node"), (look.pods, "pod"), (len(look.jobs), "job"))
    )
    users = f"Users by {look.users_by}, with {_SHARES[look.shares]}."
    return f"{nodes} with {look.cores:.1f} {_units(look)} for {pods} of {jobs}. {users}"


def result_sentences(look: FirstLook) -> Iterator[str]:
    """Yield what Walras would change, for users and for pods that starve."""
    gains = [each.gain for each in look.users]
    slower = [each for each in look.users if each.gain and _slows(each.gain)]
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
    for each in slower[:MOST_LOSERS]:
        yield _loser(look, each)
    today = sum(each.starving_pods.today for each in look.users)
    then = sum(each.starving_pods.market for each in look.users)
    if today or then:
        when = "" if look.pods_with_known_use else " if all are busy at once"
        yield (
            f"Pods that starve{when}, with less than {STARVING:g} of a {look.unit}: {today} today, "
            f"{then} with Walras."
        )


def _loser(look: FirstLook, user: UserOutlook) -> str:
    """Return which guarantee is kept to a user that would be slower than today."""
    guarantee = f"{user.cores.guarantee:.1f} {_units(look)}"
    if user.keeps_guarantee:
        return (
            f"{user.name} would be slower, and keeps its guarantee: what its share of its nodes "
            f"gets done, {guarantee}."
        )
    below = f"{user.name} would be slower, below its guarantee of {guarantee}"
    if not user.requests_beyond_shares:
        return f"{below}."
    whose = " and ".join(user.requests_beyond_shares)
    return f"{below}: requests of {whose}, beyond a share, are kept."


def meaning_of_columns(look: FirstLook) -> Iterator[str]:
    """Yield what the columns of users are about, and what is assumed."""
    yield (
        "guarantee: its share of its nodes; today: plain Kubernetes, by requests; Walras: the "
        "market."
    )
    what = (
        "Cores, as agents have counted them."
        if look.unit == "core"
        else "CPUs, as Kubernetes counts them."
    )
    yield f"{what} What one pod does not use, others have, today and with Walras."
    unknown = len(look.jobs) - look.fractions.known_jobs
    if unknown:
        yield (
            f"Ranges: how well {_count(unknown, 'job')} use cores is unknown; parallel fractions F "
            f"from {look.fractions.least:g} to {look.fractions.most:g} are assumed."
        )


def loan_sentences(look: FirstLook) -> Iterator[str]:
    """Yield the largest loans."""
    for each in look.loans[:MOST_LOANS]:
        yield (
            f"{each.lender} lends {cores_text(each.cores)} {_units(look)} of its guarantee to "
            f"{each.borrower}"
        )


def change_sentences(look: FirstLook) -> list[str]:
    """Return the largest changes, a sentence each; empty if nothing changes."""
    return [_change(look, each) for each in look.jobs if _changes(each)][:MOST_CHANGES]


def _changes(job: JobOutlook) -> bool:
    now, then = job.cores.today, job.cores.market
    return max(abs(then.least - now), abs(then.most - now)) >= VISIBLE


def _change(look: FirstLook, job: JobOutlook) -> str:
    starving = job.starving_pods
    today = _starving(starving.today, job.pods) if starving.today != starving.market else ""
    then = _starving(starving.market, job.pods) if starving.today != starving.market else ""
    several = f", {job.pods} pods" if job.pods > 1 else ""
    speed = _speed(job.gain)
    compared = "" if job.cores.today < STARVING and starving.today else f", {speed}"
    return (
        f"{job.namespace}/{job.name} ({job.kind}{several}, requests {job.requested:.4g}): "
        f"{job.cores.today:.1f} {_units(look)} today{today}, "
        f"{cores_text(job.cores.market)} with Walras{then}{compared}"
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


def _units(look: FirstLook) -> str:
    return f"{look.unit}s"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
