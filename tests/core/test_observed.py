"""Nodes that only observe are a market of their own, which changes nothing on the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from random_markets import random_market
from walras.clearing import clear
from walras.market.observed import separate_markets


@pytest.mark.parametrize("number", range(60))
def test_the_nodes_that_enforce_are_divided_as_if_there_were_no_others(number: int) -> None:
    snapshot, policy = random_market(number)
    random = np.random.default_rng(number)
    observed = frozenset(node.name for node in snapshot.nodes if random.random() < 0.5)
    everybody = replace(snapshot, observed=observed)
    enforcing = replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.name not in observed),
        jobs=tuple(job for job in snapshot.jobs if job.node not in observed),
    )
    both, alone = clear(everybody, policy), clear(enforcing, policy)
    if not enforcing.nodes:
        assert both == clear(snapshot, policy)
        return
    assert [each for each in both.grants if each.node not in observed] == list(alone.grants)
    assert both.ledger == alone.ledger
    assert both.account == alone.account
    held = sum(each.held for each in both.grants)
    assert sum(user.held for user in both.users) == pytest.approx(held)
    decided = [(grant.namespace, grant.name) for grant in both.grants]
    decided += [(refusal.namespace, refusal.name) for refusal in both.refused]
    assert sorted(decided) == sorted((job.namespace, job.name) for job in snapshot.jobs)


def test_nodes_of_one_kind_are_one_market() -> None:
    snapshot, _ = random_market(1)
    assert separate_markets(snapshot) == [snapshot]
    observed = frozenset(node.name for node in snapshot.nodes)
    assert len(separate_markets(replace(snapshot, observed=observed))) == 1
