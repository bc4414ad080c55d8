"""Every move an operator can make in an incident: its name, its arguments, and whether it is harmful in any incident.

Rules: a literal table. A move is written as on the command line, `restart-broker LEFT`. `parse_move` refuses an unknown
name and a wrong number of arguments before anything is changed. A move that destroys data for good is harmful in every
incident; whether another move is right depends on the cause (`drlib.training.incidents.rules.causes`).
Not for: carrying moves out (`drlib.training.incidents.lab.moves`).
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drlib.drill.step.argument_types import nearest
from drlib.errors import UsageError

SITES: Final = ("LEFT", "RIGHT")
ACKNOWLEDGE: Final = "acknowledge"
_MISTYPED: Final = 0.85  # as similar as a name with one wrong letter is
_PARTITION: Final = re.compile(r"[0-9]{1,5}")
_SECONDS: Final = re.compile(r"[1-9][0-9]{0,4}")


@dataclass(frozen=True, slots=True)
class MoveDefinition:
    """`parameters`: names of the move's arguments. `changes_state`: False for a move that changes nothing on the lab."""

    parameters: tuple[str, ...]
    description: str
    changes_state: bool = True
    harmful: bool = False


MOVES: Final[Mapping[str, MoveDefinition]] = {
    ACKNOWLEDGE: MoveDefinition((), "report that something is wrong; stops the detection clock", changes_state=False),
    "describe-topic": MoveDefinition(
        ("SITE", "TOPIC"), "show a topic's log starts and ends, and the configurations set on it", changes_state=False
    ),
    "describe-group": MoveDefinition(
        ("SITE", "GROUP"), "show a group's state, and its committed offsets with their lag", changes_state=False
    ),
    "read-log": MoveDefinition(
        ("NAME",), "show the end of the log of a broker (LEFT-1), the mirror or an application", changes_state=False
    ),
    "ask-broker": MoveDefinition(
        ("SITE",),
        "show the state of a site's broker: its process (as ps does), its port, and whether it answers a request",
        changes_state=False,
    ),
    "restart-broker": MoveDefinition(("SITE",), "start the broker of a site on its existing data"),
    "renew-certificate": MoveDefinition(("SITE",), "let a site's broker present a new certificate, without a restart"),
    "free-disk": MoveDefinition(("SITE",), "free space on the disk of a site's broker"),
    "heal-link": MoveDefinition(("SITE",), "repair the mirror's network link to a site"),
    "raise-retention": MoveDefinition(("TOPIC",), "set retention.ms of a topic on LEFT to one day"),
    "restart-mirror": MoveDefinition((), "stop the mirror's worker gracefully and start it again"),
    "enable-group-sync": MoveDefinition((), "set sync.group.offsets.enabled=true and restart the worker"),
    "abort-transaction": MoveDefinition(("TOPIC",), "fence and abort the open transaction in a topic on LEFT"),
    "remove-acl": MoveDefinition(("SITE", "TOPIC"), "delete every ACL of a topic"),
    "stop-application": MoveDefinition(("NAME",), "stop one application"),
    "start-application": MoveDefinition(("NAME",), "start an application that was stopped"),
    "set-clock": MoveDefinition(("NAME",), "correct an application's machine clock and restart it"),
    "point-application": MoveDefinition(("NAME", "SITE"), "move one application to a site"),
    "grow-topic": MoveDefinition(("SITE", "TOPIC"), "add partitions to a site's topic up to its count on LEFT"),
    "group-to-start": MoveDefinition(("GROUP", "TOPIC"), "move a consumer group to the start of a topic on LEFT"),
    "group-back": MoveDefinition(
        ("GROUP", "SECONDS"), "move a consumer group back to the offsets of so many seconds ago on LEFT"
    ),
    "skip-record": MoveDefinition(
        ("GROUP", "TOPIC", "PARTITION"), "move a consumer group past the next record of a partition on LEFT"
    ),
    "move-applications": MoveDefinition(("SITE",), "fail over: move every application to a site"),
    "stop-mirror": MoveDefinition((), "stop the mirror's worker"),
    "group-to-end": MoveDefinition(
        ("GROUP", "TOPIC"), "move a consumer group to the end of a topic on LEFT", harmful=True
    ),
    "delete-topic": MoveDefinition(("SITE", "TOPIC"), "delete a topic", harmful=True),
}


@dataclass(frozen=True, slots=True)
class Move:
    """One requested move: its name and its arguments."""

    name: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.name, *self.arguments))

    @property
    def definition(self) -> MoveDefinition:
        return MOVES[self.name]

    def does_as(self, other: "Move") -> bool:
        """Report whether it is the same move, for whatever time: how long is enough the clusters show."""
        return self._without_time() == other._without_time()

    def _without_time(self) -> tuple[str, ...]:
        named = zip(self.definition.parameters, self.arguments, strict=True)
        return (self.name, *(argument for parameter, argument in named if parameter != "SECONDS"))


def _meant(name: str, arguments: Sequence[str]) -> str:
    """Which move was probably meant, written with its arguments: the one that has almost this name; of those that take such
    arguments, one that begins with the same word or has a similar name; else those that begin so."""
    fitting = [known for known, move in MOVES.items() if _takes(move.parameters, arguments)]
    same_word = [known for known in MOVES if known.partition("-")[0] == name.partition("-")[0]]
    for known in difflib.get_close_matches(name, MOVES, 1, _MISTYPED):
        return f"Did you mean {' '.join((known, *(arguments or MOVES[known].parameters)))}?"
    for known in (*(one for one in fitting if one in same_word), *difflib.get_close_matches(name, fitting, 1)):
        return f"Did you mean {' '.join((known, *arguments))}?"
    if same_word:
        return f"Did you mean {' or '.join(' '.join((known, *MOVES[known].parameters)) for known in same_word)}?"
    return nearest(name, MOVES, "List the moves: drlib incident list")


def _takes(parameters: Sequence[str], arguments: Sequence[str]) -> bool:
    """Report whether a move with `parameters` can mean `arguments`: a site for a site, and for nothing else."""
    return len(parameters) == len(arguments) and all(
        (parameter == "SITE") == (argument in SITES) for parameter, argument in zip(parameters, arguments, strict=True)
    )


def parse_move(words: Sequence[str]) -> Move:
    """Parse `["restart-broker", "LEFT"]`, or the same in one string. Raises `UsageError` for anything not in the table."""
    parts = [part for text in words for part in text.split()]
    if not parts:
        raise UsageError("no move was named", "there is nothing to do", "List the moves: drlib incident list")
    name, *arguments = parts
    if name not in MOVES:
        raise UsageError(f"move {name}", "there is no move of that name", _meant(name, arguments))
    parameters = MOVES[name].parameters
    if len(arguments) != len(parameters):
        raise UsageError(
            f"move {name}",
            f"it takes {' '.join(parameters) or 'no arguments'}",
            f"Write: drlib incident act {' '.join((name, *parameters))}",
        )
    for parameter, argument in zip(parameters, arguments, strict=True):
        if parameter == "SITE" and argument not in SITES:
            raise UsageError(f"site {argument}", "there is no site of that name", f"Use {' or '.join(SITES)}.")
        if parameter == "PARTITION" and not _PARTITION.fullmatch(argument):
            raise UsageError(f"partition {argument}", "it is no number of a partition", "Use a number such as 0.")
        if parameter == "SECONDS" and not _SECONDS.fullmatch(argument):
            raise UsageError(f"{argument} seconds", "it is no number of seconds", "Use a number such as 60.")
    return Move(name, tuple(arguments))
