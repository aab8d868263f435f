"""Pure: what a cluster without Walras has today, and would have with it, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import computed_field

from walras_view.documents import Shown

Shares = Literal["equal", "requests", "quota"]
"""Sources of users' shares."""

Unit = Literal["core", "CPU"]
"""What a figure counts: a physical core, or a CPU of Kubernetes, which may be a hyperthread."""

NO_CHANGE = 0.005
"""Part of a speed, or cores, that are printed as nothing."""

STARVING = 0.1
"""Cores with less than which a pod that would use more hardly runs."""


@dataclass(frozen=True, slots=True)
class Range(Shown):
    """The least and the most of a figure under all assumptions."""

    least: float
    most: float

    @property
    def middle(self) -> float:
        """Half of the way from the least to the most."""
        return (self.least + self.most) / 2


@dataclass(frozen=True, slots=True)
class CoresOfJob(Shown):
    """Cores of a job's pods.

    Attributes:
        today: On plain Kubernetes.
        bought: What they buy in the market.
        market: What they use of it, and of what others leave.
    """

    today: float
    bought: Range
    market: Range


@dataclass(frozen=True, slots=True)
class CoresOfUser(Shown):
    """Cores of a user's pods.

    Attributes:
        guarantee: What its share of the nodes where its pods run lets them use.
        today: On plain Kubernetes.
        market: In the market.
    """

    guarantee: float
    today: float
    market: Range

    @computed_field  # type: ignore[prop-decorator]
    @property
    def market_text(self) -> str:
        """Those in the market, as a text."""
        return cores_text(self.market, "..")


@dataclass(frozen=True, slots=True)
class StarvingPods(Shown):
    """Numbers of pods that hardly run: today, and in the market at the worst."""

    today: int
    market: int


@dataclass(frozen=True, slots=True)
class UserOutlook(Shown):
    """What a user has today, is guaranteed, and would have.

    Attributes:
        name: Its name.
        part: Part of the cluster that its share is worth.
        pods: Number of its pods.
        cores: Cores of its pods.
        gain: Part by which its pods are faster in the market than today; None if not even the sign
            is known.
        keeps_guarantee: Whether its pods get done in the market, to one percent, what its share of
            their nodes alone would let them.
        requests_beyond_shares: Whose pods request more than their user's share of one of its nodes:
            its own, or others'. These keep that, and nobody else has it.
        starving_pods: Its pods that hardly run.
    """

    name: str
    part: float
    pods: int
    cores: CoresOfUser
    gain: Range | None
    keeps_guarantee: bool
    requests_beyond_shares: tuple[Literal["its own pods", "others' pods"], ...]
    starving_pods: StarvingPods

    @computed_field  # type: ignore[prop-decorator]
    @property
    def gain_text(self) -> str:
        """Its gain as a text; where nothing is to be compared with, a word."""
        if self.cores.today < STARVING and self.starving_pods.today:
            return "starves today"
        return gain_text(self.gain)


@dataclass(frozen=True, slots=True)
class JobOutlook(Shown):
    """What a job has today, and would have.

    Attributes:
        namespace: Its namespace.
        kind: Kind of the object that made its pods.
        name: Name of that object.
        user: Name of its user.
        pods: Number of its pods.
        requested: What they request.
        cores: Cores of its pods.
        gain: Part by which its pods are faster in the market than today; None if not even the sign
            is known.
        starving_pods: Its pods that hardly run.
    """

    namespace: str
    kind: str
    name: str
    user: str
    pods: int
    requested: float
    cores: CoresOfJob
    gain: Range | None
    starving_pods: StarvingPods


@dataclass(frozen=True, slots=True)
class Loan(Shown):
    """Cores of a user's guarantee that another user has under all assumptions."""

    lender: str
    borrower: str
    cores: Range


@dataclass(frozen=True, slots=True)
class Assumptions(Shown):
    """What is assumed of parallel fractions.

    Attributes:
        least: Least fraction of a job whose fraction is unknown.
        most: Largest fraction of such a job.
        assumptions: Number of assumptions on all jobs.
        known_jobs: Number of jobs whose fraction is known.
    """

    least: float
    most: float
    assumptions: int
    known_jobs: int


@dataclass(frozen=True, slots=True)
class FirstLook(Shown):
    """What a cluster has today, and would have.

    Attributes:
        users_by: Who is a user: ``namespace``, ``kueue``, ``label:KEY`` or ``annotation:KEY``.
        shares: Source of users' shares.
        unit: What all figures of cores count: cores, where agents have reported them of all nodes,
            else CPUs, as Kubernetes does.
        cores: Cores of all nodes that are divided.
        nodes: Number of these nodes.
        pods: Number of pods of users.
        fractions: Assumptions on parallel fractions.
        pods_with_known_use: Number of pods whose use of CPUs is known.
        use_from: What measured that; empty if nothing did.
        users: Users, the largest change of cores first.
        loans: Loans, the largest first.
        jobs: Jobs, likewise.
        next: Commands that come next.
        notes: Lines about what takes no part, and what is assumed.
    """

    users_by: str
    shares: Shares
    unit: Unit
    cores: float
    nodes: int
    pods: int
    fractions: Assumptions
    pods_with_known_use: int
    use_from: str
    users: tuple[UserOutlook, ...]
    loans: tuple[Loan, ...]
    jobs: tuple[JobOutlook, ...]
    next: tuple[str, ...]
    notes: tuple[str, ...]


MANIFOLD = 2.0
"""Gain in speed from which on it is told in times instead of percent."""

MOST_TIMES = 100
"""Times from which on nobody cares how many: a pod that hardly ran today runs."""


def cores_text(cores: Range, between: str = " to ") -> str:
    """Return a range of cores as a text."""
    low, high = f"{cores.least:.1f}", f"{cores.most:.1f}"
    return low if low == high else f"{low}{between}{high}"


def gain_text(gain: Range | None) -> str:
    """Return a gain in speed as a text; ``unknown`` if its sign depends on what is not known."""
    if gain is None:
        return "unknown"
    if gain.least >= MANIFOLD:
        return f"{times(gain, '..', '>')}x"
    low, high = round(100 * gain.least), round(100 * gain.most)
    if low == high:
        return "same" if not low else f"{low:+d} %"
    return f"{low:+d}..{high:+d} %".replace("+0", "0").replace("-0", "0")


def times(gain: Range, between: str, over: str) -> str:
    """Return how many times as fast a gain makes, as a text without the unit.

    Args:
        gain: The gain.
        between: What stands between two numbers.
        over: What stands before a number that is not the exact one.
    """
    low, high = (
        f"{over}{MOST_TIMES}" if 1 + each >= MOST_TIMES else f"{1 + each:.0f}"
        for each in (gain.least, gain.most)
    )
    return low if low == high else f"{low}{between}{high}"
