"""Quantities as operators write them, and as drlib prints them."""

from __future__ import annotations

import pytest

from drlib.config.quantities import byte_count, bytes_per_second, seconds
from drlib.errors import UsageError


@pytest.mark.parametrize(
    ("unit", "size"),
    [
        *(("B", 1), ("kB", 10**3), ("KB", 10**3), ("MB", 10**6), ("GB", 10**9), ("TB", 10**12)),
        *(("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40), ("Mb", 125_000)),
    ],
)
def test_byte_count_of_every_unit(unit: str, size: int) -> None:
    assert byte_count(f"3 {unit}") == 3 * size
    assert bytes_per_second(f"3{unit}/s") == 3 * size


@pytest.mark.parametrize(
    ("unit", "one"), [("us", 1e-6), ("ms", 1e-3), ("s", 1), ("m", 60), ("min", 60), ("h", 3600), ("d", 86_400)]
)
def test_seconds_of_every_unit(unit: str, one: float) -> None:
    assert seconds(f"3{unit}") == pytest.approx(3 * one, rel=1e-12)


def test_quantities_parse() -> None:
    assert bytes_per_second("5MB/s") == 5e6
    assert bytes_per_second("1Gb/s") == bytes_per_second("1 Gbps") == bytes_per_second("1Gbit/s") == 125e6
    assert bytes_per_second("1MiB/s") == 2**20
    assert byte_count("256MiB") == 2**28
    assert (seconds("200ms"), seconds("24h"), seconds("7d"), seconds("1.5s")) == (0.2, 86400, 604800, 1.5)


@pytest.mark.parametrize("text", ["", "5", "MB/s", "5 parsecs", "-5MB/s", "5MB", "5XB/s", "5Kib", "5kiB/s"])
def test_quantities_invalid_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a valid rate"):
        bytes_per_second(text, "rate")
