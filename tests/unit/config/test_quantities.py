"""Quantities as operators write them, and as drlib prints them."""

from __future__ import annotations

import pytest

from drlib.config.quantities import byte_count, bytes_per_second, seconds
from drlib.errors import UsageError


def test_quantities_parse() -> None:
    assert bytes_per_second("5MB/s") == 5e6
    assert bytes_per_second("1Gb/s") == bytes_per_second("1 Gbps") == bytes_per_second("1Gbit/s") == 125e6
    assert bytes_per_second("1MiB/s") == 2**20
    assert byte_count("256MiB") == 2**28
    assert (seconds("200ms"), seconds("24h"), seconds("7d"), seconds("1.5s")) == (0.2, 86400, 604800, 1.5)


@pytest.mark.parametrize("text", ["", "5", "MB/s", "5 parsecs", "-5MB/s", "5MB", "5XB/s", "5Kib"])
def test_quantities_invalid_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a valid rate"):
        bytes_per_second(text, "rate")
