"""Wrong and fake repairs of every lesson, on real clusters: they do not pass its checks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from testbed_lessons import lab_of

import drlib
from drlib import clock
from drlib.drill.testbed.lab_roles import prepare_users
from drlib.errors import UsageError
from drlib.kafka.admin.descriptions import Record
from drlib.lab.brokers.security import MODES
from drlib.lab.lab import Lab
from drlib.lab.processes import wait_until
from drlib.model import Flow, TopicPartition
from drlib.training.academy.lesson import Lesson
from drlib.training.academy.lessons import l2_retention
from drlib.training.academy.lessons.l2_retention import CLICKS, GONE
from drlib.training.academy.open import open_lesson
from drlib.training.academy.testbed import FAST_RETENTION

pytestmark = pytest.mark.long

FIRST: Mapping[str, str] = {
    "L0": "flow", "L1": "write", "L2": "traffic", "L3": "traffic", "L4": "traffic", "L5": "traffic", "L6": "line",
    "L7": "traffic", "L8": "traffic",
}  # fmt: skip


@pytest.fixture(scope="module")
def lesson_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One lab for all lessons, as for a learner who takes one after another."""
    with Lab(tmp_path_factory.mktemp("academy") / "lab", extra=FAST_RETENTION) as shared:
        yield shared


def open_broken(key: str, lab: Lab, run_dir: Path) -> Any:
    """Open a lesson and inject its fault, each step twice; the second call must change nothing."""
    lesson: Any = open_lesson(key, lab.root, run_dir)
    getattr(lesson, FIRST[key])()
    before = ends(lesson)
    getattr(lesson, FIRST[key])()
    assert ends(lesson) == before
    assert "comes first" in lesson.break_it().title
    assert ends(lesson) == before, "the fault was injected before the prediction"
    assert verdicts(lesson) == ["not yet"] * 3, "a check passed before the fault"
    lesson.predict("7")
    lesson.predict("8")
    lesson.break_it()
    before = ends(lesson)
    lesson.break_it()
    assert ends(lesson) == before
    assert "You wrote: 7." in lesson.truth().note
    lesson.predict("9")
    assert "You wrote: 7." in lesson.truth().note
    assert lesson.score() == "10 of 100 points."
    return lesson


def ends(lesson: Lesson) -> list[list[int]]:
    serving = [alias for alias in lesson.lab.aliases if lesson.testbed.lab.clusters[alias].alive]
    return [lesson.testbed.end_offsets(alias, topic) for alias in serving for topic in (lesson.topic, lesson.copy)]


def verdicts(lesson: Lesson) -> list[object]:
    """What checks say; none of their words is a call that a hint has, which costs points."""
    checked = lesson.check()
    print(checked)
    solution = {call for hint in lesson.hints for call in re.findall(r"\b(?:lesson|drlib|consumer)\.\w+\(", hint)}
    assert solution
    assert not [call for call in solution for row in checked.rows for text in row.values() if call in str(text)]
    return [row["holds"] for row in checked.rows]


def write(lab: Lab, alias: str, topic: str, records: Sequence[Record | tuple[int, bytes | None, bytes]]) -> None:
    """Write with an ordinary producer, as a script would."""
    producer = Producer({"bootstrap.servers": lab.clusters[alias].bootstrap, "log_level": 0})
    for one in records:
        part, key, value = (one.partition.partition, one.key, one.value) if isinstance(one, Record) else one
        producer.produce(topic, value, key, partition=part)
    assert producer.flush(20) == 0


def test_l0_records_copied_by_hand_do_not_pass(lesson_lab: Lab, tmp_path: Path) -> None:
    lesson = open_broken("L0", lesson_lab, tmp_path)
    copied = {r.value for r in lesson.testbed.read("RIGHT", lesson.copy)}
    missing = [r for r in lesson.testbed.read("LEFT", lesson.topic) if r.value not in copied]
    assert missing
    write(lesson_lab, "RIGHT", lesson.copy, missing)
    assert len(lesson.testbed.read("RIGHT", lesson.copy)) == 3000
    assert verdicts(lesson) == ["not yet"] * 3
    assert "not all by the mirror" in str(lesson.check(1).rows[0]["observed"])
    lesson.start_mirror()  # it does not know these records and copies them once more
    assert verdicts(lesson) == ["not yet", "not yet", "yes"]
    for hint, points in ((1, 35), (1, 35), (2, 30), (3, 25), (3, 25)):
        lesson.hint(hint)
        lesson.hint(hint, take=True)
        assert lesson.score() == f"{points} of 100 points."
    assert open_lesson("L0", lesson_lab.root, tmp_path).score() == "25 of 100 points."
    lesson.close()
    for call in (lesson.start_mirror, lesson.check, lesson.hint):
        with pytest.raises(UsageError, match="has ended"):
            call()
    assert not lesson.testbed.mirror().runs
    again = open_broken("L0", lesson_lab, tmp_path)
    again.start_mirror()
    write(lesson_lab, "LEFT", again.topic, [(0, None, b"a learner tries the topic")])
    again.testbed.wait_mirrored(again.topic)
    assert verdicts(again) == ["yes"] * 3
    again.close()


@pytest.mark.timeout(600)
def test_lessons_are_passed_on_a_secured_lab_in_a_folder_with_a_space_in_its_name(tmp_path: Path) -> None:
    with Lab(tmp_path / "my lab", security=MODES["scram"]) as lab:
        prepare_users(lab)
        for key in ("L0", "L1", "L3", "L8"):
            lesson: Any = open_lesson(key, lab.root, tmp_path, answers="reference")
            getattr(lesson, FIRST[key])()
            lesson.predict()
            lesson.break_it()
            lesson.apply_reference()
            assert verdicts(lesson) == ["yes"] * 3, key
            lesson.close()


def test_l1_offset_off_by_one_or_moved_on_both_sides_does_not_pass(lesson_lab: Lab, tmp_path: Path) -> None:
    lesson = open_broken("L1", lesson_lab, tmp_path)
    right = lesson._translated()
    lesson.commit({0: right[0] + 1, 1: right[1]})
    assert verdicts(lesson) == ["not yet", "yes", "not yet"]
    lesson.close()
    lesson = open_broken("L1", lesson_lab, tmp_path)
    here = dict(enumerate(lesson.testbed.end_offsets("LEFT", lesson.topic)))
    lesson.testbed.commit("LEFT", lesson.group, {TopicPartition(lesson.topic, n): end for n, end in here.items()})
    lesson.commit(dict(enumerate(lesson.testbed.end_offsets("RIGHT", lesson.copy))))  # nothing unread on either side
    assert verdicts(lesson) == ["not yet"] * 3
    lesson.commit({0: right[0], 1: right[1]})
    assert verdicts(lesson) == ["yes"] * 3
    lesson.close()


def test_l2_retention_deletes_clicks_and_the_mirror_copies_orders(lesson_lab: Lab, tmp_path: Path) -> None:
    lesson = open_broken("L2", lesson_lab, tmp_path)
    assert lesson.testbed.log_bounds("LEFT", lesson.clicks) == ([CLICKS + GONE], [CLICKS + GONE])
    assert lesson.testbed.mirrored_offsets(lesson.clicks) == [CLICKS]
    clocks = {row["what"]: row for row in lesson.clocks().rows}
    assert clocks["deleted by LEFT before they were mirrored"] == {
        "what": "deleted by LEFT before they were mirrored", "orders": 0, "clicks": GONE,
    }  # fmt: skip
    event = "the mirror's event SourceLoss"
    assert "cannot reach LEFT" in {row["what"]: row["value"] for row in lesson.truth().rows}[event]
    copied = {r.value for r in lesson.testbed.read("RIGHT", lesson.copy)}
    orders = [r for r in lesson.testbed.read("LEFT", lesson.topic) if r.value not in copied]
    assert len(orders) == 400
    lesson.keep_for(hours=0.5)
    lesson.mend_link()
    assert verdicts(lesson) == ["not yet", "yes", "yes"]
    lesson.keep_for(hours=1)
    assert verdicts(lesson) == ["yes", "yes", "yes"]
    truth = {row["what"]: row["value"] for row in lesson.truth().rows}
    assert truth[event] == f"offsets {CLICKS} to {CLICKS + GONE - 1} expired before they were read"
    assert truth["clicks that are on neither cluster"] == f"{GONE}"
    clicks = {r.value for r in lesson.testbed.read("RIGHT", lesson.testbed.copy(lesson.clicks))}
    assert clicks <= {f"order {n}".encode() for n in range(CLICKS)}
    lesson.close()


def test_l2_orders_that_cross_later_than_their_first_retention_stay_on_right(
    lesson_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LEFT retains them for longer in time, and the link is repaired after a pause. With 20 s for the lesson's half an hour."""
    monkeypatch.setattr(l2_retention, "RETENTION_MS", 20_000)
    lesson = open_broken("L2", lesson_lab, tmp_path)
    lesson.keep_for(hours=24)
    newest_ms = lesson.testbed.read("LEFT", lesson.topic)[-1].timestamp_ms
    assert wait_until(lambda: clock.now_ms() > newest_ms + 22_000, 60)
    lesson.mend_link()
    write(lesson_lab, "LEFT", lesson.topic, [(0, None, b"a learner tries the topic")])
    lesson.testbed.wait_mirrored(lesson.topic)
    assert verdicts(lesson) == ["yes", "yes", "yes"]
    lesson.close()


def test_l2_orders_copied_by_hand_do_not_pass(lesson_lab: Lab, tmp_path: Path) -> None:
    lesson = open_broken("L2", lesson_lab, tmp_path)
    copied = {r.value for r in lesson.testbed.read("RIGHT", lesson.copy)}
    orders = [r for r in lesson.testbed.read("LEFT", lesson.topic) if r.value not in copied]
    write(lesson_lab, "RIGHT", lesson.copy, orders)
    assert lesson.check(2).rows[0]["holds"] == "not yet"
    assert "not all by the mirror" in str(lesson.check(2).rows[0]["observed"])
    lesson.close()


def test_l3_skipped_records_or_early_cutover_do_not_pass(lesson_lab: Lab, tmp_path: Path) -> None:
    lesson = open_broken("L3", lesson_lab, tmp_path)
    right = {row["partition"]: row["on RIGHT"] for row in lesson.translate().rows}
    where = {"topic": lesson.pointer_topic, "timeout_s": 4, "remote_prefix": "LEFT."}
    lesson.commit({0: right[0] + 1, 1: right[1]})
    drlib.publish_pointer(lesson.file, "RIGHT", lesson.application, cutover={lesson.copy: (0, 0)}, **where)
    assert verdicts(lesson) == ["not yet", "not yet", "yes"]
    (end, _), cutover = lesson.testbed.end_offsets("RIGHT", lesson.copy), lesson.cutover()
    write(lesson_lab, "RIGHT", lesson.copy, [(0, None, b"order 500")])  # the right record, behind all unread ones
    lesson.commit({0: end, 1: right[1]})
    assert lesson.check(1).rows[0]["holds"] == "not yet"
    lesson.commit(right)
    assert lesson.check(1).rows[0]["holds"] == "yes"
    drlib.publish_pointer(lesson.file, "RIGHT", lesson.application, cutover=cutover, **where)
    assert lesson.check(2).rows[0]["holds"] == "not yet"  # a record was written behind it
    drlib.publish_pointer(lesson.file, "RIGHT", lesson.application, cutover=lesson.cutover(), **where)
    assert verdicts(lesson) == ["yes", "yes", "yes"]
    lesson.close()


def test_l4_repeated_tail_or_group_moved_on_both_sides_does_not_pass(lesson_lab: Lab, tmp_path: Path) -> None:
    lesson = open_broken("L4", lesson_lab, tmp_path)
    assert verdicts(lesson) == ["not yet"] * 3
    lesson.settle("quarantine")
    lesson.settle("quarantine")  # again, which copies nothing twice
    lesson.flow_back()
    home = drlib.translate_offsets(lesson.file, "RIGHT", "LEFT", lesson.positions())
    right = {one.source.partition: one.translation.offset or 0 for one in home}
    lesson.commit({0: right[0], 1: right[1] - 1})
    assert verdicts(lesson) == ["yes", "yes", "not yet"]
    away = lesson.testbed.positions("RIGHT", lesson.group)
    everything = {
        TopicPartition(lesson.topic, n): end for n, end in enumerate(lesson.testbed.end_offsets("RIGHT", lesson.topic))
    }
    lesson.testbed.commit("RIGHT", lesson.group, everything)
    lesson.commit(dict(enumerate(lesson.testbed.end_offsets("LEFT", lesson._home))))
    assert lesson.check(3).rows[0]["holds"] == "not yet"  # nothing unread on either side
    lesson.testbed.commit("RIGHT", lesson.group, away)
    lesson.commit(right)
    write(lesson_lab, "RIGHT", lesson.topic, [(0, None, b"order 600")])  # an order of the tail, written by hand
    lesson.testbed.wait_mirrored(lesson.topic, Flow("RIGHT", "LEFT"))
    again = lesson.check(1).rows[0]
    assert again["holds"] == "not yet"
    assert "1 of them more than once" in str(again["observed"])
    assert lesson.check(3).rows[0]["holds"] == "yes"
    lesson.close()


def test_l5_ledger_in_topic_order_or_without_reading_does_not_pass(lesson_lab: Lab, tmp_path: Path) -> None:
    lesson = open_broken("L5", lesson_lab, tmp_path)
    example = lesson.testbed.read("RIGHT", lesson.topic)[0]
    for number in range(lesson.orders):  # in perfect order, but nothing was read
        lesson.handle(Record(example.partition, 0, 0, None, b"order %d" % number, ()))
    assert verdicts(lesson) == ["not yet"] * 3
    assert "has not committed" in str(lesson.check(2).rows[0]["observed"])
    lesson.start_over()
    at = {"bootstrap.servers": lesson_lab.clusters["RIGHT"].bootstrap, "group.id": lesson.group, "log_level": 0}
    for topic in (lesson.topic, lesson.copy):  # the newer ones first
        consumer = Consumer({**at, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        wanted = len(lesson.testbed.read("RIGHT", topic))
        consumer.subscribe([topic])
        try:
            while wanted:
                for message in consumer.consume(wanted, timeout=0.5):
                    assert message.error() is None
                    part = TopicPartition(topic, message.partition())
                    lesson.handle(Record(part, message.offset(), 0, message.key(), message.value(), ()))
                    wanted -= 1
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
    assert verdicts(lesson) == ["yes", "not yet", "not yet"]
    write(lesson_lab, "RIGHT", lesson.ledger, [(0, None, b"something else \xff")])
    assert lesson.check(1).rows[0]["holds"] == "not yet"  # reported without a traceback
    lesson.close()


def test_l6_bandwidth_over_budget_or_shorter_round_trip_does_not_pass(lesson_lab: Lab, tmp_path: Path) -> None:
    lesson = open_broken("L6", lesson_lab, tmp_path)
    lesson_lab.proxy.clear("LEFT")  # no round trip at all: that cannot be bought
    assert lesson.check(1).rows[0]["holds"] == "not yet"
    lesson.order_bandwidth(5_000_000)
    assert verdicts(lesson) == ["not yet", "yes", "yes"]
    lesson.order_bandwidth(1_800_000)
    assert verdicts(lesson) == ["yes", "yes", "yes"]
    lesson.close()


@pytest.mark.timeout(900)
def test_l7_paris_that_is_killed_before_the_rights_are_back_does_not_pass(lesson_lab: Lab, tmp_path: Path) -> None:
    with lab_of("L7", lesson_lab) as lab:
        lesson = open_broken("L7", lesson_lab, tmp_path)
        billing = lesson.testbed.name("billing")
        assert lesson.night().title == "Your second prediction comes first"
        with pytest.raises(UsageError, match="not a number of orders"):
            lesson.predict_again("many")
        lesson.predict_again("40")
        assert lesson.night().title == "A rehearsal comes first"
        assert lab.clusters["paris"].alive
        assert list(lesson.failover()) == []
        granted = f"kafka-acls.sh --add --allow-principal User:mirror --operation Describe --group {billing}"
        for wrong, why in (
            ("rm -r .", "no command of"),
            ("kafka-acls.sh --nonsense", "failed on paris"),
            ("'", "no command"),
        ):
            with pytest.raises(UsageError, match=why):
                lesson.kafka_acls("paris", wrong)
        lesson.kafka_acls("lyon", granted)  # the other cluster
        with pytest.raises(UsageError, match="cluster LEFT"):
            lesson.kafka_acls("LEFT", granted)
        assert verdicts(lesson) == ["not yet"] * 3
        assert "has passed" in lesson.rehearse().title  # it asks paris, as long as that answers
        lesson.night()
        moved = {name: [lesson.copy, lesson.topic] for name in ("billing", "shipping")}
        with pytest.raises(UsageError, match="does not exist on lyon"):
            lesson.move("lyon", moved)
        for document in lesson.failover():
            if document["event"] == "applications":
                with pytest.raises(UsageError, match="no application orders"):
                    lesson.move("lyon", {"orders": [lesson.topic]})
                with pytest.raises(UsageError, match="moved to paris"):
                    lesson.move("paris", moved)
                lesson.move("lyon", moved)
        assert verdicts(lesson) == ["not yet", "not yet", "yes"]
        assert "billing has not read 0, and read 170 again; shipping has not read 0, and read 120 again" in str(
            lesson.check(2).rows[0]["observed"]
        )
        assert "Your second prediction was 40, and it is 170: the rights were still missing" in lesson.truth().note
        lesson.close()
        assert lab.clusters["paris"].alive
        again: Any = open_lesson("L7", lesson_lab.root, tmp_path, again=True)
        again.traffic()  # on a flow that has failed over
        again.predict("170")
        again.break_it()
        for name in ("billing", "shipping"):  # one by one instead of all that begin alike, and no __consumer_offsets
            again.kafka_acls("paris", granted.replace(billing, again.testbed.name(name)))
        again.testbed.wait("the positions are polled", lambda: again.check(1).rows[0]["holds"] == "yes")
        again.close()


def test_l8_skipped_orders_or_orders_read_again_needlessly_do_not_pass(lesson_lab: Lab, tmp_path: Path) -> None:
    lesson = open_broken("L8", lesson_lab, tmp_path)
    for call in (lesson.translate, lesson.start_applications, lesson.start_left, lambda: lesson.commit({"billing": 0})):
        assert call().title == "Your second prediction comes first"
    with pytest.raises(UsageError, match="not a number of orders"):
        lesson.predict_again("many")
    lesson.predict_again("0")
    lesson.predict_again("1")
    assert "Your second prediction was 0, and it is 200: 0 would be right with prefixed names" in lesson.truth().note
    assert (
        "1,060 was measured: your prediction was too low by 1,053. That order billing has read" in lesson.truth().note
    )
    right = {str(row["application"]): int(row["on RIGHT"]) for row in lesson.translate().rows}
    assert lesson.translate().rows[0]["read again, at most"] >= 200
    with pytest.raises(UsageError, match="were not started") as refused:
        lesson.start_applications()
    assert "names LEFT" in refused.value.why
    with pytest.raises(UsageError, match="no application orders"):
        lesson.commit({"orders": 1})
    drlib.publish_pointer(lesson.file, "RIGHT", lesson.application, topic=lesson.pointer_topic, timeout_s=4)
    (end,) = lesson.testbed.end_offsets("RIGHT", lesson.topic)
    lesson.commit({"billing": end, "shipping": right["shipping"]})  # skips what billing has not read
    lesson.start_applications()
    assert verdicts(lesson) == ["not yet", "not yet", "not yet"]
    with pytest.raises(UsageError, match="billing and shipping cannot be moved"):
        lesson.commit(right)
    lesson.stop_applications()
    lesson.commit({"billing": 0, "shipping": right["shipping"]})  # the start: 60 orders more than it has to read again
    lesson.start_applications()
    assert verdicts(lesson) == ["yes", "not yet", "not yet"]
    assert "billing read 260 again; shipping read 0 again" in str(lesson.check(2).rows[0]["observed"])
    lesson.stop_applications()
    lesson.commit(right)
    lesson.start_applications()
    assert verdicts(lesson) == ["yes", "yes", "not yet"]
    lesson.testbed.write_missing("RIGHT", lesson.topic, [200])  # an order that only LEFT has, recovered by hand
    assert lesson.check(3).rows[0]["observed"] == "LEFT is down"
    lesson.start_left()  # the mirror does not know that record as a copy of LEFT's, and copies both
    assert verdicts(lesson) == ["yes", "not yet", "not yet"]
    assert "billing read 201 again; shipping read 1 again" in str(lesson.check(2).rows[0]["observed"])
    assert "0 on RIGHT, 2 are there twice" in str(lesson.check(3).rows[0]["observed"])
    lesson.close()
    assert not any(each.runs for each in lesson._applications)
