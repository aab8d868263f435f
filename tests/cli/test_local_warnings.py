"""What the table of a local run marks and warns of: fractions that are assumed or in doubt."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from walras.speedup.diagnosis import Finding, FindingCode
from walras_cli.local.run_report import JobResult, RunResult, render
from walras_cli.local.state import FractionSource, Phase

WHY = "it took too long: set spec.parallelFraction"
MEASURED = JobResult(
    namespace="default",
    name="zip",
    entitlement="ada",
    phase=Phase.DONE,
    fraction=0.95,
    source=FractionSource.MEASURED,
    source_reason="",
    seconds=2.0,
    cpu_seconds=2.0,
    held=1.0,
    own_cores=1,
    shared_cores=0.0,
    predicted_speedup=1.0,
    measured_speedup=None,
    predicted_seconds=None,
    proportional_seconds=None,
    proportional_measured_seconds=None,
    price=1.0,
    reason="",
)


def test_assumed_fractions_are_marked_and_explained_once_and_their_findings_are_left_out() -> None:
    assumed = replace(MEASURED, source=FractionSource.ASSUMED, source_reason=WHY, fraction=0.9)
    jobs = (MEASURED, replace(assumed, name="blink"), replace(assumed, name="wink"))
    codes = (FindingCode.FEW_SIZES, FindingCode.ONE_CORE_COUNT)
    findings = {each.key: [Finding(code, "is so: do this") for code in codes] for each in jobs}
    result = RunResult(2, "core", "0-1", "affinity", "enforce", "m", 2.0, (), jobs, (), findings)
    assumed_because = "a parallel fraction of 0.8 is assumed, because "
    console = Console(width=200, file=StringIO(), record=True)
    console.print(render(result))
    lines = console.export_text().splitlines()
    assert [each.strip() for each in lines if each.startswith("warning: ")] == [
        f"warning: default/blink, default/wink: {assumed_because}{WHY}",
        "warning: default/zip: is so: do this [FewSizes]",
    ]
    fractions = {each.split()[0]: each.split()[1] for each in lines if "1.00 / -" in each}
    assert fractions == {
        "default/zip": "0.950",
        "default/blink": "0.900?",
        "default/wink": "0.900?",
    }
