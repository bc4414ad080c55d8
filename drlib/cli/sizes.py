"""Sizes as people write them: `256MiB`, `1GB`, or bytes. Not for: sizes in a properties file, which Kafka has in bytes."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import ByteSize, TypeAdapter, ValidationError

from drlib.errors import UsageError

Memory = Annotated[str, typer.Option(metavar="SIZE", help="What the worker may take in all, whatever the topics.")]
DEFAULT_MEMORY = "256MiB"
_SIZE = TypeAdapter(ByteSize)


def parse_memory(text: str) -> int:
    """Bytes. Raises `UsageError`."""
    try:
        return int(_SIZE.validate_python(text))
    except ValidationError:
        raise UsageError(
            f"--memory {text} is no size", "it is not a number with a unit", "Write 256MiB or 1GiB."
        ) from None
