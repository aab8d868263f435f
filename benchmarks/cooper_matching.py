"""Stable colocation against textbook Python, NumPy's sort and the PyPI library `matching`.

Opinions are uniformly random unless said otherwise. `--patient` also lets `matching` pair a
thousand roommates, for which it takes most of a minute.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from typing import TYPE_CHECKING

from harness import Case, one_thread, run

one_thread()  # before NumPy is imported

import numpy as np  # noqa: E402
from matching.algorithms.stable_roommates import stable_roommates as irving  # noqa: E402
from matching.exceptions import NoStableMatchingWarning  # noqa: E402
from matching.players import Player  # noqa: E402

from walras.cooper.bulk import marry_types, part_by_intensity, part_randomly  # noqa: E402
from walras.cooper.marriage import marry, propose  # noqa: E402
from walras.cooper.policies import stable_marriage_random, stable_roommates  # noqa: E402
from walras.cooper.ranking import preference_lists  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def textbook_marriage(lists: list[list[int]], ranks: list[list[float]]) -> list[int]:
    """Gale and Shapley in plain Python, as algorithm 1 of the paper has it."""
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
    """Let `matching` go from disutilities to pairs, without the deep copy of all its games."""
    players = [Player(agent) for agent in range(len(disutility))]
    for agent, row in enumerate(np.argsort(disutility, axis=1).tolist()):
        players[agent].set_prefs([players[other] for other in row if other != agent])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoStableMatchingWarning)
        return irving(players)


def marriages() -> Iterator[Case]:
    """Two sides of a thousand each."""
    costs, receiver_costs = np.random.default_rng(1).random((2, 1000, 1000))
    lists = preference_lists(costs)
    ranks = np.argsort(preference_lists(receiver_costs), axis=1).astype(np.float64)
    yield Case(
        "marriage, 1,000 a side, ranks given",
        0.5,
        partial(propose, lists, ranks),
        "textbook, Python",
        partial(textbook_marriage, lists.tolist(), ranks.tolist()),
    )
    agreed = np.tile(np.arange(1000.0), (1000, 1))
    agreed_lists, unwanted = preference_lists(agreed), np.ascontiguousarray(agreed[:, ::-1])
    yield Case(
        "  most proposals possible (500,500)",
        10,
        partial(propose, agreed_lists, unwanted),
        "textbook, Python",
        partial(textbook_marriage, agreed_lists.tolist(), unwanted.tolist()),
    )
    yield Case(
        "preference lists, 1,000 by 1,000",
        12,
        partial(preference_lists, costs),
        "NumPy argsort, stable",
        partial(np.argsort, costs, axis=1, kind="stable"),
        warm_peer=True,
    )
    crowded = 10 ** (24 * costs - 12)
    yield Case(
        "  over 24 orders of magnitude",
        120,
        partial(preference_lists, crowded),
        "NumPy argsort, stable",
        partial(np.argsort, crowded, axis=1, kind="stable"),
        warm_peer=True,
    )


def policies(*, patient: bool) -> Iterator[Case]:
    """From disutilities to pairs."""
    disutility = np.random.default_rng(2).random((1000, 1000))
    yield Case(
        "SMR, 1,000 agents, from disutilities",
        25,
        partial(stable_marriage_random, disutility, seed=1),
    )
    small = np.random.default_rng(2).random((200, 200))
    yield Case(
        "SR, 200 agents, from disutilities",
        2,
        partial(stable_roommates, small),
        "PyPI matching",
        partial(library_roommates, small),
    )
    yield Case(
        "SR, 1,000 agents, from disutilities",
        25,
        partial(stable_roommates, disutility),
        "PyPI matching" if patient else "",
        partial(library_roommates, disutility) if patient else None,
    )
    common = 0.9 * np.random.default_rng(3).random(1000) + 0.1 * disutility
    yield Case("  mostly of one opinion", 25, partial(stable_roommates, common))


def bulk() -> Iterator[Case]:
    """Agents who are copies of job types, from disutilities by type to pairs by type."""
    for types, agents, target in ((100, 10_000, 2), (20, 100_000, 0.5), (1000, 1_000_000, 50)):
        random = np.random.default_rng(4)
        disutility = random.random((types, types))
        counts = random.multinomial(agents, np.full(types, 1 / types))
        sides = part_randomly(counts, 1)
        named = f"bulk, {agents:,} agents, {types:,} types"
        if agents > 10_000:
            yield Case(named, target, partial(marry_types, disutility, *sides))
            continue
        proposer, receiver = (np.repeat(np.arange(types), side) for side in sides)
        one = disutility[np.ix_(proposer, receiver)]
        other = disutility[np.ix_(receiver, proposer)]
        yield Case(
            named,
            target,
            partial(marry_types, disutility, *sides),
            "ours, agent by agent",
            partial(marry, one, other),
            warm_peer=True,
        )
    intensive = part_by_intensity(counts, random.random(types))
    yield Case("  by intensity", 50, partial(marry_types, disutility, *intensive))
    common = 0.9 * random.random(types) + 0.1 * disutility
    yield Case("  mostly of one opinion", 50, partial(marry_types, common, *sides))


def cases(*, patient: bool = False) -> Iterator[Case]:
    """Everything that is measured."""
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
