"""Before applications are moved: which runbook moves them, and the question that has to be answered.

Rules: the name that is typed is that of the cluster that applications move to; without a terminal it has to be an option.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from drlib.errors import ApprovalMissing, UsageError
from drlib.outgoing.terminal import can_ask

if TYPE_CHECKING:
    from drlib.model import Flow

UNCHANGED: Final = "nothing was changed"


def choose_runbook(given: Path | None, file: Path, flow: Flow, kind: str, shipped: str, to: str) -> Path:
    """The runbook to run: the one that was given, of the folder that was given, beside `file`, or the shipped one.

    `kind`: the name that `drlib init` gives it. `to`: what it is for, in words. Raises `UsageError` where there is none.
    """
    from drlib.runbook.file.find import find

    if given is not None and not given.is_dir():
        return given
    names = (f"{kind}.yaml", f"{kind}-{flow.source}-{flow.target}.yaml".lower())
    folder = given or file.absolute().parent / "runbooks"
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is not None:
        return found
    found = folder / shipped if given else find(shipped.removesuffix(".yaml"))
    if not found.is_file():
        raise UsageError(
            f"there is no runbook to {to} with",
            f"none of {', '.join(names)} is in {folder}, and {shipped} is not found",
            "Give one: --runbook PATH.",
        )
    return found


def confirm(cluster: str, yes: str, what: str, why: str) -> None:
    """Have the name of `cluster` typed, unless `yes` is it. `what`: what is not done otherwise; `why`: what typing it does.

    Raises `UsageError` for another name, `ApprovalMissing` without a terminal to ask at.
    """
    if yes:
        return
    if not can_ask():
        raise ApprovalMissing(f"{what}, {UNCHANGED}", "the cluster's name was not confirmed", f"Give --yes {cluster}.")
    refuse_other_name(typer.prompt(f"Type {cluster} to {why}", err=True), cluster)


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
