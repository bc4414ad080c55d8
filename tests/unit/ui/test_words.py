"""How durations and sizes are written."""

from __future__ import annotations

import pytest

from drlib.ui import words


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "unknown"), (0.42, "0.4 s"), (9.96, "10 s"), (99, "99 s"), (125, "2 min 05 s"), (12_000, "3 h 20 min")],
)
def test_duration_texts(seconds: float | None, expected: str) -> None:
    assert words.duration(seconds) == expected
    assert words.duration(6.2 * 86_400) == "6 d 4 h"


def test_size_texts() -> None:
    assert [words.size(n) for n in (None, 512, 12_345, 999_960, 10**13)] == [
        "unknown",
        "512 B",
        "12.3 KB",
        "1.0 MB",
        "10.0 TB",
    ]
