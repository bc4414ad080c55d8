"""An ordinary consumer by pattern: topics made later are read too, and being stopped in the middle costs no record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from testbed_applications import Application, Stage, stage, wait_until

from drlib.lab.checker.history import Consumed
from drlib.lab.workload.topics import TopicSpec, create_topics


def write(bootstrap: str, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(first, first + count):
        headers = [("id", b"%d" % number), ("n", b"%d" % number)]
        producer.produce(topic, value=b"x", key=b"k%d" % (number % 7), headers=headers)
    assert producer.flush(20) == 0


def test_consumer_pattern_reads_new_topics_and_stops_with_complete_history(
    right: str, fresh_topic: Callable[[str], str], tmp_path: Path
) -> None:
    local = fresh_topic("orders")
    copy, other = f"LEFT.{local}", f"{local}-archive"
    create_topics(right, [TopicSpec(local, 2), TopicSpec(other, 1)])
    write(right, local, 0, 1500)
    write(right, other, 9000, 10)
    more: dict[str, object] = {
        "pattern": rf"(.*\.)?{local}",
        "refresh_topics_s": 0.5,
        "records_per_second": 2000.0,
    }

    def reader(made: Stage) -> Application:
        return made.consumer(local, "everything", **more)

    with stage(tmp_path) as made:
        made.point(1, "RIGHT", right)
        first = reader(made)
        wait_until("it reads", lambda: len(first.history().consumed) >= 300)
        code, _ = first.terminate()  # in mid-reading, a commit or two a moment before it
        assert code == 0
        second = reader(made)
        create_topics(right, [TopicSpec(copy, 2)])
        write(right, copy, 1500, 500)

        def rows() -> list[Consumed]:
            return [*first.history().consumed, *second.history().consumed]

        wait_until("it has read both topics", lambda: len(rows()) >= 2000)
        assert second.terminate()[0] == 0
        found = rows()
    assert sorted(int(row.id) for row in found) == list(
        range(2000)
    )  # none twice, none missing, none of the other topic
    assert {row.topic for row in found} == {local, copy}
    assert 300 <= len(first.history().consumed) < 2000
    assert (first.history().open, second.history().open) == ((), ())
