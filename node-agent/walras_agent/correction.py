"""Pure: corrects the weights of pods that share CPUs by the CPU time that they used.

Weights divide one CPU exactly among pods that are pinned to it. They divide it only roughly where a
pod has other CPUs too, since the kernel spreads a group's weight over all CPUs that its threads run
on. So every few seconds, the weight of a pod that had less than it bought is raised, and that of a
pod beside it that had more is lowered, in proportion to a power of the error: small steps, which do
not overshoot although the kernel moves threads meanwhile. What a pod is short of is remembered as a
debt, within bounds, and forgotten when the pod does not want all that it bought.

Nothing is corrected while all pods have what they bought or want: then more than that is only what
others leave. Nor is the weight of pods against programs outside: what these take, all pods beside
each other lose alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOLERANCE = 0.01  # of what was bought
_SLICES = 0.008  # seconds of a few of the kernel's time slices, by which any interval may be off
_LEAST = 0.05  # of what was bought, taken to be used on shared CPUs
_POWER = 0.35
_STEP = 2.0  # largest factor of one correction
_MOST = 16.0  # largest factor of all corrections together
_DEBT = 0.2  # seconds of what was bought
_REPAID = 20.0  # seconds in which a debt is made good


class Purchase(NamedTuple):
    """The CPU time that a pod bought, and where it has it.

    Attributes:
        cpus: Time in CPUs, such as 1.5.
        own: Number of CPUs that no other pod uses, at most `cpus`.
        shared: CPUs that it shares with others.
    """

    cpus: float
    own: int
    shared: CpuSet


class CpuRate(NamedTuple):
    """The CPU time of a pod in an interval.

    Attributes:
        seconds: Length of the interval.
        used: CPUs that it used on average.
        waited: Number of its threads that waited for a CPU on average, at most 1 where the kernel
            tells only whether any waited; None if unknown.
    """

    seconds: float
    used: float
    waited: float | None

    @property
    def wanted(self) -> float:
        """CPUs that the pod would have used had no thread waited."""
        return self.used + (self.waited or 0.0)


class Correction(NamedTuple):
    """The state of one pod's weight.

    Attributes:
        factor: Factor of the weight that the grant gives.
        debt: CPU seconds that the pod is short of; negative for more than it bought.
    """

    factor: float = 1.0
    debt: float = 0.0


UNCORRECTED = Correction()


def correct(
    purchases: Mapping[str, Purchase],
    rates: Mapping[str, CpuRate],
    before: Mapping[str, Correction],
) -> dict[str, Correction]:
    """Return the corrections after an interval, by pod; the arguments are by pod, too.

    Args:
        purchases: What pods on shared CPUs bought.
        rates: CPU time of pods in the interval; a pod that is not in it keeps its correction.
        before: Corrections before the interval.
    """
    busy = {
        pod: (bought, rate)
        for pod, bought in purchases.items()
        if (rate := rates.get(pod)) is not None and is_busy(bought, rate)
    }
    after = {
        pod: before.get(pod, UNCORRECTED)
        if pod not in rates or pod in busy
        else before.get(pod, UNCORRECTED)._replace(debt=0.0)
        for pod in purchases
    }
    for beside in _beside_each_other({pod: bought.shared for pod, (bought, _) in busy.items()}):
        after |= _corrected({pod: busy[pod] for pod in beside}, after)
    return after


def _corrected(
    busy: Mapping[str, tuple[Purchase, CpuRate]], before: Mapping[str, Correction]
) -> dict[str, Correction]:
    """Return the corrections of busy pods that divide the same CPUs."""
    # Of what programs outside take from all of them, each loses its part.
    bought = sum(purchase.cpus for purchase, _ in busy.values())
    there = min(1.0, sum(rate.used for _, rate in busy.values()) / bought)
    after, errors, off = {}, {}, {}
    for pod, (purchase, rate) in busy.items():
        tolerance = max(_TOLERANCE * purchase.cpus, _SLICES / rate.seconds)
        due, limit = purchase.cpus * there, max(_DEBT * purchase.cpus, _REPAID * tolerance)
        debt = before[pod].debt + (due - rate.used) * rate.seconds
        after[pod] = before[pod]._replace(debt=max(-limit, min(limit, debt)))
        errors[pod] = due + after[pod].debt / _REPAID - rate.used
        off[pod] = errors[pod] / tolerance
    if max(off.values()) <= 1:
        return after
    for pod, (purchase, rate) in busy.items():
        if abs(off[pod]) > 1:
            used = max(rate.used - purchase.own * there, _LEAST * purchase.cpus)
            step = max(1 + errors[pod] / used, 0.0) ** _POWER
            factor = after[pod].factor * max(1 / _STEP, min(_STEP, step))
            after[pod] = after[pod]._replace(factor=max(1 / _MOST, min(_MOST, factor)))
    return after


def _beside_each_other(shared: Mapping[str, CpuSet]) -> list[set[str]]:
    """Return the sets of pods that share CPUs, also by way of others."""
    groups: list[tuple[set[str], CpuSet]] = []
    for pod, cpus in shared.items():
        beside = [each for each in groups if each[1] & cpus]
        groups = [each for each in groups if not each[1] & cpus]
        pods = {pod}.union(*(pods for pods, _ in beside))
        groups.append((pods, CpuSet(cpu for _, each in [*beside, (pods, cpus)] for cpu in each)))
    return [pods for pods, _ in groups]


def is_busy(bought: Purchase, rate: CpuRate) -> bool:
    """Whether a pod wanted all that it bought: its threads ran or waited for at least as long."""
    return rate.wanted >= bought.cpus * (1 - _TOLERANCE)


def compete(purchases: Mapping[str, Purchase], rates: Mapping[str, CpuRate]) -> bool:
    """Whether a busy pod has less than it bought, or shares a CPU with another busy one."""
    taken = CpuSet()
    for pod, bought in purchases.items():
        rate = rates.get(pod)
        if rate is not None and is_busy(bought, rate):
            if taken & bought.shared or rate.used < bought.cpus * (1 - _TOLERANCE):
                return True
            taken |= bought.shared
    return False
