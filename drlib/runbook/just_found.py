"""What a command found out a moment before it began a run, so that the run does not ask and wait for it once more.

Rules: a silence is noted for the run as if one of its steps had found it (`known_silence`); how ready the flow is counts for
`JUDGED_S`, after which it is judged again. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from drlib.drill.readiness.score import Readiness
from drlib.drill.step.known_silence import Silence

JUDGED_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class JustFound:
    """What a command found before it knew that a run follows. `silent`: what did not answer."""

    silent: Mapping[str, Silence] = field(default_factory=dict)
    readiness: Readiness | None = None

    def judged(self, now_ms: int) -> Readiness | None:
        """How ready the flow was found, unless that is too long ago to rely on."""
        found = self.readiness
        return found if found is not None and 0 <= now_ms - found.at_ms < JUDGED_S * 1000 else None


NOTHING_FOUND: Final = JustFound()
