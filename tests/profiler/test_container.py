"""Profiles of containers, on a real Docker daemon.

DOCKER_HOST names it; the image is a busybox, `localhost/busybox:local` or WALRAS_TEST_IMAGE.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from waiting import eventually
from walras.speedup.sizes import WHOLE
from walras_agent.topology import Topology
from walras_profiler.campaign import Trial
from walras_profiler.container_runner import ContainerError, container_runner, docker_socket
from walras_profiler.template import Template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

PROFILE = ["-m", "walras_cli", "profile"]
IMAGE = os.environ.get("WALRAS_TEST_IMAGE", "localhost/busybox:local")

needs_two_cpus = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs to run on"
)


@pytest.fixture
def client() -> "Iterator[DockerClient]":
    import docker

    client = docker.from_env()
    yield client
    client.close()


def walras(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *PROFILE, *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env=dict(os.environ) | environment,
    )


def own_containers(client: "DockerClient") -> list[str]:
    # The client asks for each container that it listed: one may be gone by then.
    listed = client.containers.list(all=True, ignore_removed=True)
    names = [container.name for container in listed]
    return [name for name in names if name and name.startswith("walras-")]


@pytest.mark.docker
@needs_two_cpus
def test_container_is_held_to_its_cpus_without_network_and_measured(
    client: "DockerClient",
) -> None:
    script = (
        'test "$(nproc)" = {threads} && test "$OMP_NUM_THREADS" = {threads} || exit 9;'
        'test "$(cat /proc/net/dev | grep -c :)" = 1 || exit 8; sleep 3'
    )
    # What a container used is only known of one that was seen running, however busy the machine.
    # The daemon notes its start a little after it has begun.
    done = walras(*("--image", IMAGE, "--repeat", "2", "-o", "json", "--", "sh", "-c", script))
    assert done.returncode == 0, done.stderr
    assert "Runs are pinned to their cores by Docker cpuset-cpus." in done.stderr
    cells = json.loads(done.stdout)["spec"]["measurements"]
    assert [cell["cores"] for cell in cells] == [1, 2]
    for cell in cells:
        assert all(float(seconds) > 2.0 for seconds in cell["seconds"])
        assert float(cell["userSeconds"]) + float(cell["systemSeconds"]) < 3.0
        assert int(cell["peakMemory"].removesuffix("Ki")) > 100
    assert own_containers(client) == []


@pytest.mark.docker
@needs_two_cpus
def test_what_a_container_waits_for_its_cpus_is_known() -> None:
    """Two processes that always compute take half of the CPUs, or more."""
    count = ("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        for process, cpu in zip(busy, sorted(os.sched_getaffinity(0)), strict=False):
            os.sched_setaffinity(process.pid, [cpu])
        with container_runner(IMAGE, Template(count), Topology.read()) as runner:
            found = runner.run(Trial(1, WHOLE, repeat=1))
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert found.unwaited is not None
    alone = found.unwaited.busy + found.unwaited.idle
    assert alone < 0.85 * found.seconds
    assert found.cpu_seconds is not None
    assert alone >= 0.95 * found.cpu_seconds


@pytest.mark.docker
@needs_two_cpus
def test_sampled_data_are_seen_read_only_at_their_own_path(
    client: "DockerClient", tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number}.txt").write_text("x")
    read_all, write = 'test "$(cat "$1"/*.txt)" = "$2"', 'echo y 2>/dev/null > "$1"/new'
    script = f"{read_all} || exit 9; if {write}; then exit 8; fi"
    command = ("sh", "-c", script, "check", "{data}")
    common = ("--image", IMAGE, "--repeat", "1", "--data", str(folder), "--no-plot")
    half = walras(*common, "--sizes", "50%", "--", *command, "x" * 10)
    assert half.returncode == 0, half.stderr
    whole = walras(*common, "--", *command, "x" * 20)
    assert whole.returncode == 0, whole.stderr
    assert own_containers(client) == []


@pytest.mark.docker
@needs_two_cpus
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("--image", IMAGE, "--", "sh", "-c", "echo broken >&2; exit 3"),
            r"2 cores: the container failed \(exit code 3\): broken",
        ),
        (("--image", IMAGE, "--", "no-such-tool"), r"2 cores: .*executable file not found"),
        (("--image", "no/such:image", "--", "true"), "no/such:image: .*docker pull no/such:image"),
        (
            ("--image", IMAGE, "--timeout", "0.3", "--", "sleep", "30"),
            r"still running after 0\.3 s: raise --timeout",
        ),
    ],
)
def test_failure_is_one_line_and_leaves_no_container(
    arguments: tuple[str, ...], complaint: str, client: "DockerClient"
) -> None:
    done = walras(*arguments)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert re.search(complaint, done.stderr.splitlines()[-1])
    assert own_containers(client) == []


@pytest.mark.docker
@needs_two_cpus
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_campaign_leaves_no_container(
    number: signal.Signals, client: "DockerClient"
) -> None:
    arguments = [sys.executable, *PROFILE, "--image", IMAGE, "--", "sleep", "60"]
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as running:
        assert eventually(lambda: own_containers(client) != []), "no container was started"
        running.send_signal(number)
    assert eventually(lambda: own_containers(client) == [])


@pytest.mark.system
@needs_two_cpus
def test_daemon_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    host = f"unix://{tmp_path}/docker.sock"
    done = walras("--image", IMAGE, "--", "true", DOCKER_HOST=host)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"walras: no Docker daemon answers at {host}: start it" in done.stderr


@pytest.mark.parametrize("host", ["tcp://10.0.0.1:2375", "ssh://user@host"])
def test_daemon_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(ContainerError, match="profile on the machine of that daemon"):
        docker_socket({"DOCKER_HOST": host})


def test_daemon_is_found_by_docker_host_or_at_its_usual_place() -> None:
    assert docker_socket({"DOCKER_HOST": "unix:///x/d.sock"}) == Path("/x/d.sock")
    assert docker_socket({}) == Path("/var/run/docker.sock")
