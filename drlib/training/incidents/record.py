"""What is kept of an incident: a journal that anybody may read, and one that nobody reads by accident.

Rules: both are append-only and hash-chained like a drill's (`drlib.runs.journal`), written by several processes
under one lock. `journal.jsonl` holds what was seen and done; `.game/journal.jsonl` what was put in, and when it was
over. The first public line holds a digest of the sealed incident, so that nobody can say afterwards that it was
another one. Not for: judging; `events` only gives both journals the form in which they are judged.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib.errors import UsageError
from drlib.files import write_whole
from drlib.runs.journal import JOURNAL, DrillJournal, Line, Scalar, read
from drlib.runs.lock import alone
from drlib.training.incidents.rules.causes import Planted
from drlib.training.incidents.rules.moves import parse
from drlib.training.incidents.rules.score import Event, Facts, Happened
from drlib.training.incidents.rules.seed import Incident
from drlib.training.incidents.rules.symptoms import Look

GAME: Final = ".game"
_LOCK: Final = ".journal.lock"
_LOOKS: Final = TypeAdapter(tuple[Look, ...])
_FACTS: Final = TypeAdapter(Facts)
_INCIDENT: Final = TypeAdapter(Incident)


class Record:
    """The files of the incident in `folder`, which is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # -- journals ------------------------------------------------------------------------------------------------------

    def write(self, event: Happened, **data: Scalar) -> None:
        """One public line, on disk when this returns."""
        self._append(self.folder / JOURNAL, event, data)

    def seal(self, event: Happened, **data: Scalar) -> None:
        """One line that is read when the incident is over."""
        self._append(self.folder / GAME / JOURNAL, event, data)

    def lines(self) -> tuple[Line, ...]:
        """The public journal, checked. Raises `JournalTampered`, `UsageError` where there is none."""
        return self._lines(self.folder / JOURNAL)

    def events(self) -> tuple[Event, ...]:
        """Both journals together, in the order things happened."""
        start, *public = self.lines()
        path = self.folder / GAME / JOURNAL
        sealed = self._lines(path) if path.exists() else ()
        begin = datetime.fromisoformat(start.at)
        # Sorting is stable: what is sealed comes first within a millisecond, as a cause comes before its symptoms.
        ordered = [start, *sorted((*sealed, *public), key=lambda line: line.at)]
        return tuple(_event(line, (datetime.fromisoformat(line.at) - begin).total_seconds()) for line in ordered)

    def began_ms(self) -> int:
        """When it was started, ms since the epoch."""
        return round(datetime.fromisoformat(self.lines()[0].at).timestamp() * 1000)

    def planted(self) -> tuple[Planted, ...]:
        """The causes that are in."""
        return tuple(event.cause for event in self.events() if event.what is Happened.CAUSE_IN and event.cause)

    def finished(self) -> bool:
        return any(line.event == Happened.FINISHED for line in self.lines())

    # -- what is sealed ------------------------------------------------------------------------------------------

    def hide(self, incident: Incident) -> str:
        """Keep the incident where nobody looks by accident; returns its digest."""
        (self.folder / GAME).mkdir(mode=0o700, exist_ok=True)
        body = json.dumps({"salt": secrets.token_hex(16), "incident": _INCIDENT.dump_python(incident, mode="json")})
        write_whole(self.folder / GAME / "incident.json", body)
        return hashlib.sha256(body.encode()).hexdigest()

    def incident(self) -> Incident:
        """What was drawn. Raises `UsageError` where it is not the one that was sealed."""
        body = (self.folder / GAME / "incident.json").read_bytes()
        sealed = self.lines()[0].data.get("sealed")
        if hashlib.sha256(body).hexdigest() != sealed:
            raise UsageError(
                "the incident is not the one that was started",
                "its sealed file was changed since",
                "Don't rely on this game; start another.",
            )
        return _INCIDENT.validate_python(json.loads(body)["incident"])

    # -- looks and facts ---------------------------------------------------------------------------------------------

    def keep_looks(self, looks: tuple[Look, ...]) -> None:
        write_whole(self.folder / "looks.json", _LOOKS.dump_json(looks))

    def looks(self) -> tuple[Look, ...]:
        """The last seconds, oldest first; empty while nobody has looked."""
        return self._read_looks("looks.json")

    def keep_usual(self, look: Look) -> None:
        write_whole(self.folder / "usual.json", _LOOKS.dump_json((look,)))

    def usual(self) -> Look:
        """How it was while all was well. Raises `UsageError` before that was seen."""
        found = self._read_looks("usual.json")
        if not found:
            raise UsageError(
                "the incident has not begun", "its lab is not up yet", "Wait for drlib incident start to return."
            )
        return found[0]

    def keep_facts(self, facts: Facts) -> None:
        write_whole(self.folder / "facts.json", _FACTS.dump_json(facts))

    def facts(self) -> Facts:
        """What was measured at the end. Raises `UsageError` before it."""
        try:
            return _FACTS.validate_json((self.folder / "facts.json").read_bytes())
        except FileNotFoundError:
            raise UsageError("the incident is not over", "nothing was measured yet", "drlib incident finish.") from None

    def _read_looks(self, name: str) -> tuple[Look, ...]:
        try:
            return _LOOKS.validate_json((self.folder / name).read_bytes())
        except FileNotFoundError:
            return ()

    def _append(self, path: Path, event: Happened, data: dict[str, Scalar]) -> None:
        with self._alone():
            journal = DrillJournal(path)
            try:
                journal.write(event.value, **data)
            finally:
                journal.close()

    def _lines(self, path: Path) -> tuple[Line, ...]:
        if not path.exists():
            raise UsageError(f"no incident in {path.parent.name}", "it has no journal", "See: drlib incident start.")
        with self._alone():
            return read(path)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with alone(self.folder, _LOCK, "its journal is being written", "Try it again.", patience_s=20.0):
            yield


def _event(line: Line, at_s: float) -> Event:
    data = line.data
    what = Happened(line.event)
    cause = move = None
    if what is Happened.CAUSE_IN:
        cause = Planted(str(data["cause"]), str(data["where"]), str(data["how"]))
    if what is Happened.ACTED:
        move = parse([str(data["move"])])
    return Event(at_s, what, cause, move, str(data.get("word", "")), bool(data.get("failed", False)))
