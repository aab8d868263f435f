"""Random samples of real files and folders."""

import os
from collections import Counter
from pathlib import Path

import pytest

from walras.speedup.sizes import WHOLE, DataSize
from walras_profiler.sampling import Sampler, SamplingError

TEN, HALF = DataSize.parse("10%"), DataSize.parse("50%")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """200 files, some of them two folders deep."""
    top = tmp_path / "data"
    for number in range(200):
        file = top / f"part-{number % 3}" / f"sub-{number % 5}" / f"file-{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(number))
    return top


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """1000 numbered lines of UTF-8, the last one without a line break."""
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(f"{number} é" for number in range(1000)))
    return file


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    path = tmp_path / "walras-scratch"
    path.mkdir()
    return path


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def numbers_in(file: Path) -> list[int]:
    return [int(line.split()[0]) for line in file.read_text().splitlines()]


def test_folder_sample_links_the_share_of_files_at_their_places(
    folder: Path, scratch: Path
) -> None:
    sample = Sampler(folder, scratch, seed=1).draw(TEN)
    drawn = files_in(sample)
    assert sample.name == "data"
    assert len(drawn) == 20
    assert drawn < files_in(folder)
    assert all((sample / name).read_text() == (folder / name).read_text() for name in drawn)


def test_file_sample_holds_the_share_of_lines_in_order(lines: Path, scratch: Path) -> None:
    sample = Sampler(lines, scratch, seed=1).draw(TEN)
    drawn = numbers_in(sample)
    assert sample.name == "lines.txt"
    assert len(drawn) == 100
    assert drawn == sorted(set(drawn))


def test_same_seed_draws_the_same_and_another_differs(
    folder: Path, lines: Path, scratch: Path
) -> None:
    draws = []
    for place, seed in (("a", 1), ("b", 1), ("c", 2)):
        (scratch / place).mkdir()
        draws.append(
            (
                files_in(Sampler(folder, scratch / place, seed).draw(HALF)),
                numbers_in(Sampler(lines, scratch / place, seed).draw(TEN)),
            )
        )
    assert draws[0] == draws[1]
    assert draws[0][0] != draws[2][0]
    assert draws[0][1] != draws[2][1]


def test_every_line_is_drawn_equally_often(tmp_path: Path, scratch: Path) -> None:
    file = tmp_path / "ten.txt"
    file.write_text("".join(f"{number}\n" for number in range(10)))
    counts: Counter[int] = Counter()
    for seed in range(600):
        place = scratch / str(seed)
        place.mkdir()
        counts.update(numbers_in(Sampler(file, place, seed).draw(DataSize.parse("30%"))))
    # 600 draws of 3 in 10: 180 each, standard deviation 11; five of them leave one test in 10^5.
    assert sum(counts.values()) == 1800
    assert all(abs(counts[number] - 180) < 56 for number in range(10))


def test_all_of_the_data_are_the_data_themselves(folder: Path, lines: Path, scratch: Path) -> None:
    assert Sampler(folder, scratch, 0).draw(WHOLE) == folder
    assert Sampler(lines, scratch, 0).draw(WHOLE) == lines
    assert list(scratch.iterdir()) == []


def test_relative_path_is_found_from_elsewhere(
    folder: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    sample = Sampler(Path("data"), scratch, 0).draw(TEN)
    monkeypatch.chdir("/")
    assert len(files_in(sample)) == 20


def test_drawing_again_gives_the_same_sample_without_work(lines: Path, scratch: Path) -> None:
    sampler = Sampler(lines, scratch, 0)
    first = sampler.draw(TEN)
    changed = first.stat().st_mtime_ns
    assert sampler.draw(TEN) == first
    assert first.stat().st_mtime_ns == changed


def test_tiny_data_give_at_least_one_file_or_line(tmp_path: Path, scratch: Path) -> None:
    file = tmp_path / "one.txt"
    file.write_text("0\n")
    assert numbers_in(Sampler(file, scratch, 0).draw(TEN)) == [0]


def refuse(source: Path, scratch: Path) -> str:
    with pytest.raises(SamplingError) as failure:
        Sampler(source, scratch, 0).draw(TEN)
    assert "\n" not in str(failure.value)
    return str(failure.value)


def test_what_cannot_be_sampled_is_refused(tmp_path: Path, scratch: Path) -> None:
    binary, empty, hollow, pipe = (tmp_path / name for name in ("b.bin", "e", "h", "p"))
    binary.write_bytes(b"PK\0\0\1")
    empty.touch()
    (hollow / "inner").mkdir(parents=True)
    os.mkfifo(pipe)
    assert "a binary file has no lines to sample" in refuse(binary, scratch)
    assert "an empty file" in refuse(empty, scratch)
    assert "holds no files" in refuse(hollow, scratch)
    assert "neither a folder nor a regular file" in refuse(pipe, scratch)
    assert "no such file or folder" in refuse(tmp_path / "gone", scratch)


def test_sample_that_cannot_be_written_is_an_error_with_the_way_out(
    lines: Path, tmp_path: Path
) -> None:
    sampler = Sampler(lines, tmp_path / "missing", seed=0)
    with pytest.raises(SamplingError, match=r"cannot be written to .*set TMPDIR"):
        sampler.draw(DataSize.parse("10%"))
