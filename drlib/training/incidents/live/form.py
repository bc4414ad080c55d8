"""The form of the live view: which moves and arguments are offered, what they call, and the button that makes them a cell.

Rules: pure. Every move and every diagnosis is offered, whichever cause there is; names of topics, groups and applications are
those that the status shows. A cell is added by JupyterLab itself: `apputils:run-all-enabled` runs `notebook:insert-cell-below`,
then `notebook:replace-selection` with the text, when an element with these attributes is clicked (`CommandLinker` of
`@jupyterlab/apputils`). In a notebook that is not trusted JupyterLab asks first.
Not for: carrying a move out (`drlib.training.incidents.lab.moves`).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from drlib.formats import html_text
from drlib.training.incidents.lab.testbed import KITCHEN, MIRROR
from drlib.training.incidents.rules.causes import CAUSES
from drlib.training.incidents.rules.moves import MOVES, SITES
from drlib.training.incidents.rules.symptoms import Observation

DIAGNOSE: Final = "diagnose"
HINT: Final = "hint"
ESTIMATES: Final = (5, 10, 20, 30, 60, 120, 300, 600)  # seconds
Make = Callable[[str, tuple[str, ...], int | None], str]  # a move, its arguments, the estimate; returns the outcome
OFFERED: Final = (*MOVES, DIAGNOSE, HINT)
MOST_PARAMETERS: Final = max(len(move.parameters) for move in MOVES.values())
_SECONDS: Final = ("15", "30", "60", "120", "300", "600")
_PARTITIONS: Final = ("0", "1", "2", "3")
_READ_LOG: Final = "read-log"
_LOGS: Final = ("LEFT-1", "RIGHT-1", MIRROR)


@dataclass(frozen=True, slots=True)
class Known:
    """Names that the status shows."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()


def known_of(observations: Sequence[Observation]) -> Known:
    """The names in the newest of `observations`."""
    if not observations:
        return Known()
    newest = observations[-1]
    return Known(
        tuple(topic.topic for topic in newest.topics),
        tuple(group.group for group in newest.groups),
        tuple(application.name for application in newest.applications),
    )


def parameters_of(name: str) -> tuple[str, ...]:
    """What has to be chosen for a move, a diagnosis or a hint."""
    if name == DIAGNOSE:
        return ("CAUSE",)
    return MOVES[name].parameters if name in MOVES else ()


def options_of(name: str, parameter: str, known: Known) -> tuple[str, ...]:
    """What may be chosen for a parameter of `name`."""
    match parameter:
        case "CAUSE":
            return tuple(CAUSES)
        case "SITE":
            return SITES
        case "TOPIC":
            mirrored = tuple(f"LEFT.{topic}" for topic in known.topics)
            return (*known.topics, *mirrored) if "SITE" in parameters_of(name) else known.topics
        case "GROUP":
            return (*known.groups, KITCHEN)
        case "NAME":
            return (*_LOGS, *known.applications) if name == _READ_LOG else known.applications
        case "PARTITION":
            return _PARTITIONS
    return _SECONDS


def meaning(name: str) -> str:
    """What a move does, in a sentence."""
    if name in MOVES:
        return MOVES[name].description
    return "name the cause; the reveal says whether it is right" if name == DIAGNOSE else "costs 5 points"


def is_estimated(name: str) -> bool:
    """Report whether a team states an estimate before that move."""
    return name in MOVES and MOVES[name].changes_state


def call_text(variable: str, name: str, arguments: Sequence[str], estimate_s: int | None = None) -> str:
    """The Python call: `incident.act("restart-broker LEFT")`, with the estimate of a team."""
    if name == HINT:
        return f"{variable}.hint(take=True)"  # the form says what it costs
    if name == DIAGNOSE:
        return f"{variable}.diagnose({json.dumps(' '.join(arguments))})"
    estimate = "" if estimate_s is None else f", estimate_s={estimate_s}"
    return f"{variable}.act({json.dumps(' '.join((name, *arguments)))}{estimate})"


def cell_button(text: str) -> str:
    """HTML of a button that adds a cell with `text` below the active one, in JupyterLab 4."""
    commands = ["notebook:insert-cell-below", "notebook:replace-selection"]
    arguments = json.dumps({"commands": commands, "args": {"text": text}})
    return (
        '<button type="button" class="lm-Widget jupyter-widgets jupyter-button widget-button" style="width:auto" '
        f'data-commandlinker-command="apputils:run-all-enabled" data-commandlinker-args="{html_text(arguments)}">'
        "Add as a cell</button>"
    )
