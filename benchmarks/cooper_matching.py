"""Compare stable colocation with textbook Python, NumPy's sort and the PyPI library `matching`.

Disutilities are uniformly random unless the case says otherwise. With `--patient`, `matching` also
pairs a thousand roommates, which takes it most of a minute.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from harness import Case, one_thread, run

one_thread()  # before NumPy is imported

import numpy as np  # noqa: E402
from matching.algorithms.stable_roommates import stable_roommates as irving  # noqa: E402
from matching.exceptions import NoStableMatchingWarning  # noqa: E402
from matching.players import Player  # noqa: E402

from walras.mechanisms.cooper.bulk import marry_types, part_by_intensity, part_randomly  # noqa: E402
from walras.mechanisms.cooper.marriage import preference_lists  # noqa: E402
from walras.mechanisms.cooper.policies import stable_roommates  # noqa: E402
from walras_studies.cooper.marriage import marry, propose  # noqa: E402
from walras_studies.cooper.policies import stable_marriage_random  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Lists = NDArray[np.uint32]
    Sides = tuple[NDArray[np.int64], NDArray[np.int64]]

MOST_BY_THEMSELVES = 10_000
"""Most agents whose individual disutilities fit into memory."""


def textbook_marriage(lists: list[list[int]], ranks: list[list[float]]) -> list[int]:
    """Return receivers' partners by Gale and Shapley in plain Python (algorithm 1 of the paper)."""
    held = [-1] * len(ranks)
    choices = [iter(each) for each in lists]
    free = list(range(len(lists)))
    while free:
        suitor = free.pop()
        for receiver in choices[suitor]:
            rival = held[receiver]
            if rival < 0 or ranks[receiver][suitor] < ranks[receiver][rival]:
                held[receiver] = suitor
                if rival >= 0:
                    free.append(rival)
                break
    return held


def library_roommates(disutility: Floats) -> object:
    """Pair roommates with `matching`, without the deep copy that it makes of each game."""
    players = [Player(agent) for agent in range(len(disutility))]
    for agent, row in enumerate(np.argsort(disutility, axis=1).tolist()):
        players[agent].set_prefs([players[other] for other in row if other != agent])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoStableMatchingWarning)
        return irving(players)


def marriage(name: str, target_ms: float, lists: Lists, ranks: Floats) -> Case:
    """Return the case of matching two sides with given preference lists."""
    return Case(
        name,
        target_ms,
        partial(propose, lists, ranks),
        "textbook, Python",
        partial(textbook_marriage, lists.tolist(), ranks.tolist()),
    )


def sorting(name: str, target_ms: float, costs: Floats) -> Case:
    """Return the case of sorting costs into preference lists."""
    return Case(
        name,
        target_ms,
        partial(preference_lists, costs),
        "NumPy argsort, stable",
        partial(np.argsort, costs, axis=1, kind="stable"),
        warm_peer=True,
    )


def marriages() -> Iterator[Case]:
    """Yield the cases of two sides of a thousand agents each."""
    costs, receiver_costs = np.random.default_rng(1).random((2, 1000, 1000))
    ranks = np.argsort(preference_lists(receiver_costs), axis=1).astype(np.float64)
    yield marriage("marriage, 1,000 a side, ranks given", 0.5, preference_lists(costs), ranks)
    agreed = np.tile(np.arange(1000.0), (1000, 1))
    unwanted = np.ascontiguousarray(agreed[:, ::-1])
    yield marriage("  most proposals possible (500,500)", 10, preference_lists(agreed), unwanted)
    yield sorting("preference lists, 1,000 by 1,000", 12, costs)
    yield sorting("  over 24 orders of magnitude", 120, 10 ** (24 * costs - 12))


def roommates(name: str, target_ms: float, disutility: Floats, *, beside_peer: bool) -> Case:
    """Return the case of stable roommates, from disutilities to pairs."""
    ours = partial(stable_roommates, disutility)
    if not beside_peer:
        return Case(name, target_ms, ours)
    return Case(name, target_ms, ours, "PyPI matching", partial(library_roommates, disutility))


def policies(*, patient: bool) -> Iterator[Case]:
    """Yield the cases of whole policies, from disutilities to pairs."""
    small, large = (np.random.default_rng(2).random((agents, agents)) for agents in (200, 1000))
    common = 0.9 * np.random.default_rng(3).random(1000) + 0.1 * large
    random_marriage = partial(stable_marriage_random, large, seed=1)
    yield Case("SMR, 1,000 agents, from disutilities", 25, random_marriage)
    yield roommates("SR, 200 agents, from disutilities", 2, small, beside_peer=True)
    yield roommates("SR, 1,000 agents, from disutilities", 25, large, beside_peer=patient)
    yield roommates("  similar preferences", 25, common, beside_peer=False)


def by_types(name: str, target_ms: float, disutility: Floats, sides: Sides) -> Case:
    """Return the case of a marriage of job types, from disutilities to pairs of types."""
    return Case(name, target_ms, partial(marry_types, disutility, *sides))


def by_agents(disutility: Floats, sides: Sides) -> Callable[[], object]:
    """Return a call that solves the same problem agent by agent."""
    proposer, receiver = (np.repeat(np.arange(len(side)), side) for side in sides)
    return partial(
        marry, disutility[np.ix_(proposer, receiver)], disutility[np.ix_(receiver, proposer)]
    )


def bulk() -> Iterator[Case]:
    """Yield the cases of many agents of few job types."""
    for types, agents, target in ((100, 10_000, 2), (20, 100_000, 0.5), (1000, 1_000_000, 50)):
        random = np.random.default_rng(4)
        disutility = random.random((types, types))
        counts = random.multinomial(agents, np.full(types, 1 / types))
        sides = part_randomly(counts, 1)
        case = by_types(f"bulk, {agents:,} agents, {types:,} types", target, disutility, sides)
        if agents <= MOST_BY_THEMSELVES:
            peer = by_agents(disutility, sides)
            case = replace(case, peer_name="ours, agent by agent", peer=peer, warm_peer=True)
        yield case
    intensive = part_by_intensity(counts, random.random(types))
    yield by_types("  by intensity", 50, disutility, intensive)
    common = 0.9 * random.random(types) + 0.1 * disutility
    yield by_types("  similar preferences", 50, common, sides)


def cases(*, patient: bool = False) -> Iterator[Case]:
    """Yield all cases."""
    yield from marriages()
    yield from policies(patient=patient)
    yield from bulk()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patient", action="store_true", help="time the slowest peer too")
    run("Cooper: stable colocation", cases(patient=parser.parse_args().patient))


if __name__ == "__main__":
    main()
