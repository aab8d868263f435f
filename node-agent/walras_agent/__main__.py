"""``python -m walras_agent`` is ``walras-agent``."""

from walras_agent.daemon.command import main

main(prog_name="walras-agent")
