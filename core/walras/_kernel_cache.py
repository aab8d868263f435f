"""Cache of the machine code of kernels between processes.

Numba's own cache fails in two cases that matter here. Machine code of a kernel contains that of the
kernels it calls, yet numba compares it with the kernel's own source file only, so that old code of
a callee would survive an upgrade: this cache compares it with all files of kernels. And numba does
not read a folder that it cannot write to, so that on a read-only file system, such as a
container's, every process would compile: this cache reads a folder that was filled before, as when
an image is built.

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
    """Return a hash of all files of this package that contain kernels."""
    digest = sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        source = file.read_bytes()
        if b"@kernel" in source:
            digest.update(file.name.encode() + b"\0" + source + b"\0")
    return digest.digest()


class _Stamped:
    """A locator that takes machine code as fresh if no kernel has changed since."""

    def get_source_stamp(self) -> bytes:
        return fingerprint()


class _Chosen(_Stamped, caching.UserProvidedCacheLocator):
    """The folder that NUMBA_CACHE_DIR names."""


class _Beside(_Stamped, caching.InTreeCacheLocator):
    """``__pycache__`` beside the source, if it is writable."""


class _BesideReadOnly(_Stamped, caching.InTreeCacheLocator):
    """``__pycache__`` beside the source, if it is read-only but was filled before."""

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
        RuntimeError: No folder can keep it.
    """

    _impl_class = _Impl

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the machine code for a signature; None if none is fresh.

        Numba unpickles the types of signatures before it looks at the stamp. Those of another
        version of this package may have other names.
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
        """Save machine code; if that fails, the code serves this process only."""
        try:
            super().save_overload(signature, data)
        except OSError:
            self.disable()
