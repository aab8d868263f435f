"""What plain Kubernetes would give the pods of a Market, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from walras_api.contract import MARKET_NAME
from walras_dashboard.what_if import Tries
from walras_dashboard.what_if_models import WhatIf
from worlds import allocation, entitlement, job, market, node, pod, world

if TYPE_CHECKING:
    from walras_dashboard.what_if_models import WhatIfAnswer

Document = dict[str, Any]


def limited(of: Document, cpus: str) -> Document:
    of["spec"]["containers"][0]["resources"]["limits"] = {"cpu": cpus}
    return of


def best_effort(of: Document) -> Document:
    del of["spec"]["containers"][0]["resources"]
    return of


def answer(*documents: Document, changes: WhatIf | None = None, **fields: Any) -> WhatIfAnswer:
    made = world(
        market(MARKET_NAME, cores={"floor": "None"}),
        node("n1", "10"),
        entitlement("ada"),
        entitlement("bob"),
        job("a", "ada", parallelFraction="0.5"),
        job("b", "bob", parallelFraction="0.9"),
        *documents,
        **fields,
    )
    return Tries().answer(made, changes or WhatIf())


def held(found: WhatIfAnswer) -> dict[str, float]:
    assert found.plain is not None
    return {each.name: each.held for each in found.plain.users}


def test_requests_divide_a_node_and_shares_do_not() -> None:
    pods = pod("a-0", "a", cpu="3"), pod("b-0", "b", cpu="1")
    found = answer(*pods, changes=WhatIf(shares={"bob": 9}))
    assert held(found) == pytest.approx({"ada": 7.5, "bob": 2.5})
    assert found.plain is not None
    utilities = {each.name: each.utility for each in found.plain.users}
    assert utilities == pytest.approx({"ada": 7.5 / (0.5 + 3.75), "bob": 2.5 / (0.9 + 0.25)})
    assert [each.held for each in found.now.users] == pytest.approx([5.0, 5.0], abs=0.7)


def test_what_a_limit_keeps_a_pod_from_goes_to_the_others() -> None:
    found = answer(limited(pod("a-0", "a", cpu="3"), "4"), pod("b-0", "b", cpu="1"))
    assert held(found) == pytest.approx({"ada": 4.0, "bob": 6.0})


def test_limits_count_threads_where_cores_are_sold() -> None:
    topology = {
        "cpus": "0-9",
        "cores": 5,
        "threads": 10,
        "sockets": 1,
        "numaNodes": 1,
        "memory": str(2**35),
    }
    known = {"n1": allocation("n1", {"epoch": 0}, {"topology": topology})}
    found = answer(
        limited(pod("a-0", "a", cpu="3"), "4"), pod("b-0", "b", cpu="1"), allocations=known
    )
    assert held(found) == pytest.approx({"ada": 2.0, "bob": 3.0})


def test_pods_without_requests_starve_beside_others_and_not_in_the_market() -> None:
    """All of them together weigh 2, beside 4096 for requests of 4 CPUs."""
    found = answer(
        pod("a-0", "a", cpu="4"), *(best_effort(pod(f"b-{each}", "b")) for each in range(3))
    )
    assert held(found) == pytest.approx({"ada": 10 * 4096 / 4098, "bob": 10 * 2 / 4098})
    assert found.plain is not None
    assert found.plain.starving == 3
    assert (found.now.starving, found.then.starving) == (0, 0)


def test_without_pods_nobody_has_anything() -> None:
    found = answer()
    assert found.plain is not None
    assert (found.plain.users, found.plain.starving) == ((), 0)
