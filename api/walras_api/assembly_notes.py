"""Notes on what a snapshot of the market leaves out, or assumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_api.job_inputs import ASSUMED_FRACTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from walras_api.cluster import Pod
    from walras_api.job_inputs import Name, Speedup
    from walras_api.selection import Selection

MOST_NAMED = 8
"""Number of objects that a note names; it counts the others."""


def notes_on_pods(
    pods: Sequence[Pod], selection: Selection, absent: Mapping[int, str]
) -> Iterator[str]:
    """Yield a line for each pod that several jobs select, or that takes no part.

    Args:
        pods: Pods of the cluster.
        selection: MarketJob of each pod.
        absent: Why pods take no part, by position.
    """
    for number, jobs in selection.contested.items():
        names = " and ".join(job.metadata.name for job in jobs[:MOST_NAMED])
        yield (
            f"Pod {_title(pods[number])}: is selected by MarketJobs {names}; "
            f"{jobs[0].metadata.name} has it, correct the selectors"
        )
    for number, why in absent.items():
        yield f"Pod {_title(pods[number])}: {why}"


def notes_on_jobs(speedups: Mapping[Name, Speedup], with_pods: Iterable[Name]) -> Iterator[str]:
    """Yield a line on all jobs without pods, and on those whose speedup is not known well.

    Args:
        speedups: Speedups of the MarketJobs that take part, by namespace and name.
        with_pods: Jobs that own pods, by namespace and name.
    """
    present = set(with_pods)
    titles = {key: "/".join(key) for key in speedups}
    absent = [title for key, title in titles.items() if key not in present]
    assumed = [
        title
        for key, title in titles.items()
        if key in present and speedups[key].source == "Assumed"
    ]
    refused = [title for key, title in titles.items() if speedups[key].refused]
    if absent:
        yield f"{_listed('MarketJob', absent)}: no pods of it are there"
    if refused:
        yield (
            f"{_listed('MarketJob', refused)}: F is too uncertain by the measurements in the "
            f"profile, which are not used; profile the program anew"
        )
    if assumed:
        yield (
            f"{_listed('MarketJob', assumed)}: speedup is not known; a parallel fraction of "
            f"{ASSUMED_FRACTION} is assumed, give parallelFraction or a profile"
        )


def _listed(kind: str, titles: Sequence[str]) -> str:
    shown = ", ".join(titles[:MOST_NAMED])
    more = f" and {len(titles) - MOST_NAMED} more" if len(titles) > MOST_NAMED else ""
    return f"{kind}{'s' * (len(titles) > 1)} {shown}{more}"


def _title(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
