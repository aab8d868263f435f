"""Nothing that an agent does needs a library of the extras that its image does not have."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

EVERYTHING = """
import importlib, pkgutil, sys

for name in ("docker", "kopf", "matplotlib", "plotext", "rich"):
    sys.modules[name] = None  # importing it fails as if it were not installed

import walras_agent

for module in pkgutil.walk_packages(walras_agent.__path__, "walras_agent."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)

from walras_agent.profiling.request import ProgressSample
from walras_agent.profiling.samples import fit_samples

# Twice as fast on two cores but for a tenth that is serial.
one, two = ProgressSample(1, 10.0, 100.0), ProgressSample(2, 10.0, 100 / .55)
found = fit_samples([one, one, two])
print(round(found.mean, 6))
"""


def test_an_agent_imports_all_it_has_and_fits_a_speedup_with_what_its_image_holds() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0.9\n"
