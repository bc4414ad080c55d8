"""Decode brokers' answers with kafka-python's classes, and refuse what their definitions do not allow.

Rules: kafka-python takes null for any text, bytes or array; here only where Kafka's message definition says `nullableVersions`.
Any bytes give an answer or a `ValueError`, so that what asks need not look for nulls.
A length has at most five bytes: kafka-python reads one of any size, in time that grows with its square.
Not for: Fetch and Produce (`drlib.kafka.protocol`); what an answer means.
Source: the message definitions of Kafka, which kafka-python contains.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32

_LAST_SHIFT: Final = 28  # of a number of 32 bits, 7 bits in each byte
_CAN_BE_NULL: Final = ("string", "bytes", "records")  # in bytes; kafka-python's None for a UUID is one of zeros

Layout = tuple[tuple[str, bool, bool, "Layout | None"], ...]
"""Of each field: its name, whether it may be null, whether it is an array, and what its structures hold."""


def decode(response: Any, version: int, body: bytes | memoryview) -> Any:
    """The answer of kafka-python's class `response` in `body`. Raises `ValueError`."""
    try:
        answer = response.decode(body, version=version)
    except (struct.error, IndexError, TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None
    for name in _nulls(answer, _layout(response, version)):
        raise ValueError(f"{name} is null")
    return answer


class _Length(UnsignedVarInt32):  # type: ignore[misc]  # kafka-python has no types
    """Writes the source of a decoder of lengths; kafka-python compiles that of each answer when it is first needed."""

    @classmethod
    def emit_decode_from(cls, ctx: Any, var_name: str, indent: str) -> None:
        byte, shift = ctx.next_var("b"), ctx.next_var("sh")
        for line in (
            f"{var_name} = {shift} = 0",
            "while True:",
            f"    {byte} = data[pos]",
            "    pos += 1",
            f"    {var_name} |= ({byte} & 0x7f) << {shift}",
            f"    if not ({byte} & 0x80): break",
            f"    {shift} += 7",
            f"    if {shift} > {_LAST_SHIFT}: raise ValueError('a length without an end')",
        ):
            ctx.emit(indent, line)


UnsignedVarInt32.emit_decode_from = _Length.emit_decode_from


@cache
def _layout(response: Any, version: int) -> Layout:
    return _fields(response._struct, version)


def _fields(layout: Any, version: int) -> Layout:
    return tuple(
        (
            name,
            field.nullable_for_version_q(version) or not (field.is_array() or field.type_str in _CAN_BE_NULL),
            field.is_array(),
            _fields(field, version) if field.is_struct() or field.is_struct_array() else None,
        )
        for name, field in layout.fields.items()
        if field.for_version_q(version)
    )


def _nulls(value: Any, layout: Layout) -> Iterator[str]:
    """The fields in `value` that are null and may not be."""
    for name, nullable, array, inner in layout:
        held = getattr(value, name)
        if held is None:
            if not nullable:
                yield name
        elif array and inner is not None:
            for item in held:
                yield from _nulls(item, inner)
        elif array:
            if None in held:
                yield name
        elif inner is not None:
            yield from _nulls(held, inner)
