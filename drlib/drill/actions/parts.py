"""Carry out each part of what a step takes back, whatever becomes of the others.

Rules: a part that fails (a broker that does not answer, a group with members) holds up no other. What failed is raised once
all were tried: the error of one part is raised as it is, several as one error that names each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from drlib.errors import Deviated, DrlibError


class Parts:
    """`failed`: by name, why a part was not taken back."""

    def __init__(self) -> None:
        self.failed: dict[str, DrlibError] = {}

    @contextmanager
    def each(self, name: str) -> Iterator[None]:
        """One part; an error ends it, and is kept."""
        try:
            yield
        except DrlibError as error:
            self.failed[name] = error

    def raise_failed(self) -> None:
        """Raises the error of what failed, or `Deviated` with all of them."""
        errors = list(self.failed.values())
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise Deviated(
                f"{len(errors)} parts were not taken back: {', '.join(self.failed)}",
                "; ".join(f"{each.what}: {each.why.removesuffix('.')}" for each in errors),
                " ".join(dict.fromkeys(each.remedy for each in errors)),
            ) from errors[0]
