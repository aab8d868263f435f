"""Measure what the history of a large market costs: CPU time of the operator, and bytes kept.

A part of all jobs changes every minute, each to values of its own, which is what compresses worst.
Of jobs that change every minute, fewer samples are kept, so that the ring keeps its bound.
"""

from __future__ import annotations

import json
import random
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import one_thread

one_thread()
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from kind_documents import document  # noqa: E402
from walras.outcome.blocks import unpack  # noqa: E402
from walras.outcome.history import LENGTH, RING, SLOT, STEP, history_of_parts, part_of  # noqa: E402
from walras.outcome.hourly_accounts import Day, coarser, observed, stored_day  # noqa: E402
from walras_api.assembly import Objects  # noqa: E402
from walras_api.parse import parse_object  # noqa: E402
from walras_operator.decide.world import World  # noqa: E402
from walras_operator.metrics.market_sample import sample_of  # noqa: E402
from walras_operator.metrics.pod_use import use_of  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras.outcome.history import MarketSample, Part

JOBS, USERS, NODES = 10_000, 100, 1_000
CHANGING = (0.0, 0.05, 0.5, 1.0)
SAMPLES = SLOT // STEP
SLOTS = LENGTH // SLOT
START = 20_000 * LENGTH


class Market:
    """Objects with statuses that change at random."""

    def __init__(self) -> None:
        self._random = random.Random(1)  # noqa: S311 - nothing secret about it
        self._jobs = [self._object("MarketJob", f"train-{n:05}", "lab") for n in range(JOBS)]
        self._users = [self._object("Entitlement", f"team-{n:03}") for n in range(USERS)]
        self._market = self._object("Market", "default")
        self._jobs = [self._with(each, self._job()) for each in self._jobs]
        self.change(1.0)

    def change(self, part: float) -> None:
        """Give a part of all jobs, and every user and node, other figures."""
        self._jobs = [
            self._with(each, self._job()) if self._random.random() < part else each
            for each in self._jobs
        ]
        self._users = [self._with(each, self._user()) for each in self._users]
        prices = [{"node": f"node-{n:04}", "price": self._figure(2)} for n in range(NODES)]
        self._market = self._with(self._market, {"prices": prices})

    def world(self) -> World:
        """Return what an operator knows."""
        objects = Objects(entitlements=self._users, jobs=self._jobs)
        return World("", objects=objects, markets=[self._market])

    def _object(self, kind: str, name: str, namespace: str = "") -> Any:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        return parse_object({**document(kind), "metadata": metadata})

    def _with(self, resource: Any, status: dict[str, Any]) -> Any:
        return resource.model_copy(update={"status": status})

    def _figure(self, most: float) -> str:
        return f"{self._random.uniform(0, most):.6g}"

    def _job(self) -> dict[str, Any]:
        cores = self._figure(32)
        pod = {"name": "p", "held": str(self._random.randrange(1, 32)), "bought": cores}
        counts = {"total": 1, "granted": 1, "enforced": 1}
        return {"counts": counts, "pods": [pod], "bought": cores, "speedup": self._figure(16)}

    def _user(self) -> dict[str, Any]:
        cores = {name: self._figure(500) for name in ("entitled", "bought", "held")}
        memory = {name: str(self._random.randrange(2**40)) for name in ("entitled", "granted")}
        return {
            "bought": cores,
            "memory": memory,
            "credits": {"balance": self._figure(1e6)},
            "otherSpend": self._figure(500),
        }


def milliseconds(do: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns, and its CPU time."""
    began = time.process_time()
    found = do()
    return found, 1000 * (time.process_time() - began)


def measured(market: Market, part: float) -> list[str]:
    """Return a row of the table: a slot in which a part of all jobs changes every minute."""
    samples: list[MarketSample] = []
    sampling = 0.0
    for number in range(SAMPLES):
        market.change(part)
        known = market.world()
        sample, took = milliseconds(partial(sample_of, known, START + STEP * number))
        samples.append(sample)
        sampling += took
    stored, packing = milliseconds(lambda: part_of(START // SLOT, samples))
    kept = {kind: len(unpack(data).times) for kind, data in stored.blocks.items()}
    day = [stored.__class__(START // SLOT + n, stored.blocks) for n in range(SLOTS)]
    seconds = reading(day)
    return [
        f"{part:.0%}",
        f"{sampling / SAMPLES:.0f}",
        f"{packing:.0f}",
        f"{100 * (sampling + 2 * packing) / 1000 / SLOT:.3f} %",
        f"{kept['job']} of {SAMPLES}",
        f"{stored.size / SAMPLES / 1024:.1f}",
        f"{SLOTS * stored.size / 2**20:.1f}",
        f"{seconds:.1f}",
    ]


def reading(day: list[Part]) -> float:
    """Return the CPU seconds in which a reader gets the figures of one job for a day."""
    history, first = milliseconds(lambda: history_of_parts(day, START + LENGTH, LENGTH, STEP))
    _, second = milliseconds(lambda: history.series("job", "lab/train-00007"))
    return (first + second) / 1000


def accounts(market: Market) -> str:
    """Return how large the accounts of a day are, in which all figures change every minute."""
    samples, chance = [], random.Random(2)  # noqa: S311 - nothing secret about it
    for _ in range(20):
        market.change(0.0)
        samples.append(sample_of(market.world(), START))
    day = Day(START // LENGTH)
    for hour in range(24):
        for minute in range(60):
            sample = chance.choice(samples)
            moved = sample.__class__(START + 3600 * hour + 60 * minute, sample.tables)
            for each in observed(moved, moved.time + STEP):
                day += each
    data, took = milliseconds(lambda: stored_day(day))
    steps = 24 // len(coarser(day, day.step).hours)
    return (
        f"accounts of a day with {USERS} users: {len(data) / 1024:.1f} KiB in sums of {steps} h, "
        f"{len(data) * 400 / 2**20:.1f} MiB in 400 days; written in {took:.0f} ms"
    )


def use() -> str:
    """Return an answer of the metrics API."""
    items = [
        {
            "metadata": {"namespace": "lab", "name": f"train-{n:05}-abcde"},
            "containers": [{"name": "main", "usage": {"cpu": f"{n}n", "memory": f"{n}Ki"}}],
        }
        for n in range(JOBS)
    ]
    return json.dumps({"items": items})


def main() -> None:
    """Print a table."""
    market = Market()
    table = Table(
        title=f"{JOBS} jobs, {USERS} users, {NODES} nodes; ring of {RING / 2**20:.1f} MiB"
    )
    for head in (
        "jobs that\nchange a minute",
        "ms to take\na sample",
        "ms to write\na full part",
        "of one\nCPU",
        "samples of\njobs kept",
        "KiB per\nsample",
        "MiB per\nday",
        "s to read a\njob's day",
    ):
        table.add_column(head, justify="right")
    for part in CHANGING:
        table.add_row(*measured(market, part))
    console = Console(width=120)
    console.print(table)
    console.print(accounts(market))
    answer = use()
    _, took = milliseconds(lambda: use_of(json.loads(answer)))
    console.print(f"to read what {JOBS} pods use: {took:.0f} ms")


if __name__ == "__main__":
    main()
