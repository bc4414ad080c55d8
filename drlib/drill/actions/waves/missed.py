"""Decide what a wave that was moved is missing. Pure.

Rules: what an application was not seen to do is missed: only one that is said to be idle may have nothing to read.
Not for: observing (`verify`), and what belongs to a wave (`rules`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from drlib.drill.actions.groups.verify_rules import GroupVerdict, Seen
from drlib.drill.actions.waves.rules import Wave

_NOT_LOOKED: Final = "it was not looked at"
_MAY_BE_IDLE: Final = frozenset({Seen.IDLE, Seen.STOPPED, Seen.NO_MEMBERS})


@dataclass(frozen=True, slots=True)
class Missed:
    """What an application was expected to do on the target, and what was seen instead."""

    application: str
    expected: str
    seen: str

    def __str__(self) -> str:
        return f"{self.application}: expected {self.expected}; seen: {self.seen}"


def missed(
    wave: Wave,
    target: str,
    owners: Mapping[str, str],
    verdicts: Mapping[str, GroupVerdict],
    served: Collection[str],
    written: Mapping[str, str],
) -> tuple[Missed, ...]:
    """What `wave` is missing on `target`, application by application.

    `owners`: the application of each group that is there; `served`: the groups that were seen to read on; `written`: by topic
    what is known of it, empty where a record was written to it.
    """
    found = []
    for application in wave.applications:
        ours = sorted(group for group, owner in owners.items() if owner == application.name)
        if application.groups and not ours:
            wanted = f"a group that matches {', '.join(application.groups)} on {target}"
            found.append(Missed(application.name, wanted, "there is none"))
        for group in ours:
            verdict = verdicts.get(group)
            if group in served or (application.idle and verdict is not None and verdict.seen in _MAY_BE_IDLE):
                continue
            seen = _NOT_LOOKED if verdict is None else verdict.detail
            found.append(Missed(application.name, f"group {group} reads on on {target}", seen))
        for topic in application.written:
            if seen := written.get(topic, _NOT_LOOKED):
                found.append(Missed(application.name, f"a record is written to {topic} on {target}", seen))
    return tuple(found)
