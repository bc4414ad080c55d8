"""Decide whether records that look like copies return to the source because the flow copies them.

Rules:
- Equal records are no proof: clients write equal records, retry, replay and restore, and so do other replicators. What no
  client does is to stop when the flow holds the partition back, and to write the same records again when it continues.
- So a suspicion leads to a trial: `HOLDS` times the partition is held back. First what was copied before may still arrive
  (`DRAIN`), then no record under suspicion may be appended to the source (`SILENCE`), then the partition is copied again and
  one of them has to return (`RETURN`). One that is appended in a silence, or none that returns, refutes the suspicion.
- All durations follow the longest of the last intervals at which the record was seen: whatever writes it by itself at such
  intervals would have written it in a silence, which lasts `SILENT_INTERVALS` of them. Something that writes in bursts is
  silent between them; it would have to write the next one soon after the first silence, and then not for more than twice as
  long: the later silence lasts `LONGER` times what the first one and its return may take.
- What cannot be asked decides nothing (`UNKNOWN`): the loop, if it is one, is suspected again.
Not for: which records are meant (`suspicion`, `sightings`), nor for holding back and asking the source (`watch`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

HOLDS: Final = 2
"""Silences, each followed by a return, before records count as returned."""
LEAST_INTERVAL_S: Final = 0.1
SLOWEST_INTERVAL_S: Final = 5.0
"""Records that are seen again less often than this are not put to a trial: it would hold the partition back for minutes."""
SILENT_INTERVALS: Final = 4
LEAST_SILENCE_S: Final = 1.0
LONGER: Final = 2
DRAIN_INTERVALS, LEAST_DRAIN_S = 2, 0.5
RETURN_INTERVALS, LEAST_RETURN_S = 5, 3.0
BUSY_S: Final = 30.0
"""How long the target may take to acknowledge what was sent before the partition was held back."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 300.0


class Phase(StrEnum):
    """Where a trial is."""

    DRAIN = "held back, what was copied before may still return"
    SILENCE = "held back, nothing may return"
    RETURN = "copied again, records have to return"
    RETURNED = "records return because the flow copies them"
    REFUTED = "the records are written by something else"
    UNKNOWN = "a cluster did not answer, or the partition is not copied any more"


MOVES: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.DRAIN: frozenset({Phase.SILENCE, Phase.UNKNOWN}),
    Phase.SILENCE: frozenset({Phase.RETURN, Phase.REFUTED, Phase.UNKNOWN}),
    Phase.RETURN: frozenset({Phase.DRAIN, Phase.RETURNED, Phase.REFUTED, Phase.UNKNOWN}),
    Phase.RETURNED: frozenset(),
    Phase.REFUTED: frozenset(),
    Phase.UNKNOWN: frozenset(),
}
HELD: Final = frozenset({Phase.DRAIN, Phase.SILENCE})
ENDS: Final = frozenset(phase for phase, following in MOVES.items() if not following)


@dataclass(frozen=True, slots=True)
class Trial:
    """A suspicion on trial. `interval_s`: the longest of the last intervals at which the record was seen; `until`: when the
    phase ends, in seconds of the caller's clock; `silences`: how many are behind it."""

    phase: Phase
    interval_s: float
    until: float
    silences: int = 0

    def _to(self, phase: Phase, until: float, *, silences: int | None = None) -> Trial:
        if phase not in MOVES[self.phase]:
            raise AssertionError(f"a trial cannot go from {self.phase.name} to {phase.name}")
        return replace(self, phase=phase, until=until, silences=self.silences if silences is None else silences)

    def drained(self, now: float, *, idle: bool) -> Trial:
        """At a moment of `DRAIN`. `idle`: the target has acknowledged all that was sent."""
        if now < self.until:
            return self
        if idle:
            return self._to(Phase.SILENCE, now + silence_s(self.interval_s, self.silences))
        return self if now < self.until + BUSY_S else self.unknown(now)

    def silent(self, now: float, *, found: bool) -> Trial:
        """After a silence. `found`: a record under suspicion was appended to the source in it."""
        if found:
            return self._to(Phase.REFUTED, now)
        return self._to(Phase.RETURN, now + return_s(self.interval_s), silences=self.silences + 1)

    def returned(self, now: float) -> Trial:
        """A record under suspicion was appended to the source after the silence, and its copy before was acknowledged."""
        if self.silences >= HOLDS:
            return self._to(Phase.RETURNED, now)
        return self._to(Phase.DRAIN, now + drain_s(self.interval_s))

    def missed(self, now: float) -> Trial:
        """At a moment of `RETURN` without one."""
        return self if now < self.until else self._to(Phase.REFUTED, now)

    def unknown(self, now: float) -> Trial:
        """Nothing can be found out now."""
        return self if self.phase in ENDS else self._to(Phase.UNKNOWN, now)


def begin(interval_s: float, now: float) -> Trial:
    """The trial of a record that was seen again at most `interval_s` after the time before."""
    interval_s = max(LEAST_INTERVAL_S, interval_s)
    return Trial(Phase.DRAIN, interval_s, now + drain_s(interval_s))


def drain_s(interval_s: float) -> float:
    """How long what was copied before may take to return."""
    return LEAST_DRAIN_S + DRAIN_INTERVALS * interval_s


def silence_s(interval_s: float, silences: int) -> float:
    """How long nothing may return, where so many silences are behind it."""
    first = max(LEAST_SILENCE_S, SILENT_INTERVALS * interval_s)
    return first if not silences else LONGER * (first + return_s(interval_s))


def held_s(interval_s: float) -> float:
    """How long a partition is held back in all."""
    return sum(drain_s(interval_s) + silence_s(interval_s, silences) for silences in range(HOLDS))


def return_s(interval_s: float) -> float:
    """How long a record may take to return once the partition is copied again; it is not held back meanwhile."""
    return max(LEAST_RETURN_S, RETURN_INTERVALS * interval_s)


def pause_s(refuted: int, lasted_s: float) -> float:
    """How long a partition has peace after its `refuted`th suspicion in a row that was no loop, on trial for `lasted_s`."""
    return max(lasted_s, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(refuted - 1, 20)))
