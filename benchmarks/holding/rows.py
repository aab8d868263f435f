"""The loads by which ways to divide a node are compared: pods that buy all of its CPUs."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["always busy", "phases", "service", "barrier"]


class Pod(NamedTuple):
    """A pod with one program.

    Attributes:
        cpus: CPUs that it bought.
        threads: Number of the program's threads.
        program: What the program does; the words of load.c.
    """

    cpus: float
    threads: int
    program: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The first word of the program: ``compute``, ``phases`` or ``service``."""
        return self.program[0]

    @property
    def is_steady(self) -> bool:
        """Whether it always computes, and has threads for all that it bought."""
        return self.kind == "compute" and self.threads >= self.cpus


class Row(NamedTuple):
    """A load.

    Attributes:
        name: What the pods do, in words.
        kind: Kind of the load, which says how long it is measured and how it is judged.
        cpus: CPUs of the machine that it is for.
        pods: Pods by name.
        size: ``quick`` for those of a first look too, ``small`` for those of further kernels too,
            ``more`` for those that are only measured when they are asked for.
    """

    name: str
    kind: Kind
    cpus: int
    pods: dict[str, Pod]
    size: Literal["quick", "small", "", "more"] = ""

    @property
    def is_within_whole_cpus(self) -> bool:
        """Whether its services bought whole CPUs, and never need more than these."""
        services = [pod for pod in self.pods.values() if pod.kind == "service"]
        return all(pod.cpus % 1 == 0 and pod.program[-1] == "0" for pod in services)

    @property
    def settle(self) -> float:
        """Seconds that pass before the measurement begins."""
        return 60.0 if self.kind == "always busy" else 15.0

    @property
    def window(self) -> float:
        """Seconds that the measurement takes."""
        return 60.0 if self.kind == "always busy" else 30.0


def compute(cpus: float, threads: int) -> Pod:
    """Return a pod that always computes."""
    return Pod(cpus, threads, ("compute", str(threads)))


def phases(cpus: float, threads: int, busy_ms: float, idle_ms: float, meet: str = "sleep") -> Pod:
    """Return a pod whose threads compute and sleep by turns, together."""
    times = (str(round(1000 * each)) for each in (busy_ms, idle_ms))
    return Pod(cpus, threads, ("phases", str(threads), *times, meet))


def service(
    cpus: float, rate: float, work_ms: float = 2, on_ms: int = 1000, off_ms: int = 0
) -> Pod:
    """Return a pod that answers requests.

    Args:
        cpus: CPUs that it bought.
        rate: CPUs that the requests need on average while they come.
        work_ms: Milliseconds of CPU time that a request needs.
        on_ms: Milliseconds for which requests come.
        off_ms: Milliseconds for which none come then.
    """
    threads = max(4, 4 * round(cpus))
    times = (work_ms, work_ms / rate, on_ms, off_ms)
    return Pod(cpus, threads, ("service", str(threads), *(str(round(1000 * t)) for t in times)))


def _computing(bought: tuple[float, ...], threads: tuple[int, ...]) -> dict[str, Pod]:
    pairs = zip("abcdefghijklmnop", bought, threads, strict=False)
    return {name: compute(cpus, number) for name, cpus, number in pairs}


def _two() -> list[Row]:
    """Return the loads of two CPUs."""
    beside = {"b": compute(1, 2), "c": compute(0.5, 1)}
    fives = (0.5, 0.5, 0.333, 0.333, 0.334)
    return [
        Row("1.5 and 0.5", "always busy", 2, _computing((1.5, 0.5), (2, 1)), "quick"),
        Row("five below one CPU", "always busy", 2, _computing(fives, (1, 2, 1, 3, 1)), "small"),
        *(
            Row(
                f"busy {percent} % in phases of {_length(cycle)}",
                "phases",
                2,
                {"a": _busy(1, 2, percent, cycle), "b": _busy(1, 2, percent, 1.13 * cycle)},
                "" if (percent, cycle) in _MAIN else "more",
            )
            for percent in (30, 50, 80)
            for cycle in (10, 200, 4_000, 40_000)
        ),
        *(
            Row(
                f"busy 50 % in phases of {_length(cycle)} beside steady",
                "phases",
                2,
                {"a": _busy(1, 2, 50, cycle), "b": compute(1, 2)},
                size,
            )
            for cycle, size in _MIXED.items()
        ),
        Row("half a CPU at 0.4", "service", 2, {"s": service(0.5, 0.4), **beside}, "small"),
        Row("half a CPU, bursts of 0.65", "service", 2, {"s": _bursts(0.5), **beside}, "quick"),
        Row("a CPU, bursts of 1.3", "service", 2, {"s": _bursts(1), "b": compute(1, 2)}),
        Row("a CPU at 0.4", "service", 2, {"s": service(1, 0.4), "b": compute(1, 2)}),
        Row("a CPU at 0.8", "service", 2, {"s": service(1, 0.8), "b": compute(1, 2)}),
        *(
            Row(
                f"two threads meet each ms ({meet})",
                "barrier",
                2,
                {"a": phases(1, 2, 1, 0, meet), "b": compute(1, 2)},
            )
            for meet in ("sleep", "spin")
        ),
    ]


_MAIN = {(50, 10), (50, 200), (50, 4_000), (30, 200), (80, 200)}
_MIXED: dict[int, Literal["quick", "small", "", "more"]] = {10: "more", 200: "quick", 4_000: ""}


def _length(cycle_ms: float) -> str:
    """Return half of a cycle in words."""
    half = cycle_ms / 2
    return f"{half:g} ms" if half < 1000 else f"{half / 1000:g} s"


def _busy(cpus: float, threads: int, percent: int, cycle_ms: float) -> Pod:
    return phases(cpus, threads, cycle_ms * percent / 100, cycle_ms * (1 - percent / 100))


def _bursts(cpus: float, work_ms: float = 2) -> Pod:
    return service(cpus, 1.3 * cpus, work_ms, on_ms=100, off_ms=100)


def _eight() -> list[Row]:
    """Return the loads of eight CPUs: requests of 10 ms, since emulated ones are slow."""
    twelve = (1.2, 0.9, 0.9, 0.8, 0.7, 0.7, 0.6, 0.6, 0.5, 0.5, 0.4, 0.2)
    steady = {"b": compute(3, 4), "c": compute(2, 8), "d": compute(1, 1)}
    few = {"b": compute(3.5, 4), "c": compute(3, 8), "d": compute(1, 1)}
    bursty = {"a": _busy(2, 4, 50, 200), "b": phases(2, 4, 100, 133)}
    spun = {"b": compute(4, 4), "c": compute(3, 8)}
    return [
        Row("6.5, 0.9 and 0.6", "always busy", 8, _computing((6.5, 0.9, 0.6), (8, 1, 1)), "quick"),
        Row("twelve of 1 or 2 threads", "always busy", 8, _computing(twelve, (2, 1, 1) * 4)),
        Row("2, 2, 2 and 2", "always busy", 8, _computing((2,) * 4, (2, 1, 8, 4)), "small"),
        *(
            Row(
                f"busy {percent} % in phases of {_length(cycle)}",
                "phases",
                8,
                {
                    name: _busy(2, 4, percent, cycle * stretch)
                    for name, stretch in zip("abcd", (1, 1.07, 1.13, 1.19), strict=True)
                },
                "" if (percent, cycle) in {(50, 200), (50, 4_000), (80, 200)} else "more",
            )
            for percent in (30, 50, 80)
            for cycle in (10, 200, 4_000, 40_000)
        ),
        Row(
            "busy 50 % in phases of 100 ms beside steady",
            "phases",
            8,
            {**bursty, "c": compute(2, 4), "d": compute(2, 2)},
            "quick",
        ),
        Row("half a CPU at 0.4", "service", 8, {"s": service(0.5, 0.4, 10), **few}),
        Row("two CPUs, bursts of 2.6", "service", 8, {"s": _bursts(2, 10), **steady}, "small"),
        Row("two CPUs at 1.6", "service", 8, {"s": service(2, 1.6, 10), **steady}),
        Row(
            "two threads meet each 5 ms (sleep)",
            "barrier",
            8,
            {"a": phases(1, 2, 5, 0, "sleep"), **spun},
        ),
    ]


def _sixteen() -> list[Row]:
    """Return the loads of 16 CPUs."""
    return [Row("12 and 4", "always busy", 16, _computing((12, 4), (24, 16)), "small")]


ROWS = (*_two(), *_eight(), *_sixteen())
