"""Where the machine code of kernels is kept between processes.

Numba's own cache is stale in two cases that matter here. Machine code of a kernel has that of the
kernels it calls in it, yet is compared with its own source file only, so that after an upgrade old
code of a callee would live on: here it is compared with all files of kernels. And a folder that
cannot be written to is not read either, so that on a read-only file system (a container's) every
process would compile: here a folder that was filled before, as when an image is built, is read.

This is the core's only access to files, none of it to data. It follows `numba.core.caching`.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from numba.core import caching

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = Path(__file__).parent


@cache
def fingerprint() -> bytes:
    """Return a hash of every file of this package that has kernels in it."""
    digest = sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        source = file.read_bytes()
        if b"@kernel" in source:
            digest.update(file.name.encode() + b"\0" + source + b"\0")
    return digest.digest()


class _Stamped:
    """A locator that takes machine code for fresh if no kernel has changed since."""

    def get_source_stamp(self) -> bytes:
        return fingerprint()


class _Chosen(_Stamped, caching.UserProvidedCacheLocator):
    """The folder that NUMBA_CACHE_DIR names."""


class _Beside(_Stamped, caching.InTreeCacheLocator):
    """``__pycache__`` beside the source, if it can be written to."""


class _BesideReadOnly(_Stamped, caching.InTreeCacheLocator):
    """The same if it cannot, but was filled before."""

    @classmethod
    def from_function(cls, function: Callable[..., object], file: str) -> Self | None:
        locator = cls(function, file)
        stem = f"{Path(file).stem}.{function.__qualname__}-{locator.get_disambiguator()}."
        folder = Path(locator.get_cache_path())
        return locator if any(folder.glob(f"{stem}*.nbi")) else None


class _OfUser(_Stamped, caching.UserWideCacheLocator):
    """The user's cache folder."""


class _Impl(caching.CompileResultCacheImpl):
    _locator_classes = [_Chosen, _Beside, _BesideReadOnly, _OfUser]  # noqa: RUF012 - as numba has it


class KernelCache(caching.FunctionCache):
    """The cache of one kernel.

    Raises:
        RuntimeError: there is nowhere to keep it.
    """

    _impl_class = _Impl

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the machine code for a signature; None if there is none that is fresh.

        Numba unpickles the types of signatures before it looks at the stamp. Those of another version
        of this package may have other names.
        """
        try:
            return super().load_overload(signature, target)
        except (AttributeError, ImportError):
            try:
                self.flush()
            except OSError:
                self.disable()
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        """Keep machine code; where that is not possible after all, it serves this process only."""
        try:
            super().save_overload(signature, data)
        except OSError:
            self.disable()
