"""Brokers' answers: nulls where the message definitions allow them, and nowhere else."""

from __future__ import annotations

import struct
import time

import pytest
from kafka.protocol.consumer import JoinGroupResponse, OffsetFetchResponse
from kafka.protocol.metadata import MetadataResponse

from drlib.kafka import answers


def text(value: str | None) -> bytes:
    return struct.pack(">h", -1 if value is None else len(value)) + (value or "").encode()


def metadata(host: str | None, rack: str | None) -> bytes:
    broker = struct.pack(">i", 1) + text(host) + struct.pack(">i", 9092) + text(rack)
    return bytes(4) + struct.pack(">i", 1) + broker + struct.pack(">hii", -1, 1, 0)


def test_decode_null_that_is_allowed_is_none() -> None:
    answer = answers.decode(MetadataResponse, 5, metadata("h", None))
    assert [(broker.host, broker.rack) for broker in answer.brokers] == [("h", None)]
    assert answer.cluster_id is None


@pytest.mark.parametrize(
    ("body", "why"),
    [(metadata(None, "r"), "host"), (bytes(4) + struct.pack(">i", -1) + bytes(20), "brokers")],
)
def test_decode_null_that_is_not_allowed_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=f"{why} is null"):
        answers.decode(MetadataResponse, 5, body)


@pytest.mark.parametrize("body", [metadata("h", "r")[:-3], b"", b"\xff" * 40])
def test_decode_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- of any reason
        answers.decode(MetadataResponse, 5, body)


def test_decode_looks_into_nested_answers() -> None:
    group = b"\2g\2\2t\2" + struct.pack(">iqi", 0, 5, 0) + b"\0\0\0\0\0\0\0\0\0\0"
    body = bytes(4) + b"\2" + group
    assert answers.decode(OffsetFetchResponse, 8, body).groups[0].topics[0].partitions[0].metadata is None
    with pytest.raises(ValueError, match="name is null"):
        answers.decode(OffsetFetchResponse, 8, body.replace(b"\2\2t\2", b"\2\0\2"))


@pytest.mark.parametrize(
    ("response", "version"), [(MetadataResponse, 12), (OffsetFetchResponse, 8), (JoinGroupResponse, 7)]
)
@pytest.mark.parametrize("start", range(4, 16))
def test_decode_length_without_an_end_is_refused_at_once(response: type, version: int, start: int) -> None:
    """Bytes that all say that another one follows: kafka-python alone takes minutes for ten megabytes."""
    began = time.process_time()
    with pytest.raises(ValueError):  # noqa: PT011 -- of any reason
        answers.decode(response, version, bytes(start) + b"\xff" * (10 << 20))
    assert time.process_time() - began < 2
