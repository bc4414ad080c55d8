"""`drlib incident`: start an incident, watch its symptoms, act, diagnose, finish, and see the reveal.

Rules: thin; every command uses the newest incident unless --run names another. Players see symptoms only; `master` and
`inject` are for the game master.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drlib.errors import UsageError
from drlib.outgoing.terminal import show

if TYPE_CHECKING:
    from drlib.runs.table import Table
    from drlib.training.incidents.session import IncidentSession

incident_app = typer.Typer(
    help="Find and repair a hidden fault on real clusters, for a score.", no_args_is_help=True, add_completion=False
)
RunsDir = Annotated[Path, typer.Option(help="Folder of the run folders.")]
Run = Annotated[Path | None, typer.Option("--run", help="Folder of the incident. Default: the newest.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same incident.", min=0)]
Level = Annotated[int | None, typer.Option(help="1 to 6; 4 and 5 have two faults. Default: chosen by the seed.")]
LabDir = Annotated[Path | None, typer.Option("--lab-dir", help="A running, unused lab. Default: start a new one.")]
Seat = Annotated[
    str, typer.Option(help="In a team: the seat that does it. A new name joins as acting.", metavar="NAME")
]
AtOnce = Annotated[bool, typer.Option("--at-once", help="Inject the fault without a delay.")]
RUNS = Path("runs")


@incident_app.command("list")
def list_all() -> None:
    """List every move and every possible diagnosis."""
    from drlib.training.incidents.pictures import catalogue_shown

    _show(
        catalogue_shown("Make a move: drlib incident act NAME. When you know the cause: drlib incident diagnose NAME")
    )


@incident_app.command()
def start(
    seed: Seed, level: Level = None, lab_dir: LabDir = None, at_once: AtOnce = False, runs_dir: RunsDir = RUNS
) -> None:
    """Start clusters, applications and mirror (half a minute); the fault follows 8 to 40 seconds later."""
    from drlib.training.incidents import store

    for path in store.running(runs_dir):
        show(f"{path.name} still runs; from now on, commands without --run mean the new incident.")
        show(f"End it: drlib incident end --run {shlex.quote(str(path))}")
    incident = store.begin(runs_dir, seed, level, lab_dir=lab_dir, at_once=at_once)
    show(f"Everything works in {incident.folder}. A fault will follow.")
    show("Next: drlib incident status")


@incident_app.command()
def status(run: Run = None, runs_dir: RunsDir = RUNS) -> None:
    """Show what an operator can see: symptoms, topics, groups, applications."""
    table = _session(runs_dir, run).status()
    symptoms, table.above = table.above, None
    _show(table)
    if symptoms is not None:  # what to do next comes last, where a terminal shows it
        show(str(symptoms))


@incident_app.command()
def act(
    words: Annotated[list[str], typer.Argument(help="A move from drlib incident list.", metavar="MOVE...")],
    run: Run = None,
    runs_dir: RunsDir = RUNS,
    seat: Seat = "",
    estimate: Annotated[
        float | None, typer.Option(help="In a team: how many seconds the move is going to take.", metavar="SECONDS")
    ] = None,
) -> None:
    """Make one move, such as: drlib incident act restart-broker LEFT."""
    if estimate is not None and not seat:
        raise UsageError("--estimate", "a team estimates its moves, and none of it was named", "Give --seat NAME too.")
    with _seated(runs_dir, run, seat) as session:
        show(str(session.act(*words, estimate_s=estimate)))
    show("Next: drlib incident status")


@incident_app.command()
def diagnose(
    cause: Annotated[str, typer.Argument(help="A diagnosis from drlib incident list.", metavar="CAUSE")],
    run: Run = None,
    runs_dir: RunsDir = RUNS,
    seat: Seat = "",
) -> None:
    """Record a diagnosis; the reveal says whether it is right."""
    with _seated(runs_dir, run, seat) as session:
        show(str(session.diagnose(cause)))


@incident_app.command()
def hint(
    run: Run = None,
    runs_dir: RunsDir = RUNS,
    seat: Seat = "",
    take: Annotated[bool, typer.Option("--take", help="Read the hint, and pay for it.")] = False,
) -> None:
    """Say what the next hint costs; with --take, show it for 5 points."""
    with _seated(runs_dir, run, seat) as session:
        show(str(session.hint(take=take)))


@incident_app.command()
def finish(
    run: Run = None,
    runs_dir: RunsDir = RUNS,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the lab up.")] = False,
) -> None:
    """Measure the clusters and the losses, show the score and the cause, and take the lab down."""
    from drlib.training.incidents.team.seats import Right

    session = _session(runs_dir, run)
    session.require(Right.FINISH)
    session.incident.finish(keep_lab=keep)
    page, _ = session.write_debriefing()
    _print_reveal(session)
    show(f"The debriefing, with an animated replay: {page}")


@incident_app.command()
def reveal(
    run: Run = None,
    runs_dir: RunsDir = RUNS,
    replay: Annotated[
        float | None, typer.Option(help="Print the events as they happened, this many times as fast.", metavar="SPEED")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the score as JSON.")] = False,
) -> None:
    """Show the cause of a finished incident, all events, and what a good operator would have done."""
    from drlib.files import read_json

    session = _session(runs_dir, run)
    session.incident.reveal()
    if as_json:
        show(json.dumps(read_json(session.incident.folder / "score.json"), indent=1))
    elif replay is not None:
        session.print_replay(replay)
    else:
        _print_reveal(session)


@incident_app.command()
def solve(
    seed: Seed, level: Level = None, lab_dir: LabDir = None, at_once: AtOnce = True, runs_dir: RunsDir = RUNS
) -> None:
    """Start an incident and let the reference player solve it. Exit code 7 if it does not get all points."""
    from drlib.errors import ObjectiveMissed
    from drlib.training.incidents import store
    from drlib.training.incidents.pictures import score_shown
    from drlib.training.incidents.reference_player import solve as solve_incident
    from drlib.training.incidents.session import IncidentSession

    started = time.monotonic()
    incident = store.begin(runs_dir, seed, level, lab_dir=lab_dir, at_once=at_once)
    try:
        result = solve_incident(incident, report=lambda line: show(f"{time.monotonic() - started:6.1f} s  {line}"))
        IncidentSession(incident).write_debriefing()
    finally:
        incident.close()
    _show(score_shown(result))
    if not result.score.full:
        raise ObjectiveMissed(
            "the reference solution did not get all points",
            f"{result.score.points:g} of 100 points",
            f"See why: drlib incident reveal --run {shlex.quote(str(incident.folder))}",
        )


@incident_app.command()
def inject(
    cause: Annotated[str, typer.Argument(help="A diagnosis from drlib incident list.", metavar="CAUSE")],
    where: Annotated[str, typer.Option(help="The place, if the cause has several.")] = "",
    how: Annotated[str, typer.Option(help="The variant, if the cause has several.")] = "",
    run: Run = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """For the game master: inject one more fault, now."""
    show(str(_session(runs_dir, run).inject(cause, where, how)))


@incident_app.command()
def master(run: Run = None, runs_dir: RunsDir = RUNS) -> None:
    """For the game master: injected faults, what still has to recover, and the player's last moves."""
    _show(_session(runs_dir, run).master())


@incident_app.command()
def debriefing(
    run: Run = None,
    runs_dir: RunsDir = RUNS,
    md: Annotated[bool, typer.Option("--md", help="Print it as Markdown.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Write debriefing.html and debriefing.md again.")] = False,
) -> None:
    """Of a finished incident: what each action was estimated to take and took, as a page in its folder and here."""
    from drlib.training.incidents.team.page import markdown_of

    session = _session(runs_dir, run)
    if write:
        for path in session.write_debriefing():
            show(f"Written: {path}")
    if md:
        show(markdown_of(session.played()).rstrip("\n"))
    else:
        _show(session.debriefing())


@incident_app.command("end")
def end(run: Run = None, runs_dir: RunsDir = RUNS) -> None:
    """End an incident without a score, and take its lab down."""
    session = _session(runs_dir, run)
    session.close()
    show(f"{session.incident.folder.name} has ended.")


def _session(runs_dir: Path, run: Path | None) -> IncidentSession:
    from drlib.training.incidents import store
    from drlib.training.incidents.session import IncidentSession

    return IncidentSession(store.find(runs_dir, run))


@contextmanager
def _seated(runs_dir: Path, run: Path | None, seat: str) -> Iterator[IncidentSession]:
    """The incident, in a team from `seat`, which this process holds until it is left."""
    from drlib.training.incidents import store

    session = _session(runs_dir, run)
    if not seat:
        yield session
        return
    session = store.seated(session.incident, seat)
    try:
        yield session
    finally:
        if session.seat is not None:
            session.seat.leave()


def _print_reveal(session: IncidentSession) -> None:
    _show(session.score())
    show()
    _show(session.reveal())


def _show(table: Table) -> None:
    """As wide as the terminal at most; in a file or pipe, a row is a line."""
    from drlib.ui.terminal.plain_console import plain_console

    out = plain_console()
    show(table.text(out.width if out.is_terminal else 0))
