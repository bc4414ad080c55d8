"""Define the ledger of settled records: a compacted topic on the target, written in the transactions that settle them.

Rules: all unreplicated records of a source partition below `next` are settled and must not be settled again; partitions are
keyed by topic ID, so a re-created topic starts from 0. The record of a flow says which run completed settling last, and is
written with the last of its records.
Not for: writing and reading the topic (`drlib.mirror.offsets.unreplicated.settle`).
"""

from __future__ import annotations

import json
import uuid
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict

from drlib import decoding
from drlib.config.replication_policy import TAILS_TOPIC
from drlib.decoding import Undecodable
from drlib.errors import UsageError
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.model import Flow

TOPIC: Final = TAILS_TOPIC
PARTITION: Final = 0


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Progress(_Frozen):
    """Progress in one source partition; counts are of all settled records below `next`, `how` and `run` of the last run."""

    next: int
    how: Settle
    run: str
    recovered: int = 0
    set_aside: int = 0
    sent_again: int = 0
    quarantined: int = 0

    def encode(self) -> bytes:
        return self.model_dump_json().encode()


class Closing(_Frozen):
    """Run `run` has settled all unreplicated records of the flow."""

    run: str
    how: Settle
    at_ms: int

    def encode(self) -> bytes:
        return self.model_dump_json().encode()


Kind = TypeVar("Kind", Progress, Closing)


def partition_key(source_id: str, topic_id: uuid.UUID, partition: int) -> bytes:
    """The key of a partition; `source_id` is the cluster's ID, because an alias may change."""
    return json.dumps(["partition", source_id, str(topic_id), partition]).encode()


def flow_key(flow: Flow) -> bytes:
    return json.dumps(["flow", flow.source, flow.target]).encode()


def decode(value: bytes, kind: type[Kind]) -> Kind:
    """Parse a record's value. Raises `UsageError` where it has another format."""
    try:
        return decoding.json_as(kind, value)
    except Undecodable as error:
        raise UsageError(
            f"the settled records cannot be read from {TOPIC}",
            f"a record has the format of another release: {error}",
            "Use the release that wrote it.",
        ) from None
