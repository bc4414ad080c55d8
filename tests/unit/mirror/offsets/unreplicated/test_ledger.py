"""Records of the ledger: what a release writes, every later one reads."""

from __future__ import annotations

import uuid

import pytest

from drlib.errors import UsageError
from drlib.mirror.offsets.unreplicated import ledger
from drlib.mirror.offsets.unreplicated.ledger import Closing, Progress
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.model import Flow


def test_progress_without_counts_has_settled_no_record() -> None:
    progress = ledger.decode(b'{"next": 7, "how": "recover", "run": "r1"}', Progress)
    assert progress == Progress(
        next=7, how=Settle.RECOVER, run="r1", recovered=0, set_aside=0, sent_again=0, quarantined=0
    )


def test_ledger_record_written_is_read_back() -> None:
    progress = Progress(next=7, how=Settle.RECOVER, run="r1", recovered=1, set_aside=2, sent_again=3, quarantined=4)
    assert ledger.decode(progress.encode(), Progress) == progress
    closing = Closing(run="r1", how=Settle.QUARANTINE, at_ms=5)
    assert ledger.decode(closing.encode(), Closing) == closing
    with pytest.raises(ValueError, match="frozen"):
        closing.run = "r2"


def test_ledger_record_of_another_format_is_refused() -> None:
    with pytest.raises(UsageError, match="format of another release"):
        ledger.decode(b'{"run": "r1", "how": "recover", "at_ms": 5, "more": 1}', Closing)


def test_ledger_keys_and_partition_stay_as_written() -> None:
    topic_id = uuid.UUID(int=1)
    assert ledger.partition_key("id", topic_id, 2) == f'["partition", "id", "{topic_id}", 2]'.encode()
    assert ledger.flow_key(Flow("LEFT", "RIGHT")) == b'["flow", "LEFT", "RIGHT"]'
    assert (ledger.TOPIC, ledger.PARTITION) == ("drlib.tails.internal", 0)
