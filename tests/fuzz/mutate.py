"""Make new inputs of a decoder from valid ones: everything that happens is drawn from one `Random`.

Rules: a case is a tuple of parts, such as key and value of a record. Bytes are flipped, cut, repeated, joined with those of
another sample, and overwritten with the numbers at which decoders go wrong; JSON is changed as a tree as well, so that what
comes out is JSON more often than not. A case has `MOST_BYTES` at most, of which most have far less.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from hostile_text import HOSTILE

Case = tuple[bytes, ...]

MOST_BYTES: Final = 1 << 20
_USUAL_BYTES: Final = 1 << 14
_MOST_STEPS: Final = 4
_DEEP: Final = 5000
_BOUNDARIES: Final = (
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**64 - 1,
)
_NUMBERS: Final = (
    0, -1, 1, -(2**31), 2**31, 2**53, 2**63 - 1, -(2**63), 2**63, 2**64, 10**40, 0.0, -0.5, 1e-320, 1e308, 1e22,
)  # fmt: skip
_TEXTS: Final = (
    *HOSTILE.values(), "a" * 300, "a" * 20000, "9" * 5000, "\u0663", "\u00bd", "1e999", "-1", "NaN", "true", "null", "..",
    "/dev/stdin", "a/../b", "${env:HOME}", "${file:/etc/passwd:root}", "%00", "(a|aa)+", "(" * 60, "\\", "\\u12", "[", "{}",
    "2026-11-21T10:00:00+00:00", "0001-01-01T00:00:00+23:59", "A->B", "->", "a..b", "\U0001f600",
)  # fmt: skip
_LITERALS: Final = (b"NaN", b"-Infinity", b"1e999", b"1" * 5000, b'"\\ud800"', b"\xff", b"[" * _DEEP, b'{"a":' * _DEEP)
_TOKENS: Final = (
    b"\n", b"\r", b"\r\n", b"\\", b"\\\n", b"=", b":", b",", b'"', b"'", b"#", b"- ", b"&a ", b"*a", b"!!python/none ",
    b"|", b"(", b")", b"[", b"]", b"{", b"}", b"\\u", b"\\ud800", b"\0", b"\xef\xbb\xbf", b"\x85", b"\xe2\x80\xa8", b"  ",
    b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----", b"v1\n", b"=" * 40,
)  # fmt: skip


def mutated(samples: Sequence[Case], random: Random) -> Case:
    """A case made of one of `samples`, or of two."""
    parts = list(random.choice(samples))
    other = random.choice(samples)
    only = _tree if random.random() < 0.4 else None
    for _ in range(random.randint(1, _MOST_STEPS)):
        at = random.randrange(len(parts))
        change = only or random.choice(_CHANGES)
        parts[at] = change(parts[at], other[min(at, len(other) - 1)], random)[:MOST_BYTES]
    return tuple(parts)


def _flip(data: bytes, _: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _bit in range(random.randint(1, 4)):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(data: bytes, _: bytes, random: Random) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] if random.random() < 0.7 else data[at:]


def _take_out(data: bytes, _: bytes, random: Random) -> bytes:
    begin, end = _span(data, random)
    return data[:begin] + data[end:]


def _repeat(data: bytes, _: bytes, random: Random) -> bytes:
    begin, end = _span(data, random)
    times = random.choice((1, 1, 2, 3, 20, 1000, MOST_BYTES))
    most = MOST_BYTES if random.random() < 0.02 else _USUAL_BYTES
    return data[:end] + (data[begin:end] * min(times, most // max(1, end - begin))) + data[end:]


def _join(data: bytes, other: bytes, random: Random) -> bytes:
    begin, end = _span(other, random)
    at = random.randint(0, len(data))
    return data[:at] + other[begin:end] + data[at if random.random() < 0.5 else at + end - begin :]


def _number(data: bytes, _: bytes, random: Random) -> bytes:
    """A number of fixed size overwritten, big-endian as Kafka's."""
    form = random.choice("BHIQ")
    value = random.choice(_BOUNDARIES) - random.choice((0, 0, 1))
    packed = struct.pack(f">{form}", value % (1 << 8 * struct.calcsize(form)))
    at = random.randint(0, len(data))
    return data[:at] + packed + data[at + len(packed) :]


def _varint(data: bytes, _: bytes, random: Random) -> bytes:
    """A number of variable size, which may be without an end."""
    size = random.choice((1, 4, 5, 8, 9, 10, 11, 40, 3000)) if random.random() < 0.995 else MOST_BYTES
    last = random.choice((b"\x00", b"\x01", b"\x7f", b""))
    at = random.randint(0, len(data))
    return data[:at] + random.choice((b"\xff", b"\x80")) * size + last + data[at + random.randint(0, 2) :]


def _token(data: bytes, _: bytes, random: Random) -> bytes:
    """A piece of text put in, with a meaning in one of the formats."""
    piece = random.choice(_TOKENS) if random.random() < 0.6 else _hostile(random).encode(errors="surrogatepass")
    begin, end = _span(data, random)
    return data[:begin] + piece + data[begin if random.random() < 0.5 else end :]


def _lines(data: bytes, other: bytes, random: Random) -> bytes:
    """Lines in another order, twice, without one, or with one of another sample."""
    lines: list[bytes] = data.splitlines(keepends=True) or [data]
    at = random.randrange(len(lines))
    match random.randrange(4):
        case 0:
            lines.insert(random.randint(0, len(lines)), lines[at])
        case 1:
            lines.pop(at)
        case 2:
            lines.insert(at, random.choice(other.splitlines(keepends=True) or [other]))
        case _:
            random.shuffle(lines)
    return b"".join(lines)


def _tree(data: bytes, other: bytes, random: Random) -> bytes:
    """JSON with values, names and depth changed; anything else is changed as bytes."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return random.choice(_CHANGES[:-1])(data, other, random)
    for _ in range(random.randint(1, 3)):
        value = _changed(value, random)
    if random.random() < 0.1:
        for _ in range(random.choice((5, 63, 64, 65, 900))):
            value = [value] if random.random() < 0.5 else {"a": value}
    try:
        text = _encoded(value, ensure_ascii=random.random() < 0.5)
    except (ValueError, RecursionError):
        return data
    if random.random() < 0.1:  # what no encoder writes
        at = text.find(b":", random.randint(0, len(text)))
        text = text[: at + 1] + random.choice(_LITERALS) + text[at + 1 :]
    return text


def _encoded(value: object, *, ensure_ascii: bool) -> bytes:
    """`value` as JSON, cut at `MOST_BYTES`: repeated items of repeated items would be gigabytes."""
    text, size = [], 0
    for piece in json.JSONEncoder(ensure_ascii=ensure_ascii).iterencode(value):
        text.append(piece.encode(errors="surrogatepass"))
        size += len(text[-1])
        if size > MOST_BYTES:
            break
    return b"".join(text)


def _changed(value: object, random: Random) -> object:
    """`value` with something in it replaced, left out, doubled or renamed."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        copy = dict(value)
        name = random.choice(list(copy))
        match random.randrange(8):
            case 0:
                del copy[name]
            case 1:
                copy[_hostile(random)] = copy[name]
            case 2:
                copy[random.choice(list(copy))] = copy[name]
            case _:
                copy[name] = _changed(copy[name], random)
        return copy
    if isinstance(value, list) and value and random.random() < 0.85:
        items = list(value)
        at = random.randrange(len(items))
        match random.randrange(6):
            case 0:
                del items[at]
            case 1:
                items[at:at] = [items[at]] * random.choice((1, 2, 50))
            case _:
                items[at] = _changed(items[at], random)
        return items
    match random.randrange(7):
        case 0 | 1:
            return random.choice(_NUMBERS)
        case 2 | 3:
            return _hostile(random)
        case 4:
            return random.choice((None, True, False, [], {}, [[]], {"": {}}, [None], ""))
        case 5:
            return [value, value]
        case _:
            return {str(value)[:40]: value}


def _hostile(random: Random) -> str:
    return random.choice(_TEXTS)


def _span(data: bytes, random: Random) -> tuple[int, int]:
    begin = random.randint(0, len(data))
    length = random.choice((1, 2, 4, 8, 32, 256, len(data)))
    return begin, min(len(data), begin + length)


Change = Callable[[bytes, bytes, Random], bytes]
_CHANGES: Final[tuple[Change, ...]] = (
    _flip, _cut, _take_out, _repeat, _join, _number, _number, _varint, _token, _token, _lines, _tree,
)  # fmt: skip
