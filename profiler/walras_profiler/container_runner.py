"""Runs a container image by the Docker daemon of this machine, and measures it.

Wall time is the daemon's own record of start and end, so it excludes the creation and the removal
of the container. CPU time and memory are polled, and are those of the last poll before the end. How
long its threads waited for CPUs is seen where its processes are visible under their cgroup.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from walras_agent.cpuset import CpuSet
from walras_agent.local.runs import run_id
from walras_agent.topology import Topology
from walras_agent.waiting import WaitingTimes, Watch, threads_of
from walras_profiler.campaign import Measurement, MeasurementError, Trial
from walras_profiler.command_runner import choose_cpus, last_lines
from walras_profiler.launch import THREAD_VARIABLES
from walras_profiler.reaper import Reaper
from walras_profiler.sampling import Sampler
from walras_profiler.template import Template

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_DEFAULT_SOCKET = "unix:///var/run/docker.sock"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_NANOSECONDS = 1e9
_CLOCK_SECONDS = 0.001  # the daemon notes the start only once the container runs


class ContainerError(Exception):
    """Containers cannot be run; the message is one line with the cause and the way out."""


@dataclass(slots=True)
class _Usage:
    """Resources used by a container, as of the last poll; None before the first."""

    user_seconds: float | None = None
    system_seconds: float | None = None
    peak_memory: int | None = None

    @property
    def cpu_seconds(self) -> float:
        """CPU time that is known."""
        return (self.user_seconds or 0.0) + (self.system_seconds or 0.0)

    def see(self, cpu_seconds: float) -> None:
        """Take note of CPU time in all, if it is more than that of the last poll."""
        if cpu_seconds > self.cpu_seconds:
            self.system_seconds = self.system_seconds or 0.0
            self.user_seconds = cpu_seconds - self.system_seconds

    def record(self, stats: Mapping[str, Any]) -> None:
        """Record an answer of the stats endpoint; that of an ended container is empty."""
        memory = stats.get("memory_stats") or {}
        # Cgroup v1 reports the peak; on v2 the largest value polled takes its place.
        if seen := memory.get("max_usage") or memory.get("usage"):
            self.peak_memory = max(int(seen), self.peak_memory or 0)
            usage = stats["cpu_stats"]["cpu_usage"]
            self.user_seconds = usage.get("usage_in_usermode", 0) / _NANOSECONDS
            self.system_seconds = usage.get("usage_in_kernelmode", 0) / _NANOSECONDS


@dataclass(slots=True)
class ContainerRunner:
    """Runner of a container image; open it with `container_runner`.

    Attributes:
        template: Template of the container's command; empty for the image's own command.
        topology: CPUs of the machine; runs get whole cores of them.
        timeout: Seconds after which a run counts as hung.
        sampler: Draws samples of the data; None without data.
        description: Mechanism that holds runs to their cores.
        notes: Texts for the user about what is not measured.
    """

    image: str
    template: Template
    topology: Topology
    network: str
    timeout: float
    sampler: Sampler | None
    _client: "DockerClient"
    _reaper: Reaper
    _run: str
    _socket: Path
    description: str = "Docker cpuset-cpus"
    notes: Sequence[str] = ("no hardware counters: they are available for commands only",)
    _runs: int = field(default=0)

    def run(self, trial: Trial) -> Measurement:
        """Make a run and wait for its end, as `campaign.Runner` does."""
        from docker.errors import DockerException

        try:
            cpus = choose_cpus(self.topology, trial.cores)
            container = self._create(trial, cpus)
            try:
                container.start()
                return self._watch(container, trial, cpus)
            finally:
                container.remove(force=True)
        except DockerException as error:
            raise MeasurementError(f"{trial}: {_reason(error)}") from error

    def _create(self, trial: Trial, cpus: CpuSet) -> "Container":
        self._runs += 1
        name = f"walras-{self._run}-{self._runs}"
        self._reaper.guard_container(name, self._socket)
        data = self.sampler.draw(trial.size) if self.sampler else None
        argv = self.template.render(
            cores=trial.cores, threads=len(cpus), size=trial.size, data=data
        )
        return self._client.containers.create(
            self.image,
            list(argv) or None,
            name=name,
            cpuset_cpus=str(cpus),
            environment=self._environment(cpus),
            network_mode=self.network,
            volumes=self._volumes(data),
        )

    def _environment(self, cpus: CpuSet) -> dict[str, str]:
        """Return thread counts for parallel run-times, where the image does not set them."""
        image = self._client.images.get(self.image)
        own = {entry.partition("=")[0] for entry in image.attrs["Config"].get("Env") or ()}
        return {name: str(len(cpus)) for name in THREAD_VARIABLES if name not in own}

    def _volumes(self, data: Path | None) -> dict[str, dict[str, str]]:
        """Return read-only mounts of the data and of the sample, which may link to the data."""
        if self.sampler is None or data is None:
            return {}
        paths = {str(self.sampler.source.absolute()), str(data)}
        return {path: {"bind": path, "mode": "ro"} for path in sorted(paths)}

    def _watch(self, container: "Container", trial: Trial, cpus: CpuSet) -> Measurement:
        usage, waiting = self._wait(container, trial, cpus)
        state = container.attrs["State"]
        if state["ExitCode"] or state["OOMKilled"]:
            why = "out of memory" if state["OOMKilled"] else f"exit code {state['ExitCode']}"
            tail = last_lines(container.logs(tail=20))
            raise MeasurementError(
                f"{trial}: the container failed ({why})" + (f": {tail}" if tail else "")
            )
        seconds = _seconds_between(state["StartedAt"], state["FinishedAt"])
        unwaited = None
        if waiting is not None:
            usage.see(waiting.ran)
            unwaited = waiting.unwaited(seconds, usage.cpu_seconds)
        return Measurement(
            trial.cores,
            trial.size,
            seconds=seconds,
            user_seconds=usage.user_seconds,
            system_seconds=usage.system_seconds,
            peak_memory=usage.peak_memory,
            unwaited=unwaited,
        )

    def _wait(
        self, container: "Container", trial: Trial, cpus: CpuSet
    ) -> tuple[_Usage, WaitingTimes | None]:
        """Wait until the container has ended; return what it used, and how its threads waited."""
        watch: Watch | None = None
        try:
            container.reload()
            watch = _watch_threads(container, len(cpus))
            usage = self._poll(container, trial)
        finally:
            waiting = None if watch is None else watch.stop()
        return usage, waiting

    def _poll(self, container: "Container", trial: Trial) -> _Usage:
        """Poll the container, at growing intervals, until it has ended."""
        usage, pause = _Usage(), _FIRST_PAUSE
        deadline = time.monotonic() + self.timeout
        while True:
            container.reload()
            if container.status in {"exited", "dead"}:
                return usage
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"{trial}: still running after {self.timeout:g} s: raise --timeout, "
                    "or give it less work"
                )
            usage.record(cast("Mapping[str, Any]", container.stats(stream=False, one_shot=True)))
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


@contextmanager
def container_runner(
    image: str,
    template: Template,
    topology: Topology,
    *,
    data: Path | None = None,
    network: str = "none",
    timeout: float = 3600.0,
    seed: int = 0,
) -> Iterator[ContainerRunner]:
    """Open a runner; on exit, all containers and files of its runs are removed.

    Args:
        image: Name of an image that the daemon has.
        template: Template of the container's command; empty for the image's own command.
        topology: CPUs of the machine.
        data: Data to sample; None for no data.
        network: Docker network mode.
        timeout: Longest duration of a run in seconds.
        seed: Seed of the samples.

    Raises:
        ContainerError: No daemon answers, it is not on this machine, or it lacks the image.
    """
    socket = docker_socket(os.environ)
    run = run_id()
    with (
        _connected(image) as client,
        Reaper(run) as reaper,
        TemporaryDirectory(prefix="walras-") as folder,
    ):
        scratch = Path(folder)
        reaper.guard_folder(scratch)
        yield ContainerRunner(
            image,
            template,
            topology,
            network,
            timeout,
            Sampler(data, scratch, seed) if data else None,
            _client=client,
            _reaper=reaper,
            _run=run,
            _socket=socket,
        )


def _watch_threads(container: "Container", cpus: int) -> Watch | None:
    """Begin to look at a container's threads; None if it has ended, or they cannot be seen.

    The daemon's PID is another process's where this program is in another PID namespace.
    """
    state = container.attrs["State"]
    pid = state.get("Pid", 0)
    try:
        if not pid or str(container.id) not in Path(f"/proc/{pid}/cgroup").read_text():
            return None
    except OSError:
        return None
    ago = datetime.now(UTC) - datetime.fromisoformat(state["StartedAt"])
    started = time.monotonic() - max(ago.total_seconds(), 0.0)
    return Watch(lambda: threads_of([pid]), cpus, started)


def docker_socket(environment: Mapping[str, str]) -> Path:
    """Return the Unix socket of this machine's daemon, from DOCKER_HOST or the default.

    Raises:
        ContainerError: DOCKER_HOST names the daemon of another machine.
    """
    host = environment.get("DOCKER_HOST") or _DEFAULT_SOCKET
    if not host.startswith("unix://"):
        raise ContainerError(f"DOCKER_HOST is {host}: profile on the machine of that daemon")
    return Path(host.removeprefix("unix://"))


@contextmanager
def _connected(image: str) -> Iterator["DockerClient"]:
    """Open a client of the daemon, after checking that it answers and has the image."""
    import docker
    from docker.errors import DockerException, ImageNotFound

    host = os.environ.get("DOCKER_HOST") or _DEFAULT_SOCKET
    try:
        client = docker.from_env()
        client.ping()
    except (DockerException, OSError) as error:
        raise ContainerError(
            f"no Docker daemon answers at {host}: start it, set DOCKER_HOST, "
            "or join the group that may use its socket"
        ) from error
    try:
        client.images.get(image)
        yield client
    except ImageNotFound as error:
        raise ContainerError(f"image {image}: not on this machine: docker pull {image}") from error
    finally:
        with suppress(DockerException):
            client.close()


def _seconds_between(started: str, finished: str) -> float:
    """Return the wall time by the daemon's clock, which may show a very short run as negative."""
    elapsed = datetime.fromisoformat(finished) - datetime.fromisoformat(started)
    return max(_CLOCK_SECONDS, elapsed.total_seconds())


def _reason(error: Exception) -> str:
    """Return the daemon's own explanation of an error as one line."""
    return last_lines(str(getattr(error, "explanation", None) or error).encode())
