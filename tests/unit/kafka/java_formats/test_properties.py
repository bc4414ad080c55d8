"""Java's .properties grammar with line numbers."""

import re
from pathlib import Path

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.errors import UsageError
from drlib.kafka.java_formats.properties import MOST_ENTRIES, Entry, parse, read

TEXT = r"""# a comment
clusters = A, B
! another, then a blank line

  topics : one,\
      two
A->B.enabled true
topics.exclude=a\\.b
name=\u00fc\
"""


def test_parse_grammar_and_line_numbers() -> None:
    assert parse(TEXT, Path("x")).entries == (
        Entry(2, "clusters", "A, B"),
        Entry(5, "topics", "one,two"),
        Entry(7, "A->B.enabled", "true"),
        Entry(8, "topics.exclude", r"a\.b"),
        Entry(9, "name", "ü"),
    )


@given(st.text(alphabet="ab#! \\\n\r\t\f=:", max_size=60))
def test_parse_any_text_agrees_with_javaproperties_line_by_line(text: str) -> None:
    wanted, line = [], 1
    for element in javaproperties.parse(text):
        if isinstance(element, javaproperties.KeyValue):
            wanted.append(Entry(line, element.key, element.value))
        line += len(re.findall(r"\r\n|\r|\n", element.source))
    assert list(parse(text, Path("x")).entries) == wanted


def test_parse_windows_line_ends_count_once() -> None:
    assert [entry.line for entry in parse("a=1\r\n\r\nb=2\rc=3", Path("x")).entries] == [1, 3, 4]


def test_parse_byte_order_mark_of_an_editor_is_no_part_of_the_first_key() -> None:
    assert parse("\ufeffclusters = A, B", Path("x")).entries == (Entry(1, "clusters", "A, B"),)


def test_effective_last_of_two_lines_counts() -> None:
    file = parse("a=1\na=2", Path("x"))
    assert len(file.entries) == 2
    assert file.effective()["a"] == Entry(2, "a", "2")


def test_read_unreadable_file_is_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read(tmp_path / "none.properties")
    with pytest.raises(UsageError, match=r"x:2 is not a properties line"):
        parse("a=1\nb=\\u12", Path("x"))


def test_read_bytes_that_are_not_utf8_may_be_in_comments_alone(tmp_path: Path) -> None:
    path = tmp_path / "latin"
    path.write_bytes(b"# caf\xe9\n ! \xfc \\\na = 1\n")
    assert read(path).entries == (Entry(3, "a", "1"),)
    for line in (b"a = \xfc", b"\xfc = a", b"a = b\\\n# \xfc"):
        path.write_bytes(b"# x\n" + line)
        with pytest.raises(UsageError, match=r"latin:2 is not a properties line: it has a byte that is not UTF-8"):
            read(path)
    path.write_bytes(b"a = \\u00fc \xc3\xbc")  # Java reads the second as two letters of ISO-8859-1
    assert read(path).effective()["a"].value == "\u00fc \u00fc"


@pytest.mark.parametrize("text", ["a = x\\ud800", "a\\udfff = x", "a = \\udc00\\ud800"])
def test_parse_half_of_a_surrogate_pair_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"x:2 .*surrogate"):
        parse(f"b = 1\n{text}", Path("x"))
    assert parse("a = \\ud83d\\ude00", Path("x")).effective()["a"].value == "\U0001f600"


def test_parse_more_keys_than_anyone_writes_are_refused() -> None:
    assert len(parse("a=1\n" * MOST_ENTRIES, Path("x")).entries) == MOST_ENTRIES
    with pytest.raises(UsageError, match=r"sets 20,001, and drlib reads up to 20,000"):
        parse("a=1\n" * (MOST_ENTRIES + 1), Path("x"))
