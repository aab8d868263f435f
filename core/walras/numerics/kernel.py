"""Kernels: the loops in which the solvers spend their time.

A kernel is a function of numbers and arrays, written in plain Python. `tools/compile_kernels.py`
compiles all of them into `walras._kernels`. Where that is missing they run as they are written: the
same results to the bit, hundreds of times slower.
"""

from __future__ import annotations

import math
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

P = ParamSpec("P")
R = TypeVar("R")


def _compiled() -> ModuleType | None:
    try:
        return import_module("walras._kernels")
    except ImportError:
        return None


COMPILED = _compiled()
"""The compiled kernels; None where there are none."""


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Return the compiled kernel that was written as ``function``, or else ``function`` itself.

    Divisions by zero give infinity or NaN, as in C.
    """
    name = f"{function.__module__}.{function.__name__}".replace(".", "__")
    compiled = getattr(COMPILED, name, None)
    if compiled is not None:
        return cast("Callable[P, R]", compiled)

    @wraps(function)
    def uncompiled(*arguments: P.args, **named: P.kwargs) -> R:
        with np.errstate(all="ignore"):
            return cast("R", _as_python(function(*arguments, **named)))

    return uncompiled


def _as_python(result: object) -> object:
    """Return NumPy's numbers as Python's, as compiled kernels do."""
    if isinstance(result, tuple):
        return tuple(map(_as_python, result))
    return result.item() if isinstance(result, np.generic) else result


def exp(x: float) -> float:
    """Return e**x as the C library does, which NumPy does not to the last bit."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def log(x: float) -> float:
    """Return the natural logarithm as the C library does, which NumPy does not to the last bit."""
    if x > 0.0:
        return math.log(x)
    return -math.inf if x == 0.0 else math.nan
