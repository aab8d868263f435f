"""Checks of the mechanisms' arrays; messages name the array, its first bad entry and the need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from walras.numerics.arrays import Bools, Floats


def check_finite(
    name: str, values: ArrayLike, shape: tuple[int | None, ...], error: type[ValueError]
) -> Floats:
    """Return a read-only copy of ``values`` if all of them are finite numbers.

    Args:
        name: Name of the array in messages.
        values: Anything that NumPy can convert to an array.
        shape: Length of each dimension that is needed; None allows any length.
        error: Type of the exception.

    Raises:
        ValueError: The shape differs, or an entry is not finite; of type ``error``.
    """
    array = np.array(values, dtype=np.float64, order="C")
    fits = len(shape) == array.ndim and all(
        want in {None, got} for want, got in zip(shape, array.shape, strict=True)
    )
    if not fits:
        if shape == (None,):
            raise error(f"{name} has shape {array.shape}: a flat array is needed")
        wanted = " x ".join("any" if side is None else str(side) for side in shape)
        raise error(f"{name} has shape {array.shape}: {wanted} entries are needed")
    refuse(name, array, ~np.isfinite(array), "is not a finite number", error)
    array.flags.writeable = False
    return array


def refuse(
    name: str, array: NDArray[Any], bad: Bools, complaint: str, error: type[ValueError]
) -> None:
    """Raise ``error`` for the first entry of ``array`` that is ``bad``, if there is one."""
    if bad.any():
        where = np.unravel_index(int(bad.argmax()), bad.shape)
        entry = f"{array[where]:g}" if array.dtype.kind == "f" else str(array[where])
        raise error(f"{name}[{', '.join(map(str, where))}] = {entry} {complaint}")


def refuse_zero_rows(weights: Floats, who: str, error: type[ValueError]) -> None:
    """Raise ``error`` for the first row of ``weights`` without a positive entry.

    Args:
        weights: Weight of each resource for each user or job, shape (n, m).
        who: Word for the owner of a row in the message, as "user" or "job".
        error: Type of the exception.
    """
    idle = ~(weights > 0).any(axis=1)
    if idle.any():
        raise error(
            f"weights[{int(idle.argmax())}] has no positive entry: "
            f"give the {who} a positive weight, or leave it out"
        )


def check_solver_input(
    market: object, kind: type, tolerance: float, rounds: int, error: type[ValueError]
) -> None:
    """See that a solver got a market, and that it can end.

    Args:
        market: What was given as the market.
        kind: Type that it must have.
        tolerance: Error that the solver may leave.
        rounds: Rounds after which it gives up.
        error: Type of the exception for numbers.

    Raises:
        TypeError: The market is none of that type.
        ValueError: The tolerance is not positive and finite, or there is no round; of type
            ``error``.
    """
    if not isinstance(market, kind):
        raise TypeError(f"market is of type {type(market).__name__}: give one of {kind.__name__}")
    if not 0 < tolerance < np.inf:
        raise error(f"tolerance = {tolerance} is not positive and finite")
    if rounds < 1:
        raise error(f"{rounds} rounds are not enough: allow at least one")
