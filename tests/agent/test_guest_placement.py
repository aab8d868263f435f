"""Topology and placement inside emulated machines that the test machine is not.

A guest tool (its path in WALRAS_GUEST) boots Linux with cgroup v2 or v1 and any CPU topology and
runs a command there. The command is pytest: on guest_machine.py, whose tests only make sense in
there, and on test_placement.py, the same tests that run here.
"""

import os
import re
import shutil
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import pytest

import walras_agent

TOOL = os.environ.get("WALRAS_GUEST", "")
HERE = Path(__file__).parent
AGENT = Path(walras_agent.__file__).parents[1]
PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
TWO_SOCKETS = "sockets=2,cores=12,threads=2"
SMALL = "sockets=1,cores=2,threads=1"
MINUTES = 10

pytestmark = [
    pytest.mark.guest,
    pytest.mark.skipif(not TOOL, reason="needs the path of a guest tool in WALRAS_GUEST"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pytest and what it needs, for a guest that has nothing but Python."""
    folder = tmp_path_factory.mktemp("guest") / "site"
    for name in PYTEST:
        for file in distribution(name).files or ():
            if file.suffix != ".pyc" and ".." not in file.parts:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), folder / file)
    return folder


@pytest.mark.parametrize("version", ["v2", "v1"])
@pytest.mark.parametrize(
    ("module", "cpus"),
    [
        pytest.param("guest_machine.py", TWO_SOCKETS, id="two sockets of 12 cores with SMT"),
        pytest.param("test_placement.py", SMALL, id="two CPUs"),
    ],
)
def test_all_tests_pass_inside_the_guest(site: Path, module: str, cpus: str, version: str) -> None:
    options = ["--cgroup", version, "--smp", cpus, "--timeout", str(MINUTES * 60)]
    folders = [option for folder in (HERE, AGENT, site) for option in ("--dir", str(folder))]
    command = (
        f"PYTHONPATH={AGENT}:{site} WALRAS_CGROUP={version} "
        f"python3 -B -m pytest -W error -v -ra -p no:cacheprovider {module}"
    )

    inside = subprocess.run(
        [TOOL, *options, *folders, "--", command], check=False, capture_output=True, text=True
    )

    report = inside.stdout + inside.stderr
    assert inside.returncode == 0, report
    assert re.search(r"=== \d+ passed in ", report), report
