"""Write the CustomResourceDefinitions, made from the models in core/walras/resources.

    python tools/make_crds.py [FOLDER]

FOLDER is `crds` by default.
"""

import sys
from pathlib import Path

import yaml

from walras.resources.definitions import DEFINITIONS, GROUP, definition_document

HEAD = "# Made by `make crds` of core/walras/resources: change the models there, not this file.\n"


def main() -> None:
    """Write one file for each kind."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "crds")
    folder.mkdir(parents=True, exist_ok=True)
    for definition in DEFINITIONS:
        text = yaml.safe_dump(
            definition_document(definition), sort_keys=False, width=100, allow_unicode=True
        )
        (folder / f"{GROUP}_{definition.plural}.yaml").write_text(HEAD + text)


if __name__ == "__main__":
    main()
