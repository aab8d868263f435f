import os
import subprocess
import sys

import pytest

from walras_agent import procfs
from walras_agent.local import runs

OWN_PARTS = runs.run_id().split("-")


def test_a_living_process_run_is_not_over() -> None:
    assert not runs.is_over(runs.run_id())


@pytest.mark.system
def test_the_run_of_a_process_that_ended_is_over() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "from walras_agent.local.runs import run_id; print(run_id())"],
        check=True,
        capture_output=True,
        text=True,
    )

    assert runs.is_over(ended.stdout.strip())


@pytest.mark.system
def test_a_zombie_s_run_is_over() -> None:
    code = "from walras_agent.local.runs import run_id; print(run_id(), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        run = process.stdout.readline().strip()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        zombie = procfs.read_process(process.pid)

        assert zombie is not None
        assert not zombie.alive
        assert runs.is_over(run)


def test_a_pid_given_to_another_process_does_not_keep_the_old_run_alive() -> None:
    pid, start, namespace, count = OWN_PARTS

    assert runs.is_over(f"{pid}-{int(start) - 1}-{namespace}-{count}")


@pytest.mark.parametrize(
    "run",
    [f"{2**22 + 1}-1-{int(OWN_PARTS[2]) + 1}-1", "x", "", "1-2", f"1-2-{OWN_PARTS[2]}-4-5"],
    ids=["another PID namespace", "a word", "nothing", "two parts", "five parts"],
)
def test_what_cannot_be_known_to_be_over_is_not(run: str) -> None:
    assert not runs.is_over(run)
