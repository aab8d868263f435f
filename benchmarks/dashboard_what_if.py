"""Measure a what-if of the dashboard on a warm cache: other shares, another F, another mechanism.

The peer is a whole decision of the operator on the same cluster, which also writes statuses.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from harness import Case, one_thread, run

one_thread()
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from large_worlds import cluster  # noqa: E402
from walras_dashboard.what_if import Tries  # noqa: E402
from walras_dashboard.what_if_models import WhatIf  # noqa: E402
from whole_decisions import decide  # noqa: E402
from worlds import enforced, outcome, world  # noqa: E402

SIZES = ((100, 1_000), (1_000, 10_000))
TARGET_MS = 200


def cases() -> list[Case]:
    """Return the cases of both sizes."""
    found = []
    for nodes, jobs in SIZES:
        fresh = world(*cluster(nodes, jobs))
        known = enforced(outcome(fresh, decide(fresh)))
        user = known.objects.entitlements[0].metadata.name
        first = known.objects.jobs[0].metadata
        changes = {
            "other shares": WhatIf(shares={user: 9}),
            "another F": WhatIf(fractions={f"{first.namespace}/{first.name}": 0.5}),
            "another mechanism": WhatIf(mechanism="ProportionalSharing"),
        }
        tries = Tries()
        for what, change in changes.items():
            title = f"{nodes} nodes, {jobs} pods, {what}"
            answer = partial(tries.answer, known, change)
            answer()  # the plan of today is kept from then on
            found.append(Case(title, TARGET_MS, answer, "decide", partial(decide, known)))
    return found


if __name__ == "__main__":
    run("What-if of the dashboard", cases())
