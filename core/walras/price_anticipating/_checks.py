"""Checks of arrays that name the array, the first bad entry and what is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def numbers(
    name: str, values: ArrayLike, shape: tuple[int | None, ...], error: type[ValueError]
) -> Floats:
    """Return a copy of ``values`` that nobody can write to, once it is known to be all finite.

    Args:
        name: what messages call the array.
        values: anything that NumPy makes an array of.
        shape: how long each side must be; None is any length.
        error: what to raise.
    """
    array = np.array(values, dtype=np.float64, order="C")
    fits = len(shape) == array.ndim and all(
        want in {None, got} for want, got in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = " x ".join("any" if side is None else str(side) for side in shape)
        raise error(f"{name} has shape {array.shape}: {wanted} entries are needed")
    refuse(name, array, ~np.isfinite(array), "is not a finite number", error)
    array.flags.writeable = False
    return array


def refuse(
    name: str, array: NDArray[Any], bad: NDArray[np.bool_], complaint: str, error: type[ValueError]
) -> None:
    """Raise ``error`` for the first entry of ``array`` that is ``bad``, if there is one."""
    if bad.any():
        where = np.unravel_index(int(bad.argmax()), array.shape)
        raise error(f"{name}[{', '.join(map(str, where))}] = {array[where]:g} {complaint}")


def refuse_idle(weights: Floats, who: str, error: type[ValueError]) -> None:
    """Raise ``error`` for the first row of ``weights`` without a positive entry."""
    idle = ~(weights > 0).any(axis=1)
    if idle.any():
        raise error(
            f"weights[{int(idle.argmax())}] has no positive entry: "
            f"a {who} must want something, or stay out"
        )
