"""Offsets that applications keep: both forms parsed and rendered, checkpoints, and malformed positions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drlib.errors import UsageError
from drlib.mirror.offsets.translation.external_files import read_offsets
from drlib.mirror.offsets.translation.external_formats import (
    MOST_SOURCES,
    ExternalPosition,
    OffsetsForm,
    parse,
    render,
    skips_no_record,
)
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


def test_render_rows_keeps_extra_fields() -> None:
    external = parse(ROWS, "file")
    assert external.positions == (ExternalPosition(TopicPartition("orders", 1), 42, (("job", "billing"),)),)
    (row,) = json.loads(render(external, [answer(external.positions[0].partition, 42, 57)], OffsetsForm.ROWS))
    assert (row["job"], row["topic"], row["partition"], row["offset"]) == ("billing", "LEFT.orders", 1, 57)
    assert (row["kind"], row["source_topic"], row["source_offset"]) == ("exact", "orders", 42)
    rendered = render(external, [answer(external.positions[0].partition, 42, 57)], OffsetsForm.ROWS)
    assert rendered.startswith('[\n  {\n    "topic": "LEFT.orders",\n')
    with pytest.raises(ValueError, match="shorter"):
        render(external, [], OffsetsForm.ROWS)
    again = parse(json.dumps([row]), "file")  # rendered rows are valid input
    assert again.positions[0].partition == TopicPartition("LEFT.orders", 1)


def test_render_spark_form_round_trip() -> None:
    external = parse('{"orders": {"0": 5, "1": 42}}', "file")
    assert external.form is OffsetsForm.SPARK
    there = [answer(one.partition, one.offset, one.offset + 7) for one in external.positions]
    assert json.loads(render(external, there, OffsetsForm.SPARK)) == {"LEFT.orders": {"0": 12, "1": 49}}


def test_render_unknown_position_in_spark_form_is_refused() -> None:
    external = parse('{"orders": {"0": 5, "1": 42}}', "file")
    first, second = (one.partition for one in external.positions)
    there = [answer(first, 5, 6), answer(second, 42, None, TranslationKind.UNKNOWN)]
    with pytest.raises(UsageError, match="orders-1 has no known position on the other cluster"):
        render(external, there, OffsetsForm.SPARK)
    assert json.loads(render(external, there, OffsetsForm.ROWS))[1]["offset"] is None
    guess = answer(second, 42, 40, TranslationKind.UNKNOWN)
    assert json.loads(render(external, [answer(first, 5, 6), guess], OffsetsForm.ROWS))[1]["offset"] is None


def test_render_two_positions_in_one_partition_in_spark_form_is_refused() -> None:
    external = parse('[{"topic":"o","partition":0,"offset":1},{"topic":"o","partition":0,"offset":2}]', "file")
    there = [answer(one.partition, one.offset, one.offset) for one in external.positions]
    assert [row["offset"] for row in json.loads(render(external, there, OffsetsForm.ROWS))] == [1, 2]
    with pytest.raises(UsageError, match="two positions"):
        render(external, there, OffsetsForm.SPARK)


@pytest.mark.parametrize(
    ("kind", "skips_none"),
    [
        (TranslationKind.EXACT, True),
        (TranslationKind.BEHIND, True),
        (TranslationKind.BOUNDED, True),
        (TranslationKind.LOST, False),
        (TranslationKind.NEVER_MIRRORED, False),
        (TranslationKind.UNKNOWN, False),
    ],
)
def test_skips_no_record_by_translation_kind(kind: TranslationKind, skips_none: bool) -> None:
    exact, other = (answer(TopicPartition("o", 0), 1, 1, k, 1) for k in (TranslationKind.EXACT, kind))
    assert skips_no_record([other]) is skips_no_record([exact, other]) is skips_none


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is not JSON"),
        ("7", "a JSON int"),
        ("[]", "it is empty"),
        ("{}", "it is empty"),
        ("[7]", "row 1 is no position: it is 7"),
        ('[{"topic": "o", "partition": 0}]', "it has no offset"),
        ('[{"topic": "", "partition": 0, "offset": 1}]', "is no topic"),
        ('[{"topic": "o", "partition": true, "offset": 1}]', "is no partition"),
        ('[{"topic": "o", "partition": 0, "offset": "1"}]', "is no offset"),
        ('{"o": {"0": -1}}', "means the end of the log"),
        ('{"o": {"0": -2}}', "means the start of the log"),
        ('{"o": {"x": 1}}', "is no partition"),
        ('{"o": 1}', "holds no offsets of o"),
    ],
)
def test_parse_malformed_position_is_refused(text: str, words: str) -> None:
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


def test_read_offsets_checkpoint_returns_last_committed_batch(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {9: log('{"o":{"0":5}}'), 10: log('{"o":{"0":8,"1":0}}')}, [8, 9, 10])
    external = read_offsets(folder)
    assert (external.form, external.notices) == (OffsetsForm.SPARK, ())
    assert [(str(one.partition), one.offset) for one in external.positions] == [("o-0", 8), ("o-1", 0)]


def test_read_offsets_planned_batch_and_state_are_in_notices(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {1: log('{"o":{"0":5}}', '{"logOffset":3}', "-"), 2: log('{"o":{"0":8}}')}, [1])
    (folder / "state").mkdir()
    external = read_offsets(folder)
    assert [one.offset for one in external.positions] == [5]
    assert [
        word in " ".join(external.notices) for word in ("batch 2 was planned", "its 3 offsets", "2 other", "state")
    ] == [True] * 4


def test_read_offsets_planned_batch_without_records_and_sources_of_other_formats(tmp_path: Path) -> None:
    committed, planned = log('{"o":{"0":5,"1":9}}', '{"a":{"0":1},"b":5}', "{}"), log('{"o":{"0":5,"1":8,"2":4}}')
    external = read_offsets(checkpoint(tmp_path, {1: committed, 2: planned}, [1]))
    assert [one.offset for one in external.positions] == [5, 9]
    assert external.notices[0].startswith("2 other source(s)")
    assert "which of its 0 offsets" in external.notices[1]


def test_read_offsets_malformed_checkpoint_is_refused(tmp_path: Path) -> None:
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
        ("", "begins with ''"),
        (log(*["-"] * (MOST_SOURCES + 1)), f"more than {MOST_SOURCES} lines of sources"),
    ):
        (folder / "offsets" / "0").write_text(text)
        with pytest.raises(UsageError, match=words):
            read_offsets(folder)
    with pytest.raises(UsageError, match="cannot be read"):
        read_offsets(tmp_path / "nowhere.json")
