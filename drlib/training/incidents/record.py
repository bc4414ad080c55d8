"""The files of an incident: a public journal, a sealed journal with its plan, observations and measurements.

Rules: both journals are append-only and hash-chained like a drill's (`drlib.runs.journal`); several processes write them
under one lock. `journal.jsonl` holds what was observed and done; `.game/journal.jsonl` what was injected and when the
incident recovered. The first public line holds a digest of the sealed plan, so that the plan cannot be exchanged later.
Not for: judging; `events` only converts both journals to the events that are judged.
"""

import hashlib
import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from pydantic import TypeAdapter

from drlib import decoding
from drlib.errors import UsageError
from drlib.files import read_json, read_stored, write_whole
from drlib.runs.journal import JOURNAL, DrillJournal, Line, Scalar, read
from drlib.runs.lock import alone
from drlib.training.incidents.rules.avoided_loss import Sample, thinned
from drlib.training.incidents.rules.causes import InjectedCause
from drlib.training.incidents.rules.moves import parse_move
from drlib.training.incidents.rules.score import EventKind, IncidentEvent, Measurements
from drlib.training.incidents.rules.seed import IncidentPlan
from drlib.training.incidents.rules.symptoms import Observation

Stored = TypeVar("Stored", Observation, Sample)

GAME: Final = ".game"
_PLAN: Final = "incident.json"
_OBSERVATIONS: Final = "observations.json"
_BASELINE: Final = "baseline.json"
_MEASUREMENTS: Final = "facts.json"
_SAMPLES: Final = "samples.json"
_LOCK: Final = ".journal.lock"
FILES: Final = frozenset({GAME, JOURNAL, _LOCK, _OBSERVATIONS, _BASELINE, _SAMPLES, _MEASUREMENTS})
_OBSERVATIONS_ADAPTER: Final = TypeAdapter(tuple[Observation, ...])
_SAMPLES_ADAPTER: Final = TypeAdapter(tuple[Sample, ...])
_MEASUREMENTS_ADAPTER: Final = TypeAdapter(Measurements)
_PLAN_ADAPTER: Final = TypeAdapter(IncidentPlan)


@dataclass(frozen=True, slots=True)
class _Sealed:
    """The hidden plan; `salt` keeps its digest from being guessed."""

    salt: str
    incident: IncidentPlan


_DETAILS: Final = {EventKind.SEATED: "access", EventKind.BEGUN: "move"}  # of the others "word"
_AGAIN: Final = "Start another incident: drlib incident start --seed N"
_SEALED_ADAPTER: Final = TypeAdapter(_Sealed)


class IncidentRecord:
    """The files of the incident in the existing `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # -- journals ------------------------------------------------------------------------------------------------------

    def write(self, event: EventKind, **data: Scalar) -> None:
        """Append one line to the public journal; it is on disk when this returns."""
        self._append(self.folder / JOURNAL, event, data)

    def write_sealed(self, event: EventKind, **data: Scalar) -> None:
        """Append one line to the sealed journal, which players see after the end."""
        self._append(self.folder / GAME / JOURNAL, event, data)

    def lines(self) -> tuple[Line, ...]:
        """Return the verified public journal. Raises `JournalTampered`, and `UsageError` where there is none."""
        return self._lines(self.folder / JOURNAL)

    def events(self) -> tuple[IncidentEvent, ...]:
        """Return the events of both journals in the order in which they happened."""
        start, *public = self.lines()
        path = self.folder / GAME / JOURNAL
        sealed = self._lines(path) if path.exists() else ()
        begin = datetime.fromisoformat(start.at)
        # The sort is stable: within a millisecond sealed lines come first, because a cause precedes its symptoms.
        ordered = [start, *sorted((*sealed, *public), key=lambda line: line.at)]
        return tuple(_event(line, (datetime.fromisoformat(line.at) - begin).total_seconds()) for line in ordered)

    def started_ms(self) -> int:
        """When the incident was started, ms since the epoch."""
        return round(datetime.fromisoformat(self.lines()[0].at).timestamp() * 1000)

    def injected_causes(self) -> tuple[InjectedCause, ...]:
        return tuple(event.cause for event in self.events() if event.kind is EventKind.CAUSE_IN and event.cause)

    def finished(self) -> bool:
        return any(line.event == EventKind.FINISHED for line in self.lines())

    # -- the sealed plan -----------------------------------------------------------------------------------------------

    def seal_plan(self, plan: IncidentPlan) -> str:
        """Write the plan, with a salt, to the hidden folder; returns its digest."""
        (self.folder / GAME).mkdir(mode=0o700, exist_ok=True)
        body = json.dumps({"salt": secrets.token_hex(16), "incident": _PLAN_ADAPTER.dump_python(plan, mode="json")})
        write_whole(self.folder / GAME / _PLAN, body)
        return hashlib.sha256(body.encode()).hexdigest()

    def plan(self) -> IncidentPlan:
        """Return the plan. Raises `UsageError` if it is not the one that was sealed."""
        body = read_stored(self.folder / GAME / _PLAN)
        if hashlib.sha256(body).hexdigest() != self.lines()[0].data.get("sealed"):
            raise UsageError(
                "the incident is not the one that was started",
                f"its sealed plan {GAME}/{_PLAN} was changed",
                "Start another incident: the score of this one proves nothing.",
            )
        return decoding.json_as(_SEALED_ADAPTER, body).incident

    # -- observations and measurements ---------------------------------------------------------------------------------

    def save_observations(self, observations: tuple[Observation, ...]) -> None:
        write_whole(self.folder / _OBSERVATIONS, _OBSERVATIONS_ADAPTER.dump_json(observations))

    def observations(self) -> tuple[Observation, ...]:
        """Return the observations of the last seconds, oldest first; empty before the first one."""
        return self._stored(_OBSERVATIONS, _OBSERVATIONS_ADAPTER)

    def save_samples(self, samples: Sequence[Sample]) -> None:
        write_whole(self.folder / _SAMPLES, _SAMPLES_ADAPTER.dump_json(thinned(samples)), durable=False)

    def samples(self) -> tuple[Sample, ...]:
        """Return what was sampled since the start, oldest first; empty where nothing was."""
        return self._stored(_SAMPLES, _SAMPLES_ADAPTER)

    def save_baseline(self, observation: Observation) -> None:
        write_whole(self.folder / _BASELINE, _OBSERVATIONS_ADAPTER.dump_json((observation,)))

    def baseline(self) -> Observation:
        """Return the observation from before the incident. Raises `UsageError` before it was made."""
        observations = self._stored(_BASELINE, _OBSERVATIONS_ADAPTER)
        if not observations:
            raise UsageError(
                "the incident has not begun", "its lab is still starting", "Wait until drlib incident start returns."
            )
        return observations[0]

    def save_measurements(self, measurements: Measurements) -> None:
        write_whole(self.folder / _MEASUREMENTS, _MEASUREMENTS_ADAPTER.dump_json(measurements))

    def measurements(self) -> Measurements:
        """Return what was measured at the end. Raises `UsageError` before the end."""
        try:
            return read_json(self.folder / _MEASUREMENTS, _MEASUREMENTS_ADAPTER)
        except FileNotFoundError:
            raise UsageError(
                "the incident is not over", "it was not measured yet", "Finish it: drlib incident finish"
            ) from None

    def _stored(self, name: str, kind: TypeAdapter[tuple[Stored, ...]]) -> tuple[Stored, ...]:
        try:
            return read_json(self.folder / name, kind)
        except FileNotFoundError:
            return ()

    def _append(self, path: Path, event: EventKind, data: dict[str, Scalar]) -> None:
        with self._locked():
            journal = DrillJournal(path)
            try:
                journal.write(event.value, **data)
            finally:
                journal.close()

    def _lines(self, path: Path) -> tuple[Line, ...]:
        if not path.exists():
            raise UsageError(
                f"no incident in {path.parent.name}", "it has no journal", "Start one: drlib incident start --seed N"
            )
        with self._locked():
            lines = read(path)
        if not lines:
            raise UsageError(f"no incident in {path.parent.name}", "its journal is empty", _AGAIN)
        return lines

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with alone(self.folder, _LOCK, "its journal is being written", "Try again.", patience_s=20.0):
            yield


def _event(line: Line, at_s: float) -> IncidentEvent:
    """The event of a journal's line. Raises `UsageError` for a line that no incident writes."""
    data = line.data
    cause = move = None
    try:
        kind = EventKind(line.event)
    except ValueError:
        raise _foreign(line) from None
    if kind is EventKind.CAUSE_IN:
        cause = InjectedCause(*(_named(line, name) for name in ("cause", "where", "how")))
    if kind is EventKind.ACTED:
        move = parse_move([_named(line, "move")])
    detail = str(data.get(_DETAILS.get(kind, "word"), ""))
    return IncidentEvent(at_s, kind, cause, move, detail, bool(data.get("failed", False)), str(data.get("seat", "")))


def _named(line: Line, name: str) -> str:
    if name not in line.data:
        raise _foreign(line)
    return str(line.data[name])


def _foreign(line: Line) -> UsageError:
    return UsageError(
        "the journal of the incident cannot be used", f"line {line.seq + 1} is none of an incident", _AGAIN
    )
