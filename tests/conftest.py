"""Fixtures for all tests, wherever they are started from, and the choice of tests to run.

Tests without a marker are unit tests: `make unit` runs them, and a unit test that starts a process,
sleeps or opens a connection fails. `make test` adds those marked ``system``. Those with one of the
markers in `NEEDS` run in `make verify` only (tools/verify.py), each where its need is met.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import urllib3  # noqa: F401 - it binds a socket when it is first imported, to learn about IPv6
from hypothesis import HealthCheck, settings

from examples import ALL, examples
from leaves import leaves_nothing  # noqa: F401 - a fixture of all tests
from walras.numerics.kernel import COMPILED

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

NEEDS = {
    "interleaving": "",
    "speed": "",
    "docker": "DOCKER_HOST",
    "guest": "WALRAS_GUEST",
    "api_server": "KUBECONFIG",
    "node": "KUBECONFIG",
    "soak": "KUBECONFIG",
    "vmnode": "WALRAS_VMNODE",
    "release": "WALRAS_REGISTRY",
    "vmnode_smt": "WALRAS_VMNODE",
    "two_nodes": "WALRAS_VMNODE",
    "scale": "KUBECONFIG",
    "browser": "",
    "machines": "WALRAS_MACHINES",
}
"""Environment variables that tests with a marker need."""

IMPURE = frozenset(
    {
        *("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"),
        *("os.kill", "os.killpg", "time.sleep", "socket.connect", "socket.bind"),
    }
)
"""Audit events that unit tests never raise; see Python's table of them."""

# A change is judged by what it changes: properties are tried on the same examples every time, but
# for `make verify STAGES=properties`, which looks for new ones. How long they take plays no role.
settings.register_profile(
    "walras",
    examples(100),
    derandomize=not ALL,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("walras")

# A shell ignores Ctrl-C for its background jobs, and so would every process that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

_unit_test_runs = False


def _refuse_impurity(event: str, _arguments: tuple[Any, ...]) -> None:
    if _unit_test_runs and event in IMPURE:
        pytest.fail(f"a unit test raised {event}: mark it `system`", pytrace=True)


sys.addaudithook(_refuse_impurity)


def pytest_configure() -> None:
    """Refuse to test kernels that were compiled before they were last changed."""
    if COMPILED is not None and COMPILED.__file__:
        made = Path(COMPILED.__file__).stat().st_mtime
        for file in Path(__file__).parents[1].glob("*/walras*/**/*.py"):
            if file.stat().st_mtime > made and "\n@kernel" in file.read_text(encoding="utf-8"):
                raise pytest.UsageError(
                    f"{file} has changed since its kernels were compiled: `make setup` compiles "
                    f"them; without {COMPILED.__file__}, they run uncompiled"
                )


@pytest.hookimpl(tryfirst=True)  # before pytest looks at -m
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what only `make verify` runs, and skip it where its need is not met."""
    for item in items:
        if COMPILED is None and item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="takes minutes with uncompiled kernels"))
        stages = [name for name in NEEDS if item.get_closest_marker(name)]
        if stages:
            item.add_marker("verify")
        for variable in filter(None, map(NEEDS.__getitem__, stages)):
            if not os.environ.get(variable):
                item.add_marker(pytest.mark.skip(reason=f"needs {variable}; see CONTRIBUTING.md"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note while a unit test runs, so that the audit hook refuses `IMPURE` events in it."""
    global _unit_test_runs  # noqa: PLW0603 - an audit hook is one for the process
    _unit_test_runs = not (item.get_closest_marker("system") or item.get_closest_marker("verify"))
    try:
        return (yield)
    finally:
        _unit_test_runs = False


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Say how to repeat the order of tests if one failed."""
    seed = config.getoption("randomly_seed", None)
    if exitstatus and seed is not None:
        terminalreporter.write_line(f"The order of these tests is that of --randomly-seed={seed}")


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A folder that other users see.

    Each pytest that starts keeps other users from the folders of all of them.
    """
    with tempfile.TemporaryDirectory(prefix="walras-test-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
