"""Unicode's general categories as the inside of a Python character class: `\\p{L}`, `\\p{Lu}`, `\\p{Nd}` and so on.

Rules: a category is what Python's own Unicode database says; for letters newer than Java's database the two may differ,
which topic names cannot hold. Made when first asked for, a category takes about half a second.
Not for: scripts, blocks and binary properties, which are refused by name.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from typing import Final

_MINOR: Final = {"L": "ultmo", "M": "nce", "N": "dlo", "P": "cdseifo", "S": "mcko", "Z": "slp", "C": "cfons"}
_NAMES: Final = frozenset(major + minor for major, letters in _MINOR.items() for minor in ("", *letters))


@cache
def category(name: str) -> str | None:
    """The ranges of a general category, or of a major one such as `L`; None when there is none of that name."""
    if name not in _NAMES:
        return None
    ranges: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(name):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = (ranges[-1][0], code)
            else:
                ranges.append((code, code))
    return "".join(
        f"{re.escape(chr(first))}-{re.escape(chr(last))}" if last > first else re.escape(chr(first))
        for first, last in ranges
    )
