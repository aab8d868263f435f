"""The sentence that tells a job's user why it got what it got: every wording once."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from walras.explain import WithoutHysteresis, explain
from walras.plan import Grant
from walras.snapshot import CoreMechanism, Job

MARKET = (
    "2.00 of vision's budget of 8.00 buys 4.00 cores at 0.500 each, "
    "where a parallel fraction of 0.900 gives a speedup of 3.08"
)


@dataclass(frozen=True)
class Case:
    """A grant of 4 cores on an 8-core node by the market, and what differs from it."""

    expected: str
    cores: float = 4.0
    granted: int = 0
    shared: int = 0
    weight: int = 100
    quota: float | None = None
    minimum: int = 1
    maximum: int | None = None
    sharers: int = 0
    mechanism: CoreMechanism = "AmdahlBidding"
    due: tuple[int, int] | None = None

    def reason(self) -> str:
        job = Job(
            "a", "train", "vision", "node-1", 0.9, min_cores=self.minimum, max_cores=self.maximum
        )
        grant = Grant(
            namespace="a",
            name="train",
            entitlement="vision",
            node="node-1",
            cores=self.cores,
            granted_cores=self.granted,
            shared_cores=self.shared,
            weight=self.weight,
            price=0.5,
            spend=0.5 * self.cores,
            speedup=self.cores / (0.9 + 0.1 * self.cores),
            reason="",
        )
        quota = self.cores if self.quota is None else self.quota
        own, shared = self.due or (self.granted, self.shared)
        market = WithoutHysteresis(own, shared, threshold=0.02, averaged=False)
        explained = explain(grant, job, 8.0, quota, self.sharers, self.mechanism, market)
        assert explained._replace(reason="") == grant
        return explained.reason


CASES = {
    "cores of its own": Case(f"{MARKET}; rounded to 4 cores of its own", granted=4),
    "one core of its own": Case(f"{MARKET}; rounded to 1 core of its own", granted=1),
    "a change too small to print": Case(
        f"{MARKET}; rounded to 4 cores of its own", granted=4, quota=4.004
    ),
    "the pool to itself": Case(
        f"{MARKET}; lowered to 0.60 for the minCores or deadlines of vision's other jobs; "
        "less than one core, so it runs on the 1 core kept for small jobs",
        quota=0.6,
        shared=1,
        sharers=1,
    ),
    "the pool with another": Case(
        f"{MARKET}; lowered to 0.60 for the minCores or deadlines of vision's other jobs; "
        "less than one core, so it shares 1 core with 1 other job at weight 40",
        quota=0.6,
        shared=1,
        sharers=2,
        weight=40,
    ),
    "the pool with others": Case(
        f"{MARKET}; lowered to 0.60 for the minCores or deadlines of vision's other jobs; "
        "less than one core, so it shares 2 cores with 3 other jobs at weight 40",
        quota=0.6,
        shared=2,
        sharers=4,
        weight=40,
    ),
    "a whole core that the node has not got": Case(
        "0.50 of vision's budget of 8.00 buys 1.00 cores at 0.500 each, "
        "where a parallel fraction of 0.900 gives a speedup of 1.00; "
        "node-1 has no core left for it alone, so it shares 1 core with 1 other job at weight 100",
        cores=1.0,
        shared=1,
        sharers=2,
    ),
    "a maximum": Case(
        f"{MARKET}; limited to its maxCores of 3; rounded to 3 cores of its own",
        quota=3.0,
        granted=3,
        maximum=3,
    ),
    "what maximums leave": Case(
        f"{MARKET}; raised to 5.50 by cores that jobs at their maxCores leave; "
        "rounded to 6 cores of its own",
        quota=5.5,
        granted=6,
    ),
    "what maximums leave, up to a minimum of one": Case(
        "0.10 of vision's budget of 8.00 buys 0.20 cores at 0.500 each, "
        "where a parallel fraction of 0.900 gives a speedup of 0.22; "
        "raised to 1.00 by cores that jobs at their maxCores leave; rounded to 1 core of its own",
        cores=0.2,
        quota=1.0,
        granted=1,
    ),
    "a minimum that its user pays": Case(
        f"{MARKET}; raised to its minCores of 5 at the cost of vision's other jobs; "
        "rounded to 5 cores of its own",
        quota=5.0,
        granted=5,
        minimum=5,
    ),
    "a minimum that rounding alone meets": Case(
        f"{MARKET}; rounded to 5 cores of its own", granted=5, minimum=5
    ),
    "a minimum out of reach": Case(
        f"{MARKET}; rounded to 4 cores of its own; "
        "short of its minCores of 6, since vision's cores on node-1 do not suffice",
        granted=4,
        minimum=6,
    ),
    "cores that stay": Case(
        f"{MARKET}; raised to 4.60 by cores that jobs at their maxCores leave; "
        "keeps 4 cores of its own instead of 5 cores of its own: moving cores would add "
        "less than 2% to the progress of the jobs on node-1",
        granted=4,
        quota=4.6,
        due=(5, 0),
    ),
    "a pool that stays": Case(
        f"{MARKET}; lowered to 1.10 for the minCores or deadlines of vision's other jobs; "
        "keeps its part of 2 cores instead of 1 core of its own: moving cores would add "
        "less than 2% to the progress of the jobs on node-1",
        shared=2,
        sharers=3,
        quota=1.1,
        due=(1, 0),
    ),
    "proportional sharing": Case(
        "vision's share of node-1 is 4.00 cores for this job; rounded to 4 cores of its own",
        granted=4,
        mechanism="ProportionalSharing",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_reason_names_what_happened(case: Case) -> None:
    assert case.reason() == case.expected
