"""Records that a group has passed without processing them."""

from __future__ import annotations

from pathlib import Path

from drlib.lab.checker.history import Consumed, Row, encode
from drlib.training.incidents.lab.skipped import SkippedRecords


def consumed(offset: int, partition: int = 0, cluster: str = "LEFT", topic: str = "flights") -> Row:
    return Consumed("arrivals", cluster, topic, partition, offset, "id", "k", 0, 0)


def test_skipped_records_are_counted_until_they_are_processed(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.jsonl"
    skipped = SkippedRecords(path, "flights")
    assert skipped.count() is None
    with path.open("ab") as file:
        file.write(b"".join(map(encode, (consumed(0), consumed(1), consumed(0, 1)))))
        file.flush()
        assert skipped.count() == 0
        file.write(b"".join(map(encode, (consumed(5), consumed(2, 1)))))
        file.flush()
        assert skipped.count() == 4, "2, 3 and 4 of partition 0, 1 of partition 1"
        half = encode(consumed(3))
        file.write(encode(consumed(2)) + half[:9])
        file.flush()
        assert skipped.count() == 3, "the line of 3 is not complete"
        file.write(half[9:])
        file.write(b"".join(map(encode, (consumed(1), consumed(4), consumed(1, 1)))))
        file.flush()
        assert skipped.count() == 0


def test_skipped_records_of_other_topics_and_of_the_other_site_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.jsonl"
    path.write_bytes(encode(consumed(7, cluster="RIGHT")) + encode(consumed(7, topic="LEFT.flights")))
    assert SkippedRecords(path, "flights").count() == 0
