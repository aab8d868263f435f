"""The sentence that tells a job's user why it got what it got: every wording once."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from walras.market.plan import Grant, Sentence
from walras.market.snapshot import CoreMechanism, Deadline, Job
from walras.outcome.reasons import Terms, explain

MARKET = (
    "2.00 of vision's budget of 8.00 buys 4.00 cores at 0.500 each, "
    "where a parallel fraction of 0.900 gives a speedup of 3.08"
)


@dataclass(frozen=True)
class Case:
    """A grant of 4 cores on an 8-core node by the market, and what differs from it."""

    expected: str
    cores: float = 4.0
    held: float = 4.0
    quota: float | None = None
    target: float | None = None
    kept: float = 0.0
    unspent: float = 0.0
    cut: bool = False
    requested: float = 0.0
    floor: float = 0.0
    minimum: int = 1
    maximum: int | None = None
    reserved: float = 0.0
    whole: bool = False
    mechanism: CoreMechanism = "AmdahlBidding"

    def reason(self) -> str:
        job = Job(
            "a",
            "train",
            "vision",
            "node-1",
            0.9,
            min_cores=self.minimum,
            max_cores=self.maximum,
            requested=self.requested,
            floor=self.floor,
            whole_cores=self.whole,
            deadline=Deadline(60, 60, reserved=self.reserved) if self.reserved else None,
        )
        grant = Grant(
            namespace="a",
            name="train",
            entitlement="vision",
            node="node-1",
            bought=self.cores,
            held=self.held,
            price=0.5,
            spend=0.5 * self.cores,
            speedup=self.cores / (0.9 + 0.1 * self.cores),
            reason="",
            requested=self.requested,
            floor=min(self.floor, self.kept),
        )
        quota = self.cores if self.quota is None else self.quota
        target = self.held if self.target is None else self.target
        terms = Terms(8.0, quota, self.kept, target, self.unspent, self.cut, threshold=0.02)
        return explain(grant, job, terms, self.mechanism)


FOUR = "so it holds 4 cores"
CASES = {
    "cores": Case(f"{MARKET}; {FOUR}"),
    "one core": Case(f"{MARKET}; so it holds 1 core", held=1.0),
    "cores and a part of one": Case(f"{MARKET}; so it holds 3.996 cores", held=3.996),
    "a part of a core": Case(f"{MARKET}; so it holds 0.6 cores", held=0.6),
    "a change too small to print": Case(f"{MARKET}; {FOUR}", quota=4.004),
    "money that a sated user does not spend": Case(
        f"{MARKET}; 5.25 of the budget stays unspent, since all that it could buy would gain "
        f"vision next to nothing; {FOUR}",
        unspent=5.25,
    ),
    "a maximum": Case(
        f"{MARKET}; all that its maxCores or CPU limit of 3 allows; so it holds 3 cores",
        quota=3.0,
        held=3.0,
        maximum=3,
    ),
    "what others cannot use": Case(
        f"{MARKET}; raised to 5.50 by cores that other jobs cannot use; so it holds 5.5 cores",
        quota=5.5,
        held=5.5,
    ),
    "what others keep": Case(
        f"{MARKET}; lowered to 3.00 for what other jobs keep; so it holds 3 cores",
        quota=3.0,
        held=3.0,
    ),
    "a minimum that it buys": Case(
        f"{MARKET}; as much as its minCores of 4 takes of vision's budget; {FOUR}", minimum=4
    ),
    "a minimum that its user pays": Case(
        f"{MARKET}; raised to its minCores of 5 at the cost of vision's other jobs; "
        "so it holds 5 cores",
        quota=5.0,
        held=5.0,
        minimum=5,
    ),
    "a reservation that its user pays": Case(
        f"{MARKET}; raised to the 4.5 cores reserved for its deadline at the cost of vision's "
        "other jobs; so it holds 4.5 cores",
        quota=4.5,
        held=4.5,
        reserved=4.5,
    ),
    "a minimum out of reach": Case(
        f"{MARKET}; {FOUR}; "
        "short of its minCores of 6, since vision's cores on node-1 do not suffice",
        minimum=6,
    ),
    "a request that decides": Case(
        f"{MARKET}; no less than it requested; {FOUR}", kept=4.0, requested=4.0, floor=4.0
    ),
    "the least part": Case(
        "0.06 of vision's budget of 8.00 buys 0.12 cores at 0.500 each, where a parallel fraction "
        "of 0.900 gives a speedup of 0.14; the least part, which every running pod has; "
        "so it holds 0.125 cores",
        cores=0.125,
        held=0.125,
        kept=0.125,
    ),
    "what it keeps anyway": Case(
        f"{MARKET}; raised to 5.00, which it keeps whatever the market decides; "
        "so it holds 5 cores",
        quota=5.0,
        held=5.0,
        kept=5.0,
        requested=5.0,
        floor=5.0,
    ),
    "a request that gives way": Case(
        f"{MARKET}; no less than it requested; {FOUR}; less than its request of 6 cores, "
        "since the requests and least parts of its pods exceed what node-1 sells",
        kept=4.0,
        requested=6.0,
        floor=6.0,
    ),
    "a request that does not count": Case(
        f"{MARKET}; {FOUR}; less than its request of 6 cores, which spec.cores.floor of the Market "
        "does not keep for it",
        requested=6.0,
    ),
    "whole cores, rounded down": Case(
        "2.40 of vision's budget of 8.00 buys 4.80 cores at 0.500 each, where a parallel fraction "
        f"of 0.900 gives a speedup of 3.48; rounded to 4, as it shares no core; {FOUR}",
        cores=4.8,
        quota=4.0,
        whole=True,
    ),
    "whole cores, rounded up": Case(
        "1.80 of vision's budget of 8.00 buys 3.60 cores at 0.500 each, where a parallel fraction "
        f"of 0.900 gives a speedup of 2.86; rounded to 4, as it shares no core; {FOUR}",
        cores=3.6,
        quota=4.0,
        whole=True,
    ),
    "no whole core to hold": Case(
        f"{MARKET}; lowered to 0.60 for what other jobs keep; so it holds 0.6 cores: it "
        "asked to share no core, but has not bought a whole one",
        quota=0.6,
        held=0.6,
        whole=True,
    ),
    "cores that stay": Case(
        f"{MARKET}; raised to 4.60 by cores that other jobs cannot use; "
        "keeps 4 cores instead of 4.6 cores: "
        "moving cores would add less than 2% to the progress of the jobs on node-1",
        quota=4.6,
        target=4.6,
    ),
    "proportional sharing": Case(
        f"vision's share of node-1 is 4.00 cores for this job; {FOUR}",
        mechanism="ProportionalSharing",
    ),
    "an auction": Case(
        f"a bid of 2.00, of vision's budget of 8.00, wins 4.00 cores of node-1; {FOUR}",
        mechanism="Auction",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_reason_names_what_happened(case: Case) -> None:
    assert case.reason() == case.expected


def test_a_sentence_is_written_only_when_it_is_read() -> None:
    calls: list[int] = []

    def write(number: int) -> str:
        calls.append(number)
        return f"{number} cores"

    grant = Grant("a", "train", "vision", "n", 1, 1, 1, 1, 1, Sentence(write, (3,)))
    renamed = grant._replace(name="serve")
    assert not calls
    assert grant.reason == renamed.reason == "3 cores"
    assert calls == [3, 3]
    assert grant == grant._replace(reason="3 cores")
    assert grant != grant._replace(reason="4 cores")
    assert "reason='3 cores'" in repr(grant)
    assert hash(grant) == hash(grant._replace(reason="3 cores"))
