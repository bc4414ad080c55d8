"""The last pointer that a bootstrap address followed, in a file: a restart continues there while no pointer can be read.

Rules: written after each change, as a whole. It holds an alias and a version, no address: that is the properties file's. A
pointer that is read always counts more, unless its version is lower. Not for: deciding (`rules`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, TypeAdapter

from drlib.client.bootstrap.rules import Known
from drlib.errors import UsageError
from drlib.files import read_json, write_whole


@dataclass(frozen=True, slots=True)
class Stored:
    """`application`: whose pointer was followed; `at_ms`: when it was written (Unix time in milliseconds)."""

    application: str
    version: Annotated[int, Field(ge=0, strict=True)]
    cluster: Annotated[str, Field(min_length=1, max_length=255)]
    at_ms: Annotated[int, Field(ge=0, strict=True)]

    @property
    def known(self) -> Known:
        return Known(self.version, self.cluster)


STORED: Final = TypeAdapter(Stored)


def read(path: Path, application: str) -> Stored | None:
    """What is stored for `application`; None without a file. Raises `UsageError` for a file that is no state of it."""
    try:
        stored = read_json(path, STORED, "Remove it: a new one is written when the pointer has been read.")
    except FileNotFoundError:
        return None
    if stored.application != application:
        raise UsageError(
            f"{path} cannot be used",
            f"it is of the pointer of {stored.application}, and this address follows that of {application}",
            "Give each address a --state file of its own.",
        )
    return stored


def write(path: Path, stored: Stored) -> None:
    """Replace the file. Raises OSError."""
    write_whole(path, json.dumps(asdict(stored)))
