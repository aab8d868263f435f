"""Chooses (pure): what programs lose beside others, from looks at progress that are made anyway.

Nobody is throttled or moved for it. A look compares a pod's progress with what its profile predicts
on the cores that it has, so looks at other core counts, and at other pods, can be compared. Where a
pod was alone on its node at some looks and beside one other at others, the penalty is what the
second lack of the first (Cooper, section III-B). Pods that are not in the market are not seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from walras.resources.statuses import MOST_COMPANIES, MeasuredPenalty, OnlineCompany
from walras_operator.status.conditions import listed
from walras_operator.status.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.resources.statuses import OnlineRequest
    from walras_operator.world import World

MOST_LOOKS = 8
"""Looks that a mean is of, about: it follows programs that change."""


class Company(NamedTuple):
    """The profile of the program beside a pod; empty names for a pod that is alone."""

    namespace: str = ""
    profile: str = ""


ALONE = Company()


def company_of(world: World, request: OnlineRequest, namespace: str) -> Company | None:
    """Return who is beside a pod on its node; None for several pods, of which any may be to blame.

    Args:
        world: has what jobs' pods were granted.
        request: names the pod.
        namespace: of the pod.
    """
    others = [
        Company(job.metadata.namespace, job.spec.profile or job.metadata.name)
        for job in world.objects.jobs
        for pod in listed(job.status or {}, "pods")
        if pod.get("node") == request.node
        and (job.metadata.namespace, pod.get("name")) != (namespace, request.pod)
    ]
    return None if len(others) > 1 else (*others, ALONE)[0]


def surprise(
    companies: Sequence[OnlineCompany], company: Company | None, departure: float
) -> float:
    """Return how far a look is from what was to be expected in a company, as a part of that.

    What others take from a program is no change of the program. Beside one other it is expected to
    get on as it did there before; at the first look there, more slowly than predicted by whatever
    the other takes. Alone, and among several, it is expected to get on as predicted.

    Args:
        companies: looks so far.
        company: that the pod was in; None for several.
        departure: of measured from predicted progress, as a part of the prediction.
    """
    if company is None or company == ALONE:
        return departure
    before = next((float(each.ratio) for each in companies if _named(each) == company), 0.0)
    return (1 + departure) / before - 1 if before > 0 else max(departure, 0.0)


def noted_beside(
    companies: Sequence[OnlineCompany], company: Company, ratio: float, now: str
) -> list[OnlineCompany]:
    """Return looks with one more, which comes last; the oldest other company makes room.

    Args:
        companies: looks so far.
        company: that the pod was in.
        ratio: of measured to predicted progress.
        now: the time.
    """
    mine = [each for each in companies if _named(each) == company]
    others = [each for each in companies if _named(each) != company]
    looks, mean = (mine[0].looks, float(mine[0].ratio)) if mine else (0, 0.0)
    looked = OnlineCompany(
        profile=company.profile or None,
        namespace=company.namespace or None,
        ratio=figure(mean + (ratio - mean) / min(looks + 1, MOST_LOOKS)),
        looks=looks + 1,
        finished=now,
    )
    alone = [each for each in others if _named(each) == ALONE]
    rest = [each for each in others if _named(each) != ALONE]
    return [*alone, *rest[-(MOST_COMPANIES - 2) :], looked]


def penalties_of(companies: Sequence[OnlineCompany], source: str) -> list[MeasuredPenalty]:
    """Return what looks in company lack of looks alone; nothing before there is one of these.

    Args:
        companies: looks.
        source: what progress is counted by.
    """
    alone = next((float(each.ratio) for each in companies if _named(each) == ALONE), 0.0)
    if alone <= 0:
        return []
    return [
        MeasuredPenalty.model_validate(
            {
                "profile": each.profile,
                "namespace": each.namespace,
                "penalty": figure(1 - float(each.ratio) / alone),
                "source": source,
                "looks": each.looks,
                "finished": each.finished,
            }
        )
        for each in companies
        if _named(each) != ALONE
    ]


def _named(each: OnlineCompany) -> Company:
    return Company(each.namespace or "", each.profile or "")
