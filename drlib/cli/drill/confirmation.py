"""Before applications are moved: which runbook moves them, and the question that has to be answered.

Rules: the name that is typed is that of the cluster that applications move to; without a terminal it has to be an option. A run
that is continued has the options that it was begun with: others are refused, and never ignored.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from drlib.errors import ApprovalMissing, UsageError
from drlib.formats import one_line
from drlib.outgoing.terminal import can_ask, show

if TYPE_CHECKING:
    from drlib.model import Flow
    from drlib.runbook.file.model import Runbook

UNCHANGED: Final = "nothing was changed"


def choose_runbook(given: Path | None, file: Path, flow: Flow, kind: str, shipped: str, to: str) -> Path:
    """The runbook to run: the one that was given, of the folder that was given, beside `file`, or the shipped one.

    `kind`: the name that `drlib init` gives it, with the flow's clusters where the file enables several. One that is for
    another flow is passed over; in a folder that was given it is returned, for the caller to refuse. `to`: what it is for, in
    words. Raises `UsageError` where there is none.
    """
    from drlib.runbook.file import find

    if given is not None and not given.is_dir():
        return given
    folder = given or file.absolute().parent / "runbooks"
    own = f"{kind}-{flow.source}-{flow.target}".lower()
    names = (f"{own}.yaml", *sorted(path.name for path in folder.glob(f"{own}-[0-9].yaml")), f"{kind}.yaml")
    there = [folder / name for name in names if (folder / name).is_file()]
    others = {path: other for path in there if (other := _read_other_flow(path, flow))}
    if usable := [path for path in there if path not in others]:
        return usable[0]
    if given:
        found = there[0] if there else folder / shipped
    else:
        found = find.find(shipped.removesuffix(".yaml"))
        if others and _read_other_flow(found, flow) and (with_package := find.shipped("runbooks")) is not None:
            found = with_package / shipped
    if not found.is_file():
        raise UsageError(
            f"there is no runbook to {to} with",
            f"none of {', '.join(names)} is in {folder}, and {shipped} is not found",
            "Give one: --runbook PATH.",
        )
    for path, other in others.items() if not given else ():
        show(one_line(f"{path} is for {other}, so {flow} has the runbook {found}"), error=True)
    return found


def other_flow(book: Runbook, flow: Flow) -> str:
    """The flow that is written into the drill of `book`, where it is another one than `flow`; else empty."""
    from drlib.model import Flow
    from drlib.runbook.file import drill_section

    if book.drill is None or drill_section.asked_flow(book.drill, {}) is not None:
        return ""
    return "" if Flow.parse(book.drill.flow) == flow else book.drill.flow


def _read_other_flow(path: Path, flow: Flow) -> str:
    """As `other_flow`; empty for a file that cannot be read, which is refused where it is used."""
    from drlib.runbook.file import model

    try:
        return other_flow(model.load(path), flow)
    except UsageError:
        return ""


def confirm(cluster: str, yes: str, what: str, why: str) -> None:
    """Have the name of `cluster` typed, unless `yes` is it. `what`: what is not done otherwise; `why`: what typing it does.

    Raises `UsageError` for another name, `ApprovalMissing` without a terminal to ask at.
    """
    if yes:
        return
    if not can_ask():
        raise ApprovalMissing(f"{what}, {UNCHANGED}", "the cluster's name was not confirmed", f"Give --yes {cluster}.")
    refuse_other_name(typer.prompt(f"Type {cluster} to {why}", err=True), cluster)


def confirm_name(cluster: str, yes: str, undone: str, why: str) -> None:
    """Have the name of `cluster` confirmed, by `yes` or typed. `undone`: what is not done otherwise; `why`: what typing does.

    Raises `UsageError` for another name, `ApprovalMissing` without a terminal to ask at.
    """
    if not yes:
        if not can_ask():
            raise ApprovalMissing(undone, "its name was not confirmed", f"Give --yes {cluster}.")
        yes = typer.prompt(f"Type {cluster} to {why}", err=True)
    if yes != cluster:
        raise UsageError(undone, f"'{yes}' was given to confirm it", f"Give {cluster}.")


def refuse_other_name(given: str, cluster: str) -> None:
    """Raises `UsageError`."""
    if given != cluster:
        raise UsageError(
            f"nothing is moved to {cluster}, {UNCHANGED}", f"'{given}' was given to confirm it", f"Give {cluster}."
        )


def ask(question: str, answers: Sequence[str]) -> str:
    """One of `answers`, typed at the terminal. Raises `UsageError` for another."""
    typed = str(typer.prompt(f"{question}: {', '.join(answers)}", err=True)).strip()
    if typed not in answers:
        raise UsageError(UNCHANGED, f"'{typed}' was given", f"Give one of {', '.join(answers)}.")
    return typed


def refuse_other_options(run: str, others: Sequence[tuple[str, str]], again: str) -> None:
    """Raises `UsageError` where there are `others`: an option that was given, and in its place the one that the unfinished
    `run` was begun with. `again`: the command line that was given, which begins a run in its place."""
    if others:
        given, own = zip(*others, strict=True)
        raise UsageError(
            f"{' '.join(given)} is not applied, {UNCHANGED}",
            f"run {run} is unfinished and continues with the same parameters: {', '.join(own)}",
            f"Leave it out to continue. Or give that run up, its changes stay, and begin: {again} "
            f"--supersede {shlex.quote(run)}.",
        )
