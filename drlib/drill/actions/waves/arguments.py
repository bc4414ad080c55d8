"""The arguments that the steps of all waves have in common: every wave, and which one a step is about.

Rules: a runbook's `waves` are written into each step (`drlib.runbook.file.waves`), so that a plan's hash binds all of them.
"""

from drlib.config.patterns.selection import validate
from drlib.drill.actions.waves import rules
from drlib.drill.actions.waves.rules import Waves
from drlib.drill.step.action import DrillCall
from drlib.drill.step.argument_types import Text, Texts
from drlib.errors import UsageError


class WaveArguments(DrillCall):
    """Which applications move with which wave."""

    wave: Text
    """The wave that the step is about."""
    waves: Texts
    """Every wave of the drill in its order, as `NAME: APPLICATION, APPLICATION`; an application is a key of the pointer."""
    readers: Texts = ()
    """The groups of each application, as `APPLICATION=PATTERN`; a group belongs to the first one that matches."""
    writers: Texts = ()
    """The topics that each application writes to, by their names on the source, as `APPLICATION=TOPIC`."""
    idle: Texts = ()
    """Applications whose groups may have nothing to read: that they do not read on is no deviation."""

    def check(self) -> None:
        super().check()
        patterns = [pattern for wave in self.plan.all for each in wave.applications for pattern in each.groups]
        validate(patterns)

    @property
    def plan(self) -> Waves:
        """Raises `UsageError` for arguments that are no waves."""
        try:
            return rules.read(self.wave, self.waves, self.readers, self.writers, self.idle)
        except ValueError as error:
            raise UsageError(f"{self.name}: waves", str(error), "Correct the waves of the runbook.") from None
