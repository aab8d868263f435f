"""Work through tasks with as many processes as this pod may use CPUs, also when these change.

    python follow_cores.py [TASKS]

The kernel tells every program which CPUs it may use, so this needs no library of Walras. For a pod
with CPUs of its own (isolated), these are the cores that it holds. A program that asks only at its
start keeps that number of threads; this one asks before each batch.
"""

import hashlib
import os
import sys
from concurrent.futures import ProcessPoolExecutor

BATCH_PER_CPU = 4


def task(number: int) -> str:
    """Compute for about a tenth of a second."""
    return hashlib.pbkdf2_hmac("sha256", b"%d" % number, b"salt", 100_000).hex()


def main() -> None:
    """Run all tasks, and print whenever the number of processes changes."""
    tasks = list(range(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
    pool, processes = None, 0
    while tasks:
        cpus = len(os.sched_getaffinity(0))  # not os.cpu_count(), which counts the whole node
        if pool is None or cpus != processes:
            if pool is not None:
                pool.shutdown()
            pool, processes = ProcessPoolExecutor(cpus), cpus
            print(f"{cpus} processes", flush=True)
        batch = [tasks.pop() for _ in range(min(len(tasks), BATCH_PER_CPU * cpus))]
        list(pool.map(task, batch))
    if pool is not None:
        pool.shutdown()


if __name__ == "__main__":
    main()
