"""Where a topic without a position begins: the values of auto.offset.reset and drlib.start.timestamp, and where they count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.config.start_rule import Start, StartRule
from drlib.errors import UsageError

HEAD = """
clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:2
A->B.enabled = true
"""
Load = Callable[[str], MirrorSettings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def write_and_load(text: str) -> MirrorSettings:
        path = tmp_path / "mm2.properties"
        path.write_text(HEAD + text)
        return load_mirror_settings(path)

    return write_and_load


def start(load: Load, text: str) -> StartRule:
    return load(text).flow("A", "B").start


@pytest.mark.parametrize(
    ("value", "kind", "ms"),
    [
        ("earliest", Start.EARLIEST, 0),
        ("Latest", Start.LATEST, 0),
        ("none", Start.NONE, 0),
        ("by_duration:P1DT2H3M4.5S", Start.AGO, 93_784_500),
        ("by_duration:PT0S", Start.AGO, 0),
        ("by_duration:p2d", Start.AGO, 172_800_000),
    ],
)
def test_reset_value_is_read(load: Load, value: str, kind: Start, ms: int) -> None:
    rule = start(load, f"A.consumer.auto.offset.reset = {value}")
    assert (rule.kind, rule.ms) == (kind, ms)
    assert str(rule) == f"auto.offset.reset = {value.lower()}"


@pytest.mark.parametrize(
    "value", ["newest", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:P-1D", "P1D"]
)
def test_reset_value_that_kafka_refuses_is_refused(load: Load, value: str) -> None:
    with pytest.raises(UsageError, match=r"auto\.offset\.reset"):
        load(f"A.consumer.auto.offset.reset = {value}")


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("", Start.EARLIEST),
        ("A->B.consumer.auto.offset.reset = latest", Start.LATEST),
        ("A->B.consumer.auto.offset.reset = none\nA.consumer.auto.offset.reset = latest", Start.LATEST),
        ("A.consumer.auto.offset.reset = none\nA->B.source.consumer.auto.offset.reset = latest", Start.LATEST),
        ("B.consumer.auto.offset.reset = latest", Start.EARLIEST),
        ("consumer.auto.offset.reset = latest", Start.EARLIEST),
        ("auto.offset.reset = latest", Start.EARLIEST),
        ("B.producer.auto.offset.reset = latest", Start.EARLIEST),
    ],
)
def test_reset_counts_where_the_source_consumer_is_set(load: Load, lines: str, kind: Start) -> None:
    settings = load(lines)
    assert settings.flow("A", "B").start.kind is kind
    honoured = kind is not Start.EARLIEST or lines.startswith("B.consumer")  # B's consumer reads in B->A
    assert bool(settings.notices) is bool(lines and not honoured)


def test_reset_is_set_per_flow(load: Load) -> None:
    settings = load("A->B.consumer.auto.offset.reset = latest\nB.consumer.auto.offset.reset = none")
    assert settings.flow("A", "B").start.kind is Start.LATEST
    assert settings.flow("B", "A").start.kind is Start.NONE


@pytest.mark.parametrize(
    ("value", "ms"),
    [("1793491200000", 1793491200000), ("2026-11-01T00:00:00Z", 1793491200000), ("1970-01-01T01:00+01:00", 0)],
)
def test_start_timestamp_beats_the_reset(load: Load, value: str, ms: int) -> None:
    rule = start(load, f"A.consumer.auto.offset.reset = none\nA->B.drlib.start.timestamp = {value}")
    assert (rule.kind, rule.ms, rule.timestamp_ms(5)) == (Start.AT, ms, ms)


@pytest.mark.parametrize(
    "value", ["yesterday", "2026-11-01", "2026-11-01T00:00:00", "1960-01-01T00:00:00Z", "-5", "9" * 16]
)
def test_start_timestamp_without_offset_or_sense_is_refused(load: Load, value: str) -> None:
    with pytest.raises(UsageError, match=r"drlib\.start\.timestamp"):
        load(f"drlib.start.timestamp = {value}")


def test_start_rule_ago_is_counted_from_now() -> None:
    assert StartRule(Start.AGO, 1000).timestamp_ms(5000) == 4000
    assert StartRule(Start.AGO, 9000).timestamp_ms(5000) == 0
    assert StartRule(Start.LATEST).timestamp_ms(5000) is None
