"""Whether a run may begin on a flow that another run left unfinished, and what to say where it may not. Pure.

Rules: emergency comes before planned, planned before practice. A run supersedes an unfinished one only where it names it, and
only one that is less urgent; one that is as urgent only if that is an emergency too, or if no process runs it any more. An
unfinished run whose mode is not recorded counts as an emergency, except for a rehearsal by its state. A superseded run is never
resumed or rolled back: its changes stay, and are named. A flow that is failed over by its own record is ready where the
opposite flow has failed over since: the applications are on its source again.
Not for: ending the superseded run's process (`drlib.drill.flow_state.lease_holder`).
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from drlib import formats
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.plan import Mode
from drlib.drill.plan.states import DrillEvent, DrillState, Refused, move, unfinished
from drlib.drill.plan.ways_on import WaysOn
from drlib.model import Flow

URGENCY: Final[Mapping[Mode, int]] = {Mode.PRACTICE: 0, Mode.PLANNED: 1, Mode.EMERGENCY: 2}
_REHEARSALS: Final = frozenset({DrillState.TESTING, DrillState.TEST_INCOMPLETE})
_AWAY: Final = frozenset({DrillState.FAILED_OVER, DrillState.REPROTECTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """A run that is to begin: its name, the command that it carries out, and its mode. `supersede` is the run that it gives
    up, empty for none; `again` is the command line that begins it, for messages."""

    run: str
    command: DrillEvent
    mode: Mode
    supersede: str = ""
    again: str = "the same command"


@dataclass(frozen=True, slots=True)
class Entered:
    """The run may begin, and the flow is in `state` then. `superseded`: the record of the run that it gives up."""

    state: DrillState
    superseded: LeaseRecord | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the run may not begin; the texts of an error."""

    what: str
    why: str
    remedy: str


def enter(flow: Flow, record: LeaseRecord, new: Beginning, now_ms: int, *, alive: bool = False) -> Entered | Refusal:
    """Whether `new` may begin on `flow`, whose last `record` is given. `alive`: a process runs the record's run now."""
    state, superseded = record.state, None
    if unfinished(state):
        if new.supersede != record.run:
            return _unfinished(flow, record, new, now_ms, alive)
        if not may_supersede(new.mode, record, alive=alive):
            return _unfinished(flow, record, new, now_ms, alive)
        given_up = move(state, DrillEvent.SUPERSEDE)
        assert isinstance(given_up, DrillState)  # every unfinished state has this transition
        state, superseded = given_up, record
    to = move(state, new.command)
    if isinstance(to, Refused):
        after = f" once {record.run} is superseded" if superseded else ""
        return Refusal(f"{flow}: {to.what}{after}", to.why, to.remedy)
    return Entered(to, superseded)


def may_supersede(mode: Mode, record: LeaseRecord, *, alive: bool) -> bool:
    """May a run of `mode` give up the unfinished run of `record`?"""
    new, its = URGENCY[mode], URGENCY[mode_of(record)]
    return new > its or (new == its and (mode is Mode.EMERGENCY or not alive))


def mode_of(record: LeaseRecord) -> Mode:
    """The mode of the record's run; the most urgent it can be where it is not recorded."""
    if record.mode is not None:
        return record.mode
    return Mode.PRACTICE if record.state in _REHEARSALS else Mode.EMERGENCY


def after_opposite(own: LeaseRecord, opposite: LeaseRecord) -> LeaseRecord:
    """`own` as the opposite flow's record leaves it: ready where that has failed over since."""
    if own.state in _AWAY and opposite.state in _AWAY and opposite.since_ms > own.since_ms:
        return own.model_copy(update={"state": DrillState.READY, "since_ms": opposite.since_ms})
    return own


def ways_on(record: LeaseRecord) -> WaysOn:
    """How to go on with the record's run."""
    return WaysOn(where(record))


def supersede_option(record: LeaseRecord) -> str:
    """What a more urgent run's command line has to name."""
    return f"--supersede {shlex.quote(record.run)}"


def where(record: LeaseRecord) -> str:
    """The folder of the record's run, or its name where that is not recorded; as a command line needs it."""
    return shlex.quote(record.folder or record.run)


def age(record: LeaseRecord, now_ms: int) -> str:
    """How long ago the flow entered its state, and when: "3 h 20 min (since 2026-11-21 10:15:03 UTC)"."""
    if not record.since_ms:
        return "an unknown time"
    since = f"since {formats.second(record.since_ms)} UTC"
    return f"{formats.duration(max(0, now_ms - record.since_ms) / 1000)} ({since})"


def changes(record: LeaseRecord) -> str:
    """The steps of the record's run whose changes are, or may be, in place."""
    return f"not undone: {', '.join(record.standing)}" if record.standing else "no step of it is recorded as not undone"


def _unfinished(flow: Flow, record: LeaseRecord, new: Beginning, now_ms: int, alive: bool) -> Refusal:
    named = f"; --supersede names {new.supersede}" if new.supersede and new.supersede != record.run else ""
    folder = f", its folder is {record.folder} on {record.host}" if record.folder else ""
    running = "is running" if alive else "is unfinished"
    why = (
        f"the flow is {record.state}: run {record.run} ({mode_of(record)}) {running} for {age(record, now_ms)}{folder}; "
        f"{changes(record)}{named}"
    )
    what = f"{flow}: '{new.command}' is not possible"
    return Refusal(what, why, f"{_others(record, alive)} {supersede_remedy(record, new, alive=alive)}")


def _others(record: LeaseRecord, alive: bool) -> str:
    if alive:
        return f"Let it end, or abort it: drlib abort {where(record)}."
    return ways_on(record).sentence


def supersede_remedy(record: LeaseRecord, new: Beginning, *, alive: bool) -> str:
    """How `new` supersedes the run of `record`, or why it does not, as a sentence."""
    if not may_supersede(new.mode, record, alive=alive):
        return f"A run in mode {new.mode} does not supersede it: it is in mode {mode_of(record)}."
    stop = "stop it and " if alive else ""
    return f"Or {stop}give it up, with its changes left as they are: {new.again} {supersede_option(record)}."
