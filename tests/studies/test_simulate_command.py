"""`walras simulate` as a user calls it, and the plots that it draws."""

from __future__ import annotations

import csv
import json
import re
import runpy
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from walras_cli.main import main
from walras_studies import plot
from walras_studies.chart import Chart, bars
from walras_studies.plot import figure_of
from walras_studies.registry import STUDIES
from walras_studies.small_svg import small

SVG = "{http://www.w3.org/2000/svg}"
TOOL = Path(__file__).parents[2] / "tools" / "make_reproduction.py"


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - our own plots


def simulate(*words: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *words], prog_name="walras")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("results")
    return folder, simulate("karma", "--quick", "--out", str(folder), "-o", "json")


def test_json_has_every_claim_with_its_verdict(written: tuple[Path, Result]) -> None:
    _, done = written
    assert done.exit_code == 0
    (study,) = json.loads(done.stdout)["studies"]
    assert study["study"] == "karma"
    assert study["quick"]
    assert {"reproduced"} < {each["verdict"] for each in study["judgements"]} | {"better"}
    assert "karma: 0%" in done.stderr


@pytest.mark.long
def test_tables_and_plots_are_written(written: tuple[Path, Result]) -> None:
    folder, _ = written
    rows = json.loads((folder / "karma" / "rows.json").read_text())
    for name, table in rows.items():
        with (folder / "karma" / f"{name}.csv").open() as file:
            read = list(csv.DictReader(file))
        assert [list(row) for row in read] == [list(row) for row in table]
        assert [list(row.values()) for row in read] == [
            [str(value) for value in row.values()] for row in table
        ]
    plots = list((folder / "karma").glob("*.svg"))
    assert plots
    for each in plots:
        assert parsed(each.read_text()).tag == f"{SVG}svg"
        assert each.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_the_page_is_made_of_what_was_written(
    written: tuple[Path, Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, done = written
    monkeypatch.setattr(sys, "argv", [str(TOOL), str(folder), str(tmp_path)])
    runpy.run_path(str(TOOL), run_name="__main__")
    page = (tmp_path / "reproduction.md").read_text()
    for each in json.loads(done.stdout)["studies"][0]["judgements"]:
        assert (
            f"| {each['claim']} | {each['paper']} | {each['ours']} | **{each['verdict']}**" in page
        )
    assert {path.name for path in (tmp_path / "images/reproduction").iterdir()} == {
        f"karma-{path.name}" for path in (folder / "karma").glob("*.svg")
    }


def test_a_table_is_printed_for_people() -> None:
    done = simulate("karma", "--quick", "--seed", "3")
    assert done.exit_code == 0
    assert "verdict" in done.stdout
    assert "The Snowflake trace is not available." in done.stdout


def test_help_names_every_study() -> None:
    told = simulate("--help").output
    for name, what in STUDIES.items():
        assert f"{name:<18}  {what}" in told


def test_an_unknown_study_is_refused_by_name() -> None:
    done = simulate("carma")
    assert done.exit_code == 2
    assert "STUDY 'carma' is none of amdahl" in done.stderr


def chart(**changes: object) -> Chart:
    values: dict[str, object] = {
        "name": "some",
        "title": "a < b & c",
        "x": "x",
        "y": "y",
        "series": {"one": ((1.0, 2.0), (2.0, float("nan")), (4.0, 8.0))},
    }
    return Chart(**{**values, **changes})  # type: ignore[arg-type]


def lines(drawn: Chart) -> list[list[list[float]]]:
    (axes,) = figure_of(drawn).axes
    return [line.get_xydata().tolist() for line in axes.lines]  # type: ignore[union-attr]


def test_what_is_no_number_is_left_out() -> None:
    assert lines(chart()) == [[[1.0, 2.0], [4.0, 8.0]]]
    nothing = {"one": ((1.0, 0.0), (2.0, 3.0))}
    assert lines(chart(series=nothing, log_y=True)) == [[[2.0, 3.0]]], "it has no logarithm"


def test_axes_are_logarithmic_where_that_is_asked_for() -> None:
    (axes,) = figure_of(chart(log_x=True)).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")


def test_bars_stand_on_zero_side_by_side_and_have_their_names() -> None:
    series = {"one": bars([2.0, -1.0]), "two": bars([1.0, 3.0])}
    (axes,) = figure_of(chart(series=series, categories=("up", "down"))).axes
    assert [each.get_text() for each in axes.get_xticklabels()] == ["up", "down"]
    one, other = axes.containers
    assert [each.get_y() for each in (*one, *other)] == [0, 0, 0, 0]
    assert [each.get_height() for each in (*one, *other)] == [2, -1, 1, 3]
    for left, right in zip(one, other, strict=True):
        assert left.get_x() + left.get_width() == pytest.approx(right.get_x())


def test_dots_are_not_joined() -> None:
    (axes,) = figure_of(chart(dots=True)).axes
    assert [line.get_linestyle() for line in axes.lines] == ["None"]


def test_labels_are_escaped_and_drawing_is_deterministic(tmp_path: Path) -> None:
    written = []
    for _ in range(2):
        plot.write(chart(), tmp_path)
        written.append((tmp_path / "some.svg").read_text())
    assert "a &lt; b &amp; c" in written[0]
    assert written[0] == written[1]


def test_a_plot_is_one_line_without_what_no_reader_sees(tmp_path: Path) -> None:
    plot.write(chart(), tmp_path)
    text = (tmp_path / "some.svg").read_text()
    assert text.count("\n") == 1
    assert "metadata" not in text
    assert not re.findall(r'"[^"]*-?\d\.\d{3}', text)
    names = set(re.findall(r' id="(\w+)"', text))
    assert names == set(re.findall(r"#([a-z]\w{10})\b", text))
    assert small(text) == text


@pytest.mark.parametrize(
    ("series", "log"),
    [
        ({}, False),
        ({"a": ()}, True),
        ({"a": ((1.0, 5.0),)}, True),
        ({"a": ((0.0, 0.0), (1.0, 0.0))}, True),
    ],
)
def test_charts_of_little_are_drawn(
    series: dict[str, tuple[tuple[float, float], ...]], log: bool, tmp_path: Path
) -> None:
    plot.write(chart(series=series, log_x=log, log_y=log), tmp_path)
    assert parsed((tmp_path / "some.svg").read_text()).tag == f"{SVG}svg"
