"""Topology and placement inside emulated machines that the test machine is not.

What runs there is pytest: on guest_machine.py, whose tests only make sense in
there, and on test_placement.py, the same tests that run here.
"""

import re
from pathlib import Path

import pytest

import walras_agent
from emulated import copy_distributions, in_a_guest, run_inside

HERE = Path(__file__).parent
AGENT = Path(walras_agent.__file__).parents[1]
PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
TWO_SOCKETS = "sockets=2,cores=12,threads=2"
SMALL = "sockets=1,cores=2,threads=1"

pytestmark = in_a_guest


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pytest and what it needs, for a guest that has nothing but Python."""
    folder = tmp_path_factory.mktemp("guest") / "site"
    copy_distributions(PYTEST, folder)
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
    inside = run_inside(
        f"PYTHONPATH={AGENT}:{site} WALRAS_CGROUP={version} "
        f"python3 -B -m pytest -W error -v -ra -p no:cacheprovider {module}",
        [HERE, AGENT, site],
        smp=cpus,
        cgroup=version,
    )
    assert inside.status == 0, inside.output
    assert re.search(r"=== \d+ passed in ", inside.output), inside.output
