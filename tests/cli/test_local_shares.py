"""Users of `walras local run` have the CPU time that they bought, by their programs' own count.

Every program spins in one or several processes, and writes how much CPU time they used in the same
45 seconds. What Walras says of it is not asked.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from command_line import walras
from real_jobs import needs_cpuset, needs_root, needs_two_cpus

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.speed, needs_root, needs_cpuset, needs_two_cpus]

SECONDS = 45
START = 12  # seconds in which every program has begun
MOST_ERROR = 0.03

PROGRAM = """
import os, sys, time
processes, begin, seconds, file = int(sys.argv[1]), *map(float, sys.argv[2:4]), sys.argv[4]
for number in range(processes):
    if os.fork() == 0:
        before = None
        while (now := time.monotonic()) < begin + seconds:
            if before is None and now >= begin:
                before = time.process_time()
        used = time.process_time() - before
        while time.monotonic() < begin + seconds + 1:
            pass  # nobody's time is the more for others' end
        open(f"{file}-{number}", "w").write(str(used))
        os._exit(0)
for _ in range(processes):
    os.wait()
"""


def document(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": "walras.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("shares", "jobs"),
    [
        ({"ada": 2, "bob": 1}, [("ada", 2), ("bob", 2)]),
        ({"ada": 2, "bob": 1}, [("ada", 3), ("bob", 1)]),
        (
            {"ada": 3, "bob": 2, "eve": 1},
            [("ada", 1), ("ada", 2), ("bob", 1), ("bob", 4), ("eve", 1)],
        ),
    ],
    ids=["two processes each", "three processes and one", "five jobs of three users"],
)
def test_every_user_has_its_part_of_two_cores(
    tmp_path: Path, shares: dict[str, int], jobs: list[tuple[str, int]]
) -> None:
    (tmp_path / "spin.py").write_text(PROGRAM)
    begin = time.monotonic() + START
    reserved = len(os.sched_getaffinity(0)) - 2
    documents = [
        document("Market", "default", cores={"reservedCores": reserved, "unit": "thread"}),
        *(
            document("Entitlement", name, shares=count, namespaces=["default"])
            for name, count in shares.items()
        ),
        *(
            document(
                "MarketJob",
                f"job-{number}",
                entitlement=name,
                parallelFraction="0.99",
                command=["python3", "spin.py", *map(str, (processes, begin, SECONDS, file))],
            )
            for number, (name, processes) in enumerate(jobs)
            for file in [tmp_path / f"{name}-{number}"]
        ),
    ]
    (tmp_path / "market.yaml").write_text(yaml.safe_dump_all(documents))

    done = walras("local", "run", "-o", "json", str(tmp_path / "market.yaml"))

    assert done.returncode == 0, done.stderr
    used = {
        name: sum(float(file.read_text()) for file in tmp_path.glob(f"{name}-*")) for name in shares
    }
    assert len(list(tmp_path.glob("*-*-*"))) == sum(processes for _, processes in jobs)
    parts = {name: each / sum(used.values()) for name, each in used.items()}
    for name, count in shares.items():
        bought = count / sum(shares.values())
        assert parts[name] == pytest.approx(bought, rel=MOST_ERROR), parts
