"""Compilation of the numerical kernels, cached across processes where the file system allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` at its first call, for IEEE arithmetic in the order it is written.

    No fast-math: reassociated sums would differ between processors, and the same snapshot must
    give the same plan to the bit. The machine code is cached beside the source, else in the
    user's cache folder; where neither can be written it is compiled anew in each process.
    """
    try:
        compiled = njit(cache=True, error_model="numpy", nogil=True)(function)
    except RuntimeError:  # numba: "no locator available", nowhere to keep the cache
        compiled = njit(error_model="numpy", nogil=True)(function)
    return cast("Callable[P, R]", compiled)
