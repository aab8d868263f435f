"""Machines of any shape, for tests of who gets which CPUs."""

from __future__ import annotations

from walras_agent.topology import Cpu, Topology


def machine(nodes: int = 1, caches: int = 1, cores: int = 4, threads: int = 1) -> Topology:
    """``nodes`` of ``caches`` L3s of ``cores``; siblings are numbered far apart, as by a BIOS."""
    total = nodes * caches * cores
    return Topology(
        tuple(
            Cpu(
                id=core + thread * total,
                core=core,
                socket=core // (caches * cores),
                numa=core // (caches * cores),
                l3=core // cores * cores,
            )
            for core in range(total)
            for thread in range(threads)
        )
    )
