"""Election of a leader, while clocks disagree and requests are slow: there is at most one.

The API server is a register that refuses a write of another version than it has, which is all that
a Lease is to those who want it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from walras_operator.lead.lease import EPOCHS, LeaderCandidate, LeaseRecord, Times, next_epoch

TIMES = Times(duration=15, deadline=10, retry=2)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def held(by: str, *, transitions: int = 3, renewed: str = "then") -> LeaseRecord:
    return LeaseRecord(by, 15, "earlier", renewed, transitions, version="7")


def test_a_lease_that_is_not_there_is_taken_in_the_first_term() -> None:
    wanted = LeaderCandidate("a", TIMES).wanted(0, NOON)
    assert wanted == LeaseRecord(
        "a", 15, "2026-01-31T12:00:00.000000Z", "2026-01-31T12:00:00.000000Z", 1
    )


def test_a_lease_is_left_to_its_holder_until_it_has_run_out_since_it_was_first_seen() -> None:
    candidate = LeaderCandidate("a", TIMES)
    candidate.see(held("b"), now=100)
    assert candidate.wanted(114.9, NOON) is None
    wanted = candidate.wanted(115, NOON)
    assert wanted is not None
    assert (wanted.holder, wanted.transitions, wanted.version) == ("a", 4, "7")


def test_a_renewal_counts_from_when_it_was_seen_whatever_the_holders_clock_says() -> None:
    candidate = LeaderCandidate("a", TIMES)
    candidate.see(held("b", renewed="2020-01-01T00:00:00Z"), now=100)
    candidate.see(held("b", renewed="1970-01-01T00:00:00Z"), now=110)
    assert candidate.wanted(124, NOON) is None
    assert candidate.wanted(125, NOON) is not None


def test_leading_goes_on_until_another_one_leads() -> None:
    candidate = LeaderCandidate("a", TIMES)
    candidate.renewed(held("a"), asked=100)
    candidate.renewed(held("a"), asked=130)  # late, but nobody was faster
    assert candidate.since == 100
    candidate.see(held("b", transitions=4), now=150)
    candidate.renewed(held("a", transitions=5), asked=200)
    assert candidate.since == 200


def test_a_touched_lease_that_says_the_same_was_not_renewed() -> None:
    candidate = LeaderCandidate("a", TIMES)
    candidate.see(held("b"), now=100)
    candidate.see(replace(held("b"), version="8"), now=110)
    wanted = candidate.wanted(115, NOON)
    assert wanted is not None
    assert wanted.version == "8"


@pytest.mark.parametrize(
    ("now", "older"),
    [
        (held("a", renewed="10:02"), False),
        (replace(held("a", renewed="10:02"), version="10"), False),
        (replace(held("a", renewed="10:04"), version="10"), False),
        (replace(held("b", renewed="09:00"), version="10"), False),
        (replace(held("a", renewed="10:02"), version="6"), True),
        (replace(held("a", renewed="10:00"), version="10"), True),
        (LeaseRecord(), True),
    ],
    ids=[
        *("the same", "touched", "renewed", "of another holder with a slow clock"),
        *("an older version", "an older renewal after many writes", "none"),
    ],
)
def test_a_restored_etcd_shows_in_the_lease(now: LeaseRecord, older: bool) -> None:
    assert now.is_older_than(held("a", renewed="10:02")) == older
    assert not now.is_older_than(LeaseRecord())


def test_a_released_lease_may_be_had_at_once() -> None:
    leader, other = LeaderCandidate("a", TIMES), LeaderCandidate("b", TIMES)
    leader.renewed(held("a"), asked=100)
    released = leader.released()
    assert released is not None
    assert not leader.leads(100)
    other.see(released, now=100)
    wanted = other.wanted(100, NOON)
    assert wanted is not None
    assert wanted.transitions == released.transitions + 1


def test_who_does_not_lead_has_nothing_to_release() -> None:
    candidate = LeaderCandidate("a", TIMES)
    candidate.see(held("b"), now=100)
    assert candidate.released() is None


def test_a_leader_believes_in_its_lease_from_when_it_asked_for_it() -> None:
    candidate = LeaderCandidate("a", TIMES)
    candidate.renewed(held("a"), asked=100)
    assert candidate.leads(109.9)
    assert not candidate.leads(110)


def test_a_leader_that_sees_another_one_leads_no_longer() -> None:
    candidate = LeaderCandidate("a", TIMES)
    candidate.renewed(held("a"), asked=100)
    candidate.see(held("b", transitions=4), now=101)
    assert not candidate.leads(101)


def test_a_renewal_stays_in_its_term() -> None:
    candidate = LeaderCandidate("a", TIMES)
    candidate.renewed(held("a"), asked=100)
    wanted = candidate.wanted(102, NOON + timedelta(seconds=2))
    assert wanted is not None
    assert (wanted.transitions, wanted.acquired) == (3, "earlier")


@pytest.mark.parametrize("times", [(10, 10.0, 2.0), (15, 10.0, 10.0), (15, 10.0, 0.0)])
def test_times_that_would_not_keep_leaders_apart_are_refused(
    times: tuple[int, float, float],
) -> None:
    with pytest.raises(ValueError, match="each must be longer than the next"):
        Times(*times)


@given(st.integers(1, 10**6), st.integers(0, 2**53 - 2))
def test_an_epoch_is_above_all_that_were(term: int, known: int) -> None:
    epoch = next_epoch(term, known)
    assert epoch > known
    assert epoch > term * EPOCHS


def test_epochs_of_a_term_are_above_those_of_earlier_terms() -> None:
    last = next_epoch(3, 0) + EPOCHS - 2
    assert next_epoch(4, 0) > last


@dataclass
class Asked:
    """A request on its way."""

    record: LeaseRecord
    at: float
    answer: LeaseRecord | None = None


class Contest(RuleBasedStateMachine):
    """Three who would lead, at arbitrary moments, over a network of arbitrary delays."""

    @initialize(skews=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
    def begin(self, skews: list[float]) -> None:
        self.time = 0.0
        self.skews = skews
        self.stored = LeaseRecord()
        self.versions = 0
        self.terms: list[int] = []
        self.candidates = [LeaderCandidate(name, TIMES) for name in "abc"]
        self.asked: list[Asked | None] = [None] * 3

    def clock(self, who: int) -> float:
        return self.time + self.skews[who]

    @rule(seconds=st.floats(0.1, 20))
    def time_passes(self, seconds: float) -> None:
        self.time += seconds

    @rule(who=st.integers(0, 2))
    def looks(self, who: int) -> None:
        self.candidates[who].see(self.stored, self.clock(who))

    @rule(who=st.integers(0, 2))
    def asks(self, who: int) -> None:
        clock = NOON + timedelta(seconds=self.clock(who))
        record = self.candidates[who].wanted(self.clock(who), clock)
        if self.asked[who] is None and record is not None:
            self.asked[who] = Asked(record, self.clock(who))

    @rule(who=st.integers(0, 2))
    def server_answers(self, who: int) -> None:
        asked = self.asked[who]
        if asked is None or asked.answer is not None:
            return
        if asked.record.version != self.stored.version:
            self.asked[who] = None
            return
        self.versions += 1
        if asked.record.holder not in {"", self.stored.holder}:
            self.terms.append(asked.record.transitions)
        self.stored = asked.answer = replace(asked.record, version=str(self.versions))

    @rule(who=st.integers(0, 2))
    def answer_arrives(self, who: int) -> None:
        asked = self.asked[who]
        if asked is not None and asked.answer is not None:
            self.candidates[who].renewed(asked.answer, asked.at)
            self.asked[who] = None

    @rule(who=st.integers(0, 2))
    def releases(self, who: int) -> None:
        record = self.candidates[who].released()
        if self.asked[who] is None and record is not None:
            self.asked[who] = Asked(record, self.clock(who))

    @invariant()
    def at_most_one_leads(self) -> None:
        if hasattr(self, "candidates"):
            leaders = [
                candidate.identity
                for who, candidate in enumerate(self.candidates)
                if candidate.leads(self.clock(who))
            ]
            assert len(leaders) <= 1

    @invariant()
    def terms_grow(self) -> None:
        if hasattr(self, "terms"):
            assert self.terms == sorted(set(self.terms))


TestContest = Contest.TestCase
