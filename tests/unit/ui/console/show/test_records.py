"""Records and positions as tables: which offsets, what bytes look like, and that they stay text."""

from __future__ import annotations

import pytest
from hostile_text import HOSTILE, elements

from drlib.errors import UsageError
from drlib.kafka.admin.descriptions import Range, Record
from drlib.mirror.monitor.survey import GroupPosition, GroupStatus
from drlib.model import TopicPartition, TranslationKind
from drlib.ui.console.show.records import SHORT, Log, offsets, positions_html, records_html, text_of, turned

AT = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("log", "asked", "shown"),
    [
        (Log(0, 100), "newest", Range(80, 100)),
        (Log(90, 100), "", Range(90, 100)),
        (Log(0, 0), "newest", Range(0, 0)),
        (Log(0, 100), " 40 ", Range(40, 60)),
        (Log(0, 5000), "1,000", Range(1000, 1020)),
        (Log(0, 100), "95", Range(95, 100)),
        (Log(0, 100), "100", Range(100, 100)),
    ],
)
def test_page_of_offsets(log: Log, asked: str, shown: Range) -> None:
    assert offsets(log, asked) == shown


@pytest.mark.parametrize("asked", ["101", "4", "-1", "x", "1.5", "²", "٣"])
def test_page_that_is_not_in_the_log_is_refused(asked: str) -> None:
    with pytest.raises(UsageError, match="newest"):
        offsets(Log(5, 100), asked)


def test_pages_are_turned_within_the_log() -> None:
    log = Log(5, 100)
    assert turned(log, Range(40, 60), 1) == "60"
    assert turned(log, Range(10, 30), -1) == "5"
    assert turned(log, Range(95, 100), 1) == "99"
    assert turned(Log(5, 5), Range(5, 5), 1) == "5"


def test_bytes_are_text_or_hexadecimal_and_cut() -> None:
    assert text_of(None) == "null"
    assert text_of(b"") == ""
    assert text_of("Zoë\n".encode()) == "Zoë "
    assert text_of(b"\xff\x00") == "0xff00"
    assert text_of(b"x" * 1000) == f"{'x' * SHORT}… (1,000 bytes)"
    assert text_of(b"\xff" * 1000).endswith("ff… (1,000 bytes)")


def test_records_caption_says_which_offsets_were_asked_for() -> None:
    record = Record(AT, 41, 1_700_000_000_000, b"key", None, (("h", b"1"), ("n", None)))
    page = records_html("LEFT", AT, Log(5, 100), Range(40, 60), [record])
    assert "t-0 on LEFT: 1 record at offsets 40 to 59, of 5 to 99" in page
    for word in (">41<", ">key<", ">null<", ">h=1, n=null<"):
        assert word in page
    assert "no record is visible at these offsets" in records_html("LEFT", AT, Log(5, 100), Range(40, 60), [])
    assert "the log is empty" in records_html("LEFT", AT, Log(5, 5), Range(5, 5), [])


def test_positions_show_lag_age_and_where_they_lead() -> None:
    behind = GroupPosition(AT, 50, 90, 61.0, TranslationKind.BEHIND, 48, 2)
    read = GroupPosition(TopicPartition("t", 1), 9, 9, 0.0, TranslationKind.EXACT, 9)
    dark = GroupPosition(TopicPartition("t", 2), 9, None, None, TranslationKind.UNKNOWN, None)
    page = positions_html("A->B", GroupStatus("g", 3, None, 1, 1, 1, 2, (behind, read, dark)), 1_700_000_000_000)
    assert "g (A-&gt;B), as of 22:13:20" in page
    assert ">48 (behind, 2 records again)<" in page
    assert ">61 s<" in page
    assert ">unknown (unknown)<" in page
    assert page.count(">unknown<") == 3


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_records_and_positions_of_any_text_have_the_same_elements(text: str) -> None:
    def page(word: str) -> str:
        data = word.encode("utf-8", "surrogatepass")
        at = TopicPartition(f"t{word}", 0)
        record = Record(at, 1, 0, b"k" + data, b"v" + data, ((f"h{word}", b"x" + data),))
        position = GroupPosition(at, 1, 2, 1.0, TranslationKind.EXACT, 1)
        group = GroupStatus(f"g{word}", 1, 1, 1, 0, 0, 0, (position,))
        return records_html(f"c{word}", at, Log(0, 9), Range(0, 9), [record]) + positions_html(f"f{word}", group, 0)

    assert elements(page(text)) == elements(page("plain"))
