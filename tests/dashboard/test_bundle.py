"""The committed page is what its sources give, small, and asks and runs nothing of others."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "dashboard" / "web"
STATIC = ROOT / "dashboard" / "walras_dashboard" / "static"
OPENAPI = ROOT / "dashboard" / "openapi.json"

MOST_BYTES = 120 * 1024
KINDS = {".html", ".css", ".js", ".svg", ".txt"}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_bundle_is_small_and_has_only_files_that_a_page_needs() -> None:
    files = contents(STATIC)
    assert {Path(name).suffix for name in files} <= KINDS
    assert sum(len(gzip.compress(each)) for each in files.values()) < MOST_BYTES


def test_the_page_keeps_to_a_policy_without_inline_scripts_and_styles() -> None:
    html = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\ssrc=)", html)
    assert "<style" not in html
    assert not re.search(r'\s(style|on\w+)="', html)


def test_the_page_names_no_other_host() -> None:
    """Namespaces of SVG and MathML, and addresses in the licences of libraries, are only names."""
    names = r"https?://(?!www\.w3\.org/|[^\s\"'`)]*LICENSE)[\w.-]+\.\w+"
    html, css = (STATIC / "index.html").read_text(), next(STATIC.glob("assets/*.css")).read_text()
    assert not re.search(names, html + css)
    script = next(STATIC.glob("assets/*.js")).read_text()
    assert not re.search(r"\beval\(|new Function\(", script)
    assert not re.search(rf"(fetch|import)\(\s*[\"'`]{names}", script)


def test_what_the_page_refers_to_is_there() -> None:
    html = (STATIC / "index.html").read_text()
    names = re.findall(r'(?:src|href)="\./([^"]+)"', html)
    assert names
    assert [name for name in names if not (STATIC / name).is_file()] == []


def test_the_lock_file_names_no_registry_but_the_public_one() -> None:
    hosts = re.findall(r'"resolved": "https?://([^/"]+)', (WEB / "package-lock.json").read_text())
    assert set(hosts) <= {"registry.npmjs.org"}


def test_the_bundle_has_the_licenses_of_the_libraries_in_it() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text())["packages"]
    notices = (STATIC / "third-party.txt").read_text()
    for name in lock[""]["dependencies"]:
        part = notices.partition(f"\n{name} {lock[f'node_modules/{name}']['version']}\n")[2]
        assert "Permission is hereby granted" in part.partition("=" * 80)[0], name
        assert "Copyright (c)" in part.partition("=" * 80)[0]
        assert "dependencies" not in lock[f"node_modules/{name}"], "which are in the page, too"


@pytest.mark.browser
def test_the_sources_give_the_committed_bundle(tmp_path: Path) -> None:
    """`make page` changes nothing; npm is asked for what the lock file names."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm (Node 20 or later), without which the bundle cannot be compared")
    copy = tmp_path / "dashboard" / "web"
    shutil.copytree(WEB, copy, ignore=shutil.ignore_patterns("node_modules", "schema.ts"))
    shutil.copy(OPENAPI, tmp_path / "dashboard")
    (tmp_path / "dashboard" / "walras_dashboard").mkdir()
    commands = [["ci", "--no-audit", "--no-fund"], ["run", "types"], ["run", "build"]]
    for arguments in commands:
        done = subprocess.run(
            [npm, *arguments], cwd=copy, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    made = contents(tmp_path / "dashboard" / "walras_dashboard" / "static")
    assert made.keys() == contents(STATIC).keys(), "run `make page` and commit what it changes"
    assert made == contents(STATIC)
