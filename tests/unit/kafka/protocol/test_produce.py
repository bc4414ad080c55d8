"""Produce v9: what a request holds and what the leader's answer means."""

from __future__ import annotations

import struct

import pytest

from drlib.kafka.protocol.flexible import NO_TAGS, Reader, compact_string, uvarint
from drlib.kafka.protocol.produce import ProduceResult, decode, encode
from drlib.kafka.protocol.recode import Record, rebuild


def answer(errors: list[str | None], message: str | None) -> memoryview:
    """Orders-3 refused with code 87, `errors` for its records."""
    text = [b"\0" if error is None else compact_string(error) for error in errors]
    partition = struct.pack(">ihqqq", 3, 87, -1, 1234, 0) + uvarint(len(errors) + 1)
    partition += b"".join(struct.pack(">i", n) + one + NO_TAGS for n, one in enumerate(text))
    partition += (b"\0" if message is None else compact_string(message)) + NO_TAGS
    topic = compact_string("orders") + uvarint(2) + partition + NO_TAGS
    return memoryview(uvarint(2) + topic + struct.pack(">i", 0) + NO_TAGS)


@pytest.mark.parametrize(
    ("errors", "message", "detail"),
    [
        ([], None, None),
        ([None, ""], None, None),
        (["no key"], "refused", "refused"),
        (["a", None, "b", "c", "d"], None, "a; b; c"),
    ],
)
def test_decode_refusal_has_the_message_or_the_first_errors_of_its_records(
    errors: list[str | None], message: str | None, detail: str | None
) -> None:
    assert decode(answer(errors, message)) == [ProduceResult("orders", 3, 87, -1, detail, 1234)]


def test_encode_request_waits_for_all_replicas_and_has_every_batch() -> None:
    batches = [rebuild([Record(0, 1, b"k", b"v" * n)], codec=0, producer_id=1, producer_epoch=0, base_sequence=0)
               for n in (1, 200)]  # fmt: skip
    request = b"".join(map(bytes, encode({"orders": list(zip((4, 5), batches, strict=True)), "bills": []}, 30_000)))
    fields = Reader(memoryview(request))
    assert fields.compact_string() is None  # no transactional ID
    assert fields.fields(struct.Struct(">hi")) == (-1, 30_000)
    found: dict[str | None, list[tuple[int, bytes]]] = {}
    for _ in fields.array():
        of = found.setdefault(fields.compact_string(), [])
        for _ in fields.array():
            (partition,) = fields.fields(struct.Struct(">i"))
            of.append((partition, bytes(fields.compact_bytes() or b"")))
            fields.skip_tags()
        fields.skip_tags()
    fields.skip_tags()
    assert found == {
        "orders": [(4, batches[0].head + bytes(batches[0].body)), (5, batches[1].head + bytes(batches[1].body))],
        "bills": [],
    }
    assert fields.rest() == b""
