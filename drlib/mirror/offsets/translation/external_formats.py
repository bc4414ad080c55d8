"""Offsets that applications keep for themselves, as text: what is read is given back in the same form, translated.

Two forms are known. *Rows*: a JSON list of objects with `topic`, `partition` and `offset`; what else a row has (the name of a
job, a table's key) stays as it is. *Spark*: `{"topic": {"0": 42}}`, what Structured Streaming takes as `startingOffsets`
and writes into its checkpoints (`JsonUtils.partitionOffsets`).
Rules: an offset is the next one to read, as Kafka's consumers commit it, and as Spark's checkpoints have it. A position that
cannot be said is null in rows and has no place in Spark's form, because a partition left out would begin anew without a word.
A checkpoint's position is the end of its last *committed* batch (`OffsetSeqLog`, `CommitLog`); a batch that was planned
behind it is told, since only the sink knows what of it was written.
Not for: reading files (`drlib.mirror.offsets.translation.external_files`), translating
(`drlib.mirror.offsets.translation.external_offsets`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib.errors import UsageError
from drlib.model import OffsetTranslation, TopicPartition, TranslationKind

_FORM: Final = 'Write [{"topic": "orders", "partition": 0, "offset": 42}], or {"orders": {"0": 42}} as Spark does.'
_RESUMES: Final = (TranslationKind.EXACT, TranslationKind.BEHIND, TranslationKind.BOUNDED)
_VERSION: Final = "v1"  # of Spark's offset log


class Form(StrEnum):
    ROWS = "rows"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Kept:
    """One position that an application keeps; `rest`: whatever else its row has."""

    partition: TopicPartition
    offset: int
    rest: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class KeptOffsets:
    """`notices`: what whoever moves the application should know of what was read."""

    form: Form
    positions: tuple[Kept, ...]
    notices: tuple[str, ...] = ()


def parse(text: str, origin: str) -> KeptOffsets:
    """The offsets in `text`; `origin` names it in errors. Raises `UsageError` for anything that is no position."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{origin} holds no offsets", f"it is no JSON: {error}", _FORM) from None
    if isinstance(found, list):
        kept = KeptOffsets(Form.ROWS, tuple(_row(one, f"{origin}, row {n}") for n, one in enumerate(found, start=1)))
    elif isinstance(found, dict):
        kept = KeptOffsets(Form.SPARK, _spark(found, origin))
    else:
        raise UsageError(f"{origin} holds no offsets", f"it is a JSON {type(found).__name__}", _FORM)
    if not kept.positions:
        raise UsageError(f"{origin} holds no offsets", "it is empty", _FORM)
    return kept


def _row(row: object, origin: str) -> Kept:
    if not isinstance(row, dict):
        raise UsageError(f"{origin} is no position", f"it is {json.dumps(row)}", _FORM)
    if missing := [name for name in ("topic", "partition", "offset") if name not in row]:
        raise UsageError(f"{origin} is no position", f"it has no {' and no '.join(missing)}", _FORM)
    rest = tuple((name, value) for name, value in row.items() if name not in ("topic", "partition", "offset"))
    return Kept(_partition(row["topic"], row["partition"], origin), _offset(row["offset"], origin), rest)


def _spark(found: Mapping[str, object], origin: str) -> tuple[Kept, ...]:
    kept = []
    for topic, offsets in found.items():
        if not isinstance(offsets, dict):
            raise UsageError(f"{origin} holds no offsets of {topic}", f"it has {json.dumps(offsets)} there", _FORM)
        for partition, offset in offsets.items():
            where = f"{origin}, {topic}-{partition}"
            kept.append(Kept(_partition(topic, partition, where), _offset(offset, where)))
    return tuple(sorted(kept, key=lambda one: one.partition))


def _partition(topic: object, partition: object, origin: str) -> TopicPartition:
    number = int(partition) if isinstance(partition, str) and partition.isdecimal() else partition
    if not isinstance(topic, str) or not topic:
        raise UsageError(f"{origin} is no position", f"{json.dumps(topic)} is no topic", _FORM)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise UsageError(f"{origin} is no position", f"{json.dumps(partition)} is no partition", _FORM)
    return TopicPartition(topic, number)


def _offset(offset: object, origin: str) -> int:
    if isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0:
        return offset
    why = f"{json.dumps(offset)} is no offset"
    if offset in (-1, -2):
        why = (
            f"{offset} stands for the {'end' if offset == -1 else 'start'} of the log, wherever that is when it is read"
        )
    raise UsageError(f"{origin} is no position", why, "Give the next offset to read, from 0 up.")


def checkpoint_position(
    batch: int, text: str, planned: tuple[int, str] | None, *, stateful: bool, origin: str
) -> KeptOffsets:
    """What the offset log of a checkpoint says of its last committed `batch`, and of one `planned` behind it.

    Raises `UsageError` where it is no offset log that is known here, or has no Kafka source.
    """
    sources = _logged(text, f"{origin}, batch {batch}")
    merged: dict[TopicPartition, int] = {}
    others = 0
    for source in sources:
        if source is None:
            others += 1
            continue
        for one in source:
            if merged.setdefault(one.partition, one.offset) != one.offset:
                raise UsageError(
                    f"{origin} has two positions in {one.partition}",
                    "two sources of the query read it, and stand at different offsets",
                    "Give each source's own offsets as a JSON file, one after the other.",
                )
    if not merged:
        raise UsageError(
            f"{origin} holds no offsets of Kafka", "no source of its query is a topic", "Name the right folder."
        )
    notices = []
    if others:
        notices.append(f"{others} other source(s) of the query are no topics, and are not translated")
    if planned is not None:
        following = {one.partition: one.offset for part in _logged(planned[1], origin) for one in part or ()}
        records = sum(max(0, end - merged.get(partition, end)) for partition, end in following.items())
        notices.append(
            f"batch {planned[0]} was planned and not committed: of its {records} offsets only the sink knows what was "
            "written; they are read again"
        )
    if stateful:
        notices.append("the query keeps state (folder state), which offsets do not move: it begins empty over there")
    return KeptOffsets(Form.SPARK, tuple(Kept(p, o) for p, o in sorted(merged.items())), tuple(notices))


def _logged(text: str, origin: str) -> list[tuple[Kept, ...] | None]:
    """By source: its positions, None for a source that is no topic. After `v1` comes a line of metadata, then the sources."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != _VERSION or len(lines) < 3:
        raise UsageError(
            f"{origin} cannot be read",
            f"it begins with '{lines[0][:20] if lines else ''}', and offset logs of version {_VERSION[1:]} are known here",
            "Give the positions as a JSON file instead.",
        )
    found: list[tuple[Kept, ...] | None] = []
    for line in lines[2:]:
        try:
            value = json.loads(line)
        except json.JSONDecodeError:  # "-" stands for a source that had nothing yet; others write what they like
            found.append(None)
            continue
        topics = isinstance(value, dict) and value and all(isinstance(inner, dict) for inner in value.values())
        found.append(_spark(value, origin) if topics else None)
    return found


def translated(kept: KeptOffsets, there: Sequence[OffsetTranslation], form: Form) -> str:
    """`there`, one for each position of `kept` in its order, as JSON of `form`.

    Raises `UsageError` where `form` cannot say it.
    """
    if form is Form.ROWS:
        return json.dumps([_told(one, answer) for one, answer in zip(kept.positions, there, strict=True)], indent=2)
    offsets: dict[str, dict[str, int]] = {}
    for answer in there:
        if not answer.known or answer.target is None or answer.translation.offset is None:
            raise UsageError(
                f"{answer.source} has no position over there, and Spark's form has no word for that",
                answer.why,
                "Ask for rows ('--as rows') to see the others.",
            )
        at = offsets.setdefault(answer.target.topic, {})
        if at.setdefault(str(answer.target.partition), answer.translation.offset) != answer.translation.offset:
            raise UsageError(
                f"{answer.target} would have two positions",
                "several rows speak of it, and Spark's form has one position for a partition",
                "Translate each application's rows by themselves, or ask for rows.",
            )
    return json.dumps(offsets)


def _told(kept: Kept, answer: OffsetTranslation) -> dict[str, object]:
    there = answer.translation
    return {
        "topic": answer.target.topic if answer.target is not None else None,
        "partition": kept.partition.partition,
        "offset": there.offset if answer.known else None,
        **dict(kept.rest),
        "kind": there.kind.value,
        "records": there.records,
        "source_topic": kept.partition.topic,
        "source_offset": kept.offset,
        "why": answer.why,
    }


def skips_nothing(there: Sequence[OffsetTranslation]) -> bool:
    """May an application go on at every one of them without passing over a record?"""
    return all(answer.known and answer.translation.kind in _RESUMES for answer in there)
