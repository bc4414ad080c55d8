"""What a listener that is probed may answer: mechanisms, none, or anything else."""

from __future__ import annotations

import pytest

from drlib.kafka.net.listener_probe import mechanisms_in


@pytest.mark.parametrize(
    ("body", "mechanisms"),
    [
        (b"\0\x21\0\0\0\2\0\5PLAIN\0\1X", ("PLAIN", "X")),
        (b"\0\x22\0\0\0\0", ()),
        (b"\0\0\xff\xff\xff\xff", None),
        (b"\0\0\0\0\0\1\xff\xff", None),
        (b"\0\0\0\0\0\1\0\1\xff", None),
        (b"\0\0\x7f\xff\xff\xff", None),
        (b"\0", None),
        (b"", None),
    ],
)
def test_mechanisms_in_any_bytes_are_mechanisms_or_no_answer(body: bytes, mechanisms: tuple[str, ...] | None) -> None:
    assert mechanisms_in(body) == mechanisms
