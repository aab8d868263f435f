"""Pure: what one more core would cost a pod and bring it, and how to pay for that best.

The unit of prices and budgets is the core at the cluster's average price. Speedups are Amdahl's
("Amdahl's Law in the Datacenter Era", equation 1), and a user's utility is the mean of its pods'
speedups, weighted by ``work`` (equation 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras.speedup.amdahls_law import speedup
from walras_view.documents import Shown

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Buyer:
    """A pod as a buyer of cores.

    Attributes:
        job: MarketJob of the pod, as ``namespace/name``.
        pod: Name of the pod.
        node: Node on which it buys cores.
        cores: Cores that it bought, a real number.
        price: Price of a core.
        fraction: Parallel fraction F of its job.
        work: Weight of its speedup in its user's utility.
        least: Smallest number of cores that it may have.
        most: Largest number of cores that it can use; None for no bound.
    """

    job: str
    pod: str
    node: str
    cores: float
    price: float
    fraction: float
    work: float = 1.0
    least: int = 1
    most: int | None = None

    def progress(self, cores: float) -> float:
        """Return its weighted speedup; less than a core is a core for a part of the time."""
        return self.work * (speedup(cores, self.fraction) if cores >= 1 else max(cores, 0.0))


@dataclass(frozen=True, slots=True)
class Sacrifice(Shown):
    """The cores that another pod of the same user would give up.

    Attributes:
        job: MarketJob of the pod, as ``namespace/name``.
        pod: Name of the pod.
        node: Node of the pod.
        cores: Cores that it would lose.
        loss: Speedup that it would lose.
    """

    job: str
    pod: str
    node: str
    cores: float
    loss: float


@dataclass(frozen=True, slots=True)
class OneMore(Shown):
    """One more core for a pod.

    Attributes:
        pod: Name of the pod.
        node: Node of the pod.
        cost: Price in units of its user's budget.
        cost_part: Part of that budget, from 0 to 1.
        speedup: Speedup predicted for the cores that it bought.
        gain: Speedup that the core would add.
        bound: Whether one more core would exceed the most that it can use.
        instead: The user's pod that could pay with the least loss; None if none can.
        worthwhile: Whether the user's utility would grow if `instead` paid; not at an equilibrium.
    """

    pod: str
    node: str
    cost: float
    cost_part: float | None
    speedup: float
    gain: float
    bound: bool
    instead: Sacrifice | None
    worthwhile: bool


def one_more(buyer: Buyer, others: Sequence[Buyer], budget: float | None) -> OneMore:
    """Say what one more core would cost and bring.

    Args:
        buyer: Pod that would get the core.
        others: Other pods of the same user, which could pay.
        budget: Budget of the user; None if unknown.
    """
    now, then = buyer.progress(buyer.cores), buyer.progress(buyer.cores + 1)
    bound = buyer.most is not None and buyer.cores + 1 > buyer.most
    paid = [each for other in others if (each := _sacrifice(other, buyer.price)) is not None]
    least = min(paid, key=lambda each: each[1], default=None)
    return OneMore(
        pod=buyer.pod,
        node=buyer.node,
        cost=buyer.price,
        cost_part=buyer.price / budget if budget else None,
        speedup=now / buyer.work,
        gain=(then - now) / buyer.work,
        bound=bound,
        instead=None if least is None else least[0],
        worthwhile=least is not None and not bound and then - now > least[1],
    )


def _sacrifice(other: Buyer, cost: float) -> tuple[Sacrifice, float] | None:
    """Return what a pod would give up for a sum, and how much work that is; None if it cannot."""
    if other.price <= 0:
        return None
    less = cost / other.price
    left = other.cores - less
    if left < (other.least if other.least > 1 else 0):
        return None
    lost = other.progress(other.cores) - other.progress(left)
    return Sacrifice(other.job, other.pod, other.node, less, lost / other.work), lost
