"""Compilation of numerical kernels, cached across processes where the file system allows it."""

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
    """Compile ``function`` at its first call, with IEEE arithmetic in the order it is written.

    No fast-math: reassociated sums would differ between processors, and the same snapshot must
    give the same plan to the bit. The machine code is kept beside the source, or else in the user's
    cache folder (`walras._kernel_cache`); if neither can be written, each process compiles anew.
    """
    # Kernels are not called from C, and the wrapper for C takes a twentieth of the compile time.
    compile_lazily = partial(njit, error_model="numpy", nogil=True, no_cfunc_wrapper=True)
    compiled: Any = compile_lazily()(function)
    with suppress(RuntimeError):  # no folder to keep it in
        compiled._cache = KernelCache(function)
    return cast("Callable[P, R]", compiled)


def callable_from_kernels(function: Callable[P, R]) -> Callable[P, R]:
    """Leave ``function`` uncompiled, but let kernels call it.

    For functions that only call kernels: a compiled one would compile its kernels again, since a
    kernel's machine code is optimised within each of its callers.
    """
    return register_jitable(function)
