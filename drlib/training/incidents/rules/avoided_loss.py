"""What an earlier correct first move would have avoided: the recorded history, replayed with that move at the first symptom.

Rules: pure. The replay is the record up to the first symptom, then what was recorded after the first right move, moved to
follow it at once; what lies between is left out, with the wrong moves that were made there. So it is an estimate: what
followed the move is taken as recorded, although less would have had to be caught up. Nothing is guessed: a number that the
samples do not give is None, and why nothing can be said is in words.
Not for: points (`score`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, TypeVar

from drlib import formats
from drlib.training.incidents.rules.score import (
    EventKind,
    IncidentEvent,
    Measurements,
    MoveRating,
    rated_moves,
    recovered_since,
)
from drlib.training.incidents.rules.symptoms import Observation, comparison_point, is_stalled

M = TypeVar("M")

MOST_SAMPLES: Final = 2_000
_GAP_S: Final = 30.0  # without a sample for longer, what happened meanwhile is unknown


@dataclass(frozen=True, slots=True)
class Sample:
    """The testbed at one moment; None for what could not be observed.

    `unmirrored`: records that LEFT had acknowledged and RIGHT did not have. `expired`: those of them that LEFT had deleted;
    the mirror continues behind such a hole, and then it is 0 again. `stalled`: applications without progress, or ended.
    """

    at_ms: int
    unmirrored: int | None
    expired: int | None
    stalled: int | None


@dataclass(frozen=True, slots=True)
class Losses:
    """What a stretch of samples cost; None where they do not say it.

    `outage_s`: from the first symptom to the recovery. `stalled_s`: seconds without progress, summed over the applications.
    `expired`: records deleted on LEFT that RIGHT never had. `at_risk`: the most records at one time that only LEFT had.
    """

    outage_s: float | None
    stalled_s: float | None
    expired: int | None
    at_risk: int | None


@dataclass(frozen=True, slots=True)
class AvoidedLoss:
    """`late_s`: seconds from the first symptom to the first right move `move`. `lost`: records missing at the end, as measured.

    `actual` and `replayed` are None, and `unknown` says why, where nothing can be computed.
    """

    move: str = ""
    late_s: float | None = None
    actual: Losses | None = None
    replayed: Losses | None = None
    lost: int | None = None
    unknown: str = ""


def sample_of(observations: Sequence[Observation], baseline: Observation) -> Sample:
    """The sample of the last of `observations` (oldest first)."""
    now, before = observations[-1], comparison_point(observations)
    holes = [
        None if topic.start is None or topic.mirrored is None else max(0, topic.start - topic.mirrored)
        for topic in now.topics
    ]
    stalled = None
    if before is not None:
        known = {application.name: application for application in now.applications}
        wanted = (known.get(application.name) for application in baseline.applications)
        stalled = sum(one is None or one.phase == "gone" or is_stalled(before, one) for one in wanted)
    return Sample(now.at_ms, _sum([topic.lag for topic in now.topics]), _sum(holes), stalled)


def thinned(moments: Sequence[M], most: int = MOST_SAMPLES) -> tuple[M, ...]:
    """At most `most` of them, every second one left out where there are more, but not the last."""
    kept = tuple(moments)
    while len(kept) > most:
        kept = (*kept[:-1:2], kept[-1])
    return kept


def avoided_loss(
    events: Sequence[IncidentEvent], samples: Sequence[Sample], started_ms: int, measurements: Measurements
) -> AvoidedLoss:
    """What the first right move would have avoided at the first symptom. `events`, `samples`: in order, of the whole incident;
    `started_ms`: when it was started."""
    symptom_s, move = _first_symptom(events), _first_right_move(events)
    if symptom_s is None:
        return AvoidedLoss(unknown="no symptom was seen after a fault, so that no move could have answered one")
    if move is None:
        return AvoidedLoss(unknown="no right move was made, so that the record does not show what follows one")
    text, late_s = str(move.move), max(0.0, round(move.at_s - symptom_s, 1))
    symptom_ms, move_ms = (started_ms + round(at_s * 1000) for at_s in (symptom_s, max(move.at_s, symptom_s)))
    recovered_s = recovered_since(events) if measurements.recovered else None
    end_ms = started_ms + round((events[-1].at_s if recovered_s is None else max(recovered_s, symptom_s)) * 1000)
    seen = with_all_expired([sample for sample in samples if sample.at_ms <= end_ms])
    if not [sample for sample in seen if sample.at_ms <= symptom_ms]:
        return AvoidedLoss(text, late_s, lost=measurements.lost, unknown="there are no samples from before the symptom")
    outage_s = None if recovered_s is None else max(0.0, recovered_s - symptom_s)
    shorter_s = None if outage_s is None else max(0.0, outage_s - late_s)
    return AvoidedLoss(
        text,
        late_s,
        losses(seen, symptom_ms, outage_s),
        losses(replayed(seen, symptom_ms, move_ms), symptom_ms, shorter_s),
        measurements.lost,
    )


def replayed(samples: Sequence[Sample], symptom_ms: int, move_ms: int) -> tuple[Sample, ...]:
    """The samples as they would be with the move of `move_ms` at `symptom_ms`."""
    before = [sample for sample in samples if sample.at_ms <= symptom_ms]
    until = [sample for sample in samples if sample.at_ms <= move_ms]
    unmirrored = [_last(sample.unmirrored for sample in part) for part in (before, until)]
    expired = [_last(sample.expired for sample in part) for part in (before, until)]
    after = (
        Sample(
            sample.at_ms - (move_ms - symptom_ms),
            _shifted(sample.unmirrored, *unmirrored),
            _shifted(sample.expired, *expired),
            sample.stalled,
        )
        for sample in samples
        if sample.at_ms > move_ms
    )
    return (*before, *after)


def with_all_expired(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """The same with `expired` counted from the first sample on."""
    counted, total, hole = [], 0, _last(sample.expired for sample in samples[:1])
    for sample in samples:
        if sample.expired is not None:
            total += 0 if hole is None else max(0, sample.expired - hole)
            hole = sample.expired
        counted.append(replace(sample, expired=None if sample.expired is None else total))
    return tuple(counted)


def losses(samples: Sequence[Sample], from_ms: int, outage_s: float | None) -> Losses:
    """What the samples from `from_ms` on show; the last one before it is where they begin. `expired` counts all of them."""
    first = max((number for number, sample in enumerate(samples) if sample.at_ms <= from_ms), default=0)
    counted = samples[first:]
    if any(later.at_ms - earlier.at_ms > _GAP_S * 1000 for earlier, later in pairwise(counted)):
        return Losses(outage_s, None, None, None)
    known = [sample.unmirrored for sample in counted if sample.unmirrored is not None]
    return Losses(outage_s, _stalled_s(counted), _expired(counted), max(known, default=None))


def in_words(avoided: AvoidedLoss) -> tuple[str, ...]:
    """What an earlier correct decision would have avoided, in sentences, with how it was computed."""
    if avoided.late_s is None or avoided.actual is None or avoided.replayed is None:
        return (f"What an earlier right move would have avoided is unknown: {avoided.unknown}.",)
    if not avoided.late_s:
        return (f"The first right move, {avoided.move}, was made before or at the first symptom.",)
    return (
        f"The first right move, {avoided.move}, came {formats.duration(avoided.late_s)} after the first symptom."
        " At once it would have avoided (an estimate):",
        *_compared(avoided.actual, avoided.replayed),
        *_lost(avoided),
        "Computed by replay: the record up to the first symptom, then what was recorded after that move; what lies between"
        " is left out. What followed the move is taken as recorded.",
    )


def _compared(actual: Losses, replay: Losses) -> Iterator[str]:
    for name, before, after in (
        ("time from the first symptom to the recovery", actual.outage_s, replay.outage_s),
        ("applications without progress, times added up", actual.stalled_s, replay.stalled_s),
    ):
        saved = None if before is None or after is None else max(0.0, before - after)
        yield f"{name}: {_of(formats.duration(saved), formats.duration(before), saved)}"
    for name, whole, rest in (
        ("records that LEFT deleted before they were mirrored", actual.expired, replay.expired),
        ("the most records at risk, which only LEFT had", actual.at_risk, replay.at_risk),
    ):
        fewer = None if whole is None or rest is None else max(0, whole - rest)
        yield f"{name}: {_of(formats.count(fewer), formats.count(whole), fewer)}"


def _of(saved: str, whole: str, known: float | None) -> str:
    return formats.UNKNOWN if known is None else f"{saved} of {whole}"


def _lost(avoided: AvoidedLoss) -> Iterator[str]:
    """What the samples do not explain of the records that were missing at the end."""
    assert avoided.actual is not None
    if avoided.lost is None:
        yield "how many records were lost at the end was not measured"
    elif avoided.lost > (avoided.actual.expired or 0):
        rest = avoided.lost - (avoided.actual.expired or 0)
        yield f"of {formats.records(avoided.lost)} lost at the end {rest:,} went missing when no sample shows: unknown"


def _first_symptom(events: Sequence[IncidentEvent]) -> float | None:
    """The first symptom that was seen after a fault, or that was there then already."""
    injected = False
    for event in events:
        injected = injected or event.kind is EventKind.CAUSE_IN
        if injected and event.kind is EventKind.SYMPTOM:
            return event.at_s
    return None


def _first_right_move(events: Sequence[IncidentEvent]) -> IncidentEvent | None:
    return next((event for event, rating in rated_moves(events) if rating is MoveRating.RIGHT), None)


def _stalled_s(samples: Sequence[Sample]) -> float | None:
    total = 0.0
    for earlier, later in pairwise(samples):
        if earlier.stalled is None:
            return None
        total += earlier.stalled * (later.at_ms - earlier.at_ms) / 1000
    return round(total, 1)


def _expired(samples: Sequence[Sample]) -> int | None:
    known = [sample.expired for sample in samples if sample.expired is not None]
    return known[-1] - known[0] if len(known) > 1 else None


def _last(values: Iterable[int | None]) -> int | None:
    return next((value for value in reversed(tuple(values)) if value is not None), None)


def _shifted(value: int | None, base: int | None, moved: int | None) -> int | None:
    return None if base is None or value is None or moved is None else max(0, base + value - moved)


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
