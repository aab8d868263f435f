"""The history of a cluster as its readers get it: what is kept, and what may not be seen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from config_maps import ConfigMaps
from kind_documents import document
from walras.outcome.history import (
    FIELDS,
    SLOT,
    STEP,
    MarketSample,
    part_of,
    place_of,
    slot_of,
    stored,
)
from walras.outcome.hourly_accounts import COLUMNS, DAY, HOUR, Day, HourSums, stored_day
from walras_api.assembly import Objects
from walras_api.contract import accounts_part, history_part
from walras_api.market import HistoryPolicy
from walras_api.parse import parse_object
from walras_cli.cluster.connection import Cluster
from walras_cli.cluster.operator_history import USERS, HistoryReader
from walras_cli.main import main
from walras_operator.decide.world import World
from walras_operator.history.config_maps import HistoryParts, StoredPart
from walras_operator.history.keeper import HistoryKeeper
from walras_operator.metrics.market_sample import PodUsage
from walras_operator.metrics.operator_metrics import Metrics
from walras_service.api import Api
from walras_service.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.system

PLACE = "walras-system"


@pytest.fixture
def server() -> Iterator[ConfigMaps]:
    made = ConfigMaps()
    try:
        yield made
    finally:
        made.close()


def cluster(server: ConfigMaps) -> Cluster:
    return Cluster(server.settings(), "lab")


def now(server: ConfigMaps) -> int:
    seen = cluster(server)
    HistoryReader(seen).read(60, STEP)
    return int(seen.now.timestamp())


def put(server: ConfigMaps, name: str, start: int, data: dict[str, bytes]) -> None:
    parts = HistoryParts(Api(server.settings(), "test", 1), PLACE)
    parts.write(name, "samples", StoredPart("", start, data=data))


def put_samples(server: ConfigMaps, *samples: MarketSample) -> None:
    for slot in {slot_of(each.time) for each in samples}:
        blocks = {str(kind): data for kind, data in part_of(slot, samples).blocks.items()}
        put(server, history_part(place_of(slot)), slot * SLOT, blocks)


def user(time: int, held: float) -> MarketSample:
    row = tuple(held if each.name == "held" else None for each in FIELDS["user"])
    return MarketSample(time, {"user": {"ann": stored(row, "user")}})


def test_what_was_kept_is_read(server: ConfigMaps) -> None:
    at = now(server) // STEP * STEP - 3600
    put_samples(server, *(user(at + STEP * n, float(n)) for n in range(50)))
    found = HistoryReader(cluster(server)).read(7200, STEP)
    assert found.source == "operator"
    assert found.notes == ()
    assert found.names("user") == ("ann",)
    values = {each.name: each.values for each in found.series("user", "ann")}
    by_time = dict(zip(found.times, values["held"], strict=True))
    assert [by_time[at + STEP * n] for n in range(50)] == [float(n) for n in range(50)]
    assert by_time[at - STEP] is None


def test_complete_parts_are_asked_for_once(server: ConfigMaps) -> None:
    at = now(server) // STEP * STEP - 3 * 3600
    put_samples(server, *(user(at + STEP * n, 1.0) for n in range(180)))
    reader = HistoryReader(cluster(server), PLACE)
    reader.read(3 * 3600, STEP)
    before = server.reads
    found = reader.read(3 * 3600, STEP)
    assert server.reads - before <= 3, "the part that is filled, and the last complete ones"
    assert found.names("user") == ("ann",)


def test_who_may_not_read_it_is_told_and_gets_nothing(server: ConfigMaps) -> None:
    at = now(server) - 600
    put_samples(server, user(at, 1.0))
    server.forbidden = True
    found = HistoryReader(cluster(server)).read(3600, STEP)
    assert (found.source, found.times, found.names("user")) == ("none", (), ())
    (note,) = found.notes
    assert note.startswith("history not shown, since you have no right to get configmaps in ")
    assert "namespace walras-system; ask an administrator" in note


def test_without_a_history_the_reader_says_where_it_looked(server: ConfigMaps) -> None:
    found = HistoryReader(cluster(server), "elsewhere").read(3600, STEP)
    assert found.source == "none"
    assert "the operator has kept nothing in namespace elsewhere yet" in found.notes[0]


def test_parts_of_an_earlier_turn_of_the_ring_are_not_shown(server: ConfigMaps) -> None:
    at = now(server)
    slot = slot_of(at)
    old = part_of(slot, [user(slot * SLOT, 1.0)])
    put(server, history_part(place_of(slot)), (slot - 73) * SLOT, {"user": old.blocks["user"]})
    assert HistoryReader(cluster(server)).read(3600, STEP).source == "none"


def test_accounts_are_those_of_the_days_and_corrupt_ones_are_named(server: ConfigMaps) -> None:
    number = now(server) // DAY - 3
    day = Day(number, {number * DAY: HourSums(HOUR, {"ann": (3600,) * len(COLUMNS)})})
    put(server, accounts_part(number % 401), number * DAY, {USERS: stored_day(day)})
    put(server, accounts_part((number + 1) % 401), (number + 1) * DAY, {USERS: b"x"})
    put(server, accounts_part((number + 2) % 401), (number - 399) * DAY, {USERS: stored_day(day)})
    found = HistoryReader(cluster(server)).accounts(number * DAY, (number + 4) * DAY)
    assert found.days == (day,)
    (note,) = found.notes
    assert note.startswith(f"ConfigMap {PLACE}/{accounts_part((number + 1) % 401)}: ")
    server.forbidden = True
    assert HistoryReader(cluster(server)).accounts(0, DAY).forbidden


def kubeconfig(server: ConfigMaps, folder: Path) -> str:
    user = {"name": "a", "user": {}}
    context = {"name": "c", "context": {"cluster": "s", "user": "a", "namespace": PLACE}}
    cluster = {"name": "s", "cluster": {"server": server.settings().host}}
    parts = {"users": [user], "contexts": [context], "clusters": [cluster]}
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "current-context": "c", **parts}))
    return str(file)


def test_a_report_has_what_an_operator_wrote(server: ConfigMaps, tmp_path: Path) -> None:
    """An operator of two hours ago, which then went away."""
    clock = now(server) // HOUR * HOUR - 2 * HOUR
    status = {"cores": {"entitled": "8", "bought": "10", "held": "9"}, "otherSpend": "6"}
    ann: Any = parse_object({**document("Entitlement"), "metadata": {"name": "ann"}})
    world = World("", objects=Objects(entitlements=[ann.model_copy(update={"status": status})]))
    keeper = HistoryKeeper(
        lambda: world,
        lambda: {("lab", "a"): PodUsage(2.0, 2**30)},
        lambda: 1,
        HistoryPolicy,
        HistoryParts(Api(server.settings(), "test", 1), PLACE),
        Metrics(),
        lambda: clock,
    )
    start = clock
    for _ in range(61):
        keeper.tick()
        clock += STEP
    command = ["report", "--kubeconfig", kubeconfig(server, tmp_path), "--since", rfc3339(start)]
    done = CliRunner().invoke(main, [*command, "-o", "json"], prog_name="walras")
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    (row, *_) = report["rows"]
    assert row["user"] == "ann"
    cores = sum(each["cores"]["held"] for each in report["rows"])
    assert cores == pytest.approx(9)
    assert row["cores"]["price"] == pytest.approx(0.6)
    observed = sum(each["observedSeconds"] for each in report["periods"])
    assert observed == HOUR
    assert any("hours are missing" in note for note in report["notes"])
    server.forbidden = True
    refused = CliRunner().invoke(main, command, prog_name="walras")
    assert refused.exit_code == 1
    assert "you have no right to get configmaps in namespace walras-system" in refused.output
