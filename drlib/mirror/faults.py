"""How a lane's term of ownership ends, other than by being asked to stop.

`LaneLost`: somebody else claimed the lane; only the group may give it back, by leaving it with us for a whole session
more. `LaneFault`: this claim can't go on (lost connection, an answer other than the expected one), so the lane is claimed,
fenced and read back anew: the one way out of every doubt, because the promise for a sequence never changes and nothing is
ever resent blindly. `SourceLost`: retention was faster, and the policy of the flow is to end.
"""

from __future__ import annotations

import uuid

from drlib.errors import DrlibError, LeaseHeld, ObjectiveMissed


class LaneLost(LeaseHeld):
    """Another worker holds a newer claim on this lane."""

    def __init__(self, lane: str, why: str) -> None:
        super().__init__(
            f"lane {lane} was taken over",
            why,
            "Nothing to do: the other worker carries on. Run 'drlib mirror' elsewhere only if that one is gone.",
        )


class LaneFault(DrlibError):
    """This claim ends in doubt; a new claim reads back what stands and goes on from there."""

    def __init__(self, lane: str, why: str) -> None:
        super().__init__(
            f"lane {lane} stopped to read back what it wrote",
            why,
            "Nothing to do: it claims the lane again. If this repeats, look at the target cluster.",
            retriable=True,
        )


class ClaimAgain(LaneFault):
    """Nothing went wrong, but only a new claim can go on: the target had forgotten this one, or its epochs run out."""


class MirrorTopicRecreated(DrlibError):
    """A mirror topic was deleted, or made again: what stood there, and where, is gone. `now`: its ID, if it is there."""

    def __init__(self, topic: str, was: uuid.UUID, now: uuid.UUID | None) -> None:
        self.now = now
        super().__init__(
            f"mirror topic {topic} is not the one this lane wrote to",
            f"it had topic ID {was} and is now " + ("deleted" if now is None else f"another one, {now}"),
            f"Its partitions are parked, the others go on. To mirror it anew from the start of the source: delete {topic} "
            "on the target, name its source topic in drlib.remirror.topics, and restart the worker.",
        )


class SourceLost(ObjectiveMissed):
    """Records expired on the source before they were mirrored, and the flow is told to end then."""

    def __init__(self, what: str) -> None:
        super().__init__(
            what,
            "drlib.source.loss.policy = fail ends the worker rather than go on without them",
            "Restore them from a backup if they matter; to go on without them set the policy to continue.",
        )
