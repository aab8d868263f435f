"""Compilation of the numerical kernels, cached across processes where the file system allows it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from numba import njit
from numba.extending import register_jitable

from walras._kernel_cache import KernelCache

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` at its first call, for IEEE arithmetic in the order it is written.

    No fast-math: reassociated sums would differ between processors, and the same snapshot must
    give the same plan to the bit. The machine code is kept beside the source, else in the user's
    cache folder (`walras._kernel_cache`); where there is neither, each process compiles anew.
    """
    # Nobody calls kernels from C, and the way in from C takes a twentieth of the compiler's time.
    compile_lazily = partial(njit, error_model="numpy", nogil=True, no_cfunc_wrapper=True)
    compiled: Any = compile_lazily()(function)
    with suppress(RuntimeError):  # nowhere to keep it
        compiled._cache = KernelCache(function)
    return cast("Callable[P, R]", compiled)


def steps(function: Callable[P, R]) -> Callable[P, R]:
    """Leave ``function`` as it is, but let kernels call it too.

    For what calls kernels in turn: machine code of a kernel is optimised once more within that of
    each of its callers. Called from Python, it calls them one by one, and nothing but they is
    compiled.
    """
    return register_jitable(function)
