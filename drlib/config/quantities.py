"""Parse rates, sizes and times as people write them: `5MB/s`, `1Gb/s`, `256MiB`, `200ms`, `24h`. Pure.

Rules: B is bytes and b is bits, as on every data sheet, so `1Gb/s` is 125,000,000 bytes a second; k, M, G and T are powers of
1000, Ki, Mi, Gi and Ti of 1024. A number without a unit is refused, as its unit would be a guess.
Not for: values of a properties file, which are in bytes and milliseconds as in Kafka.
"""

import re
from typing import Final

from drlib.errors import UsageError

_PREFIXES: Final = {
    "": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip
_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER: Final = r"(\d+(?:\.\d+)?|\.\d+)"
_SIZE: Final = re.compile(rf"{_NUMBER}\s*([kKMGT]i?|)([Bb])")
_RATE: Final = re.compile(rf"{_NUMBER}\s*([kKMGT]i?|)([Bb])(?:/s|ps|it/s)")
_TIME: Final = re.compile(rf"{_NUMBER}\s*(us|ms|s|min|m|h|d)")


def bytes_per_second(text: str, what: str = "rate") -> float:
    """`5MB/s`, `1Gb/s`, `1Gbps` -> bytes per second. Raises `UsageError`."""
    return _bytes(_RATE, text, what, "Write 5MB/s or 1Gb/s: B is bytes, b is bits.")


def byte_count(text: str, what: str = "size") -> float:
    """`256MiB`, `1kB` -> bytes. Raises `UsageError`."""
    return _bytes(_SIZE, text, what, "Write 256MiB or 1GB.")


def seconds(text: str, what: str = "time") -> float:
    """`200ms`, `24h`, `7d` -> seconds. Raises `UsageError`."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"'{text}' is not a valid {what}", "it is not a number with a unit", "Write 200ms, 30s, 24h or 7d."
        )
    return float(match[1]) * _SECONDS[match[2]]


def _bytes(form: re.Pattern[str], text: str, what: str, remedy: str) -> float:
    match = form.fullmatch(text.strip())
    prefix = _PREFIXES.get(match[2]) if match else None
    if match is None or prefix is None:
        raise UsageError(f"'{text}' is not a valid {what}", "it is not a number with a unit", remedy)
    return float(match[1]) * prefix / (8 if match[3] == "b" else 1)


DEFAULT_MEMORY: Final = "256MiB"


def parse_memory(text: str) -> int:
    """The bytes of `--memory`: as `byte_count` in any case, the `B` may be left out. Raises `UsageError`."""
    size = text.strip().upper().replace("I", "i")
    try:
        return int(byte_count(size if size.endswith("B") else f"{size}B"))
    except UsageError as error:
        raise UsageError(f"--memory {text} is not a size", error.why, "Write 256MiB or 1GiB.") from None
