"""Write docs/reproduction.md and its plots from the output of `walras simulate all --out RESULTS`.

    python tools/make_reproduction.py RESULTS [DOCS]

DOCS is the folder of the page, by default `docs`.
"""

import shutil
import sys
from pathlib import Path

from walras_studies.page import IMAGES, image, page
from walras_studies.registry import STUDIES
from walras_studies.results import read


def main() -> None:
    """Write the page and the plots that it shows."""
    results = Path(sys.argv[1])
    docs = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parents[1] / "docs")
    found = [read(results / name) for name in STUDIES if (results / name).exists()]
    images = docs / IMAGES
    shutil.rmtree(images, ignore_errors=True)
    images.mkdir(parents=True)
    for result in found:
        for chart, _ in result.charts:
            shutil.copy(results / result.study / f"{chart}.svg", images / image(result, chart))
    (docs / "reproduction.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
