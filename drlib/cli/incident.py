"""`drlib incident`: start one, see symptoms, act, say what it is, finish, and see what it was.

Rules: thin; every command finds the newest incident unless --run names another. Players see symptoms; `master` and
`inject` are for whoever runs the game.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from drlib.training.incidents.incident import Incident

incident_app = typer.Typer(help="Find and repair a hidden fault on real clusters, for a score.", no_args_is_help=True)
RunsDir = Annotated[Path, typer.Option(help="Where run folders are.")]
Run = Annotated[Path | None, typer.Option("--run", help="Which incident: its folder; the newest unless given.")]
Seed = Annotated[int, typer.Option(help="The same seed is the same incident.", min=0)]
Level = Annotated[int | None, typer.Option(help="1 to 5, from 4 on two causes; unless given, the seed says.")]
LabDir = Annotated[Path | None, typer.Option("--lab-dir", help="A lab that runs, unused so far; else one of its own.")]
AtOnce = Annotated[bool, typer.Option("--at-once", help="Let the cause come at once.")]
RUNS = Path("runs")


@incident_app.command("list")
def list_all() -> None:
    """Every move there is, and every name a diagnosis can have."""
    from drlib.training.incidents.pictures import catalogue_shown

    print(catalogue_shown())


@incident_app.command()
def start(
    seed: Seed, level: Level = None, lab_dir: LabDir = None, at_once: AtOnce = False, runs_dir: RunsDir = RUNS
) -> None:
    """Bring up clusters, traffic and mirror; some seconds later something happens. About half a minute."""
    from drlib.training.incidents import store as incidents

    game = incidents.begin(runs_dir, seed, level, lab_dir=lab_dir, at_once=at_once)
    print(f"All is well in {game.folder}. It will not stay so.")
    print(f"Look: drlib incident status, drlib status {game.properties}")
    print("Then: drlib incident act acknowledge, diagnose CAUSE, act MOVE, finish. All of them: drlib incident list")


@incident_app.command()
def status(run: Run = None, runs_dir: RunsDir = RUNS) -> None:
    """What can be seen: symptoms, topics, groups, applications."""
    from drlib.training.incidents.pictures import status_shown

    game = _find(runs_dir, run)
    look, seen = game.status()
    print(status_shown(look, seen, str(game.properties)))


@incident_app.command()
def act(
    words: Annotated[list[str], typer.Argument(help="A move of drlib incident list.", metavar="MOVE...")],
    run: Run = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Make one move, such as: drlib incident act restart-broker LEFT."""
    print(_find(runs_dir, run).act(*words))


@incident_app.command()
def diagnose(
    cause: Annotated[str, typer.Argument(help="A diagnosis of drlib incident list.", metavar="CAUSE")],
    run: Run = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Say what it is; whether it is right is told at the end."""
    _find(runs_dir, run).diagnose(cause)
    print("Noted.")


@incident_app.command()
def hint(run: Run = None, runs_dir: RunsDir = RUNS) -> None:
    """The next hint, for 5 points."""
    print(_find(runs_dir, run).hint())


@incident_app.command()
def finish(
    run: Run = None,
    runs_dir: RunsDir = RUNS,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the lab up.")] = False,
) -> None:
    """Measure what the clusters do and what was lost, score it, and say what it was. Takes its lab down."""
    from drlib.training.incidents.pictures import reveal_shown, score_shown

    game = _find(runs_dir, run)
    shown = game.finish(keep_lab=keep)
    print(score_shown(shown))
    print()
    print(reveal_shown(shown, game.record.began_ms()))


@incident_app.command()
def reveal(
    run: Run = None,
    runs_dir: RunsDir = RUNS,
    replay: Annotated[
        float | None, typer.Option(help="Tell it as it happened, this many times as fast.", metavar="SPEED")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the score as JSON.")] = False,
) -> None:
    """What a finished incident was, who did what when, and what a good operator would have done."""
    from drlib.training.incidents.notebook import PlayedIncident
    from drlib.training.incidents.pictures import reveal_shown, score_shown

    game = _find(runs_dir, run)
    shown = game.reveal()
    if as_json:
        print(json.dumps(json.loads((game.folder / "score.json").read_text()), indent=1))
    elif replay is not None:
        PlayedIncident(game).replay(replay)
    else:
        print(score_shown(shown))
        print()
        print(reveal_shown(shown, game.record.began_ms()))


@incident_app.command()
def solve(
    seed: Seed, level: Level = None, lab_dir: LabDir = None, at_once: AtOnce = True, runs_dir: RunsDir = RUNS
) -> None:
    """Start an incident and play the reference solution by real moves, to its end. Exit code 7 without full marks."""
    from drlib.errors import ObjectiveMissed
    from drlib.training.incidents import store as incidents
    from drlib.training.incidents.pictures import score_shown
    from drlib.training.incidents.reference_player import solve as play

    began = time.monotonic()
    game = incidents.begin(runs_dir, seed, level, lab_dir=lab_dir, at_once=at_once)
    try:
        shown = play(game, tell=lambda line: print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True))
    finally:
        game.close()
    print(score_shown(shown))
    if not shown.score.full:
        raise ObjectiveMissed(
            "the reference solution has no full marks",
            f"{shown.score.points:g} of 100 points",
            "See why: drlib incident reveal.",
        )


@incident_app.command()
def inject(
    cause: Annotated[str, typer.Argument(help="A diagnosis of drlib incident list.", metavar="CAUSE")],
    where: Annotated[str, typer.Option(help="Where, if there is a choice.")] = "",
    how: Annotated[str, typer.Option(help="How, if there is a choice.")] = "",
    run: Run = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """For the game master: put one more cause in, now."""
    planted = _find(runs_dir, run).inject(cause, where, how)
    print(planted.said(planted.kind.story))


@incident_app.command()
def master(run: Run = None, runs_dir: RunsDir = RUNS) -> None:
    """For the game master: what is in, what still speaks against its end, and what the player did."""
    from drlib.training.incidents.notebook import PlayedIncident

    print(PlayedIncident(_find(runs_dir, run)).master())


@incident_app.command("end")
def end(run: Run = None, runs_dir: RunsDir = RUNS) -> None:
    """Stop an incident without a score, and take its lab down."""
    game = _find(runs_dir, run)
    game.close()
    print(f"{game.folder.name} is ended.")


def _find(runs_dir: Path, run: Path | None) -> Incident:
    from drlib.training.incidents import store as incidents

    return incidents.find(runs_dir, run)
