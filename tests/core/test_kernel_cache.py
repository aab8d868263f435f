"""Compiled kernels are kept, found again, read from folders that cannot be written, never stale."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import walras
from another_user import NOBODY, another_user
from command_line import walras as walras_command

pytestmark = pytest.mark.system

PACKAGE = Path(walras.__file__).parent

USE = """
import sys
import walras
from walras.rounding import round_cores
from walras._segments import group
import numpy as np
from numba.core import event
with event.install_recorder("numba:compile") as compiled:
    whole = round_cores(np.array([1.5, 2.5]), [4], group(np.zeros(2, np.int64), 1))
assert whole.sum() == 4
assert walras.__file__.startswith(sys.argv[1]), walras.__file__
print(len(compiled.buffer))
"""

CLEAR_ALL = """
from numba.core import event
from typing import get_args
from walras.clearing import clear
from walras.snapshot import CoreMechanism, Entitlement, Job, Node, Policy, Snapshot
everywhere = frozenset({"default"})
def market(least_cores, most_cores, fraction, jobs=30, sockets=1):
    return Snapshot(
        tuple(Entitlement(f"user-{i}", 1 + i, namespaces=everywhere) for i in range(3)),
        tuple(Node(f"node-{j}", 30 + 7 * j, sockets=sockets) for j in range(3)),
        tuple(
            Job("default", f"job-{k}", f"user-{k % 3}", f"node-{k * k % 3}", fraction - k / 500,
                min_cores=least_cores, max_cores=most_cores)
            for k in range(jobs)
        ),
    )
markets = [
    market(1, None, 0.9), market(2, None, 0.9), market(1, 3, 0.9), market(1, None, 0.9, 90),
    market(1, None, 1.0), market(1, 3, 1.0), market(1, None, 0.9, sockets=2),
]
with event.install_recorder("numba:compile") as compiled:
    for mechanism in get_args(CoreMechanism):
        for each in markets:
            assert clear(each, Policy(mechanism, memory="Karma")).grants
print(len(compiled.buffer))
"""


@pytest.fixture
def copy(public_path: Path) -> Path:
    """A copy of the package without anything compiled."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, public_path / "lib/walras", ignore=ignored)
    return public_path / "lib"


def compilations(copy: Path, *, home: Path | None = None, user: int | None = None) -> int:
    """Use a kernel in a new process, and return how many were compiled for that."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"},
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(home or copy / "nowhere"),
        "XDG_CACHE_HOME": str(home or copy / "nowhere"),
    }
    done = subprocess.run(
        [sys.executable, "-c", USE, str(copy)],
        env=environment,
        capture_output=True,
        text=True,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def locked(folder: Path) -> None:
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o555 if each.is_dir() else 0o444)


def test_the_second_process_compiles_nothing(copy: Path) -> None:
    assert compilations(copy) > 0
    assert compilations(copy) == 0


def test_a_kernel_that_changed_makes_all_that_call_it_compile_anew(copy: Path) -> None:
    compilations(copy)
    callee = copy / "walras/_segments.py"
    callee.write_text(callee.read_text() + "\n# another version\n")
    assert compilations(copy) > 0
    other = copy / "walras/plan.py"  # no kernels in it
    other.write_text(other.read_text() + "\n# another version\n")
    assert compilations(copy) == 0


def test_an_index_that_names_a_type_of_another_version_is_made_anew(copy: Path) -> None:
    compilations(copy)
    indexes = list(copy.rglob("*.nbi"))
    for index in indexes:  # the version of Numba, then a class that no longer exists
        index.write_bytes(pickle.dumps(numba.__version__) + b"cwalras.plan\nRenamed\n.")
    assert indexes
    assert compilations(copy) > 0
    assert compilations(copy) == 0


@another_user
def test_what_was_compiled_before_is_read_where_nothing_can_be_written(copy: Path) -> None:
    compilations(copy)
    locked(copy)
    assert compilations(copy, user=NOBODY) == 0


def test_after_compiling_ahead_no_mechanism_compiles_anything() -> None:
    """Neither with bounds nor without, by node or by socket, nor at a parallel fraction of 1."""
    assert walras_command("compile").returncode == 0
    done = subprocess.run(
        [sys.executable, "-c", CLEAR_ALL], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0\n"


@another_user
def test_where_nothing_can_be_kept_each_process_compiles(copy: Path) -> None:
    locked(copy)
    assert compilations(copy, user=NOBODY) > 0
    assert compilations(copy, user=NOBODY) > 0


@another_user
def test_a_folder_of_the_users_own_serves_where_the_package_cannot_be_written(
    copy: Path, public_path: Path
) -> None:
    locked(copy)
    home = public_path / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    assert compilations(copy, home=home, user=NOBODY) > 0
    assert compilations(copy, home=home, user=NOBODY) == 0
