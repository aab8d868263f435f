"""Effects: runs ``walras-agent`` as ``python -m walras_agent``."""

from walras_agent.daemon.command import main

main(prog_name="walras-agent")
