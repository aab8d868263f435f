"""``python -m walras_operator`` is ``walras-operator``."""

from walras_operator.command import main

main(prog_name="walras-operator")
