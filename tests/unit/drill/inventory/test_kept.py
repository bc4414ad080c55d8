"""What a run keeps of who uses the topics, with a source that answers and with one that does not."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from drlib.drill.inventory import kept as kept_inventories
from drlib.drill.inventory.kept import KeptInventory, complete, keep, newest_kept, read_kept
from drlib.drill.inventory.rules import Application, Inventory, Kind, Way
from drlib.errors import UsageError
from drlib.model import Flow

FLOW = Flow("paris", "lyon")
IDS = {"paris": "p", "lyon": "l"}


def row(name: str, kind: Kind = Kind.GROUP, cluster: str = "paris", **changes: object) -> Application:
    whole = Application(cluster, kind, name, "", 2, ("c",), ("h",), (), 500, Way.EITHER, "how")
    return replace(whole, **changes)  # type: ignore[arg-type]


def taken(*rows: Application, run: str = "r1", now_ms: int = 1000) -> KeptInventory:
    return complete(FLOW, run, now_ms, Inventory(rows), IDS)


def test_source_that_answers_needs_no_earlier_inventory() -> None:
    found = complete(
        FLOW, "r2", 2000, Inventory((row("billing"), row("other", cluster="lyon"))), IDS, (), taken(row("old"))
    )
    assert [each.name for each in found.movers] == ["billing"]
    assert (found.older, found.older_ms, found.flow) == ("", None, FLOW)


def test_dead_source_is_known_by_the_target_and_by_the_earlier_inventory_with_its_time() -> None:
    dead = Inventory((row("there", cluster="lyon"),), silent={"paris": "refused"})
    checkpointed = (
        row("billing", members=None, last_ms=900, as_of_ms=900, known_by="checkpoints on lyon"),
        row("later", members=None, last_ms=950, as_of_ms=950, known_by="checkpoints on lyon"),
    )
    found = complete(FLOW, "r2", 5000, dead, {"lyon": "l"}, checkpointed, taken(row("billing"), row("idle")))
    assert (found.older, found.older_ms) == ("r1", 1000)
    known = {each.name: (each.as_of_ms, each.known_by, each.members, each.last_ms) for each in found.movers}
    assert known == {
        "billing": (1000, "run r1", 2, 900),  # its clients by the inventory, its last commit by the checkpoint
        "idle": (1000, "run r1", 2, 500),
        "later": (950, "checkpoints on lyon", None, 950),
    }


def test_source_that_answers_in_part_keeps_what_was_seen_now() -> None:
    seen = Inventory((row("billing", members=5),), {"paris": ("brokers: not all of paris's answer",)})
    found = complete(
        FLOW, "r2", 5000, seen, IDS, (row("billing", members=None, known_by="x"),), taken(row("billing"), row("b"))
    )
    assert {each.name: (each.members, each.known_by) for each in found.movers} == {
        "billing": (5, ""),
        "b": (2, "run r1"),
    }


def test_inventory_is_bounded_and_producers_are_left_out_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_inventories, "MOST", 2)
    found = taken(row("producer ID 1", Kind.IDEMPOTENT), row("z"), row("a"))
    assert [each.name for each in found.movers] == ["a", "z"]
    assert found.left_out == 1


def test_inventory_is_read_as_it_was_kept_and_refused_where_it_was_changed(tmp_path: Path) -> None:
    wanted = complete(FLOW, "r2", 2000, Inventory((row("billing"),), silent={"lyon": "x"}), IDS)
    assert read_kept(tmp_path) == ()
    keep(tmp_path, wanted)
    assert read_kept(tmp_path) == (wanted,)
    (tmp_path / "details" / "inventory.paris.lyon.json").write_text("{}")
    with pytest.raises(UsageError):
        read_kept(tmp_path)


def test_newest_inventory_is_of_these_clusters_and_of_a_source_that_answered(tmp_path: Path) -> None:
    def run(name: str, **changes: object) -> None:
        keep(tmp_path / name, replace(taken(row("billing"), run=name), **changes))  # type: ignore[arg-type]

    run("20260101T000000Z-a-000001")
    run("20260102T000000Z-a-000001")
    run("20260103T000000Z-a-000001", cluster_ids={"paris": "p", "lyon": "another"})
    run("20260104T000000Z-a-000001", inventory=Inventory((), silent={"paris": "refused"}))
    run("20260105T000000Z-a-000001")
    spoilt = tmp_path / "20260106T000000Z-a-000001" / "details"
    spoilt.mkdir(parents=True)
    (spoilt / "inventory.paris.lyon.json").write_text("{")
    found, unread = newest_kept(tmp_path, FLOW, "l", besides="20260105T000000Z-a-000001")
    assert found is not None
    assert found.run == "20260102T000000Z-a-000001"
    (named,) = unread
    assert named.startswith("the inventory of run 20260106T000000Z-a-000001: it is not JSON")
    assert newest_kept(tmp_path, FLOW.reverse, "p") == (None, ())
    assert newest_kept(tmp_path / "none", FLOW, "l") == (None, ())


NAMES = tuple(f"topic-{number:060}" for number in range(1200))


@pytest.mark.parametrize(
    ("count", "names", "kept_names", "left_out"),
    [
        pytest.param(10, 1200, 1000, 0, id="more names than one application keeps"),
        pytest.param(10_000, 100, 10, 0, id="more values than a reader takes"),
        pytest.param(12_000, 1, 1, 2_000, id="more applications than are kept"),
    ],
)
def test_inventory_that_is_kept_can_be_read_again_whatever_its_size(
    tmp_path: Path, count: int, names: int, kept_names: int, left_out: int
) -> None:
    rows = [row(f"g{number}", topics=NAMES[:names], clients=("c",) * 3) for number in range(count)]
    lines = tuple(f"producers of orders-{number}: it has no leader that answers" for number in range(50_000))
    found = complete(FLOW, "r", 1000, Inventory(tuple(rows), {"paris": lines}), IDS)
    keep(tmp_path, found)
    assert read_kept(tmp_path) == (found,)
    assert (len(found.movers), found.left_out) == (count - left_out, left_out)
    assert {(len(each.topics), each.left_out) for each in found.movers} == {(kept_names, names - kept_names)}
    assert found.inventory.unknown["paris"][-1] == "49900 more"


def test_inventory_of_names_that_are_too_long_together_leaves_applications_out_and_counts_them(tmp_path: Path) -> None:
    rows = [row(f"{number}" + "g" * 20_000, clients=("c" * 20_000,) * 5) for number in range(300)]
    found = taken(*rows, row("small", topics=("orders",)))
    keep(tmp_path, found)
    assert read_kept(tmp_path) == (found,)
    assert len(found.movers) + found.left_out == 301
    assert 0 < found.left_out < 150
    assert "small" in {each.name for each in found.movers}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a folder that another user may not read")
def test_folders_of_runs_on_a_volume_of_its_own_are_found() -> None:
    """Its lost+found, which no other user may read, hid every run, and with them who was left behind."""
    with tempfile.TemporaryDirectory() as made:
        run = Path(made) / "20261128T100000Z-emergency-00aa11"
        for folder in (run / "details", Path(made) / "lost+found"):
            folder.mkdir(parents=True)
        (Path(made) / "lost+found").chmod(0o700)
        Path(made).chmod(0o755)
        os.seteuid(65534)
        try:
            found = list(kept_inventories.folders(Path(made)))
        finally:
            os.seteuid(0)
    assert found == [run]
