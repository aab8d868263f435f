"""Measure what learning penalties brings: preferences right, and penalties from match to match.

The paper's penalties are not public; the models of the Cooper study stand in for them
(`walras_studies.cooper.worlds`), with the bandwidths of Table I. In each match, 40 jobs are drawn
from its 20 programs and paired. The penalties of the pairs are then known in all later matches. All
variants of a population have the same jobs and true penalties, so that they are compared in pairs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from harness import one_thread

one_thread()  # before NumPy is imported

import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from walras.mechanisms.cooper.beliefs import Beliefs, believe  # noqa: E402
from walras.mechanisms.cooper.by_type import pair_by_type, penalties_by_type  # noqa: E402
from walras.mechanisms.cooper.colocation import ALONE  # noqa: E402
from walras.mechanisms.cooper.exploration import Uncertainty, explore  # noqa: E402
from walras_studies.cooper.prediction import predict  # noqa: E402
from walras_studies.cooper.preferences import preferences_right  # noqa: E402
from walras_studies.cooper.worlds import BANDWIDTH, JOBS, WORLDS, draw_jobs, losses  # noqa: E402

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

POPULATIONS = 20

AGENTS = 40

MATCHES = 40

EARLY = 10
"""Number of matches that are reported apart, because little is known in them."""

PARTS = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75)

EVERY_PAIR = np.ones((JOBS, JOBS), np.bool_)


class Variant(NamedTuple):
    """How a population is matched.

    Attributes:
        policy: Policy that pairs the jobs; empty for random pairs.
        known: Knowledge at first: "everything", "bandwidths", "mean" (a prior without them), or
            "nothing", where all penalties count as 0 until one is measured.
        budget: Expected loss that is allowed to learn; None to learn from the policy's pairs only.
    """

    name: str
    policy: str = "Greedy"
    known: str = "bandwidths"
    budget: float | None = None


def variants(policy: str) -> list[Variant]:
    """Return how populations are matched under a policy, the reference of differences first."""
    return [
        Variant("prior by bandwidth", policy),
        Variant("no prior", policy, "nothing"),
        Variant("prior without bandwidths", policy, "mean"),
        Variant("exploration 0", policy, budget=0.0),
        Variant("exploration 1 %", policy, budget=0.01),
        Variant("exploration 2 %", policy, budget=0.02),
        Variant("all known", policy, "everything"),
        Variant("random pairs", "", "nothing"),
    ]


def matched(world: str, number: int, variant: Variant) -> Floats:
    """Return the mean true penalty of the jobs in each match, shape (MATCHES,)."""
    truth = losses(world, np.random.default_rng([5, number]))
    random = np.random.default_rng([6, number])
    measured = np.full((JOBS, JOBS), np.nan)
    found = np.empty(MATCHES)
    for match in range(MATCHES):
        job = draw_jobs("Uniform", AGENTS, random)
        shuffled = random.permutation(AGENTS)
        if not variant.policy:
            partner = np.empty(AGENTS, np.int64)
            partner[shuffled[::2]], partner[shuffled[1::2]] = shuffled[1::2], shuffled[::2]
        else:
            believed = _believed(variant.known, truth, measured)
            partner = _paired(variant, believed, job, 1000 * number + match)
        found[match] = penalties_by_type(truth, job, partner).mean()
        together = partner != ALONE
        one, other = job[together], job[partner[together]]
        measured[one, other] = truth[one, other]
    return found


def _believed(known: str, truth: Floats, measured: Floats) -> Beliefs:
    if known == "everything":
        return Beliefs(truth, np.zeros_like(truth))
    if known == "nothing":
        some = not np.isnan(measured).all()
        guess = predict(measured).disutility if some else np.zeros_like(truth)
        return Beliefs(guess, np.zeros_like(truth))
    return believe(measured, BANDWIDTH if known == "bandwidths" else None)


def _paired(variant: Variant, believed: Beliefs, job: Integers, seed: int) -> Integers:
    cost = np.ascontiguousarray(believed.mean)
    partner = pair_by_type(variant.policy, cost, EVERY_PAIR, job, BANDWIDTH, seed)
    if variant.budget is None:
        return partner
    unknown = Uncertainty(believed.deviation, np.zeros(JOBS))
    return explore(cost, unknown, EVERY_PAIR, job, partner, variant.budget).partner


def right(world: str, part: float) -> dict[str, float]:
    """Return the part of preferences that are right with a part of all pairs measured."""
    found: dict[str, list[float]] = {}
    for number in range(POPULATIONS):
        truth = losses(world, np.random.default_rng([5, number]))
        order = np.random.default_rng([7, number]).permutation(truth.size)
        kept = (order < round(part * truth.size)).reshape(truth.shape)
        measured = np.where(kept, truth, np.nan)
        guesses = {
            "predict": _believed("nothing", truth, measured).mean,
            "believe": believe(measured).mean,
            "believe, by bandwidth": believe(measured, BANDWIDTH).mean,
        }
        for name, guess in guesses.items():
            found.setdefault(name, []).append(preferences_right(truth, guess))
    return {name: float(np.mean(values)) for name, values in found.items()}


def _mean_and_error(values: Floats) -> str:
    return f"{100 * values.mean():.2f} ± {100 * values.std(ddof=1) / np.sqrt(len(values)):.2f}"


def main() -> None:
    """Print both tables."""
    console = Console()
    table = Table("model", "predictor", *(f"{part:.0%}" for part in PARTS))
    table.title = "Preferences right, pairs measured"
    for world in WORLDS:
        columns = [right(world, part) for part in PARTS]
        for name in columns[0]:
            table.add_row(world, name, *(f"{each[name]:.1%}" for each in columns))
    console.print(table)
    policies = sys.argv[1:] or ["Greedy", "StableMarriageRandom", "StableRoommates"]
    for policy in policies:
        for world in WORLDS:
            heads = "first match", f"to {EARLY}", f"{EARLY + 1} to {MATCHES}", "all", "less prior"
            table = Table("variant", *heads)
            table.title = f"{policy}, {world}: mean penalty in %"
            base: Floats | None = None
            for each in variants(policy):
                lost = np.array([matched(world, n, each) for n in range(POPULATIONS)])
                base = lost if base is None else base
                parts = lost[:, :1], lost[:, :EARLY], lost[:, EARLY:], lost, lost - base
                table.add_row(each.name, *(_mean_and_error(part.mean(axis=1)) for part in parts))
            console.print(table)


if __name__ == "__main__":
    main()
