"""Checks of the mechanisms' arrays; messages name the array, its first bad entry and the need."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from walras.numerics.arrays import Bools, Floats

LARGEST = float(np.finfo(np.float64).max)


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
    array = numbers(name, values, error)
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


def numbers(
    name: str, values: ArrayLike, error: type[ValueError], *, copy: bool | None = True
) -> Floats:
    """Return ``values`` as an array; raise ``error`` for what holds anything but numbers.

    Args:
        name: Name of the array in the message.
        values: Anything.
        error: Type of the exception.
        copy: Whether to copy what is such an array already: None for not.
    """
    try:
        return np.array(values, dtype=np.float64, order="C", copy=copy)
    except (TypeError, ValueError, OverflowError) as problem:
        raise error(f"{name} is no array of numbers: {problem}") from problem


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


def check_kind(name: str, value: object, kind: type) -> None:
    """Raise a TypeError for a value that is not of a type.

    Args:
        name: Name of the argument in the message.
        value: What was given.
        kind: Type that it must have.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} is of type {type(value).__name__}: give one of {kind.__name__}")


def check_positive(name: str, value: float, error: type[ValueError]) -> None:
    """Raise ``error`` for what is no number, not positive or not finite."""
    if not (is_number(value) and 0 < value <= LARGEST):
        raise error(f"{name} = {value!r} is not positive and finite")


def check_whole(name: str, value: int, least: int, error: type[ValueError]) -> None:
    """Raise ``error`` for what is no whole number, or below the least one."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise error(f"{name} = {value!r} is not a whole number of at least {least}")


def is_number(value: object) -> bool:
    """Return whether a value is one real number; truth values are none."""
    return isinstance(value, Real) and not isinstance(value, bool)
