"""`drlib lab`: real Kafka clusters on this machine, secured if asked for.

Rules: with `--secured` every role gets exactly the rights that `drlib doctor --rights` prints, for both directions. What is
printed holds names of files and addresses, no secret.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table

from drlib.errors import UsageError
from drlib.formats import one_line
from drlib.outgoing.terminal import show
from drlib.ui.terminal.plain_console import plain_console

if TYPE_CHECKING:
    from drlib.lab.lab import Lab

lab_app = typer.Typer(
    help="Start and stop real Kafka clusters on this machine.", no_args_is_help=True, add_completion=False
)

LAB_DIR: Final = Path(".lab")
SCRAM: Final = "scram"
_UP_S: Final = 90.0  # one broker of each cluster; every further one adds half of it
LabDirectory = Annotated[Path, typer.Option("--dir", help="The lab's folder.")]


@lab_app.command("up")
def lab_up(
    mode: Annotated[
        str | None, typer.Argument(metavar="MODE", help="With --secured: tls, mtls, plain, scram or oauthbearer.")
    ] = None,
    directory: LabDirectory = LAB_DIR,
    secured: Annotated[
        bool, typer.Option("--secured", help="TLS, a login (scram unless MODE is given) and ACLs.")
    ] = False,
    brokers: Annotated[int, typer.Option(help="Brokers of each cluster.", min=1, max=3)] = 1,
    clusters: Annotated[str, typer.Option(metavar="A,B", help="Names of the clusters.")] = "LEFT,RIGHT",
) -> None:
    """Start two clusters and the link between them."""
    from drlib.lab.brokers.security import MODES
    from drlib.lab.lab import Lab
    from drlib.runs.folder import refuse_unusable

    if mode is not None and not secured:
        raise UsageError(f"unexpected argument {mode}", "a mode is for secured clusters", f"Give --secured {mode}.")
    if secured and (mode or SCRAM) not in MODES:
        raise UsageError(f"--secured {mode}", "there is no such mode", f"Use one of {', '.join(MODES)}.")
    refuse_unusable(directory)
    console = plain_console(stderr=True)
    lab = Lab(
        directory,
        parse_names(clusters),
        brokers=brokers,
        security=MODES[mode or SCRAM] if secured else None,
        detach=True,
        on_event=lambda text: console.print(one_line(text)),
    )
    lab.up(deadline_s=up_deadline_s(brokers))
    width = max(map(len, lab.aliases))
    for alias, cluster in lab.clusters.items():
        show(f"{alias:{width}} {cluster.bootstrap}")
    file = lab.write_properties()
    show(f"FILE: {file}  (clusters without topics and groups yet)")
    if not lab.secured:
        show(f"Next: drlib mirror {_typed(file)} &")
    for line in _users_lines(lab):
        show(line)
    show(f"Stop it with: drlib lab down --dir {_typed(directory)}")


def up_deadline_s(brokers: int) -> float:
    """How long clusters of as many brokers may take to start, in seconds."""
    return _UP_S * (1 + brokers) / 2


def parse_names(text: str) -> tuple[str, ...]:
    """The clusters' names. Raises `UsageError` unless there are two or more, each of letters, digits and `_`, and distinct."""
    names = tuple(name.strip() for name in text.split(","))
    usable = all(name.isascii() and name.replace("_", "").isalnum() for name in names)
    if len(names) < 2 or len(set(names)) < len(names) or not usable:
        raise UsageError(
            f"--clusters {text}", "it needs two names or more, of letters, digits and _", "For example: paris,lyon."
        )
    return names


def _users_lines(lab: "Lab") -> Iterator[str]:
    """Prepare the users of a secured lab, and say what to do with their files."""
    if not lab.secured:
        return
    from drlib.drill.testbed.lab_roles import prepare_users

    files = prepare_users(lab)
    yield f"Applications: {lab.client_file()}, with the addresses above"
    if not files:
        yield "Every client may do everything: without a login or a certificate the brokers cannot tell clients apart."
        return
    from drlib.drill.readiness.role import Role

    source = lab.aliases[0]
    yield f"Mirror:  drlib mirror {_typed(files[Role.MIRROR])}"
    yield f"Ready?   drlib doctor {_typed(files[Role.DOCTOR])}"
    yield f"Drills:  drlib run RUNBOOK {_typed(files[Role.DRILL])}, or failover-drill.yaml with --lab-dir {_typed(lab.root)}"
    yield f"Audits:  drlib run RUNBOOK {_typed(files[Role.AUDIT])}"
    admin = lab.client_file(lab.admin)
    yield f"Admin:   kafka-topics.sh --command-config {_typed(admin)} --bootstrap-server {lab.clusters[source].bootstrap}"


def _typed(path: Path | None) -> str:
    """A path as a shell takes it."""
    return shlex.quote(str(path))


@lab_app.command("status")
def lab_status(directory: LabDirectory = LAB_DIR) -> None:
    """List the lab's processes with their pids."""
    from drlib.lab.lab import Lab

    table = Table()
    for name in ("process", "pid", "state"):
        table.add_column(name)
    for process in Lab.attach(directory).status():
        table.add_row(process.name, str(process.pid), "running" if process.alive else "stopped")
    plain_console().print(table)


@lab_app.command("down")
def lab_down(directory: LabDirectory = LAB_DIR) -> None:
    """Stop everything the lab started and remove its data."""
    from drlib.lab.lab import Lab

    Lab.attach(directory).down()
    show("The lab is down.")
