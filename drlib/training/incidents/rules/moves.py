"""What an operator can do in an incident: every move by name, what it takes, and whether it can ever be right.

Rules: a literal table. A move is written as on the command line, `restart-broker LEFT`; `parse` refuses what is not
in the table, or with too few or too many words, before anything is touched. A move that destroys what nobody can
bring back is harmful in every incident; whether another one was right is said by the cause (`incident_causes`). Not
for: doing any of it (`drlib.training.incidents.lab.moves`).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drlib.errors import UsageError

SITES: Final = ("LEFT", "RIGHT")
ACKNOWLEDGE: Final = "acknowledge"


@dataclass(frozen=True, slots=True)
class Kind:
    """`takes`: the names of its words. `changes`: does anything change by it?"""

    takes: tuple[str, ...]
    does: str
    changes: bool = True
    harmful: bool = False


KINDS: Final[Mapping[str, Kind]] = {
    ACKNOWLEDGE: Kind((), "say that something is wrong; the clock of detection stops", changes=False),
    "restart-broker": Kind(("SITE",), "start a site's broker again on its data"),
    "free-disk": Kind(("SITE",), "make room on the disk of a site's broker"),
    "heal-link": Kind(("SITE",), "have the network people repair the mirror's link to a site"),
    "raise-retention": Kind(("TOPIC",), "keep the records of a topic on LEFT for a day"),
    "restart-mirror": Kind((), "stop the mirror's worker in order and start it again"),
    "enable-group-sync": Kind((), "switch sync.group.offsets.enabled on in the mirror's file and restart the worker"),
    "abort-transaction": Kind(("TOPIC",), "fence and abort the transaction that is open in a topic on LEFT"),
    "remove-acl": Kind(("SITE", "TOPIC"), "take away every ACL rule of a topic"),
    "stop-application": Kind(("NAME",), "stop one application"),
    "set-clock": Kind(("NAME",), "set the clock of an application's machine, and restart it"),
    "point-application": Kind(("NAME", "SITE"), "let one application work at a site"),
    "grow-topic": Kind(("SITE", "TOPIC"), "give a site's topic as many partitions as LEFT's topic of that name has"),
    "group-to-start": Kind(("GROUP", "TOPIC"), "place a group at the beginning of a topic on LEFT"),
    "move-applications": Kind(("SITE",), "move every application to a site: a failover"),
    "stop-mirror": Kind((), "stop the mirror's worker"),
    "group-to-end": Kind(("GROUP", "TOPIC"), "place a group at the end of a topic on LEFT", harmful=True),
    "delete-topic": Kind(("SITE", "TOPIC"), "delete a topic", harmful=True),
}


@dataclass(frozen=True, slots=True)
class Move:
    """One move as it was asked for: its name and its words."""

    name: str
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.name, *self.words))

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]


def parse(words: Sequence[str]) -> Move:
    """`["restart-broker", "LEFT"]`, or all of it in one string. Raises `UsageError`."""
    parts = [part for word in words for part in word.split()]
    if not parts:
        raise UsageError("no move was named", "there is nothing to do", "See: drlib incident list.")
    name, *rest = parts
    if name not in KINDS:
        near = difflib.get_close_matches(name, KINDS, 1)
        hint = f"Did you mean {near[0]}?" if near else "See: drlib incident list."
        raise UsageError(f"move {name}", "there is none of that name", hint)
    takes = KINDS[name].takes
    if len(rest) != len(takes):
        raise UsageError(
            f"move {name}", f"it takes {' '.join(takes) or 'no word'}", f"Write: {' '.join((name, *takes))}."
        )
    for wanted, given in zip(takes, rest, strict=True):
        if wanted == "SITE" and given not in SITES:
            raise UsageError(f"site {given}", "there is none of that name", f"There are {' and '.join(SITES)}.")
    return Move(name, tuple(rest))
