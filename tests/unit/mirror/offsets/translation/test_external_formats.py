"""Offsets that applications keep, read from text and given back: both forms, checkpoints, and what is no position."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drlib.errors import UsageError
from drlib.mirror.offsets.translation.external_files import read_offsets
from drlib.mirror.offsets.translation.external_formats import Form, Kept, parse, skips_nothing, translated
from drlib.model import OffsetTranslation, TopicPartition, Translation, TranslationKind

ROWS = '[{"job": "billing", "topic": "orders", "partition": 1, "offset": 42}]'


def answer(
    source: TopicPartition,
    offset: int,
    there: int | None,
    kind: TranslationKind = TranslationKind.EXACT,
    records: int = 0,
) -> OffsetTranslation:
    target = TopicPartition(f"LEFT.{source.topic}", source.partition)
    return OffsetTranslation(source, offset, target, Translation(there, kind, records), "")


def test_rows_come_back_with_what_else_they_had() -> None:
    kept = parse(ROWS, "file")
    assert kept.positions == (Kept(TopicPartition("orders", 1), 42, (("job", "billing"),)),)
    (row,) = json.loads(translated(kept, [answer(kept.positions[0].partition, 42, 57)], Form.ROWS))
    assert (row["job"], row["topic"], row["partition"], row["offset"]) == ("billing", "LEFT.orders", 1, 57)
    assert (row["kind"], row["source_topic"], row["source_offset"]) == ("exact", "orders", 42)
    again = parse(json.dumps([row]), "file")  # what was given back can be given again
    assert again.positions[0].partition == TopicPartition("LEFT.orders", 1)


def test_sparks_form_comes_back_as_it_went_in() -> None:
    kept = parse('{"orders": {"0": 5, "1": 42}}', "file")
    assert kept.form is Form.SPARK
    there = [answer(one.partition, one.offset, one.offset + 7) for one in kept.positions]
    assert json.loads(translated(kept, there, Form.SPARK)) == {"LEFT.orders": {"0": 12, "1": 49}}


def test_sparks_form_is_refused_rather_than_short() -> None:
    kept = parse('{"orders": {"0": 5, "1": 42}}', "file")
    first, second = (one.partition for one in kept.positions)
    there = [answer(first, 5, 6), answer(second, 42, None, TranslationKind.UNKNOWN)]
    with pytest.raises(UsageError, match="orders-1 has no position over there"):
        translated(kept, there, Form.SPARK)
    assert json.loads(translated(kept, there, Form.ROWS))[1]["offset"] is None
    guess = answer(second, 42, 40, TranslationKind.UNKNOWN)
    assert json.loads(translated(kept, [answer(first, 5, 6), guess], Form.ROWS))[1]["offset"] is None


def test_two_rows_of_one_partition_have_no_place_in_sparks_form() -> None:
    kept = parse('[{"topic":"o","partition":0,"offset":1},{"topic":"o","partition":0,"offset":2}]', "file")
    there = [answer(one.partition, one.offset, one.offset) for one in kept.positions]
    assert [row["offset"] for row in json.loads(translated(kept, there, Form.ROWS))] == [1, 2]
    with pytest.raises(UsageError, match="two positions"):
        translated(kept, there, Form.SPARK)


@pytest.mark.parametrize(
    ("kind", "fine"),
    [
        (TranslationKind.EXACT, True),
        (TranslationKind.BEHIND, True),
        (TranslationKind.BOUNDED, True),
        (TranslationKind.LOST, False),
        (TranslationKind.NEVER_MIRRORED, False),
        (TranslationKind.UNKNOWN, False),
    ],
)
def test_what_passes_over_records_is_not_fine(kind: TranslationKind, fine: bool) -> None:
    assert skips_nothing([answer(TopicPartition("o", 0), 1, 1, kind, 1)]) is fine


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is no JSON"),
        ("7", "a JSON int"),
        ("[]", "it is empty"),
        ("{}", "it is empty"),
        ("[7]", "row 1 is no position: it is 7"),
        ('[{"topic": "o", "partition": 0}]', "it has no offset"),
        ('[{"topic": "", "partition": 0, "offset": 1}]', "is no topic"),
        ('[{"topic": "o", "partition": true, "offset": 1}]', "is no partition"),
        ('[{"topic": "o", "partition": 0, "offset": "1"}]', "is no offset"),
        ('{"o": {"0": -1}}', "stands for the end of the log"),
        ('{"o": {"0": -2}}', "stands for the start of the log"),
        ('{"o": {"x": 1}}', "is no partition"),
        ('{"o": 1}', "holds no offsets of o"),
    ],
)
def test_what_is_no_position_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse(text, "file")


def log(*sources: str) -> str:
    return "\n".join(["v1", '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}', *sources])


def checkpoint(folder: Path, offsets: dict[int, str], commits: list[int]) -> Path:
    for name in ("offsets", "commits"):
        (folder / name).mkdir()
    for number, text in offsets.items():
        (folder / "offsets" / str(number)).write_text(text)
        (folder / "offsets" / f".{number}.crc").write_bytes(b"crc")
    for number in commits:
        (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


def test_a_checkpoint_stands_at_its_last_committed_batch(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {9: log('{"o":{"0":5}}'), 10: log('{"o":{"0":8,"1":0}}')}, [8, 9, 10])
    kept = read_offsets(folder)
    assert (kept.form, kept.notices) == (Form.SPARK, ())
    assert [(str(one.partition), one.offset) for one in kept.positions] == [("o-0", 8), ("o-1", 0)]


def test_a_batch_that_was_only_planned_and_state_are_told(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {1: log('{"o":{"0":5}}', '{"logOffset":3}', "-"), 2: log('{"o":{"0":8}}')}, [1])
    (folder / "state").mkdir()
    kept = read_offsets(folder)
    assert [one.offset for one in kept.positions] == [5]
    assert [
        word in " ".join(kept.notices) for word in ("batch 2 was planned", "its 3 offsets", "2 other", "state")
    ] == [True] * 4


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder 'offsets'"):
        read_offsets(tmp_path)
    folder = checkpoint(tmp_path, {0: log('{"o":{"0":5}}')}, [])
    with pytest.raises(UsageError, match="no batch of its query was committed"):
        read_offsets(folder)
    (folder / "commits" / "0").write_text("v1\n{}")
    for text, words in (
        (log('{"o":{"0":5}}', '{"o":{"0":6}}'), "two positions in o-0"),
        (log("-"), "holds no offsets of Kafka"),
        ("v2\n{}\n{}", "begins with 'v2'"),
    ):
        (folder / "offsets" / "0").write_text(text)
        with pytest.raises(UsageError, match=words):
            read_offsets(folder)
    with pytest.raises(UsageError, match="cannot be read"):
        read_offsets(tmp_path / "nowhere.json")
