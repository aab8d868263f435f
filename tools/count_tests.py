"""Print a one-line summary of test runs; exit with 1 if a test failed or was skipped."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from itertools import chain
from pathlib import Path


def main() -> None:
    """Summarise the JUnit reports whose paths are the arguments."""
    reports = [ET.parse(Path(each)).getroot() for each in sys.argv[1:]]  # noqa: S314 - ours
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    skipped = []
    for suite in chain.from_iterable(each.iter("testsuite") for each in reports):
        for name in totals:
            totals[name] += int(suite.get(name, "0"))
        for case in suite.iter("testcase"):
            reason = case.find("skipped")
            if reason is not None:
                skipped.append(f"{case.get('name')}: {reason.get('message')}")
    failed = totals["failures"] + totals["errors"]
    totals["skipped"] = len(skipped)
    passed = totals["tests"] - failed - totals["skipped"]
    for line in skipped:
        print(f"skipped: {line}")
    print(f"{passed} passed, {failed} failed, {totals['skipped']} skipped")
    sys.exit(1 if failed or totals["skipped"] or not passed else 0)


if __name__ == "__main__":
    main()
