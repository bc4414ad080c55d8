"""Read what a run's folder says about the run, and believe it only where its parts agree: the one reader of finished runs.

Rules: a run is verified when its manifest lists every file as it is, and scorecard, journal and plan tell the same; only then
there is a scorecard to go by. Everything else has the verdict unknown, and says what contradicts it or what is missing.
What is parsed is what was hashed. Nothing is followed out of the folder, and nothing is written.
Not for: a run in progress, which its own journal tells about (`drlib.drill.session.find_running`). A manifest has no key: who
may write to the folder can write all of it, so it counts only in a folder that no other user can write to.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from drlib import decoding
from drlib.drill.plan.progress import Noted, Outcome
from drlib.drill.run import planning
from drlib.drill.run.planning import PLAN_FILE
from drlib.drill.run.request import REQUEST_FILE
from drlib.drill.run.runner import LOCK
from drlib.errors import UsageError
from drlib.files import read_stored
from drlib.runs import folder as folders
from drlib.runs import journal
from drlib.runs.check import Verdict
from drlib.runs.folder import EXECUTING, MANIFEST, Difference
from drlib.runs.journal import JOURNAL, JournalTampered, Line
from drlib.runs.lock import held
from drlib.runs.scorecard import SCORECARD, Kind, Scorecard

_PARSED: Final = (SCORECARD, JOURNAL, PLAN_FILE)
_PLANNED: Final = "planned, not run"
_PASSING: Final = frozenset({Verdict.PASS, Verdict.CONDITIONS})


class Evidence(StrEnum):
    """What the folder of a run is worth."""

    VERIFIED = "verified"
    CONTRADICTORY = "contradictory"
    INCOMPLETE = "incomplete"
    PENDING = "pending"  # it has not ended: planned, running, or left before its end


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run. `scorecard` is there only where the run is verified; `differences` say why it is not.

    `plan_hash`: of a plan that was not run yet, empty where it cannot be read; None for a run.
    """

    folder: Path
    evidence: Evidence
    scorecard: Scorecard | None = None
    differences: tuple[Difference, ...] = ()
    plan_hash: str | None = None

    @property
    def verdict(self) -> Verdict:
        """As the scorecard says where it can be relied on, else unknown."""
        return Verdict.UNKNOWN if self.scorecard is None else self.scorecard.verdict

    @property
    def why(self) -> str:
        """Why the run is not verified, in one line; empty where it is."""
        if not self.differences:
            return ""
        more = len(self.differences) - 1
        return f"{self.evidence}: {self.differences[0]}{f', and {more} more' if more else ''}"


def is_run(folder: Path) -> bool:
    """Does `folder` have any file that only runs have?"""
    return any(os.path.lexists(folder / name) for name in (*_PARSED, MANIFEST, REQUEST_FILE))


def read(folder: Path) -> StoredRun:
    """The run in `folder`. Raises nothing that a file can cause."""
    if waits := _pending(folder):
        plan_hash = _hash_of_plan(folder) if waits == _PLANNED else None
        return StoredRun(folder, Evidence.PENDING, differences=(Difference(folder.name, waits),), plan_hash=plan_hash)
    try:
        return _judged(folder)
    except OSError as error:
        found = Difference(folder.name, f"it cannot be read ({error.strerror or error})")
        return StoredRun(folder, Evidence.INCOMPLETE, differences=(found,))


def _hash_of_plan(folder: Path) -> str:
    try:
        return planning.read(folder).hash
    except UsageError:
        return ""


def _pending(folder: Path) -> str:
    """Why the run has not ended; empty where it has."""
    with suppress(OSError):
        if held(folder, LOCK, EXECUTING):
            return "a process runs it now"
    present = {name for name in (*_PARSED, MANIFEST) if os.path.lexists(folder / name)}
    if present & {MANIFEST, SCORECARD}:
        return ""
    return _PLANNED if present == {PLAN_FILE} else "it was not finished"


def _judged(folder: Path) -> StoredRun:
    if foreign := _writers(folder):
        return StoredRun(folder, Evidence.CONTRADICTORY, differences=(Difference(folder.name, foreign),))
    contents: dict[str, bytes] = {}
    wrong: list[Difference] = []
    for name in (MANIFEST, *_PARSED):
        try:
            contents[name] = read_stored(folder / name, decoding.MOST_BYTES)
        except FileNotFoundError:
            if name in (MANIFEST, SCORECARD):
                wrong.append(Difference(name, "it is missing", missing=True))
        except OSError as error:
            wrong.append(Difference(name, f"it cannot be read ({error.strerror or error})"))
    if wrong:
        return _unverified(folder, wrong)
    wrong += folders.differences(folder, contents)
    card, about = _compared(folder, contents)
    named = {each.file for each in wrong}
    wrong += [each for each in about if each.file not in named]
    return _unverified(folder, wrong) if wrong else StoredRun(folder, Evidence.VERIFIED, card)


def _unverified(folder: Path, wrong: list[Difference]) -> StoredRun:
    kind = Evidence.INCOMPLETE if all(each.missing for each in wrong) else Evidence.CONTRADICTORY
    return StoredRun(folder, kind, differences=tuple(wrong))


def _writers(folder: Path) -> str:
    """Why other users can have written what is in the folder; empty where they cannot."""
    own, above = folder.lstat(), folder.absolute().parent.stat()
    if not stat.S_ISDIR(own.st_mode):
        return "it is not a folder"
    if own.st_uid not in {os.geteuid(), 0, above.st_uid}:
        return f"it belongs to user {own.st_uid}, and the folder of runs to user {above.st_uid}"
    return "other users may write to it" if own.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else ""


def _compared(folder: Path, contents: Mapping[str, bytes]) -> tuple[Scorecard | None, list[Difference]]:
    """The scorecard, and where it, journal and plan do not agree."""
    card, wrong = None, []
    lines: tuple[Line, ...] = ()
    plan_hash = ""
    try:
        card = Scorecard.parse(contents[SCORECARD])
    except ValueError as error:
        wrong.append(Difference(SCORECARD, f"it is no scorecard ({_first_line(error)})"))
    try:
        if JOURNAL in contents:
            lines = journal.parse(contents[JOURNAL], folder / JOURNAL)
    except JournalTampered as error:
        wrong.append(Difference(JOURNAL, error.why))
    try:
        if PLAN_FILE in contents:
            plan_hash = planning.parse(contents[PLAN_FILE]).hash
    except ValueError as error:
        wrong.append(Difference(PLAN_FILE, _first_line(error)))
    if card is not None and not wrong:
        wrong += (Difference(SCORECARD, why) for why in _contradictions(folder.name, card, lines, plan_hash))
        wrong += _lacking(card, contents, lines)
    return card, wrong


def _contradictions(name: str, card: Scorecard, lines: tuple[Line, ...], plan_hash: str) -> Iterator[str]:
    """What the scorecard says that is not so."""
    if card.run_id != name:
        yield f"it is of run {card.run_id}"
    failed = [check.name for check in card.checks if check.verdict not in _PASSING]
    if card.verdict in _PASSING and (failed or not card.checks):
        yield f"its verdict is {card.verdict}, and " + (
            f"'{failed[0]}' did not pass" if failed else "nothing was checked"
        )
    if card.verdict is Verdict.FAIL and not any(check.verdict is Verdict.FAIL for check in card.checks):
        yield "its verdict is fail, and no check failed"
    planned = card.environment.get("plan", "")
    if planned and planned != plan_hash:
        yield f"it is of plan {planned[:12]}, and {PLAN_FILE} has {plan_hash[:12] or 'none'}"
    if not lines or lines[0].event != Noted.RUN_STARTED:
        return
    if lines[0].data.get("plan") != planned:
        yield f"the plan of {JOURNAL} is not its plan"
    ended = [line.data.get("detail") for line in lines if line.event == Noted.RUN_ENDED]
    if card.verdict in _PASSING and ended[-1:] != [Outcome.PASSED]:
        yield f"its verdict is {card.verdict}, and by {JOURNAL} the run " + (
            f"ended: {ended[-1]}" if ended else "did not end"
        )
    times = [int(datetime.fromisoformat(line.at).timestamp() * 1000) for line in (lines[0], lines[-1])]
    if [card.started_ms, card.finished_ms] != times:
        yield f"its times are not those of {JOURNAL}"


def _lacking(card: Scorecard, contents: Mapping[str, bytes], lines: tuple[Line, ...]) -> Iterator[Difference]:
    """What a drill with a verdict has, and this folder does not."""
    if card.kind is not Kind.DRILL or card.verdict is Verdict.UNKNOWN:
        return
    if JOURNAL not in contents:
        yield Difference(JOURNAL, "it is missing", missing=True)
    elif PLAN_FILE not in contents and (not lines or lines[0].event == Noted.RUN_STARTED):
        yield Difference(PLAN_FILE, "it is missing", missing=True)


def _first_line(error: ValueError) -> str:
    return next(iter(str(error).splitlines()), "")
