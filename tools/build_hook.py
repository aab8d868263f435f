"""Hook of the build backend: a wheel carries compiled kernels, if there is a C compiler.

An editable installation compiles them beside the source. Where that fails, for want of a C compiler
or of Python.h (on Debian the packages gcc and python3-dev), Walras runs them uncompiled, and the
wheel is one for any machine. `tools/make_images.py` refuses such a wheel.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.append(str(Path(__file__).parent))

import compile_kernels


class KernelsHook(BuildHookInterface[Any]):
    """Compiles the kernels before a wheel is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the extension to the wheel or leave it beside the source."""
        editable = version == "editable"
        into = compile_kernels.BESIDE_SOURCE if editable else Path(tempfile.mkdtemp())
        try:
            extension = compile_kernels.compile_into(into)
        except Exception as error:  # noqa: BLE001 - whatever stops a compiler, Python need not stop
            self.app.display_warning(f"The kernels are not compiled: {error}")
            return
        if not editable:
            build_data["force_include"][str(extension)] = f"walras/{extension.name}"
            build_data |= {"pure_python": False, "infer_tag": True}
