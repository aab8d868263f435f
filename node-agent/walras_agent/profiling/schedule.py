"""Pure choice: at which core counts to measure, and in which order."""

from __future__ import annotations


def core_counts(asked: tuple[int, ...] | None, held: int) -> tuple[int, ...]:
    """The core counts of a measurement, ascending.

    One core is always among them: speedup is relative to it, and the parallel fraction has no
    other zero (equation 3 of "Amdahl's Law in the Datacenter Era").

    Args:
        asked: Those of the request; None for powers of two up to `held`, and `held` itself.
        held: Whole cores that the pod holds.

    Raises:
        ValueError: The pod holds too few cores, or all that is asked for is one core.
    """
    if held < 2:
        raise ValueError(
            f"the pod holds {held} whole cores, and a speedup shows on two or more: "
            "measure it when it has been granted more"
        )
    if asked is None:
        powers = {1 << exponent for exponent in range(held.bit_length())}
        return tuple(sorted(powers | {held}))
    if max(asked) > held:
        raise ValueError(
            f"the pod holds {held} whole cores, {max(asked)} are asked for: measure at no more "
            "than it holds, or grant it more first"
        )
    if set(asked) == {1}:
        raise ValueError("only one core is asked for: name a further core count")
    return tuple(sorted({1, *asked}))


def order(counts: tuple[int, ...], repeats: int) -> tuple[int, ...]:
    """All samples: every repeat visits all core counts, up and down in turn.

    What grows or shrinks steadily over the measurement, such as a job that gets faster as its
    caches fill, then weighs on all core counts of a pair of passes alike.
    """
    passes = (counts if turn % 2 == 0 else counts[::-1] for turn in range(repeats))
    return tuple(cores for each in passes for cores in each)
