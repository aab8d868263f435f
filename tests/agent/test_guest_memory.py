"""Grants of memory held by cgroup v2, inside an emulated machine that has it."""

import re
from pathlib import Path

import emulated
import walras_agent
from emulated import copy_distributions, in_a_guest, run_inside

HERE = Path(__file__).parent
SUPPORT = Path(emulated.__file__).parent
AGENT = Path(walras_agent.__file__).parents[1]
PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")

pytestmark = in_a_guest


def test_all_tests_pass_inside_the_guest(tmp_path: Path) -> None:
    site = tmp_path / "site"
    copy_distributions(PYTEST, site)
    inside = run_inside(
        f"PYTHONPATH={AGENT}:{SUPPORT}:{site} "
        "python3 -B -m pytest -W error -v -ra -p no:cacheprovider --durations=0 "
        "test_memory_kernel.py",
        [HERE, SUPPORT, AGENT, site],
        smp="sockets=1,cores=2,threads=1",
        cgroup="v2",
    )
    assert inside.status == 0, inside.output
    # Only what is of cgroup v1 may be skipped.
    assert re.search(r"=== \d+ passed, 1 skipped in ", inside.output), inside.output
