"""Pure: build requests for measurements, as in a NodeAllocation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from walras_api.fields import MOST_INT32
from walras_api.node_allocation import ProfilingRequest
from walras_api.speedup_profile_status import MOST_SAMPLES
from walras_operator.decide.measuring.times import later

if TYPE_CHECKING:
    from walras_api.job_inputs import Name
    from walras_api.market import ProfilingPolicy
    from walras_api.speedup_profile import ProfileSampling
    from walras_api.speedup_profile_status import OnlineRequest
    from walras_operator.decide.measuring.subjects import Candidate

MOVE_SECONDS = 1.5
"""Seconds between two samples, for threads to spread and the kernel to follow."""

START_SECONDS = 60
"""Seconds for an agent to notice a request."""

GRACE = 60
"""Seconds between the end of a request's lease and its expiry, for a status to be written."""

_LONGEST_NAME = 40


def build_request(
    name: str,
    purpose: Literal["Speedup", "Progress"],
    chosen: Candidate,
    sampling: ProfileSampling | None,
    rules: ProfilingPolicy,
) -> ProfilingRequest:
    """Return a request for a NodeAllocation.

    Its lease is 1.5 times as long as the measurement should take. It need not be renewed, and the
    measurement ends even if there is no operator any more.

    Args:
        name: Name of the request.
        purpose: Measure a speedup, or check progress.
        chosen: Pod to measure.
        sampling: Core counts that the profile asks for; None for powers of two.
        rules: Length and number of samples.
    """
    wanted = [each for each in sampling.cores if each <= chosen.cores] if sampling else []
    cores = sorted({1, *wanted})[:MOST_SAMPLES] if max(wanted, default=1) > 1 else None
    counts = 1 if purpose == "Progress" else len(cores or ()) or core_count_steps(chosen.cores)
    repeats = max(min(rules.repeats, MOST_SAMPLES // counts), 1)
    seconds = counts * repeats * (rules.sample_seconds + MOVE_SECONDS)
    progress = chosen.job.spec.progress
    document = {
        "id": name,
        "podUID": chosen.pod.metadata.uid,
        "purpose": purpose,
        "cores": None if purpose == "Progress" else cores,
        "sampleSeconds": rules.sample_seconds,
        "repeats": repeats,
        "leaseSeconds": min(START_SECONDS + math.ceil(1.5 * seconds), MOST_INT32),
        "progress": None
        if progress is None
        else progress.model_dump(by_alias=True, exclude={"total"}),
        "podIP": chosen.pod.status.pod_ip if progress and progress.http else None,
    }
    return ProfilingRequest.model_validate(document)


def request_name(profile: Name, now: str) -> str:
    """Return a name for a request that is unique among the profiles of a node and over time.

    Args:
        profile: Namespace and name of the profile.
        now: Current time (RFC 3339).
    """
    stamp = "".join(filter(str.isdigit, now))
    return f"{profile[1][:_LONGEST_NAME].rstrip('-.')}-{stamp}"


def pod_and_node(request: OnlineRequest) -> str:
    """Return the name of a request's pod and of its node, for messages."""
    return f"Pod {request.pod} on node {request.node}"


def expiry_of(order: ProfilingRequest, since: str) -> str:
    """Return when a request without an answer expires (RFC 3339)."""
    return later(since, order.lease_seconds + GRACE)


def core_count_steps(cores: int) -> int:
    """Return the number of core counts that an agent measures: powers of two, and all cores."""
    return cores.bit_length() + (cores & (cores - 1) != 0)
