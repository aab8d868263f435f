"""The script of docs/agent.md that restores the values without the agent."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "agent.md"


def restore_by_hand(state: Path, cgroups: Path = Path("/sys/fs/cgroup")) -> None:
    """Run the commands that the script prints.

    Args:
        state: Folder of the agent's journal.
        cgroups: Folder where the cgroups are mounted.
    """
    script = re.search(r"python3 - <<'END'\n(.*?)\nEND\n", _PAGE.read_text(), re.DOTALL)
    assert script is not None
    here = script[1].replace("/var/lib/walras-agent", str(state))
    here = here.replace("/sys/fs/cgroup", str(cgroups))
    printed = subprocess.run(
        [sys.executable, "-c", here], capture_output=True, text=True, check=True
    )
    subprocess.run(["sh", "-e"], input=printed.stdout, text=True, check=True)
