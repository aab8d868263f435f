"""What jobs have now, as portions of what is sold, and where they could go on with it (pure)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._segments import group
from walras.apportion import Portions, weights_of
from walras.rounding import round_cores
from walras.sale import kept_parts
from walras.snapshot import Holding, identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from walras.sale import Sale
    from walras.snapshot import Job, Key

    Counts = NDArray[np.int64]
    Bools = NDArray[np.bool_]

UNKNOWN = Holding(-1)
"""Stands for what a job has that was not there before."""


class Present(NamedTuple):
    """The division of cores as it is.

    Attributes:
        portions: of the parts of jobs; without meaning on nodes where it cannot go on.
        possible: shape (m,), the nodes where it can go on.
    """

    portions: Portions
    possible: Bools


def present(held: Mapping[Key, Holding], jobs: Sequence[Job], sale: Sale, due: Portions) -> Present:
    """Lay out what jobs have now, and find the nodes where they could keep it.

    These are the nodes that have the jobs that they had, and where what the jobs have is within
    what is for sale, leaves no more of it idle than the new division does, is no job's above its
    maximum, and is no job's below a minimum that the new division meets.

    Args:
        held: what jobs have.
        jobs: shape (k,).
        sale: what is sold now.
        due: the new division, by parts of jobs.
    """
    has = [held.get(identity(job), UNKNOWN) for job in jobs]
    own = np.array([each.cores for each in has], np.int64)
    pool = np.array([each.shared for each in has], np.int64)
    whole = _by_part(np.maximum(own, 0), sale, due)
    small = whole == 0
    server = sale.market.server
    sharing = small & kept_parts(sale, len(jobs), due._replace(whole=whole))
    shared = np.zeros(len(sale.node), np.int64)
    np.maximum.at(shared, server[sharing], pool[sale.job[sharing]])
    weights = weights_of(server, due.quota, small)
    portions = Portions(due.quota, whole, np.where(small, shared[server], 0), weights)
    bad = (whole > sale.most) | (whole < _fewest(sale, due))
    bad |= sharing & ((pool[sale.job] != portions.shared) | (pool[sale.job] < 1))
    bad |= _others_were_there(held, jobs, own)[sale.job]
    wrong = _does_not_fit(sale, portions, due, len(jobs))
    wrong[server[bad]] = True
    possible = np.ones(int(sale.node.max(initial=-1)) + 1, np.bool_)
    possible[sale.node[wrong]] = False
    return Present(portions, possible)


def _by_part(own: Counts, sale: Sale, due: Portions) -> Counts:
    """Divide each job's whole cores among its parts, in proportion to the new division.

    That is to the core the new division, where a job is to have as many cores as it has.
    """
    jobs = len(own)
    if len(sale.job) == jobs:
        return own
    whole = np.bincount(sale.job, due.whole, jobs)
    measure = np.where(whole[sale.job] > 0, due.whole, 1)
    quota = own[sale.job] * measure / np.bincount(sale.job, measure, jobs)[sale.job]
    return round_cores(quota, own, group(sale.job, jobs))


def _others_were_there(held: Mapping[Key, Holding], jobs: Sequence[Job], own: Counts) -> Bools:
    """Return, for each job, whether it or another of its node has come, or one has gone."""
    before = Counter(node for *_, node in held)
    known = Counter(job.node for job, cores in zip(jobs, own.tolist(), strict=True) if cores >= 0)
    now = Counter(job.node for job in jobs)
    same = {node: before[node] == known[node] == count for node, count in now.items()}
    return np.array([not same[job.node] for job in jobs], np.bool_)


def _fewest(sale: Sale, due: Portions) -> Counts:
    """Return the fewest own cores that each part may keep: minimums and promises that are met."""
    least = np.maximum(np.where(sale.least > 1, sale.least, 0), sale.promised)
    return np.minimum(least, due.whole)


def _does_not_fit(sale: Sale, portions: Portions, due: Portions, jobs: int) -> Bools:
    """Return the servers of which more is held than there is, or less than is to be sold."""
    server, servers = sale.market.server, len(sale.node)
    held, pool = _sold(sale, portions, jobs)
    sold, _ = _sold(sale, due, jobs)
    sharing = kept_parts(sale, jobs, portions) & (portions.whole == 0)
    room = np.bincount(server[sharing], sale.most[sharing], servers)
    return np.asarray((held < sold) | (held > sale.market.capacities) | (pool > room), np.bool_)


def _sold(sale: Sale, portions: Portions, jobs: int) -> tuple[Counts, Counts]:
    """Return the cores of each server that somebody has, and those of them in its pool."""
    server, servers = sale.market.server, len(sale.node)
    sharing = kept_parts(sale, jobs, portions) & (portions.whole == 0)
    pool = np.zeros(servers, np.int64)
    np.maximum.at(pool, server[sharing], portions.shared[sharing])
    return np.bincount(server, portions.whole, servers).astype(np.int64) + pool, pool
