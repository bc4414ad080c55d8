"""What the steps that move applications have in common: their place, and what they say of the source.

Rules: whether the source answers is looked at by every step that relies on its being gone, and is told by name.
"""

from __future__ import annotations

from collections.abc import Sequence

from drlib.drill.arguments import choice
from drlib.drill.identity import cluster_id, identity
from drlib.drill.journal import Scalar
from drlib.drill.placed_step import PlacedStep
from drlib.drill.steps import Looking, StepCall
from drlib.errors import Unreachable
from drlib.mirror.translate import who_answers
from drlib.rules.drill_plan import Fact
from drlib.rules.triage import Expected


class MovingStep(PlacedStep):
    """One step and its place."""

    def source_word(self) -> str:
        """Whether the source answers now, for the evidence of a step that relies on it one way or the other."""
        found = who_answers([self.source])[self.source.alias]
        return f"no answer: {found.why}" if isinstance(found, Unreachable) else "it answers"


class TargetStep(Looking):
    """A step whose only fact is which cluster the target is, and which changes nothing."""

    def __init__(self, step: MovingStep) -> None:
        self.step = step

    def observe(self) -> Sequence[Fact]:
        return (identity(self.step.target),)

    def cluster_id(self) -> str:
        return cluster_id(self.step.target)


def expected(call: StepCall) -> Expected:
    """What the person who runs it expects of the source; gone, where nothing is said."""
    return choice(call, "expect", Expected, Expected.GONE)


def answer(question: str, told: Scalar) -> dict[str, Scalar]:
    """A row of what a step shows, where it answers questions."""
    return {"question": question, "answer": told}
