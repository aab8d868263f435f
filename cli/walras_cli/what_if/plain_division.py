"""Pure: the cores that plain Kubernetes would give the pods of a plan, while all of them are busy.

The division is that of `walras_cli.what_if.first_look.divisions`, which `walras what-if` shows of a
cluster without a Market; here users and pods are those of the Market, and fractions are known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from walras.speedup.amdahls_law import speedup_in_hardware
from walras_api.supply import cores_per_cpu
from walras_cli.what_if.first_look.divisions import plain_kubernetes
from walras_cli.what_if.first_look.population import PodOfJob, Population, quality_of
from walras_view.explain.short_pods import STARVES
from walras_view.plain import PlainDivision, PlainUser

if TYPE_CHECKING:
    from walras.market.plan import Plan
    from walras.numerics.arrays import Floats
    from walras_cli.what_if.situation import Situation


def plain_division(situation: Situation, plan: Plan) -> PlainDivision | None:
    """Return what plain Kubernetes would make of today's pods; None if some are not known.

    Args:
        situation: The market as it is.
        plan: Its plan.
    """
    snapshot, objects = situation.snapshot, situation.objects
    pods = {(each.metadata.namespace, each.metadata.name): each for each in objects.pods}
    jobs = {(each.namespace, each.name, each.pod): each for each in snapshot.jobs}
    users = tuple(each.name for each in plan.users)
    user = {name: number for number, name in enumerate(users)}
    node = {each.name: number for number, each in enumerate(snapshot.nodes)}
    members, most, work = [], [], []
    for grant in plan.grants:
        pod = pods.get((grant.namespace, grant.pod))
        if pod is None or grant.node not in node:
            return None
        job = jobs[grant.namespace, grant.name, grant.pod]
        unit = float(cores_per_cpu(objects.rules.cores, objects.topologies.get(grant.node)))
        limit = unit * pod.cpu_limit
        members.append(
            PodOfJob(
                namespace=grant.namespace,
                name=grant.pod,
                job=0,
                user=user[grant.entitlement],
                node=node[grant.node],
                request=float(pod.cpus_requested),
                limit=limit,
                used=None,
                quality=quality_of(pod),
                fraction=grant.fraction,
            )
        )
        most.append(min(limit, math.inf if job.max_cores is None else job.max_cores))
        work.append(job.work)
    population = Population(users, (1,) * len(users), (), snapshot.nodes, tuple(members), ())
    cores = plain_kubernetes(population, np.array(most)) if members else np.zeros(0)
    return PlainDivision(
        users=tuple(_users(population, cores, work)), starving=int((cores < STARVES).sum())
    )


def _users(population: Population, cores: Floats, work: list[float]) -> list[PlainUser]:
    """Return what users have, with the mean speedup of their pods, weighted by work."""
    held: defaultdict[int, float] = defaultdict(float)
    done: defaultdict[int, float] = defaultdict(float)
    weight: defaultdict[int, float] = defaultdict(float)
    for pod, has, of in zip(population.pods, cores.tolist(), work, strict=True):
        held[pod.user] += has
        done[pod.user] += of * speedup_in_hardware(has, pod.fraction or 0.0)
        weight[pod.user] += of
    return [
        PlainUser(name=name, held=held[number], utility=done[number] / weight[number])
        for number, name in enumerate(population.users)
        if number in weight
    ]
