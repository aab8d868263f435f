"""Pure: what queues are worth while some of them borrow the quota of others.

What is admitted beyond a queue's nominal quota counts as its own as long as it is admitted. It
comes first from what its cohorts have beyond their members' quotas, and then from queues of the
same tree of cohorts that use less than their quotas, in proportion to what they do not use. So no
queue is worth less than what was admitted of it, and the sum stays that of all quotas, unless more
was admitted than they are.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras_api.quotas import Cohort
    from walras_operator.decide.known_quotas import Quotas


class Worths(NamedTuple):
    """Thousandths of CPUs that queues and cohorts are worth now.

    Attributes:
        queues: By ClusterQueue.
        cohorts: By cohort that has a queue below it, parents first: all that is below it, and
            its own.
        parents: Parent by such a cohort; empty for none.
    """

    queues: Mapping[str, int]
    cohorts: Mapping[str, int]
    parents: Mapping[str, str]


def worths(quotas: Quotas, admitted: Mapping[str, int]) -> Worths:
    """Return what all ClusterQueues and the cohorts above them are worth.

    Args:
        quotas: The quotas.
        admitted: Thousandths of CPUs that are set aside for admitted Workloads, by ClusterQueue.
    """
    queues = dict(sorted(quotas.cluster_queues.items()))
    above = {name: _path_up(queue.cohort, quotas.cohorts) for name, queue in queues.items()}
    trees: defaultdict[str, list[str]] = defaultdict(list)
    for name, path in above.items():
        trees[path[-1] if path else ""].append(name)
    of_queue = {name: queues[name].cpus for name in trees.pop("", ())}
    own: dict[str, int] = {}
    for names in trees.values():
        cohorts = sorted({cohort for name in names for cohort in above[name]})
        pools = [quotas.cohorts[each].cpus if each in quotas.cohorts else 0 for each in cohorts]
        nominal = [queues[name].cpus for name in names]
        used = [admitted.get(name, 0) for name in names]
        worth, taken = lend(nominal, used, sum(pools))
        of_queue.update(zip(names, worth, strict=True))
        lent = in_proportion(taken, pools)
        own.update(
            (name, pool - less) for name, pool, less in zip(cohorts, pools, lent, strict=True)
        )
    paths = {name: _path_up(name, quotas.cohorts) for name in own}
    of_cohort = dict.fromkeys(sorted(own, key=lambda name: (len(paths[name]), name)), 0)
    for worth_of, way in ((of_queue, above), (own, paths)):
        for name, path in way.items():
            for cohort in path:
                of_cohort[cohort] += worth_of[name]
    parents = {name: path[1] if len(path) > 1 else "" for name, path in paths.items()}
    return Worths(of_queue, of_cohort, parents)


def lend(nominal: Sequence[int], used: Sequence[int], pool: int) -> tuple[list[int], int]:
    """Return what each queue of a tree is worth, and how much of the pool is lent to them.

    Args:
        nominal: Quota of each queue.
        used: What is set aside in it for admitted Workloads.
        pool: What all of them may borrow beyond their quotas.
    """
    borrowed = [max(use - own, 0) for own, use in zip(nominal, used, strict=True)]
    spare = [max(own - use, 0) for own, use in zip(nominal, used, strict=True)]
    from_pool = min(sum(borrowed), pool)
    lent = in_proportion(min(sum(borrowed) - from_pool, sum(spare)), spare)
    worth = [own + more - less for own, more, less in zip(nominal, borrowed, lent, strict=True)]
    return worth, from_pool


def in_proportion(amount: int, parts: Sequence[int]) -> list[int]:
    """Divide an amount, at most the sum of the parts, into whole numbers in proportion to them.

    None is larger than its part, and they add up to the amount.
    """
    total, before, amounts = sum(parts), 0, []
    for so_far in accumulate(parts):
        upto = amount * so_far // total if total else 0
        amounts.append(upto - before)
        before = upto
    return amounts


def _path_up(cohort: str, cohorts: Mapping[str, Cohort]) -> list[str]:
    """Return a cohort and those above it, the nearest first.

    Of cohorts that are above each other, which Kueue admits nothing to, the first by name has none
    above it: else their queues would have no place in the tree, and running pods no cores.
    """
    seen: dict[str, None] = {}
    while cohort and cohort not in seen:
        seen[cohort] = None
        cohort = cohorts[cohort].parent if cohort in cohorts else ""
    path = list(seen)
    if not cohort:
        return path
    top = min(path[path.index(cohort) :])
    return path[: path.index(top) + 1]
