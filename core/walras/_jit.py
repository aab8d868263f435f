"""Compilation of the numerical kernels, cached across processes where the file system allows it."""

from __future__ import annotations

from functools import partial
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
    # Nobody calls kernels from C, and the way in from C takes a twentieth of the compiler's time.
    compile_lazily = partial(njit, error_model="numpy", nogil=True, no_cfunc_wrapper=True)
    try:
        compiled = compile_lazily(cache=True)(function)
    except RuntimeError:  # numba: "no locator available", nowhere to keep the cache
        compiled = compile_lazily()(function)
    return cast("Callable[P, R]", compiled)
