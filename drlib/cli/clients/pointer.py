"""`drlib pointer`: show, move, repair and watch the pointer that applications follow.

Rules: `show` and `watch` only read. Clusters, addresses and security are the file's. The pointer is the topic on every cluster
of the file and, with `--pointer`, a file. What the copies hold and how they are written: `drlib.client.pointer_copies`.
"""

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from drlib import clock
from drlib.cli.drill.confirmation import confirm_name, refuse_other_name
from drlib.errors import DrlibError, ReadinessError, Unreachable
from drlib.outgoing.terminal import show as print_line
from drlib.outgoing.terminal import write_document
from drlib.ui.terminal.plain_console import plain_console

if TYPE_CHECKING:
    from drlib.client.pointer import Pointer, PointerSource

pointer_app = typer.Typer(
    help="Show, move, repair and watch the pointer that applications follow.",
    no_args_is_help=True,
    add_completion=False,
)

PropertiesFile = Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")]
Application = Annotated[str, typer.Option(help="The application; by default the pointer of all of them.")]
PointerFile = Annotated[
    Path | None, typer.Option("--pointer", metavar="PATH", help="A pointer file that applications follow, too.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ALL: Final = "*"
_LOOK_S: Final = 0.2


@pointer_app.command()
def show(
    file: PropertiesFile,
    application: Application = ALL,
    pointer: PointerFile = None,
    as_json: AsJson = False,
    history: Annotated[
        bool, typer.Option("--history", help="Show the moves so far instead, newest first, as the clusters keep them.")
    ] = False,
) -> None:
    """Show where the pointer is, what it says, since when and by which run, and whether all copies agree.

    Exit code 0: every cluster answered and all copies agree; 3: they do not, one did not answer, or there is no pointer; 11: no
    cluster answers. With --pointer the file is shown then.
    """
    from drlib.client.pointer_copies import read_copies
    from drlib.config.settings import load_mirror_settings
    from drlib.ui.terminal.pointer import copies_json, moves_json, render_copies, render_moves

    clusters = tuple(load_mirror_settings(file).clusters.values())
    copies = read_copies(clusters, pointer, application=application)
    if history and as_json:
        write_document(moves_json(copies, application) + "\n")
    elif history:
        plain_console().print(render_moves(copies, application), soft_wrap=True)
    elif as_json:
        write_document(copies_json(copies, application, clock.now_ms()) + "\n")
    else:
        plain_console().print(render_copies(copies, application, clock.now_ms()), soft_wrap=True)
    if clusters and len(copies.silent) == len(clusters):
        raise typer.Exit(Unreachable.exit_code)
    raise typer.Exit(0 if copies.agree else ReadinessError.exit_code)


@pointer_app.command()
def move(
    file: PropertiesFile,
    cluster: Annotated[str, typer.Argument(help="The alias of the cluster to name.", metavar="CLUSTER")],
    application: Application = ALL,
    pointer: PointerFile = None,
    yes: Annotated[str, typer.Option(metavar="CLUSTER", help="The cluster's name again, instead of typing it.")] = "",
    force: Annotated[
        str, typer.Option(metavar="REASON", help="Move although the cluster does not answer, or producer IDs collide.")
    ] = "",
) -> None:
    """Move the pointer to CLUSTER by hand. Groups are not translated by this.

    Places that were not written are named.

    Exit code 0: moved, or it named CLUSTER already; 3: a redirected producer's ID is another producer's there; 9: the name was
    not confirmed; 11: CLUSTER does not answer.
    """
    from drlib.client.pointer import fitted
    from drlib.client.pointer_copies import move as write_move
    from drlib.client.pointer_copies import moved_from, pointer_by_hand, read_copies, refuse_unknown
    from drlib.config.settings import load_mirror_settings
    from drlib.drill.actions.applications.producer_ids import refuse_by_hand
    from drlib.ui.terminal.pointer import unread, written_lines

    settings = load_mirror_settings(file)
    refuse_unknown(settings, cluster)
    if yes:
        refuse_other_name(yes, cluster)
    clusters = tuple(settings.clusters.values())
    copies = read_copies(clusters, pointer, application=application)
    after = pointer_by_hand(settings, copies, cluster, application, force_reason=force)
    _warn(unread(copies))
    if after is None:
        print_line(f"The pointer names {cluster} already. Nothing was changed.")
        return
    after, no_ends = fitted(after)
    if no_ends:
        print_line(f"The pointer: {no_ends}.", error=True)
    moving = moved_from(settings, copies, cluster, application)
    typed, flow = shlex.quote(str(file)), shlex.quote(f"{'FROM' if moving is None else moving.source}->{cluster}")
    print_line(
        "Committed offsets of groups are not translated by this, and nothing keeps producers from the former cluster. "
        f"A run does all of it: drlib failover {typed} {flow}; "
        f"positions only: drlib translate {typed} --flow {flow}.",
        error=True,
    )
    if moving is not None:
        found = refuse_by_hand(settings, moving, allowed=bool(force))
        print_line(f"Producer IDs of {moving.source}: {found}.", error=True)
    elif copies.applications and ((now := copies.undisputed(application)) is None or now.active != cluster):
        print_line("Producer IDs: not checked, as the pointer does not say which cluster they were of.", error=True)
    confirm_name(cluster, yes, f"the pointer was not moved to {cluster}", "move the pointer there")
    written = write_move(clusters, copies, after, application)
    for line in written_lines(written, _typed(file, pointer)):
        print_line(line)


@pointer_app.command()
def publish(file: PropertiesFile, application: Application = "", pointer: PointerFile = None) -> None:
    """Write the newest pointer again to every place that misses it or has an older one. Moves nothing.

    Without --application: those of all applications. Exit code 0: every place has it; 3: some do not, or there is none.
    """
    from drlib.client.pointer_copies import read_copies, repair
    from drlib.config.settings import load_mirror_settings
    from drlib.ui.terminal.pointer import unread, written_lines

    clusters = tuple(load_mirror_settings(file).clusters.values())
    copies = read_copies(clusters, pointer, application=application or ALL)
    _warn(unread(copies))
    chosen = (application,) if application else copies.applications
    complete = True
    for name in chosen:
        if (written := repair(clusters, copies, name)) is None:
            complete = complete and copies.replaced(name)
            print_line(f"{name}: there is no pointer of its own to write.")
            continue
        complete = complete and not written.missing
        for line in written_lines(written, _typed(file, pointer)):
            print_line(f"{name}: {line}")
    if not chosen:
        none = "No pointer could be read" if copies.silent else "There is no pointer"
        print_line(f"{none}. The first one: drlib pointer move FILE CLUSTER")
    raise typer.Exit(0 if chosen and complete else ReadinessError.exit_code)


@pointer_app.command()
def watch(
    file: PropertiesFile, application: Application = ALL, pointer: PointerFile = None, as_json: AsJson = False
) -> None:
    """Print each change of the pointer, and what puts it in doubt, with its time, until Ctrl-C (exit code 0)."""
    from drlib.client.pointer_watch import pointer_source
    from drlib.config.settings import load_mirror_settings
    from drlib.ui.terminal.pointer import change_json, change_line

    clusters = tuple(load_mirror_settings(file).clusters.values())
    source = pointer_source(pointer, clusters, application)
    try:
        _follow(source, change_json if as_json else change_line)
    except KeyboardInterrupt:
        return
    finally:
        source.close()


def _typed(file: Path, pointer: Path | None) -> str:
    return shlex.quote(str(file)) + (f" --pointer {shlex.quote(str(pointer))}" if pointer is not None else "")


def _warn(line: str) -> None:
    if line:
        print_line(line, error=True)


def _follow(source: "PointerSource", line: "Callable[[Pointer | None, str, int], str]") -> None:
    """Print every change of what `source` says, for ever."""
    from drlib.client.pointer import looked

    while not source.settled():
        time.sleep(_LOOK_S)
    printed: object = None
    while True:
        pointer, doubt = looked(source)
        if (pointer, doubt) != printed:
            printed = (pointer, doubt)
            write_document(line(pointer, doubt, clock.now_ms()) + "\n")
        try:
            source.wait_newer(pointer.version if pointer is not None else -1, _LOOK_S)
        except DrlibError:  # there has never been a valid one: `looked` says why
            time.sleep(_LOOK_S)
