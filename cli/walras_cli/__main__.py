"""``python -m walras_cli`` is the command ``walras``."""

from walras_cli.main import main

main(prog_name="walras")
