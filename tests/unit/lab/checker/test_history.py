"""History lines: what is written is read back, what is torn is dropped and counted, what is missing is said."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.lab.checker.history import (
    CommitStatus,
    Committed,
    Consumed,
    History,
    Mirrored,
    Produced,
    ProducedStatus,
    decode,
    digest,
    encode,
    encode_end,
)
from drlib.lab.checker.history_files import HistoryWriter, read_history

PRODUCED = Produced("7", "UA1545", 0, "LEFT", "flights", 3, 12, 1000, 1004, ProducedStatus.ACKED, 99)
CONSUMED = Consumed("arrivals", "LEFT", "flights", 3, 12, "7", "UA1545", 0, 1010)
COMMITTED = Committed("arrivals", "LEFT", "flights", 3, 13, 1010, CommitStatus.UNKNOWN)
MIRRORED = Mirrored("LEFT.flights", 3, 14, "7", "UA1545", 0, 1000, None)


def test_history_rows_round_trip() -> None:
    lines = [encode(row) for row in (PRODUCED, CONSUMED, COMMITTED, MIRRORED)] + [encode_end()]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    assert decode(lines) == History((PRODUCED,), (CONSUMED,), (COMMITTED,), (MIRRORED,))
    summed = replace(CONSUMED, total=1010)
    assert decode([encode(summed), encode_end()]) == History(consumed=(summed,))


INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.text(), st.text(), INTEGERS, INTEGERS | st.none())
def test_history_any_id_and_key_round_trip(name: str, key: str, n: int, mark: int | None) -> None:
    row = Produced(name, key, n, "LEFT", "flights", 0, 0, 1, 2, ProducedStatus.IN_DOUBT, mark)
    if not any("\ud800" <= char <= "\udfff" for char in name + key):
        assert decode([encode(row), encode_end()]) == History(produced=(row,))


@pytest.mark.parametrize("cut", range(1, len(encode(PRODUCED))))
def test_history_cut_line_is_torn_alone(cut: int) -> None:
    history = decode([encode(CONSUMED), encode(PRODUCED)[:cut]], "arrivals")
    assert history == History(consumed=(CONSUMED,), torn=1, open=("arrivals",))


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{}\n",
        b'["P","7"]\n',
        b'["K","g","LEFT","flights",0,1,2,"perhaps"]\n',
        b'["M","t",0,0,"i","k",0,0,"digest"]\n',
        b'["C","g","LEFT","flights","0",1,"7","k",0,1]\n',
        b"\xff\xfe\n",
    ],
)
def test_history_unknown_line_is_torn(line: bytes) -> None:
    assert decode([line, encode_end()]) == History(torn=1)


def test_history_without_end_line_is_open() -> None:
    assert decode([], "producer").open == ("producer",)
    assert decode([encode(PRODUCED)], "producer").open == ("producer",)
    assert decode([encode(PRODUCED), encode_end()], "producer").open == ()
    assert decode([encode_end(), encode(PRODUCED)], "producer").open == ("producer",)


def test_digest_differs_for_different_content() -> None:
    contents: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]] = [
        (b"k", b"v", [("id", b"1")], 5),
        (None, b"v", [("id", b"1")], 5),
        (b"", b"v", [("id", b"1")], 5),
        (b"k", None, [("id", b"1")], 5),
        (b"k", b"", [("id", b"1")], 5),
        (b"kv", b"", [("id", b"1")], 5),
        (b"k", b"w", [("id", b"1")], 5),
        (b"k", b"v", [("id", None)], 5),
        (b"k", b"v", [("id", b"1"), ("n", b"0")], 5),
        (b"k", b"v", [("n", b"0"), ("id", b"1")], 5),
        (b"k", b"v", [("id", b"1")], 6),
    ]
    assert len({digest(*content) for content in contents}) == len(contents)
    assert digest(b"k", b"v", [("id", b"1")], 5) == digest(b"k", b"v", [("id", b"1")], 5)


def test_digest_is_the_one_that_earlier_histories_hold() -> None:
    """A CRC-32, by zlib: lengths in 4 bytes, all ones for null, and the time in 8; -1 is no time."""
    content = b"\0\0\0\1k" + b"\xff" * 4 + b"\0\0\0\2id" + b"\0\0\0\0"
    assert digest(b"k", None, [("id", b"")], -1) == zlib.crc32(content + b"\xff" * 8)
    assert digest(b"k", None, [("id", b"")], 258) == zlib.crc32(content + b"\0" * 6 + b"\1\2")


def test_read_history_keeps_order_and_names_missing_files(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "a") as first:
        first.append(PRODUCED)
    with HistoryWriter(tmp_path / "b") as second:
        second.append_all([CONSUMED, COMMITTED])
    history = read_history(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert history == History((PRODUCED,), (CONSUMED,), (COMMITTED,), missing=("c",))


def test_history_writer_after_kill_starts_a_new_line(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(encode(PRODUCED) + encode(PRODUCED)[:9])
    with HistoryWriter(path) as writer:
        writer.append(MIRRORED)
    assert read_history(path) == History(produced=(PRODUCED,), mirrored=(MIRRORED,), torn=1)


def test_history_writer_tick_writes_and_exception_leaves_open(tmp_path: Path) -> None:
    path = tmp_path / "a"
    writer = HistoryWriter(path)
    writer.append_all([CONSUMED])
    assert read_history(path) == History(consumed=(CONSUMED,), open=("a",))
    writer.close(whole=False)
    again = HistoryWriter(path)
    again.append(COMMITTED)
    again.__exit__(RuntimeError, RuntimeError(), None)
    assert read_history(path) == History(consumed=(CONSUMED,), committed=(COMMITTED,), open=("a",))
