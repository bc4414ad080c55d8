"""What the steps that move applications have in common: their place, and what they say of the source.

Rules: whether the source answers is looked at by every step that relies on its being gone, and is told by name.
"""

from __future__ import annotations

from collections.abc import Sequence

from drlib.drill.plan.plan import Fact
from drlib.drill.step.action import ReadOnlyAction
from drlib.drill.step.cluster_identity import cluster_id, identity
from drlib.drill.step.step import PlacedStep
from drlib.errors import Unreachable
from drlib.kafka.admin.reachability import who_answers
from drlib.runs.journal import Scalar


class MovingStep(PlacedStep):
    """One step and its place."""

    def source_word(self) -> str:
        """Whether the source answers now, for the evidence of a step that relies on it one way or the other."""
        found = who_answers([self.source])[self.source.alias]
        return f"no answer: {found.why}" if isinstance(found, Unreachable) else "it answers"


class TargetStep(ReadOnlyAction):
    """A step whose only fact is which cluster the target is, and which changes nothing."""

    def __init__(self, step: MovingStep) -> None:
        self.step = step

    def observe(self) -> Sequence[Fact]:
        return (identity(self.step.target),)

    def cluster_id(self) -> str:
        return cluster_id(self.step.target)


def answer(question: str, told: Scalar) -> dict[str, Scalar]:
    """A row of what a step shows, where it answers questions."""
    return {"question": question, "answer": told}
