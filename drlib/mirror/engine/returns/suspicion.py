"""One suspicion on trial: which records are meant, what was seen of them, and what has to be asked next.

Rules: only what was appended to the source behind the log end at the last step counts. In a silence one record under suspicion
is enough to refute it; behind a silence one has to return, and its copy before must have been acknowledged, so that it can be
a copy of that copy. The pure side of `watch`: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from drlib.mirror.engine.returns import rules
from drlib.mirror.engine.returns.rules import ENDS, HELD, Phase, Trial
from drlib.mirror.engine.returns.sightings import Seen


@dataclass(slots=True)
class Suspicion:
    """`suspects`: contents that have returned; `evidence`: the record that returned last; `began`: when the trial did.

    `found`: contents that were appended in a silence; `beyond`: the source's log end at the last step, -1 before it is known.
    """

    suspects: frozenset[bytes]
    evidence: Seen
    trial: Trial
    began: float
    found: set[bytes] = field(default_factory=set)
    beyond: int = -1

    @property
    def held(self) -> bool:
        """Is the partition held back?"""
        return self.trial.phase in HELD

    @property
    def over(self) -> bool:
        return self.trial.phase in ENDS

    @property
    def silent(self) -> bool:
        """Is it a silence, at whose end what was appended in it has to be looked at?"""
        return self.trial.phase is Phase.SILENCE

    def sighted(self, content: bytes, offset: int, seen: Seen | None, now: float) -> None:
        """Take a record of the partition that was read. `seen`: what is known of it, where its copy before was acknowledged."""
        if content not in self.suspects or offset < self.beyond:
            return
        if self.trial.phase is Phase.SILENCE:
            self.found.add(content)
        elif self.trial.phase is Phase.RETURN and seen is not None:
            self.evidence = seen
            self.trial, self.beyond = self.trial.returned(now), -1

    def asks(self, now: float, *, idle: bool) -> bool:
        """Is the source's log end needed now? `idle`: the target has acknowledged all that was sent."""
        if self.trial.phase is Phase.DRAIN:
            return idle and now >= self.trial.until
        return self.silent and (bool(self.found) or now >= self.trial.until)

    def answer(self, now: float, end: int, appended: Collection[bytes]) -> None:
        """The source's log ends at `end`. `appended`: after a silence, the contents under suspicion that it holds from
        `beyond` on."""
        if self.trial.phase is Phase.DRAIN:
            self.trial = self.trial.drained(now, idle=True)
        elif self.silent:
            self.found |= set(appended)
            self.trial = self.trial.silent(now, found=bool(self.found))
        self.beyond = end

    def tick(self, now: float) -> None:
        """Time passes, and nothing was asked."""
        if self.trial.phase is Phase.DRAIN:
            self.trial = self.trial.drained(now, idle=False)
        elif self.trial.phase is Phase.RETURN:
            self.trial = self.trial.missed(now)

    def give_up(self, now: float) -> None:
        """Nothing can be found out: a cluster does not answer, or the partition is not copied any more."""
        self.trial = self.trial.unknown(now)


def suspect(suspects: frozenset[bytes], seen: Seen, now: float) -> Suspicion:
    """The suspicion that a record which returned leads to."""
    return Suspicion(suspects, seen, rules.begin(seen.interval_s, now), now)
