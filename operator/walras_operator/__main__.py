"""``walras-operator``, also as ``python -m walras_operator``."""

import sys

from walras_service.failures import missing_library


def main() -> None:
    """Start the operator; if its libraries are not installed, say what installs them."""
    try:
        from walras_operator.command import main as start
    except ModuleNotFoundError as error:
        sys.exit(missing_library("walras-operator", "operator", error))
    start(prog_name="walras-operator")


if __name__ == "__main__":
    main()
