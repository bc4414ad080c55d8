"""The record of a flow's lease."""

import pytest

from drlib.drill.plan.lease_record import PARTITION, TOPIC, LeaseRecord, decode, group, key, session_ms
from drlib.drill.plan.states import DrillState
from drlib.errors import UsageError
from drlib.model import Flow

FLOW = Flow("LEFT", "RIGHT")


def test_lease_record_round_trips_and_anything_else_is_refused() -> None:
    record = LeaseRecord(state=DrillState.RUNNING, run="r", since_ms=5)
    assert decode(record.encode(), FLOW) == record
    assert decode(None, FLOW) == LeaseRecord(state=DrillState.READY, run="", holder=None, since_ms=0)
    assert (TOPIC, PARTITION) == ("drlib.drills.internal", 0)  # where earlier releases wrote it
    assert (key(FLOW), group(FLOW)) == (b"LEFT->RIGHT", "drlib.drill.LEFT->RIGHT")
    for value in (b"", b"{}x", b'{"state": "asleep"}', b'{"newer": 1}'):
        with pytest.raises(UsageError, match="LEFT->RIGHT"):
            decode(value, FLOW)


def test_lease_session_lasts_longer_than_steps_keep_the_target_from_answering() -> None:
    assert (session_ms([]), session_ms([0.0, 80.0, 30.0])) == (20_000, 100_000)


def test_lease_record_of_the_usual_session_is_what_earlier_releases_read() -> None:
    assert b"session_ms" not in LeaseRecord().encode()
    longer = LeaseRecord(session_ms=90_000)
    assert decode(longer.encode(), FLOW) == longer
