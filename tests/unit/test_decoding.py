"""JSON, YAML and numbers of other processes: what is decoded, what is refused, and that size does not matter."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, TypeAdapter

from drlib import decoding
from drlib.decoding import Undecodable, address, integer, integer_or, json_as, json_value, yaml_documents

INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
# The kernel's VmHWM counts from the start of the program; ru_maxrss begins with the peak of the process that started it.
MEASURED = """\
import pathlib, re, sys, time
from drlib import decoding
name, count = sys.argv[1], int(sys.argv[2])
inputs = {
    "brackets": lambda: b"[" * count,
    "objects": lambda: b"[" + b"{}," * count + b"{}]",
    "strings": lambda: b"[" + b'"ab",' * count + b'""]',
    "quotes": lambda: b"[" * 99 + b'"' * count,
    "escapes": lambda: b"[" * 99 + b'"' + b'\\\\"' * count,
    "digits": lambda: b"1" * count,
    "decimals": lambda: b"0." + b"1" * count,
    "yaml": lambda: "a:\\n" + "- [b, c]\\n" * count,
    "yaml flow": lambda: "[" * count,
    "yaml dashes": lambda: "- " * count,
    "yaml quotes": lambda: '"' + "a" * count,
}
data = inputs[name]()
began = time.process_time()
try:
    decoding.yaml_documents(data) if name.startswith("yaml") else decoding.json_value(data)
except decoding.Undecodable as error:
    assert len(str(error)) < 200
peak = re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())
print(peak[1], time.process_time() - began)
"""


class Point(BaseModel):
    model_config = ConfigDict(extra="forbid")

    x: int
    names: tuple[str, ...] = ()


@given(VALUES)
def test_json_value_of_any_document_is_decoded(value: object) -> None:
    assert json_value(json.dumps(value)) == value
    assert json_value(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[1e400]", "too large"),
        (b"[-1e400]", "too large"),
        (b"[0." + b"1" * 100 + b"]", "too large"),
        (b"NaN", "no number of JSON"),
        (b"[Infinity]", "no number of JSON"),
        (b"[-Infinity]", "no number of JSON"),
        (b"[9223372036854775808]", "not a number from"),
        (b"[-9223372036854775809]", "not a number from"),
        (b"1" * 5000, "not a number from"),
        (b"1" * 1_000_000, "not a number from"),
        (b"[" * 200_000, "deeper than 64"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "deeper than 64"),
        (b"[" * 65 + b"]" * 65, "deeper than 64"),
        (b'{"a": 1, "a": 2}', "a is set twice"),
        (b'[{"b": {"a": 1, "\\u0061": 2}}]', "a is set twice"),
        (b'"\\ud800"', "half of a surrogate pair"),
        (b'{"\\udfff": 1}', "half of a surrogate pair"),
        ('"\ud800"', "half of a surrogate pair"),
        (b'"\xff"', "not UTF-8 at byte 1"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b"\x00[\x00]", "not JSON"),
        (b"", "not JSON"),
        (b"{} {}", "not JSON"),
        (b"[1,]", "not JSON"),
        (b"[" + b"1," * 1_000_001 + b"1]", "more than 1000000 values"),
        (b"[" + b"[]," * 600_000 + b"1]", "more than 1000000 values"),
        (b" " * (decoding.MOST_BYTES + 1), "larger than"),
    ],
    ids=range(28),
)
def test_json_value_that_is_not_strict_is_refused(data: bytes | str, why: str) -> None:
    with pytest.raises(Undecodable, match=why):
        json_value(data)


def test_json_value_at_each_limit_is_decoded() -> None:
    assert json_value("[9223372036854775807, -9223372036854775808]") == [(1 << 63) - 1, -(1 << 63)]
    assert json_value("[" * 64 + "]" * 64) is not None
    assert json_value(json.dumps("[" * 100 + '"\\"{' * 100)) == "[" * 100 + '"\\"{' * 100
    assert json_value('["\\ud83d\\ude00", 1e308, 1234567890123456789]') == ["\U0001f600", 1e308, 1234567890123456789]
    with pytest.raises(Undecodable, match="larger than 2 bytes"):
        json_value("[1]", most_bytes=2)


def test_json_as_kind_names_the_place_and_no_value() -> None:
    assert json_as(Point, b'{"x": 1, "names": ["a"]}') == Point(x=1, names=("a",))
    assert json_as(TypeAdapter(tuple[Point, ...]), '[{"x": 1}]') == (Point(x=1),)
    with pytest.raises(Undecodable) as refused:
        json_as(Point, b'{"x": "secret"}')
    assert str(refused.value).startswith("x: ")
    assert "secret" not in str(refused.value)
    for data in (b'{"x": 1, "x": 2}', b'{"x": 1, "y": 2}', b'{"x": 1e400}', b"[]", b'{"x": 9223372036854775808}'):
        with pytest.raises(Undecodable):
            json_as(Point, data)


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", " 1", "1_0", "1.0", "٣", "²", "0x1", "1" * 65, "1" * 100_000, b"\xff", b"11"]
)
def test_integer_that_is_not_plain_or_not_in_range_is_refused(text: str | bytes) -> None:
    with pytest.raises(Undecodable, match="not a number from 0 to 10"):
        integer(text, most=10)


def test_integer_or_default_where_it_is_none() -> None:
    assert [integer_or(7, text, 1, 10) for text in ("5", b"5", "", "0", "11", "²", "9" * 5000)] == [5, 5, 7, 7, 7, 7, 7]
    assert [integer_or(7, text) for text in ("0", str((1 << 63) - 1), "-1", str(1 << 63))] == [0, (1 << 63) - 1, 7, 7]


@pytest.mark.parametrize(
    "text", ["", "h", "h:", ":1", "h:0", "h:-1", "h:65536", "h:1_0", "h:²", "h:٣", f"h:{'9' * 5000}"]
)
def test_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Undecodable, match="not HOST:PORT"):
        address(text)


def test_address_host_and_port_are_split() -> None:
    assert [address(" h:1"), address("[::1]:65535"), address("h:0", least_port=0)] == [
        ("h", 1),
        ("::1", 65535),
        ("h", 0),
    ]


def test_integer_in_range_is_decoded() -> None:
    assert [integer("0"), integer(b"007"), integer("-5", -5)] == [0, 7, -5]
    assert integer(str((1 << 63) - 1)) == (1 << 63) - 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [x, 2.5, true, null]\nc: 'it''s'\n", {"a": 1, "b": ["x", 2.5, True, None], "c": "it's"}),
        ("a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 2\n", {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}}),
        ("a: !!str 1\n", {"a": "1"}),
        ("at: 2026-11-23\n", None),
        ("pattern: " + "0123456789" * 20 + "x", {"pattern": "0123456789" * 20 + "x"}),
    ],
)
def test_yaml_document_of_plain_data_is_decoded(text: str, value: object) -> None:
    (document,) = yaml_documents(text)
    assert value is None or document == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\na: 2\n", "line 2, column 1: a is set twice"),
        ("[" * 65 + "]" * 65, "nested deeper than 64 levels"),
        ("- " * 100_000, "nested deeper than 64 levels"),
        ("a: &x [*x]", "not complete"),
        ("a: *x", "alias"),
        ("a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)), "aliases expanded"),
        ("a: &a [" + "x, " * 400 + "]\nb: [" + "*a, " * 400 + "]", "aliases expanded"),
        ("!!python/object/apply:os.getcwd []", "a tag is not plain data"),
        ("a: !!timestamp x", "a tag is not plain data"),
        ("a: !!binary x", "a tag is not plain data"),
        ("a: 2026-99-99", "cannot be parsed"),
        ("a: 9223372036854775808", "more than 64 bits"),
        ("a: 0x" + "f" * 60, "more than 64 bits"),
        ("a: " + "1" * 5000, "more than 64 digits"),
        ("a: 1" + ":1" * 5000, "more than 64 digits"),
        ("a: .inf", "not finite"),
        ("a: .nan", "not finite"),
        ("a: 1.0e+400", "not finite"),
        ("9223372036854775808: a", "more than 64 bits"),
        ("? [a]\n: b", "unhashable"),
        ("a: [", "line 2, column 1: did not find"),
        ("a: \x00", "cannot be parsed|control|special"),
        ("a: \ud800", "cannot be parsed"),
        ("a: '" + "x" * decoding.MOST_YAML_BYTES + "'", "larger than"),
        ("- a\n" * 100_001, "more than 100000 values"),
    ],
    ids=range(25),
)
def test_yaml_document_that_is_not_plain_is_refused(text: str, why: str) -> None:
    with pytest.raises(Undecodable, match=why):
        yaml_documents(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" + "x, " * 9 + "]",
        "[&a x" + ", *a" * 8 + "]",  # an alias counts as what it stands for
        "[&a [x, y], *a, *a]",
        "[&a {x: y}, *a, *a]",
        "[&a [x, &b y], *a, *b, *b, *b]",
    ],
)
def test_yaml_document_of_the_most_values_is_decoded_and_one_more_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "MOST_YAML_VALUES", 10)
    assert len(yaml_documents(text)) == 1
    with pytest.raises(Undecodable, match="more than 10 values"):
        yaml_documents(text.removesuffix("]").removesuffix(", ") + ", x]")


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("brackets", 33_000_000),
        ("objects", 499_000),
        ("strings", 999_000),
        ("quotes", 33_000_000),
        ("escapes", 16_000_000),
        ("digits", 33_000_000),
        ("decimals", 33_000_000),
        ("yaml", 33_000),
        ("yaml flow", 1 << 20),
        ("yaml dashes", 1 << 19),
        ("yaml quotes", 1 << 20),
    ],
)
def test_decoding_of_large_input_is_bounded(name: str, count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, name, str(count)], capture_output=True, text=True, check=True, timeout=120
    )
    most_kib, seconds = map(float, done.stdout.split())
    assert most_kib < 400 * 1024
    assert seconds < 30
    assert math.isfinite(seconds)
