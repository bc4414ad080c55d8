"""How people can go on with a run that has not ended: the one answer for everything that proposes it. Pure.

Rules: a lab that was started for a run alone ends with it, and with it what could be resumed or undone: such a run can only be
started again. A run whose undo was refused continues with that undo, so that a new run, which leaves the changes, comes first.
Steps and errors name what to correct; what comes after that is said here.
Not for: whether a run has ended (`drlib.drill.plan.progress`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WaysOn:
    """Of the run `run`, its name or folder as a command line takes it. `again`: where its clusters are gone, or go with it, the
    command that starts it again, else empty. `refused`: the step whose undo failed, else empty; `instead`: what begins a
    new run in its place."""

    run: str
    again: str = ""
    refused: str = ""
    instead: str = ""

    @property
    def resume(self) -> str:
        """The command line that continues it."""
        return self.again or f"drlib run --resume {self.run}"

    @property
    def rollback(self) -> str:
        """The command line that undoes what it changed; empty where that is gone."""
        return "" if self.again else f"drlib run --rollback {self.run}"

    @property
    def sentence(self) -> str:
        """Both, for the end of an error."""
        if self.again:
            return f"It cannot be resumed or undone: its clusters end with it. Start it again: {self.again}"
        if self.refused:
            return (
                f"Whatever continues it repeats the undo of {self.refused}. Begin a new run, its changes stay: {self.instead}. "
                f"Or, once nothing refuses that undo: {self.rollback}."
            )
        return f"Resume it: {self.resume}. Or undo it: {self.rollback}."

    @property
    def undo_sentence(self) -> str:
        """How to undo it, for the end of an error."""
        return f"Undo it: {self.rollback}" if self.rollback else self.sentence

    def lines(self, approve: str = "") -> tuple[str, ...]:
        """Both on lines of their own. `approve`: the step whose approval it waits for."""
        approved = f" --approve {approve}" if approve else ""
        if self.again:
            return (f"Its clusters are gone, so start it again: {self.again}{approved}",)
        if self.refused:
            return (
                f"Begin a new run, its changes stay: {self.instead}",
                f"Or, once nothing refuses the undo of {self.refused}: {self.rollback}",
            )
        return f"Continue: {self.resume}{approved}", f"Undo:     {self.rollback}"
