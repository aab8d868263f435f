"""The options of ``walras-agent`` that several of its commands have, and what its errors mean."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from walras_agent.cpuset import CpuSet
from walras_agent.daemon.health import Health
from walras_agent.daemon.node import Whereabouts
from walras_agent.daemon.plans import PlanError
from walras_agent.daemon.state import StateError
from walras_agent.journal import JournalError
from walras_agent.kubelet import KubeletError
from walras_agent.tree import TreeError
from walras_service.failures import BadInput, Failure
from walras_service.logs import configure_logging
from walras_service.options import listen_option, log_format_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walras_agent.kubepods import Driver

STATE = Path("/var/lib/walras-agent")


@contextmanager
def explained() -> Iterator[None]:
    """Turn what can be wrong with a node or its plans into a line for people."""
    try:
        yield
    except PlanError as error:
        raise BadInput(*error.problems) from error
    except (StateError, JournalError, KubeletError, TreeError) as error:
        raise Failure(str(error)) from error


class Cpus(click.ParamType[CpuSet, CpuSet | str]):
    """A list of CPUs as the kernel writes them."""

    name = "cpus"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the list."""
        try:
            return value if isinstance(value, CpuSet) else CpuSet.parse(value)
        except ValueError as error:
            self.fail(f"{error}; write CPUs as 0-3,8", param, ctx)


def node_options(command: Callable[..., None]) -> Callable[..., None]:
    """Where things are on the node, alike for all sub-commands; given as one `Whereabouts`."""

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
        where = Whereabouts(cgroups, host_root, cgroup_driver, cgroup_root, reserved_cpus)
        command(where=where, **rest)

    folder = click.Path(path_type=Path, exists=True, file_okay=False)
    for option in (
        click.option(
            "--reserved-cpus",
            type=Cpus(),
            help="CPUs that no pod may have of its own.  [default: the kubelet's]",
        ),
        click.option(
            "--cgroup-root", default="/", show_default=True, help="The kubelet's --cgroup-root."
        ),
        click.option(
            "--cgroup-driver",
            type=click.Choice(["cgroupfs", "systemd"]),
            help="The kubelet's --cgroup-driver.  [default: by what is there]",
        ),
        click.option(
            "--host-root",
            type=folder,
            default="/",
            show_default=True,
            help="The host's root, for /sys, /proc and the kubelet's files.",
        ),
        click.option(
            "--cgroups",
            type=folder,
            default="/sys/fs/cgroup",
            show_default=True,
            help="Where cgroups are mounted.",
        ),
    ):
        called = option(called)
    return called


state_option = click.option(
    "--state-folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=STATE,
    show_default=True,
    help="Keeps what cgroup files said before; it must outlive the agent.",
)


@dataclass(frozen=True, slots=True)
class Manner:
    """How the agent is to run.

    Attributes:
        mode: Instead of the plan's; None for that.
        period: Longest time between two looks, in seconds.
        status_file: To write the status to; None for nowhere.
        listen: Address and port to answer at; None for nowhere.
    """

    mode: Literal["enforce", "observe"] | None
    period: float
    status_file: Path | None
    listen: tuple[str, int] | None

    def health(self) -> Health:
        """What probes are to be answered from."""
        return Health(patience=3 * self.period + 30)  # a look may be late, but not three in a row


def manner_options(command: Callable[..., None]) -> Callable[..., None]:
    """How the agent is to run, alike for a file and a cluster; given as one `Manner`."""

    @wraps(command)
    def called(
        *,
        mode: Literal["enforce", "observe"] | None,
        period: float,
        status_file: Path | None,
        listen: tuple[str, int] | None,
        log_format: Literal["json", "text"],
        verbose: bool,
        **rest: Any,
    ) -> None:
        configure_logging("walras_agent", log_format, verbose=verbose)
        command(manner=Manner(mode, period, status_file, listen), **rest)

    for option in (
        click.option("--verbose", is_flag=True, help="Log every write to a cgroup file."),
        log_format_option,
        listen_option("127.0.0.1:9465", "/metrics, /healthz, /readyz and /status"),
        click.option(
            "--status",
            "status_file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="A file to write the status to, as JSON.",
        ),
        click.option(
            "--period",
            type=click.FloatRange(min=0.1, max=3600),
            default=10.0,
            show_default=True,
            help="Longest time between two looks, in seconds.",
        ),
        click.option(
            "--mode",
            type=click.Choice(["enforce", "observe"]),
            help="Instead of the plan's; observe puts everything back.",
        ),
    ):
        called = option(called)
    return called
