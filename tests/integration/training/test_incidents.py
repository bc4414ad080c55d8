"""Incidents on real clusters: each cause put in, seen, repaired and scored; players who do nothing, or harm."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fix_engine import wait_for
from fix_lab import LabFactory
from own_processes import processes_of
from repository_root import ROOT

from drlib.errors import UsageError
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.reference_player import solve
from drlib.training.incidents.rules.causes import CAUSES
from drlib.training.incidents.rules.score import Happened
from drlib.training.incidents.rules.seed import seed_for
from drlib.training.incidents.rules.symptoms import Symptom

Start = Callable[..., Incident]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Incidents of the test's own, ended after it: `start("broker-killed")`, `start(level=4, seed=10)`."""
    made: list[Path] = []

    def begin(cause: str = "", level: int | None = None, seed: int | None = None, **options: object) -> Incident:
        folder = tmp_path / f"run-{len(made)}"
        folder.mkdir()
        made.append(folder)
        chosen = CAUSES[cause].level if level is None else level
        drawn = seed_for(cause, chosen) if seed is None else seed
        return Incident.start(folder, drawn, chosen, at_once=True, **options)  # type: ignore[arg-type]

    yield begin
    for folder in made:
        if (folder / "journal.jsonl").exists():
            Incident(folder).close()
    assert processes_of(tmp_path) == []


def seen(game: Incident, *wanted: Symptom) -> None:
    wait_for(f"{wanted} are seen", lambda: set(wanted) <= set(game.status()[1]))


@pytest.mark.timeout(180)
def test_an_incident_is_hidden_repaired_measured_and_revealed(start: Start, tmp_path: Path) -> None:
    game = start("topic-recreated")
    public = (game.folder / "journal.jsonl").read_text() + (game.folder / "usual.json").read_text()
    assert "topic-recreated" not in public
    assert not any(cause in (game.folder / "looks.json").read_text() for cause in CAUSES if game.record.looks())
    with pytest.raises(UsageError, match="not over"):
        game.reveal()
    reveal = solve(game)
    assert reveal.score.full, reveal
    assert (reveal.facts.lost, reveal.facts.read_again, reveal.facts.doubled) == (0, 0, 0)
    told = [event.what for event in game.record.events()]
    assert told.index(Happened.CAUSE_IN) < told.index(Happened.RECOVERED) < told.index(Happened.FINISHED)
    assert processes_of(tmp_path) == [], "its lab goes down with it"
    with pytest.raises(UsageError, match="is over"):
        game.act("restart-mirror")
    assert game.reveal() == reveal


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("cause", [name for name in CAUSES if name != "topic-recreated"])
def test_the_reference_gets_full_marks(cause: str, start: Start) -> None:
    reveal = solve(start(cause))
    assert reveal.score.full, reveal
    assert reveal.facts.lost == 0


# Two at once, and what is worth trying about it.
PAIRS = {
    (4, 4): "both sites are silent",
    (4, 10): "the rule keeps the mirror from growing its copy as well",
    (4, 22): "a topic is made again while the mirror does not hear its site",
    (5, 3): "partitions are added while the standby takes nothing",
    (5, 4): "retention runs while the other site is down",
    (5, 9): "the site whose disk is full is not the only silent one",
}


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("level", "seed"), PAIRS)
def test_two_causes_at_once_are_solved_as_well(level: int, seed: int, start: Start) -> None:
    game = start(level=level, seed=seed)
    assert len(game.record.incident().causes) == 2
    reveal = solve(game)
    assert reveal.score.full, reveal
    assert reveal.facts.lost == 0


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("level", "seed"), [(4, 4), (5, 2)])
def test_who_does_nothing_about_two_causes_has_nothing(level: int, seed: int, start: Start) -> None:
    game = start(level=level, seed=seed)
    wait_for("the causes are in and show", lambda: len(game.record.planted()) == 2 and game.status()[1])
    reveal = game.finish(settle_s=3)
    assert (reveal.score.points, reveal.score.recover_s, reveal.facts.recovered) == (0, None, False)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_who_repairs_one_cause_of_two_is_not_done(start: Start) -> None:
    game = start(level=5, seed=2)
    clock, writer = game.record.incident().causes
    seen(game, Symptom.TIMES_WRONG, Symptom.MIRROR_REPORTS)
    game.act("acknowledge")
    game.diagnose(clock.cause)
    game.act(str(clock.repair[0]))
    wait_for("one thing is left", lambda: game.standing() == (f"{writer.how} still writes",), 40)
    reveal = game.finish(settle_s=3)
    assert reveal.score.points == 15 + 25 / 2, reveal


@pytest.mark.long
@pytest.mark.timeout(300)
def test_who_does_nothing_has_nothing_and_a_lent_lab_stays_up(start: Start, lab_factory: LabFactory) -> None:
    lab = lab_factory()
    with pytest.raises(UsageError, match="an authorizer"):
        start("wrong-acl", lab_dir=lab.root)
    game = start("broker-killed", lab_dir=lab.root)
    seen(game, Symptom.SITE_SILENT, Symptom.APPLICATION_STANDS)
    reveal = game.finish(settle_s=3)
    assert reveal.score.points == 0
    assert (reveal.score.recover_s, reveal.facts.recovered) == (None, False)
    assert any(process.alive for process in lab.status())
    for cluster in lab.clusters.values():
        if not cluster.alive:
            cluster.restart()
    with pytest.raises(UsageError, match="has been used"):
        start("broker-killed", lab_dir=lab.root)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_wrong_and_harmful_moves_cost_what_they_should(start: Start) -> None:
    game = start("link-cut-one-way")
    link = game.record.incident().causes[0].where
    seen(game, Symptom.MIRROR_BEHIND)
    game.act("acknowledge")
    game.diagnose("full-disk")
    game.act("restart-mirror")
    assert "link" in game.hint() or game.record.planted()
    game.act("move-applications RIGHT")
    game.diagnose("link-cut-one-way")
    game.act("heal-link", link)
    reveal = game.finish(settle_s=60)
    assert (reveal.score.wrong, reveal.score.harmful, reveal.score.hints) == (2, 1, 1)
    lost = 0 if reveal.facts.lost else 15
    again = 0 if reveal.facts.read_again else 10
    assert reveal.score.points == 75 + lost + again - 2 * 5 - 20 - 5, reveal


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_disk_that_is_full_stays_full_until_somebody_makes_room(start: Start) -> None:
    game = start("full-disk")
    site = game.record.incident().causes[0].where
    seen(game, Symptom.SITE_SILENT)
    with pytest.raises(Exception, match="did not start"):
        game.act("restart-broker", site)
    game.act("free-disk", site)
    game.act("restart-broker", site)
    game.diagnose("full-disk")
    reveal = game.finish(settle_s=60)
    assert (reveal.score.wrong, reveal.facts.lost) == (1, 0)
    assert reveal.score.points == 95, reveal


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_master_adds_a_cause_from_another_process_and_both_count(start: Start) -> None:
    game = start("partitions-added")
    seen(game, Symptom.SHAPES_DIFFER)
    command = [sys.executable, "-m", "drlib.cli", "incident", "inject", "--run", str(game.folder)]
    refused = subprocess.run(
        [*command, "topic-recreated"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == 2
    assert "touches the same" in refused.stderr
    done = subprocess.run([*command, "clock-skew"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    reveal = solve(game)
    assert [planted.cause for planted in reveal.causes] == ["partitions-added", "clock-skew"]
    assert reveal.score.full, reveal
