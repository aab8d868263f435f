"""``walras-agent``, also as ``python -m walras_agent``."""

import sys

from walras_service.failures import missing_library


def main() -> None:
    """Start the agent; if its libraries are not installed, say what installs them."""
    try:
        from walras_agent.daemon.command import main as start
    except ModuleNotFoundError as error:
        sys.exit(missing_library("walras-agent", "agent", error))
    start(prog_name="walras-agent")


if __name__ == "__main__":
    main()
