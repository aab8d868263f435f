"""The agent's tests on kernels and machines that the test machine is not, emulated.

What runs there is pytest, on guest_machine.py, whose tests only make sense in there, and on those
modules that also run here, on the kernel of this machine.
"""

import re
from pathlib import Path

import pytest

import emulated
import walras
import walras_agent
import walras_api
import walras_service
from emulated import compile_ahead, copy_distributions, in_a_guest, run_inside

HERE = Path(__file__).parent
SUPPORT = Path(emulated.__file__).parent
PACKAGES = [
    Path(str(package.__file__)).parents[1]
    for package in (walras, walras_api, walras_service, walras_agent)
]
PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
DAEMON_NEEDS = (
    *("pydantic", "pydantic-core", "annotated-types", "typing-extensions", "typing-inspection"),
    *("asyncinotify", "click", "prometheus-client", "psutil", "python-json-logger", "pyyaml"),
)
DAEMON = " ".join(
    f"daemon/test_daemon_kernel.py::{test}"
    for test in (
        "test_agent_follows_plans_pods_and_drift_as_they_come",
        "test_http_answers_tell_the_truth",
    )
)
OF_ANY_KERNEL = "test_all_of_it_holds_by_affinity_for_an_ordinary_user"
FEW_PLANS = "WALRAS_TEST_PLANS=5"
ON_TWO_CPUS = (
    f"guest_own_group.py test_placement.py test_model_kernel.py test_open_file_tree.py {DAEMON} "
    f"test_memory_kernel.py profiling/test_progress_kernel.py "
    f"--deselect test_placement.py::{OF_ANY_KERNEL}"
)
TWO_NODES = "guest_machine.py guest_memory_nodes.py guest_kernel.py"
ENFORCE = "test_enforce_kernel.py"
LOCAL_HOLD = "test_local_hold.py"
TWO_SOCKETS = "sockets=2,cores=12,threads=2"
FOUR_CORES = "sockets=1,cores=4,threads=2"
TWO_CORES = "sockets=1,cores=2,threads=2"
SMALL = "sockets=1,cores=2,threads=1"

pytestmark = in_a_guest
gate = pytest.mark.gate


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pytest and the agent need, for a guest that has nothing but Python."""
    folder = tmp_path_factory.mktemp("guest") / "site"
    copy_distributions(PYTEST + DAEMON_NEEDS, folder)
    compile_ahead(folder)
    return folder


MACHINES = {
    "two sockets of 12 cores": (TWO_NODES, TWO_SOCKETS),
    "four cores with SMT": (ENFORCE, FOUR_CORES),
    "jobs of a run": (LOCAL_HOLD, TWO_CORES),
    "two CPUs": (ON_TWO_CPUS, SMALL),
}
"""Modules of tests, and the CPUs that they need."""


@pytest.mark.parametrize(
    ("machine", "kernel", "version"),
    [
        *(pytest.param(each, "6.12", "v2", marks=gate) for each in MACHINES),
        *((each, kernel, "v2") for each in MACHINES for kernel in ("6.1", "newest")),
        *((each, "6.1", "v1") for each in ("two sockets of 12 cores", "four cores with SMT")),
    ],
)
def test_all_tests_pass_inside_the_guest(
    site: Path, machine: str, kernel: str, version: str
) -> None:
    modules, cpus = MACHINES[machine]
    inside = run_inside(
        f"{FEW_PLANS} PYTHONPATH={':'.join(map(str, [*PACKAGES, SUPPORT, site]))} "
        f"WALRAS_CGROUP={version} "
        "python3 -B -m pytest -W error -v -ra -m 'not speed' -p no:cacheprovider --durations=5 "
        f"{modules}",
        [HERE, SUPPORT, *PACKAGES, site],
        smp=cpus,
        kernel=kernel,
        cgroup=version,
    )
    assert inside.status == 0, inside.output
    # What is about the other version of cgroups is left out, and nothing is skipped.
    assert re.search(r"=== \d+ passed(, \d+ deselected)? in ", inside.output), inside.output
