"""Parse and render offsets that applications keep outside Kafka; the output has the form of the input.

Two forms are supported. *Rows*: a JSON list of objects with `topic`, `partition` and `offset`; other fields of a row (a job's
name, a table's key) are kept. *Spark*: `{"topic": {"0": 42}}`, the format of Structured Streaming's `startingOffsets` and of
its checkpoints (`JsonUtils.partitionOffsets`).
Rules: an offset is the next one to read, as in Kafka's committed offsets and in Spark's checkpoints. An unknown position is
null in rows. Spark's form cannot express one, and is refused: a partition that is left out would silently start from the
beginning. A checkpoint's position is the end of its last *committed* batch (`OffsetSeqLog`, `CommitLog`); a later batch that
was planned and not committed is reported, since only the sink knows how much of it was written.
Not for: reading files (`drlib.mirror.offsets.translation.external_files`), translating
(`drlib.mirror.offsets.translation.external_offsets`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.errors import UsageError
from drlib.model import OffsetTranslation, TopicPartition, TranslationKind

_EXAMPLE: Final = 'Write [{"topic": "orders", "partition": 0, "offset": 42}], or {"orders": {"0": 42}} as Spark does.'
_SKIPS_NOTHING: Final = (TranslationKind.EXACT, TranslationKind.BEHIND, TranslationKind.BOUNDED)
_PARTITION: Final = re.compile(r"[0-9]{1,10}")
_VERSION: Final = "v1"  # of Spark's offset log
MOST_SOURCES: Final = 1_000  # of one query


class OffsetsForm(StrEnum):
    ROWS = "rows"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class ExternalPosition:
    """One position that an application keeps; `extra`: the other fields of its row, as (name, value)."""

    partition: TopicPartition
    offset: int
    extra: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class ExternalOffsets:
    """Positions in the order of the input. `notices`: what the operator has to know before moving the application."""

    form: OffsetsForm
    positions: tuple[ExternalPosition, ...]
    notices: tuple[str, ...] = ()


def parse(text: str, origin: str) -> ExternalOffsets:
    """Parse the offsets in `text`; `origin` names it in errors. Raises `UsageError` for anything that is no position."""
    try:
        value = decoding.json_value(text)
    except Undecodable as error:
        raise UsageError(f"{origin} holds no offsets", str(error), _EXAMPLE) from None
    if isinstance(value, list):
        rows = tuple(_row(row, f"{origin}, row {number}") for number, row in enumerate(value, start=1))
        offsets = ExternalOffsets(OffsetsForm.ROWS, rows)
    elif isinstance(value, dict):
        offsets = ExternalOffsets(OffsetsForm.SPARK, _spark(value, origin))
    else:
        raise UsageError(f"{origin} holds no offsets", f"it is a JSON {type(value).__name__}", _EXAMPLE)
    if not offsets.positions:
        raise UsageError(f"{origin} holds no offsets", "it is empty", _EXAMPLE)
    return offsets


def _row(row: object, origin: str) -> ExternalPosition:
    if not isinstance(row, dict):
        raise UsageError(f"{origin} is no position", f"it is {json.dumps(row)}", _EXAMPLE)
    if missing := [name for name in ("topic", "partition", "offset") if name not in row]:
        raise UsageError(f"{origin} is no position", f"it has no {' and no '.join(missing)}", _EXAMPLE)
    extra = tuple((name, value) for name, value in row.items() if name not in ("topic", "partition", "offset"))
    return ExternalPosition(_partition(row["topic"], row["partition"], origin), _offset(row["offset"], origin), extra)


def _spark(value: Mapping[str, object], origin: str) -> tuple[ExternalPosition, ...]:
    positions = []
    for topic, offsets in value.items():
        if not isinstance(offsets, dict):
            raise UsageError(f"{origin} holds no offsets of {topic}", f"its value is {json.dumps(offsets)}", _EXAMPLE)
        for partition, offset in offsets.items():
            where = f"{origin}, {topic}-{partition}"
            positions.append(ExternalPosition(_partition(topic, partition, where), _offset(offset, where)))
    return tuple(sorted(positions, key=lambda position: position.partition))


def _partition(topic: object, partition: object, origin: str) -> TopicPartition:
    number = int(partition) if isinstance(partition, str) and _PARTITION.fullmatch(partition) else partition
    if not isinstance(topic, str) or not topic:
        raise UsageError(f"{origin} is no position", f"{json.dumps(topic)} is no topic", _EXAMPLE)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 31:
        raise UsageError(f"{origin} is no position", f"{json.dumps(partition)} is no partition", _EXAMPLE)
    return TopicPartition(topic, number)


def _offset(offset: object, origin: str) -> int:
    if isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0:
        return offset
    why = f"{json.dumps(offset)} is no offset"
    if offset in (-1, -2):
        why = f"{offset} means the {'end' if offset == -1 else 'start'} of the log at the time it is read"
    raise UsageError(f"{origin} is no position", why, "Give the next offset to read, from 0 up.")


def checkpoint_offsets(
    batch: int, text: str, planned: tuple[int, str] | None, *, stateful: bool, origin: str
) -> ExternalOffsets:
    """Parse the offset-log file `text` of a checkpoint's last committed `batch`.

    `planned`: number and text of a later batch that was planned and not committed. Raises `UsageError` for an offset log of
    an unknown version, and for one without a Kafka source.
    """
    sources = _offset_log(text, f"{origin}, batch {batch}")
    merged: dict[TopicPartition, int] = {}
    other_sources = 0
    for source in sources:
        if source is None:
            other_sources += 1
            continue
        for position in source:
            if merged.setdefault(position.partition, position.offset) != position.offset:
                raise UsageError(
                    f"{origin} has two positions in {position.partition}",
                    "two sources of the query read this partition, and are at different offsets",
                    "Give each source's own offsets as a JSON file, one after the other.",
                )
    if not merged:
        raise UsageError(
            f"{origin} holds no offsets of Kafka", "no source of its query is a topic", "Name the right folder."
        )
    notices = []
    if other_sources:
        notices.append(f"{other_sources} other source(s) of the query are no topics, and are not translated")
    if planned is not None:
        planned_ends = {p.partition: p.offset for source in _offset_log(planned[1], origin) for p in source or ()}
        records = sum(max(0, end - merged.get(partition, end)) for partition, end in planned_ends.items())
        notices.append(
            f"batch {planned[0]} was planned and not committed: only the sink knows which of its {records} offsets were "
            "written; they are read again"
        )
    if stateful:
        notices.append(
            "the query keeps state (folder state), which is not translated: on the other cluster it starts empty"
        )
    positions = tuple(ExternalPosition(partition, offset) for partition, offset in sorted(merged.items()))
    return ExternalOffsets(OffsetsForm.SPARK, positions, tuple(notices))


def _offset_log(text: str, origin: str) -> list[tuple[ExternalPosition, ...] | None]:
    """The positions of each source; None for a source that is no topic.

    The file has a line `v1`, a line of metadata, then one line a source.
    """
    lines = text.removesuffix("\n").split("\n", MOST_SOURCES + 2)
    if lines[0].strip() != _VERSION or len(lines) < 3:
        raise UsageError(
            f"{origin} cannot be read",
            f"it begins with '{lines[0][:20]}'; only offset logs of version {_VERSION[1:]} are supported",
            "Give the positions as a JSON file instead.",
        )
    if len(lines) > MOST_SOURCES + 2:
        why = f"it has more than {MOST_SOURCES} lines of sources"
        raise UsageError(f"{origin} cannot be read", why, "Give the positions as a JSON file instead.")
    sources: list[tuple[ExternalPosition, ...] | None] = []
    for line in lines[2:]:
        try:
            value = decoding.json_value(line)
        except Undecodable as error:  # "-" is a source without an offset yet; other sources have formats of their own
            if line.startswith("{"):
                raise UsageError(f"{origin} cannot be read", str(error), _EXAMPLE) from None
            sources.append(None)
            continue
        if isinstance(value, dict) and value and all(isinstance(inner, dict) for inner in value.values()):
            sources.append(_spark(value, origin))
        else:
            sources.append(None)
    return sources


def render(offsets: ExternalOffsets, translations: Sequence[OffsetTranslation], form: OffsetsForm) -> str:
    """Render `translations`, one for each position of `offsets` in the same order, as JSON of `form`.

    Raises `UsageError` where Spark's form cannot express them: an unknown position, or two positions in one partition.
    """
    if form is OffsetsForm.ROWS:
        pairs = zip(offsets.positions, translations, strict=True)
        return json.dumps([_translated_row(position, translation) for position, translation in pairs], indent=2)
    rendered: dict[str, dict[str, int]] = {}
    for item in translations:
        if not item.known or item.target is None or item.translation.offset is None:
            raise UsageError(
                f"{item.source} has no known position on the other cluster, and Spark's form cannot express that",
                item.why,
                "Ask for rows ('--as rows') to see the others.",
            )
        partitions = rendered.setdefault(item.target.topic, {})
        if partitions.setdefault(str(item.target.partition), item.translation.offset) != item.translation.offset:
            raise UsageError(
                f"{item.target} would have two positions",
                "several rows name its source partition, and Spark's form has one position a partition",
                "Translate each application's rows by themselves, or ask for rows.",
            )
    return json.dumps(rendered)


def _translated_row(position: ExternalPosition, item: OffsetTranslation) -> dict[str, object]:
    return {
        "topic": item.target.topic if item.target is not None else None,
        "partition": position.partition.partition,
        "offset": item.translation.offset if item.known else None,
        **dict(position.extra),
        "kind": item.translation.kind.value,
        "records": item.translation.records,
        "source_topic": position.partition.topic,
        "source_offset": position.offset,
        "why": item.why,
    }


def skips_no_record(translations: Sequence[OffsetTranslation]) -> bool:
    """True where an application can resume at every one of `translations` without skipping a record."""
    return all(item.known and item.translation.kind in _SKIPS_NOTHING for item in translations)
