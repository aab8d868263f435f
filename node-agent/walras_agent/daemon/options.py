"""Facts: options that several ``walras-agent`` commands share, and their errors."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from walras_agent.cpuset import CpuSet
from walras_agent.daemon.health import Health
from walras_agent.daemon.node import HostPaths
from walras_agent.daemon.plans import PlanError
from walras_agent.daemon.state import StateError
from walras_agent.journal import JournalError
from walras_agent.tree import TreeError
from walras_service.failures import BadInput, Failure
from walras_service.logs import configure_logging
from walras_service.options import listen_option, log_format_option, tls_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walras_agent.kubepods import Driver

STATE_FOLDER = Path("/var/lib/walras-agent")


@contextmanager
def cli_errors() -> Iterator[None]:
    """Turn errors of the node or its plan into one-line errors of the command line."""
    try:
        yield
    except PlanError as error:
        raise BadInput(*error.problems) from error
    except (StateError, JournalError, TreeError) as error:
        raise Failure(str(error)) from error


class CpuList(click.ParamType[CpuSet, CpuSet | str]):
    """Type of an option that takes CPUs in the kernel's list format, such as ``0-3,8``."""

    name = "cpus"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the list of CPUs."""
        try:
            return value if isinstance(value, CpuSet) else CpuSet.parse(value)
        except ValueError as error:
            self.fail(f"{error}; write CPUs as 0-3,8", param, ctx)


def node_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that describe the node; the command gets them as one `HostPaths`."""

    @wraps(command)
    def called(
        *,
        cgroups: Path,
        host_root: Path,
        cgroup_driver: Driver | None,
        cgroup_root: str,
        reserved_cpus: CpuSet | None,
        **rest: Any,
    ) -> None:
        paths = HostPaths(cgroups, host_root, cgroup_driver, cgroup_root, reserved_cpus)
        command(paths=paths, **rest)

    folder = click.Path(path_type=Path, exists=True, file_okay=False)
    for option in (
        click.option(
            "--reserved-cpus",
            type=CpuList(),
            help="CPUs that no pod may have exclusively.  [default: the kubelet's reserved CPUs]",
        ),
        click.option(
            "--cgroup-root",
            default="",
            help="The kubelet's --cgroup-root.  [default: the kubelet's]",
        ),
        click.option(
            "--cgroup-driver",
            type=click.Choice(["cgroupfs", "systemd"]),
            help="The kubelet's --cgroup-driver.  [default: detected]",
        ),
        click.option(
            "--host-root",
            type=folder,
            default="/",
            show_default=True,
            help="Where the host's root is mounted, for /sys, /proc and the kubelet's files.",
        ),
        click.option(
            "--cgroups",
            type=folder,
            default="/sys/fs/cgroup",
            show_default=True,
            help="Where the host's cgroups are mounted.",
        ),
    ):
        called = option(called)
    return called


state_option = click.option(
    "--state-folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=STATE_FOLDER,
    show_default=True,
    help="Folder for the original values of cgroup files; it must outlive the agent.",
)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of the agent's process, without those that describe the node.

    Attributes:
        mode: Mode that overrides the plan's; None for the plan's own.
        period: Longest time between two reconcile passes, in seconds.
        status_file: File to write the status to; None for no file.
        listen: Address and port of metrics and probes; None to serve no HTTP.
        tls_folder: Folder of the certificate for metrics and probes; None for no TLS.
    """

    mode: Literal["enforce", "observe"] | None
    period: float
    status_file: Path | None
    listen: tuple[str, int] | None
    tls_folder: Path | None = None

    def health(self) -> Health:
        """Return the state that probes are answered from."""
        return Health(patience=3 * self.period + 30)  # one pass may be late, but not three in a row


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the agent's process; the command gets them as one `RunOptions`."""

    @wraps(command)
    def called(
        *,
        mode: Literal["enforce", "observe"] | None,
        period: float,
        status_file: Path | None,
        listen: tuple[str, int] | None,
        tls_folder: Path | None,
        log_format: Literal["json", "text"],
        verbose: bool,
        **rest: Any,
    ) -> None:
        configure_logging("walras_agent", log_format, verbose=verbose)
        command(options=RunOptions(mode, period, status_file, listen, tls_folder), **rest)

    for option in (
        click.option("--verbose", is_flag=True, help="Log every write to a cgroup file."),
        log_format_option,
        tls_option,
        listen_option("127.0.0.1:9465", "/metrics, /healthz and /readyz, to this machine /status"),
        click.option(
            "--status",
            "status_file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="File to write the status to, as JSON.",
        ),
        click.option(
            "--period",
            type=click.FloatRange(min=0.1, max=3600),
            default=10.0,
            show_default=True,
            help="Longest time between two reconcile passes, in seconds.",
        ),
        click.option(
            "--mode",
            type=click.Choice(["enforce", "observe"]),
            help="Overrides the plan's mode; observe restores all original values.",
        ),
    ):
        called = option(called)
    return called
