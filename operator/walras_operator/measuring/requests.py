"""Chooses (pure): what a node is asked to measure, as its NodeAllocation has it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from walras.resources.allocation import ProfilingRequest
from walras.resources.fields import MOST_INT32
from walras.resources.statuses import MOST_SAMPLES
from walras_operator.measuring.times import later

if TYPE_CHECKING:
    from walras.resources.market import ProfilingPolicy
    from walras.resources.speedup_profile import ProfileSampling
    from walras.resources.terms import Name
    from walras_operator.measuring.subjects import Candidate

MOVE_SECONDS = 1.5
"""Between two samples: for threads to spread, and for the kernel to be slow."""

START_SECONDS = 60
"""For an agent to see that it is asked."""

GRACE = 60
"""Seconds from the end of a request's lease until it is given up: for a status to be written."""

_LONGEST_NAME = 40


def request_of(
    name: str,
    purpose: Literal["Speedup", "Progress"],
    chosen: Candidate,
    sampling: ProfileSampling | None,
    rules: ProfilingPolicy,
) -> ProfilingRequest:
    """Return a request as a NodeAllocation has it.

    Its lease is half as long again as it should take: so it need not be renewed, and ends as it
    should when there is no operator any more.

    Args:
        name: of the request.
        purpose: of it.
        chosen: the pod.
        sampling: what the profile wants to have sampled, if it says.
        rules: how long samples take, and how many there are.
    """
    wanted = [each for each in sampling.cores if each <= chosen.cores] if sampling else []
    cores = sorted({1, *wanted})[:MOST_SAMPLES] if max(wanted, default=1) > 1 else None
    counts = 1 if purpose == "Progress" else len(cores or ()) or powers(chosen.cores)
    repeats = max(min(rules.repeats, MOST_SAMPLES // counts), 1)
    seconds = counts * repeats * (rules.sample_seconds + MOVE_SECONDS)
    progress = chosen.job.spec.progress
    document = {
        "id": name,
        "podUID": chosen.pod.cgroup_uid,
        "purpose": purpose,
        "cores": None if purpose == "Progress" else cores,
        "sampleSeconds": rules.sample_seconds,
        "repeats": repeats,
        "leaseSeconds": min(START_SECONDS + math.ceil(1.5 * seconds), MOST_INT32),
        "progress": None if progress is None else progress.model_dump(by_alias=True),
        "podIP": chosen.pod.status.pod_ip if progress and progress.http else None,
    }
    return ProfilingRequest.model_validate(document)


def name_of(profile: Name, now: str) -> str:
    """Return the name of a request: another one for every profile of a node, and at every time.

    Args:
        profile: its namespace and name.
        now: the time (RFC 3339).
    """
    stamp = "".join(filter(str.isdigit, now))
    return f"{profile[1][:_LONGEST_NAME].rstrip('-.')}-{stamp}"


def until_of(order: ProfilingRequest, since: str) -> str:
    """Return when a request is given up that nobody has answered (RFC 3339)."""
    return later(since, order.lease_seconds + GRACE)


def powers(cores: int) -> int:
    """Return at how many core counts an agent measures: powers of two, and all that are held."""
    return cores.bit_length() + (cores & (cores - 1) != 0)
