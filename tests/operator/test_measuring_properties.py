"""Properties of measurements while pods, agents, operators and writes fail."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from admission import admit, read_definitions, schema_of
from examples import examples
from kind_documents import document as valid
from measured_worlds import Cluster
from walras.speedup.amdahls_law import speedup
from walras_api.speedup_profile_status import SpeedupProfileStatus
from worlds import entitlement, job, market, node, pod, world

if TYPE_CHECKING:
    from collections.abc import Callable

    from whole_decisions import Decision

TRUTH = {"one": 0.9, "two": 0.6, "three": 0.99}
THRESHOLD = 0.1
NODES = ["n0", "n1"]
SCHEMA = schema_of(read_definitions()["SpeedupProfile"])

HAPPENINGS = (
    "nothing", "wait", "agent dies", "agent returns", "agent is started anew", "agent is mute",
    "agent speaks", "agent lies", "agent is honest", "pod leaves", "pod comes",
    "profile is deleted", "operator is replaced", "statuses fail", "nodes fail", "writes work",
    "program changes",
)  # fmt: skip
happenings = st.lists(
    st.tuples(st.sampled_from(HAPPENINGS), st.integers(0, 5)), min_size=5, max_size=30
)


def cluster() -> Cluster:
    documents = [
        market(profiling={"reprofileSeconds": 120, "reprofileThreshold": str(THRESHOLD)}),
        entitlement(),
        *(node(name, "48") for name in NODES),
        *(job(name, auto=True, minCores=2) for name in TRUTH),
        *(pod(f"{name}-{n}", name, f"n{n % 2}") for name in TRUTH for n in range(2)),
    ]
    return Cluster(world(*documents), dict(TRUTH))


def happen(known: Cluster, what: str, number: int) -> bool:
    """Let something happen to the cluster, and return whether the operator is replaced."""
    name, where = sorted(TRUTH)[number % 3], NODES[number % 2]
    actions: dict[str, Callable[[], object]] = {
        "agent dies": lambda: known.dead.add(where),
        "agent returns": lambda: known.dead.discard(where),
        "agent is started anew": lambda: known.restart_agent(where),
        "agent is mute": lambda: known.mute.add(where),
        "agent speaks": lambda: known.mute.discard(where),
        "agent lies": lambda: known.wrong.__setitem__(where, {"podUID": "u-lab-nobody"}),
        "agent is honest": known.wrong.clear,
        "pod leaves": lambda: known.remove_pod(f"{name}-{number}"),
        "pod comes": lambda: known.put_pod(f"{name}-{number}", name, where),
        "profile is deleted": lambda: known.delete_profile(name),
        "statuses fail": lambda: known.deaf.update(("SpeedupProfile", "MarketJob")),
        "nodes fail": lambda: known.deaf.add("NodeAllocation"),
        "writes work": known.deaf.clear,
        "program changes": lambda: known.truth.update({name: 0.3}),
    }
    if what in actions:
        actions[what]()
    return what == "operator is replaced"


def consistent(known: Cluster, decision: Decision) -> None:
    """Check what must hold after every decision."""
    for each in decision.statuses:
        if each.object.kind == "SpeedupProfile":
            SpeedupProfileStatus.model_validate(each.status)
            answer = admit({**valid("SpeedupProfile"), "status": each.status}, SCHEMA)
            assert answer.problems == []
            assert answer.stored["status"] == each.status
    asked = [each.pod_uid.rpartition("-")[0] for each in known.asked().values()]
    if not known.deaf:
        assert max(Counter(asked).values(), default=0) <= 1, "one pod of a job at a time"
    for name in TRUTH:
        taken = [each.id for each in known.record(name).measurements]
        assert len(taken) == len(set(taken)), "taken once"


def found_or_hardly_matters(known: Cluster, name: str) -> None:
    """Check that a known fraction is right, or predicts progress well on the cores of its pods."""
    found, truth = known.fraction(name), known.truth[name]
    assert found is not None
    if found == pytest.approx(truth, abs=1e-3):
        return
    for each in known.world.allocations.values():
        for grant in each.spec.grants:
            if grant.name.startswith(f"{name}-"):
                cores = int(grant.cores)
                departure = float(speedup(cores, truth)) / float(speedup(cores, found)) - 1
                assert abs(departure) <= THRESHOLD, f"{found} for {truth} on {cores} cores"


@pytest.mark.long
@examples(15)
@example(
    [
        ("pod comes", 3),
        *[("nothing", 0)] * 3,
        ("profile is deleted", 0),
        ("nothing", 0),
        ("program changes", 0),
    ]
)
@given(happenings)
def test_whatever_happens_fractions_are_found_once_things_are_calm(
    course: list[tuple[str, int]],
) -> None:
    known = cluster()
    for what, number in course:
        replaced = happen(known, what, number)
        consistent(known, known.step(120 if what == "wait" else 10, leader_changes=replaced))
    for calm in (known.dead, known.mute, known.wrong, known.deaf):
        calm.clear()
    for name in TRUTH:
        known.put_pod(f"{name}-0", name, "n0")
    for _ in range(40):
        consistent(known, known.step(60))
    for name in TRUTH:
        assert known.verdict(name)[:2] == ("True", "Online")
        found_or_hardly_matters(known, name)
    most = Counter(known.made).most_common(1)
    assert most[0][1] <= len(NODES), "no node makes a measurement twice"
