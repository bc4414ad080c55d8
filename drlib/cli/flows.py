"""A flow as people write it: `A->B`."""

from __future__ import annotations

from drlib.errors import UsageError
from drlib.model import Flow


def parse_flow(text: str) -> Flow:
    """`A->B`. Raises `UsageError` for anything else."""
    source, arrow, target = (part.strip() for part in text.partition("->"))
    if not (source and arrow and target):
        raise UsageError(f"'{text}' is no flow", "a flow is two aliases with an arrow", "Write it as 'LEFT->RIGHT'.")
    return Flow(source, target)
