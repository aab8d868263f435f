"""Deadlines: the cores that a job needs to end in time, and their reservation by its user's budget.

A job with W seconds of work left on one core and t seconds to its deadline must progress at the
speed W / t. By Amdahl's law (eq. 1) this takes

    x = f s / (1 - (1 - f) s)   cores, where s = W / t < 1 / (1 - f),

and x = s for a speed below one core, which is a core for a part of the time. W is taken one
standard error higher (`safe_work`), so that a job errs on the side of too many cores.

The objective of the market knows no deadlines. An accepted deadline is a minimum of cores, which
its user's budget pays for before its other jobs, as for ``minCores``. Other users only see the
prices that this user's demand makes, at which each of them can still buy its share of every node:
nobody falls below its entitlement (V-C). A deadline is accepted

1. if the cores that the job can use suffice, by the expected work;
2. if the user's budget pays for the cores, at the price to which the reservation itself
   raises them, together with what the user has reserved before (`_Budgets.reserve`);
3. and if the market that is cleared with the reservation gives the job these cores.

Accepted deadlines come first, so that no promise is broken for a later one, then the others,
the earliest deadline first. Under auctions, the deadline is the minimum utility of the job's bid
instead, for which its user's money pays. Greedy and UpperBound ignore budgets, so that nothing can
be reserved.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from walras.division.holdings import THOUSANDTH
from walras.market.admission import admit, divide_by_shares
from walras.market.plan import DeadlineOutcome
from walras.market.snapshot import identity
from walras.speedup.amdahls_law import speedup_in_hardware

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from walras.market.plan import DeadlineState, Plan
    from walras.market.snapshot import CoreMechanism, Deadline, Job, JobKey, Policy, Snapshot

    Decide = Callable[[Snapshot, Policy], Plan]

RESERVING: frozenset[CoreMechanism] = frozenset(
    {"AmdahlBidding", "ProportionalSharing", "BestResponse", "PriceAnticipating"}
)
"""Mechanisms under which cores are reserved for deadlines: those that charge budgets for cores."""

SPARE = 0.1
"""Part of the need that is reserved on top of it when a reservation no longer suffices."""

MOST_SPARE = 0.3
"""Part of the need that a reservation is at most larger, before it is made smaller."""

NEWCOMER = 0.95
"""Part of a user's budget that may be reserved when a deadline is accepted, since prices move."""

ROUNDS = 4
"""Most times that deadlines become more modest or fewer before all that do not hold are dropped."""

BISECTIONS = 30
"""Steps in the search for the part of a reservation that a budget pays for."""

LEEWAY = 1.5 * THOUSANDTH
"""Cores by which a reservation may be missed, for thousandths and the error of prices."""

NEGLIGIBLE = 1e-9
"""Cores, or part of a budget, that arithmetic may be off by."""


def safe_work(deadline: Deadline) -> float:
    """Return the work left on the safe side: one standard error more than expected."""
    return deadline.left + deadline.error


def cores_for(speed: float, fraction: float) -> float:
    """Return the cores that give a speed, relative to one core; infinity if none do.

    The inverse of `walras.analysis.forecast.expected_speedup`.
    """
    if speed <= 1:
        return max(speed, 0.0)
    rest = 1 - (1 - fraction) * speed
    return fraction * speed / rest if rest > 0 else math.inf


def cores_needed(deadline: Deadline, fraction: float) -> float:
    """Return the cores that a job needs from now on to end in time, with the error as a margin."""
    return cores_for(_speed(safe_work(deadline), deadline.seconds), fraction)


def _speed(work: float, seconds: float) -> float:
    if work <= 0:
        return 0.0
    return work / seconds if seconds > 0 else math.inf


def reservation(needed: float, before: float, most: float) -> float:
    """Return the cores to reserve for a job, in thousandths; 0 if it needs none.

    A reservation that suffices is kept until it exceeds the need by `MOST_SPARE`, and a new size
    has `SPARE`, so that an estimate that wavers moves no cores. The first one has none: it might
    cost more than the user's budget.

    Args:
        needed: Cores that the job needs.
        before: Cores that are reserved for it now; 0 for none.
        most: Most cores that it can use.
    """
    suffice = _in_thousandths(needed, most)
    if not before:
        return suffice
    if suffice <= before <= min(needed * (1 + MOST_SPARE), most):
        return before
    return _in_thousandths(needed * (1 + SPARE), most)


def _in_thousandths(cores: float, most: float) -> float:
    if cores >= most:
        return most
    return math.ceil(cores / THOUSANDTH - NEGLIGIBLE) / (1 / THOUSANDTH)


class _Part(NamedTuple):
    """A pod of a job with a deadline.

    Attributes:
        number: Position of the pod in the snapshot.
        needed: Cores that it needs, by the work on the safe side.
        cores: Cores to reserve; 0 for none.
        enough: Those of them without any to spare.
        likely: Those of them by the expected work.
    """

    number: int
    needed: float
    cores: float
    enough: float
    likely: float


class _Request(NamedTuple):
    """A job whose deadline is to be kept.

    Attributes:
        rank: Place in the order of acceptance.
        user: Entitlement that pays.
        parts: Its pods.
        standing: Whether cores are reserved for it now.
        within_reach: Whether the cores that it can use suffice.
    """

    rank: tuple[bool, float, str, str]
    user: str
    parts: tuple[_Part, ...]
    standing: bool
    within_reach: bool

    @property
    def job(self) -> tuple[str, str]:
        """Namespace and name of the job."""
        return self.rank[2], self.rank[3]

    @property
    def without_spare(self) -> _Request:
        """The request without cores to spare."""
        parts = tuple(part._replace(cores=min(part.cores, part.enough)) for part in self.parts)
        return self._replace(parts=parts)

    @property
    def more_modest(self) -> _Request:
        """The request without cores to spare, then without the margin for its work's error."""
        modest = self.without_spare
        if modest != self:
            return modest
        parts = tuple(part._replace(cores=min(part.cores, part.likely)) for part in self.parts)
        return self._replace(parts=parts)

    @property
    def reserves(self) -> bool:
        """Whether any core is to be reserved."""
        return any(part.cores for part in self.parts)


class _Answer(NamedTuple):
    """The answer to a request.

    Attributes:
        payable: Cores that the user's budget could reserve, if it decided.
        sure: Whether the cores are within the user's share of their nodes, which nobody takes.
    """

    state: DeadlineState
    payable: float | None = None
    sure: bool = False


def with_deadlines(snapshot: Snapshot, policy: Policy, decide: Decide) -> Plan:
    """Return the plan in which accepted deadlines have their cores, and the outcome of each.

    Args:
        snapshot: Snapshot in canonical order.
        policy: Mechanisms.
        decide: Clears a market in which ``deadline.reserved`` is a minimum of cores.
    """
    reach = {node.name: node.cores for node in snapshot.nodes}
    requests = _requests(snapshot, reach)
    if not requests:
        return decide(snapshot, policy)
    if policy.cores == "Auction":
        return _bid(snapshot, policy, decide, _within(reach, snapshot, requests))
    if policy.cores not in RESERVING:
        plan = decide(_reserved(snapshot, ()), policy)
        return _with_outcomes(plan, snapshot, requests, (), {})
    chosen, plan = _keep_standing(snapshot, policy, decide, requests)
    answers: dict[tuple[str, str], _Answer] = {}
    chosen, plan = _accept(snapshot, policy, decide, requests, chosen, plan, answers)
    return _with_outcomes(plan, snapshot, requests, chosen, answers)


def _requests(snapshot: Snapshot, cores: Mapping[str, float]) -> list[_Request]:
    """Return the admitted jobs with deadlines in the order of acceptance.

    Args:
        snapshot: Snapshot in canonical order.
        cores: Most cores that a job can have of each node, by name.
    """
    asking = [number for number, job in enumerate(snapshot.jobs) if job.deadline is not None]
    if not asking:
        return []
    # A refused job names an entitlement that is not its own, whose deadlines it must not displace.
    refused = {(e.namespace, e.name, e.pod, e.node) for e in admit(snapshot).refused}
    of_job: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for number in asking:
        job = snapshot.jobs[number]
        if cores.get(job.node, 0) > 0 and identity(job) not in refused:
            of_job[job.namespace, job.name, job.entitlement].append(number)
    return sorted(_request(snapshot, cores, key, numbers) for key, numbers in of_job.items())


def _request(
    snapshot: Snapshot,
    cores: Mapping[str, float],
    key: tuple[str, str, str],
    numbers: Iterable[int],
) -> _Request:
    parts: list[_Part] = []
    standing, within_reach, seconds = False, True, math.inf
    for number in numbers:
        job = snapshot.jobs[number]
        deadline, most = job.deadline, cores[job.node]
        if deadline is None:
            continue
        most = min(most, job.max_cores or most)
        needed = cores_needed(deadline, job.fraction)
        likely = cores_for(_speed(deadline.left, deadline.seconds), job.fraction)
        wanted = reservation(needed, deadline.reserved, most)
        least = (_in_thousandths(each, most) for each in (needed, likely))
        parts.append(_Part(number, needed, wanted, *least))
        standing = standing or deadline.reserved > 0
        seconds = min(seconds, deadline.seconds)
        # What was promised is kept as long as it is possible at all.
        work = deadline.left - (deadline.error if deadline.reserved else 0.0)
        fastest = speedup_in_hardware(most, job.fraction)
        within_reach = within_reach and _speed(work, deadline.seconds) <= fastest
    namespace, name, user = key
    rank = not standing, seconds, namespace, name
    return _Request(rank, user, tuple(parts), standing, within_reach)


def _reserved(snapshot: Snapshot, chosen: Iterable[_Request]) -> Snapshot:
    """Return the snapshot with the cores of these deadlines reserved, and no others."""
    cores = {part.number: part.cores for request in chosen for part in request.parts}
    return replace(
        snapshot,
        jobs=tuple(
            job
            if job.deadline is None
            else replace(job, deadline=replace(job.deadline, reserved=cores.get(number, 0)))
            for number, job in enumerate(snapshot.jobs)
        ),
    )


def _keep_standing(
    snapshot: Snapshot, policy: Policy, decide: Decide, requests: Sequence[_Request]
) -> tuple[list[_Request], Plan]:
    """Return the accepted deadlines whose cores the market still gives, and its plan.

    Where a user's budget does not pay for all of them any more, those without cores to spare are
    tried, then those without the margin for errors, and then one less.
    """
    chosen = [each for each in requests if each.standing and each.within_reach]
    for _ in range(ROUNDS):
        plan = decide(_reserved(snapshot, chosen), policy)
        broken = _not_held(plan, snapshot, chosen)
        if not broken:
            return chosen, plan
        users, last = {each.user for each in broken}, _last_of_users(broken)
        modest = [each.more_modest if each.user in users else each for each in chosen]
        chosen = modest if modest != chosen else [each for each in chosen if each not in last]
    chosen = [each for each in chosen if each.user not in users]
    return chosen, decide(_reserved(snapshot, chosen), policy)


def _accept(
    snapshot: Snapshot,
    policy: Policy,
    decide: Decide,
    requests: Sequence[_Request],
    chosen: list[_Request],
    plan: Plan,
    answers: dict[tuple[str, str], _Answer],
) -> tuple[list[_Request], Plan]:
    """Return the accepted deadlines with the new ones among them, and the plan with all of them.

    Accepted ones have no cores to spare where a new one cannot have its cores otherwise.
    """
    budgets = _Budgets(snapshot, policy, plan, [each.without_spare for each in chosen])
    standing = {each.job for each in chosen}
    admitted = []
    for request in requests:
        if request.job in standing or not request.within_reach or not request.reserves:
            continue
        answer = budgets.reserve(request)
        if answer.state == "Reserved":
            admitted.append(request)
        answers[request.job] = answer
    kept = chosen
    for _ in range(ROUNDS):
        if not admitted:
            break
        together = sorted([*kept, *admitted])
        trial = decide(_reserved(snapshot, together), policy)
        broken = _not_held(trial, snapshot, together)
        if not broken:
            return together, trial
        modest = [each.without_spare for each in kept]
        if modest != kept:
            kept = modest
            continue
        new = [each for each in broken if each.job not in standing]
        bold = new or [each for each in admitted if not answers[each.job].sure]
        last = _last_of_users(bold or broken)
        admitted = [each for each in admitted if each not in last]
        kept = [each for each in kept if each not in last]
        answers.update((each.job, _Answer("Crowded")) for each in last)
    answers.update((each.job, _Answer("Crowded")) for each in admitted)
    return (
        _keep_standing(snapshot, policy, decide, kept)
        if len(kept) < len(chosen)
        else (chosen, plan)
    )


def _not_held(plan: Plan, snapshot: Snapshot, chosen: Iterable[_Request]) -> list[_Request]:
    """Return the deadlines whose reserved cores the plan does not give.

    Nodes that keep their division whatever happens do not count.
    """
    held = plan.holdings()
    found = []
    for request in chosen:
        for part in request.parts:
            job = snapshot.jobs[part.number]
            if (
                held.get(identity(job), 0.0) < part.cores - LEEWAY
                and job.node not in snapshot.frozen
            ):
                found.append(request)
                break
    return found


def _last_of_users(requests: Iterable[_Request]) -> list[_Request]:
    """Return the last of each user's requests, in the order of acceptance."""
    return list({each.user: each for each in sorted(requests)}.values())


class _Budgets:
    """The cores that users can reserve, given the money that all spend in a plan.

    To hold R of the C cores of a node on which the other users spend M, a user must spend
    M R / (C - R): then the price is M / (C - R), and it buys R. This is more than R at the present
    price if it buys less than R now. The others are taken to spend as much as they do now; as some
    move to cheaper nodes, the real price is seldom higher.

    Minimums within a user's share of every node can always be paid for (V-C), whoever else
    reserves there.

    Mechanisms other than the Amdahl market know no minimums. Under them, cores are moved among a
    user's jobs on a node, so what the user buys there is the most that it can reserve.
    """

    def __init__(
        self, snapshot: Snapshot, policy: Policy, plan: Plan, standing: Iterable[_Request]
    ) -> None:
        self._jobs = snapshot.jobs
        self._by_budget = policy.cores == "AmdahlBidding"
        self._money: defaultdict[str, defaultdict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        self._bought: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._minimums: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._size = {node.name: node.cores for node in snapshot.nodes}
        self._room = dict(self._size)
        self._has: dict[JobKey, float] = {}
        together: Counter[tuple[str, str]] = Counter()
        for grant in plan.grants:
            self._money[grant.node][grant.entitlement] += grant.spend
            self._bought[grant.entitlement, grant.node] += grant.cores
            together[grant.entitlement, grant.node] += 1
        self._budgets = {user.name: user.entitled_cores for user in plan.users}
        self._all_budgets = sum(self._budgets.values())
        self._least_parts = {
            (user, node): policy.least_part * min(self._share(user) * self._size[node] / count, 1.0)
            for (user, node), count in together.items()
        }
        bought = {identity(grant): grant for grant in plan.grants}
        self._without: defaultdict[tuple[str, str], set[JobKey]] = defaultdict(set)
        for job in snapshot.jobs:
            if identity(job) not in bought:
                continue
            mine = bought[identity(job)]
            self._without[job.entitlement, job.node].add(identity(job))
            # A minimum that is not paid for does not count against others.
            paid = 1 < job.min_cores <= mine.cores + NEGLIGIBLE
            self._has[identity(job)] = max(mine.floor, job.min_cores if paid else 0.0)
            self._claim(job, self._has[identity(job)])
        for request in standing:
            for part in request.parts:
                self._claim(self._jobs[part.number], self._beyond(part))

    def _claim(self, job: Job, cores: float) -> None:
        """Count cores as a minimum of a job."""
        self._minimums[job.entitlement, job.node] += cores
        self._room[job.node] -= cores
        if cores:
            self._without[job.entitlement, job.node].discard(identity(job))

    def _share(self, user: str) -> float:
        """Return the part of the cluster that the user's budget is worth."""
        return self._budgets.get(user, 0.0) / (self._all_budgets or 1.0)

    def _least(self, user: str, node: str, wanted: Mapping[JobKey, float], part: float) -> float:
        """Return the cores that the user must have on a node to reserve a part of what it wants.

        Its jobs there without a minimum have their least parts.
        """
        more = sum(cores for key, cores in wanted.items() if key[-1] == node)
        small = self._without[user, node] - {key for key, cores in wanted.items() if cores}
        least = len(small) * self._least_parts.get((user, node), 0.0)
        return self._minimums[user, node] + part * more + least

    def _beyond(self, part: _Part) -> float:
        """Return the cores to reserve beyond those that the pod has as its floor or minimum."""
        return max(part.cores - self._has.get(identity(self._jobs[part.number]), 0.0), 0.0)

    def reserve(self, request: _Request) -> _Answer:
        """Return whether the request can be paid for; if it can, count its cores as reserved."""
        wanted = {identity(self._jobs[p.number]): self._beyond(p) for p in request.parts}
        on_node: defaultdict[str, float] = defaultdict(float)
        for (*_, node), cores in wanted.items():
            on_node[node] += cores
        sure = self._by_budget and self._within_share(request.user, wanted)
        if not sure:
            if any(cores > self._room[node] + NEGLIGIBLE for node, cores in on_node.items()):
                return _Answer("Crowded")
            payable = self._payable(request.user, wanted)
            if payable < 1:
                return _Answer("Unaffordable", payable * sum(part.cores for part in request.parts))
        for part in request.parts:
            self._claim(self._jobs[part.number], self._beyond(part))
        for node in on_node:
            spent = self._cost(request.user, node, self._least(request.user, node, {}, 0.0))
            self._money[node][request.user] = max(self._money[node][request.user], spent)
        return _Answer("Reserved", sure=sure)

    def _within_share(self, user: str, wanted: Mapping[JobKey, float]) -> bool:
        """Return whether all minimums of the user fit into its share of each of these nodes."""
        return all(
            self._least(user, node, wanted, 1.0)
            <= self._share(user) * self._size[node] + NEGLIGIBLE
            for *_, node in wanted
        )

    def _payable(self, user: str, wanted: Mapping[JobKey, float]) -> float:
        """Return the part of the wanted cores that the user can reserve, at most 1."""
        if self._affords(user, wanted, 1.0):
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._affords(user, wanted, middle) else (low, middle)
        return low

    def _affords(self, user: str, wanted: Mapping[JobKey, float], part: float) -> bool:
        nodes = {node for *_, node in wanted}
        if not self._by_budget:
            return all(
                self._least(user, node, wanted, part) <= self._bought[user, node] + NEGLIGIBLE
                for node in nodes
            )
        nodes |= {node for name, node in self._minimums if name == user}
        cost = sum(
            self._cost(user, node, self._least(user, node, wanted, part)) for node in sorted(nodes)
        )
        return cost <= NEWCOMER * self._budgets.get(user, 0.0)

    def _cost(self, user: str, node: str, cores: float) -> float:
        """Return what a user must spend on a node to hold some cores there."""
        others = sum(money for name, money in self._money[node].items() if name != user)
        left = self._size[node] - cores
        if not cores or others <= 0:
            return 0.0
        return others * cores / left if left > 0 else math.inf


def _bid(snapshot: Snapshot, policy: Policy, decide: Decide, requests: Sequence[_Request]) -> Plan:
    """Return the plan of an auction in which deadlines are minimums of utilities.

    A job that misses such a minimum bids without it, if it cannot do with fewer cores to spare. So
    does one that reaches it by more cores on one node than it needs, and fewer on another.
    """
    users = {job.entitlement for job in admit(snapshot).jobs}
    shares = divide_by_shares(snapshot.entitlements, users)
    asking = [each for each in requests if each.within_reach]
    outbid: dict[tuple[str, str], _Answer] = {}
    for rounds in reversed(range(ROUNDS + 1)):
        least = {each: _utility(snapshot, policy, each, shares[each.user]) for each in asking}
        asking = [each for each in asking if least[each]]
        plan = decide(_with_minimums(snapshot, least), policy)
        kept = {(bid.namespace, bid.name) for bid in plan.bids if bid.met}
        kept -= {request.job for request in _not_held(plan, snapshot, asking)}
        lost = {request.job for request in asking if request.job not in kept}
        if not lost:
            break
        modest = [each.without_spare if each.job in lost else each for each in asking]
        if rounds > 1 and modest != asking:
            asking = modest
            continue
        dropped = lost if rounds > 1 else {request.job for request in asking}
        outbid.update((job, _Answer("Outbid")) for job in dropped)
        asking = [request for request in asking if request.job not in outbid]
    return _with_outcomes(plan, snapshot, requests, asking, outbid)


def _within(
    reach: Mapping[str, float], snapshot: Snapshot, requests: Iterable[_Request]
) -> list[_Request]:
    """Return requests, of which none is within reach whose pods need more than a node together."""
    found = []
    for request in requests:
        needs = _needs(snapshot, request)
        enough = all(cores <= reach[node] + NEGLIGIBLE for node, cores in needs.items())
        found.append(request._replace(within_reach=request.within_reach and enough))
    return found


def _needs(snapshot: Snapshot, request: _Request) -> defaultdict[str, float]:
    """Return the cores that a job needs for its deadline, by node."""
    needs: defaultdict[str, float] = defaultdict(float)
    for part in request.parts:
        needs[snapshot.jobs[part.number].node] += part.cores or part.needed
    return needs


def _with_minimums(snapshot: Snapshot, asking: Mapping[_Request, float | None]) -> Snapshot:
    """Return the snapshot with the deadlines of jobs as minimums of their bids' utilities."""
    least_of = {request.job: least for request, least in asking.items() if least}
    jobs = tuple(
        replace(job, bid=replace(job.bid, minimum_utility=max(own or 0.0, least)))
        if (least := least_of.get((job.namespace, job.name)))
        else job
        for job in snapshot.jobs
        for own in (job.bid.minimum_utility,)
    )
    return replace(_reserved(snapshot, ()), jobs=jobs)


def _utility(snapshot: Snapshot, policy: Policy, request: _Request, share: float) -> float | None:
    """Return the utility that a job's bid must reach for its deadline; None if that is unknown.

    It is the utility of the cores that the job needs and, if memory is auctioned too, of its user's
    share of the memory.
    """
    size = {node.name: float(node.cores) for node in snapshot.nodes}
    needs = _needs(snapshot, request)
    pods = [
        job
        for job in snapshot.jobs
        if (job.namespace, job.name) == request.job and size.get(job.node, 0.0) > 0
    ]
    whole = sum(size[node] for node in {job.node for job in pods})
    parts = {node: needs[node] / size[node] for node in {job.node for job in pods}}
    bid = pods[0].bid
    memory = share if policy.memory == "Auction" and pods[0].memory is not None else None
    if bid.utility == "Linear":
        of_cores = bid.cores * sum(size[node] * parts[node] for node in sorted(parts)) / whole
        return of_cores + (0.0 if memory is None else bid.memory * memory)
    if min(parts.values()) <= 0:
        return None
    power = sum(size[node] / whole * math.log(parts[node]) for node in sorted(parts))
    return math.exp(bid.cores * power) * (1.0 if memory is None else memory**bid.memory)


def _with_outcomes(
    plan: Plan,
    snapshot: Snapshot,
    requests: Sequence[_Request],
    chosen: Collection[_Request],
    answers: Mapping[tuple[str, str], _Answer],
) -> Plan:
    """Return the plan with the outcome of every deadline."""
    accepted = {each.job: each for each in chosen}
    outcomes: dict[int, DeadlineOutcome] = {}
    for asked in requests:
        request = accepted.get(asked.job, asked)
        answer = answers.get(request.job, _Answer("Forecast"))
        if not request.within_reach:
            answer = _Answer("OutOfReach")
        elif not request.reserves:
            answer = _Answer("OnTime")
        elif request.job in accepted:
            answer = _Answer("Reserved")
        for part in request.parts:
            job = snapshot.jobs[part.number]
            outcomes[part.number] = DeadlineOutcome(
                namespace=job.namespace,
                name=job.name,
                entitlement=job.entitlement,
                node=job.node,
                pod=job.pod,
                needed=part.needed,
                asked=part.cores,
                reserved=part.cores if request.job in accepted else 0.0,
                payable=answer.payable,
                state=answer.state,
            )
    granted = {identity(grant) for grant in plan.grants}
    found = (outcomes[number] for number in sorted(outcomes))
    return replace(plan, deadlines=tuple(each for each in found if identity(each) in granted))
