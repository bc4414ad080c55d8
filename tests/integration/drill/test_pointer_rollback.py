"""The pointer's topic moved by a drill and put back by its rollback, seen by an application that follows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import testbed_moves
from fix_engine import Engine, create_topic, produce, wait_for
from testbed_moves import Place, step

import drlib
from drlib.client.pointer import Pointer
from drlib.client.pointer_topic import publish, read_pointer
from drlib.clock import now_ms
from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.applications.move_pointer import MovePointer
from drlib.drill.actions.applications.pointer import PointerPlace, topic_on
from drlib.drill.plan.progress import Reach
from drlib.drill.step.context import DrillContext
from drlib.drill.step.known_silence import KnownSilence, Silence
from drlib.errors import Unreachable
from drlib.model import Flow
from drlib.runs import journal
from drlib.runs.abort import Abort
from drlib.runs.journal import JOURNAL


def events(folder: Path) -> list[str]:
    return [f"{line.event} {line.data.get('step', '')}".strip() for line in journal.read(folder / JOURNAL)]


@pytest.mark.long
def test_pointer_rollback_uses_a_newer_version_unless_moved(engine: Engine, tmp_path: Path) -> None:
    home, away, mirror = engine.source, engine.target, f"{engine.source}.{engine.topics}"
    application = f"app-{home}"
    create_topic(engine.right, mirror, 2)
    produce(engine.right, mirror, 11, partitions=2)
    clusters = tuple(load_mirror_settings(engine.properties).clusters.values())

    def now() -> Pointer:
        found = read_pointer(clusters, application).pointer
        assert found is not None
        return found

    first = drlib.publish_pointer(
        engine.properties, home, application, remote_prefix=f"{away}.", cutover={f"{away}.x": (3, 4)}
    ).pointer
    place = Place(properties=str(engine.properties), source=home, target=away)
    drill = testbed_moves.drill(step("move", "pointer.move", application=application))
    with drlib.ActiveCluster(application, engine.properties) as active:
        folder = tmp_path / "one"
        folder.mkdir()
        assert testbed_moves.in_process(folder, drill, place, kill=3) == -9  # the step is done, and noted
        assert events(folder)[-1] == "step-succeeded move"
        moved = now()
        assert (moved.active, moved.version) == (away, first.version + 1)
        assert moved.cutover == {mirror: (6, 5)}
        wait_for("the application hears of it", lambda: active.current().alias == away)

        assert testbed_moves.in_process(folder, drill, place, how="rollback") in (0, 5, 8)
        assert "undo-succeeded move" in events(folder)
        back = now()
        assert back == Pointer(first.version + 2, home, first.bootstrap, f"{away}.", {f"{away}.x": (3, 4)})
        wait_for("and comes back", lambda: active.current().pointer == back)

        folder = tmp_path / "two"
        folder.mkdir()
        assert testbed_moves.in_process(folder, drill, place, kill=3) == -9
        other = drlib.publish_pointer(engine.properties, away, application, hold=True).pointer  # an operator's own word
        assert testbed_moves.in_process(folder, drill, place, how="rollback") == 6
        assert "undo-failed move" in events(folder)
        assert now() == other
        wait_for("the newest word counts", lambda: active.current().pointer == other)


def test_pointer_move_without_a_copy_on_the_target_fails_and_completes_it_when_repeated(
    engine: Engine, tmp_path: Path
) -> None:
    home, away = engine.source, engine.target
    application = f"app-{home}"
    clusters = load_mirror_settings(engine.properties).clusters
    unreachable = replace(clusters[away], bootstrap_servers=("127.0.0.1:1",))
    where = DrillContext(clusters=clusters, flow=Flow(home, away), run_dir=tmp_path)
    moved = Pointer(now_ms(), away, engine.right)  # newer than those of other tests

    broken = PointerPlace(replace(where, clusters={home: clusters[home], away: unreachable}), "move", application)
    with pytest.raises(Unreachable, match=f"not written to {away}"):
        broken.write(None, moved, on=away)
    assert read_pointer([clusters[away]], application).pointer != moved  # none, or that of all, which other tests move
    repeated = PointerPlace(replace(where, run_dir=tmp_path / "again"), "move", application)
    (tmp_path / "again").mkdir()
    known = read_pointer([clusters[home]], application).pointer
    assert known is not None
    assert repeated.write(known, known, on=away) == {}
    assert read_pointer([clusters[away]], application).pointer == known
    assert known.active == away


@pytest.mark.parametrize(("at_s", "left_out"), [(-5, True), (300, False)])
def test_pointer_is_written_to_a_cluster_that_is_said_to_be_silent_by_another_hosts_clock(
    engine: Engine, tmp_path: Path, at_s: int, left_out: bool
) -> None:
    """A run is continued on a host whose clock is five minutes behind."""
    home, away = engine.source, engine.target
    clusters = load_mirror_settings(engine.properties).clusters
    where = DrillContext(clusters=clusters, flow=Flow(home, away), run_dir=tmp_path)
    KnownSilence(tmp_path).note({topic_on(home): Silence("it was frozen", now_ms() + 1000 * at_s, 5.0)})
    place = PointerPlace(where, "move", f"app-{home}")
    found = place.read()
    assert (home in found.silent) is left_out
    missing = place.write(found.pointer, Pointer(found.next_version, away, engine.right), on=away)
    assert (home in missing) is left_out


def test_pointer_that_another_run_moves_in_the_same_moment_is_kept_and_not_put_back(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sources of one target fail together: both runs have read the pointer, and one of them is the first to write it."""
    home, away = engine.source, engine.target
    clusters = load_mirror_settings(engine.properties).clusters
    first = Pointer(now_ms(), away, engine.right, by="run of another flow")

    def moves_meanwhile(*_: object, **__: object) -> str:
        publish([clusters[away]], replace(first, version=move.pointer.read().next_version), application)
        return "none"

    application = f"app-{home}"
    where = DrillContext(clusters=clusters, flow=Flow(home, away), run_dir=tmp_path, properties=engine.properties)
    move = MovePointer(application=application, cutover=False).bind(where, "move")
    publish([clusters[home], clusters[away]], Pointer(now_ms(), home, engine.left), application)
    monkeypatch.setattr(MovePointer, "refuse_collisions", moves_meanwhile)
    changes = move.changes(move.observe())
    assert move.act(changes, Abort(tmp_path))["active"] == away
    kept = move.pointer.read().pointer
    assert kept is not None
    assert (kept.active, kept.by) == (away, first.by)
    move.undo(changes)
    assert move.pointer.read().pointer == kept


def test_pointer_that_names_the_target_on_the_source_only_is_completed_by_the_move(
    engine: Engine, tmp_path: Path
) -> None:
    home, away = engine.source, engine.target
    application = f"app-{home}"
    clusters = load_mirror_settings(engine.properties).clusters
    moved = publish([clusters[home]], Pointer(now_ms(), away, engine.right), application).pointer
    drill = testbed_moves.drill(step("move", "pointer.move", application=application))
    place = Place(properties=str(engine.properties), source=home, target=away)
    assert testbed_moves.in_process(tmp_path, drill, place, kill=0) in (0, 5, 8)
    assert "step-succeeded move" in events(tmp_path)
    assert read_pointer([clusters[away]], application).pointer == moved


def test_pointer_that_was_the_first_one_is_put_back_by_naming_the_source(engine: Engine, tmp_path: Path) -> None:
    """Who has followed it to the target goes back: the undo left it there, and said that everything was undone."""
    home, away = engine.source, engine.target
    application = f"app-{home}"
    clusters = load_mirror_settings(engine.properties).clusters
    where = DrillContext(clusters=clusters, flow=Flow(home, away), run_dir=tmp_path, properties=engine.properties)
    move = MovePointer(application=application, cutover=False).bind(where, "move")
    move.pointer.write(None, Pointer(now_ms(), away, engine.right, f"{home}."), on=away)
    with drlib.ActiveCluster(application, engine.properties) as active:
        assert (active.current().alias, move.probe(())) == (away, Reach.PARTLY)
        move.undo(())
        wait_for("the application is back", lambda: active.current().alias == home)
        back = active.current().pointer
    assert (back.bootstrap, back.remote_prefix, back.hold) == (engine.left, None, False)
    assert move.probe(()) is Reach.UNTOUCHED
    move.undo(())
    assert move.pointer.read().pointer == back
