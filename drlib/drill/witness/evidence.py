"""Judge what several places see of a source: it serves, is cut off from some, or does not answer any of them. Pure.

Rules: an answer anywhere counts more than silence elsewhere: a cluster that one place reaches is not dead, whatever others see.
Silence says something only from a place whose own network works, which is one that reaches the target. A host that refuses
connections is up and no broker listens there; one that stays silent may be dead, frozen, or behind a cut network, which
are the same from outside. Being gone counts once it lasted (`judge_looks`); any sign of life ends it at once. A machine decides
alone only where a witness and another place agree: with fewer, a dead cluster and a cut network look the same.
Not for: asking (`look`), whether the target can take over (`drlib.drill.actions.failover.triage_rules`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Answer(StrEnum):
    """What one place gets from one cluster."""

    SERVES = "answers"
    PARTLY = "answers in part"
    REFUSED = "refuses connections"
    SILENT = "no answer"
    UNKNOWN = "unknown"  # the place itself says nothing


class Place(StrEnum):
    HERE = "this host"
    MIRROR = "the mirror's worker"
    WITNESS = "the witness"


class Condition(StrEnum):
    """What is known of the source."""

    SERVES = "serves"
    PARTLY = "serves in part"
    CUT_OFF = "cut off"  # from some places; it serves as seen from another
    DEAD = "dead"  # its hosts refuse, and no place reaches it
    GONE = "gone"  # no answer at any of several places: dead, frozen, or cut off from all of them
    GONE_FROM_HERE = "gone as seen from one place"
    UNKNOWN = "unknown"


GONE: Final = frozenset({Condition.DEAD, Condition.GONE, Condition.GONE_FROM_HERE})
_REACHED: Final = frozenset({Answer.SERVES, Answer.PARTLY})
_NOT_REACHED: Final = frozenset({Answer.REFUSED, Answer.SILENT})


@dataclass(frozen=True, slots=True)
class View:
    """What one place sees. `name`: host or address; `target`: whether its own network works; `since_s`: for how long it has
    not reached the source, by its own clock, None where it does not say; `note`: why it says nothing, where that is known."""

    place: Place
    name: str
    source: Answer
    target: Answer
    since_s: float | None = None
    note: str = ""

    @property
    def counts(self) -> bool:
        """Does silence of the source say something here?"""
        return self.source in _NOT_REACHED and self.target in _REACHED

    def __str__(self) -> str:
        since = f" for {self.since_s:.0f} s" if self.since_s is not None and self.source in _NOT_REACHED else ""
        here = self.place is Place.HERE
        blind = self.source in _NOT_REACHED and self.target not in _REACHED
        note = " (it does not reach the target either)" if blind else f" ({self.note})" if self.note else ""
        return f"seen from {self.place}{'' if here else f' {self.name}'}: {self.source}{since}{note}"


@dataclass(frozen=True, slots=True)
class Look:
    """All places at one time (monotonic seconds)."""

    at_s: float
    views: tuple[View, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """`held_s`: for how long the source has been gone, 0 where it is not. `settled`: it may be decided on this."""

    condition: Condition
    views: tuple[View, ...]
    held_s: float = 0.0
    settled: bool = True

    @property
    def reached_from(self) -> tuple[View, ...]:
        return tuple(view for view in self.views if view.source in _REACHED)

    @property
    def gone_from(self) -> tuple[View, ...]:
        return tuple(view for view in self.views if view.counts)

    def __str__(self) -> str:
        return "; ".join(map(str, self.views))


def judge(views: Sequence[View]) -> Condition:
    """What one look says."""
    reached = [view for view in views if view.source in _REACHED]
    gone = [view for view in views if view.counts]
    here = next((view for view in views if view.place is Place.HERE), None)
    if reached:
        if here is not None and here.source in _NOT_REACHED:
            return Condition.CUT_OFF
        return Condition.SERVES if any(view.source is Answer.SERVES for view in reached) else Condition.PARTLY
    if not gone:
        return Condition.UNKNOWN
    if any(view.source is Answer.REFUSED for view in gone) and len(gone) > 1:
        return Condition.DEAD
    return Condition.GONE if len(gone) > 1 else Condition.GONE_FROM_HERE


def judge_looks(looks: Sequence[Look], hold_s: float) -> Finding:
    """What the looks, oldest first, say together. Being gone counts once it held for `hold_s`: since the first of the last
    looks that all found it gone; where no look found it otherwise, as long as a place says that it has not reached it."""
    if not looks:
        return Finding(Condition.UNKNOWN, (), settled=False)
    last = looks[-1]
    condition = judge(last.views)
    if condition not in GONE:
        return Finding(condition, last.views)
    alive = [look.at_s for look in looks if judge(look.views) not in GONE]
    since = min(look.at_s for look in looks if not alive or look.at_s > alive[-1])
    known = [view.since_s for view in last.views if view.counts and view.since_s is not None and not alive]
    held = max([last.at_s - since, *known])
    return Finding(condition, last.views, held, held >= hold_s)


def may_decide_alone(finding: Finding) -> str:
    """Why only a person may decide on `finding`; empty where a machine may."""
    if finding.condition not in GONE or not finding.settled:
        return f"the source is not found gone: {finding or 'no place was asked'}"
    gone = finding.gone_from
    if not any(view.place is Place.WITNESS for view in gone):
        return f"no witness that reaches the target finds the source gone: {finding}"
    if not any(view.place is not Place.WITNESS for view in gone):
        return f"only witnesses find the source gone: {finding}"
    return ""
