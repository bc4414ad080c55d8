"""Seeds of incidents with a wanted cause."""

from __future__ import annotations

from drlib.training.incidents.rules.causes import CAUSES
from drlib.training.incidents.rules.seed import draw_plan


def seed_for(cause: str, level: int | None = None) -> int:
    """The smallest seed whose incident has `cause`, at `level` or at the cause's own."""
    wanted = CAUSES[cause].level if level is None else level
    return next(
        seed for seed in range(100_000) if any(found.cause == cause for found in draw_plan(seed, wanted).causes)
    )
