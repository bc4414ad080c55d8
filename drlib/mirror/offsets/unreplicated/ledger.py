"""How far a tail was settled: records of one compacted topic on the target, written in the transactions that settle it.

Rules: everything of a source partition below `next` that was not mirrored has been dealt with, and is not to be dealt with
again; a partition is a topic ID's, so a topic that was made again begins anew. The record of a flow says which run settled
its tail last, and comes with the last of its records.
Not for: writing and reading the topic (`drlib.mirror.offsets.unreplicated.settle`).
"""

from __future__ import annotations

import json
import uuid
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from drlib.errors import UsageError
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.model import Flow

TOPIC: Final = "drlib.tails.internal"
PARTITION: Final = 0


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Progress(_Frozen):
    """Of one source partition; the counts are of all records below `next` that were settled, by the run named last."""

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
    """Run `run` has settled all of the flow's tail there was."""

    run: str
    how: Settle
    at_ms: int

    def encode(self) -> bytes:
        return self.model_dump_json().encode()


Kind = TypeVar("Kind", Progress, Closing)


def partition_key(source_id: str, topic_id: uuid.UUID, partition: int) -> bytes:
    """`source_id` is the cluster's ID: an alias can be given to another cluster."""
    return json.dumps(["partition", source_id, str(topic_id), partition]).encode()


def flow_key(flow: Flow) -> bytes:
    return json.dumps(["flow", flow.source, flow.target]).encode()


def decode(value: bytes, kind: type[Kind]) -> Kind:
    """Raises `UsageError` for what is no record of ours."""
    try:
        return kind.model_validate_json(value)
    except ValidationError as error:
        raise UsageError(
            f"what was done with a tail cannot be read from {TOPIC}",
            f"a record there is none of this release: {error.errors()[0]['msg']}",
            "Use the release that wrote it.",
        ) from None
