"""Entries about one topic that was journaled under several IDs, read as being about one of them.

Rules: bytes in the journal keep the ID that they were written with; `TopicIdentified` says what it became. Readers see one ID
only, the one by which the source describes the topic: then every comparison of IDs holds, and what was known before is known
on. Where two entries get the same key that way, the later one counts, as in a compacted log. A deletion deletes
both keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any
from uuid import UUID

from drlib.kafka.topic_ids import is_made, stand_in
from drlib.mirror.journal.entries import Entry, SourcePartition, TopicIdentified, TopicNames, Unknown
from drlib.mirror.journal.fields import KINDS


def identified(entries: Iterable[Entry]) -> dict[UUID, UUID]:
    """The made IDs in a journal, and the IDs that the source gave their topics since."""
    return {e.made_id: e.real_id for e in entries if isinstance(e, TopicIdentified)}


def stand_ins(entries: Iterable[Entry]) -> dict[UUID, UUID]:
    """The newest made ID of each topic, where that is its newest, and what stands for it in the source's metadata."""
    newest = {e.source_topic: e.topic_id for e in entries if isinstance(e, TopicNames)}
    return {topic_id: stand_in(name) for name, topic_id in newest.items() if is_made(topic_id)}


def renamed(entries: Sequence[Entry], ids: Mapping[UUID, UUID]) -> list[Entry]:
    """The entries with the IDs of `ids` in place of their keys, oldest first."""
    if not ids:
        return list(entries)
    newest: dict[bytes, Entry] = {}
    for entry in entries:
        found = rename(entry, ids)
        key = found.key()
        newest.pop(key, None)
        newest[key] = found
    return list(newest.values())


def rename(entry: Entry, ids: Mapping[UUID, UUID]) -> Entry:
    """One entry with the IDs of `ids` in place of their keys."""
    if isinstance(entry, TopicIdentified | Unknown):
        return entry
    changed: dict[str, Any] = {}
    for name in _topic_fields(entry.KIND):
        value = getattr(entry, name)
        if isinstance(value, SourcePartition):
            if (now := ids.get(value.topic_id)) is not None:
                changed[name] = SourcePartition(now, value.partition)
        elif (now := ids.get(value)) is not None:
            changed[name] = now
    return replace(entry, **changed) if changed else entry  # type: ignore[type-var]


def both_keys(keys: Sequence[bytes], ids: Mapping[UUID, UUID]) -> list[bytes]:
    """`keys`, and those that the same entries had under the IDs before."""
    if not ids:
        return list(keys)
    before = [key.replace(now.bytes, made.bytes) for key in keys for made, now in ids.items() if now.bytes in key]
    return list(dict.fromkeys([*keys, *before]))


@lru_cache(64)
def _topic_fields(kind: int) -> tuple[str, ...]:
    """The fields of an entry that may name a source topic or a partition of one."""
    declared: Any = KINDS[kind]
    return tuple(f.name for f in fields(declared) if f.type in ("SourcePartition", "UUID", SourcePartition, UUID))
