"""How a lane's term of ownership ends, other than by being asked to stop.

`LaneLost`: somebody else claimed the lane; only the group may give it back, by leaving it with us for a whole session
more. `LaneFault`: this claim can't go on (lost connection, an answer other than the expected one), so the lane is claimed,
fenced and read back anew: the one way out of every doubt, because the promise for a sequence never changes and nothing is
ever resent blindly. `SourceLost`: retention was faster, and the policy of the flow is to end.
"""

from __future__ import annotations

import uuid

from drlib.errors import DrlibError, LeaseHeld, ObjectiveMissed


def mirror_anew(source: str, mirror: str) -> str:
    """How a topic is mirrored again from the source's start, by decision."""
    return (
        f"To mirror it anew from the start of the source: delete {mirror} on the target, name {source} in "
        "drlib.remirror.topics, and restart the worker."
    )


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


class MirrorUnauthorized(DrlibError):
    """The target does not let us write a mirror topic, or read back what stands in it."""

    def __init__(self, topic: str, why: str, remedy: str) -> None:
        super().__init__(f"mirror topic {topic} cannot be claimed", why, remedy)


class JournalLost(DrlibError):
    """A mirror topic holds records that no entry of the journal explains."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"mirror topic {topic} holds records that the journal knows nothing of",
            "the journal was deleted or emptied, or the topic was filled by somebody else; from where to go on is unknown, "
            "and beginning anew would double what is there",
            f"Delete {topic} on the target to mirror it anew from the source's start, or restore the journal.",
        )


class SourceRewound(DrlibError):
    """The source's log once ended below what had been read of it: its later records are not those we have."""

    def __init__(self, partition: str, first: int, following: int) -> None:
        super().__init__(
            f"the source's log of {partition} went back to offset {first} after it had been read through to {following}",
            "an unclean election or an old backup took records that stand in the mirror, and gave their offsets to others",
            "Nothing more of it is mirrored until somebody has decided which history counts.",
        )


class MirrorTopicRecreated(DrlibError):
    """A mirror topic was deleted, or made again: what stood there, and where, is gone. `now`: its ID, if it is there."""

    def __init__(self, source: str, topic: str, was: uuid.UUID, now: uuid.UUID | None) -> None:
        self.now = now
        super().__init__(
            f"mirror topic {topic} is not the one this lane wrote to",
            f"it had topic ID {was} and is now " + ("deleted" if now is None else f"another one, {now}"),
            f"Its partitions are parked, the others go on; keep consumers away from it. {mirror_anew(source, topic)}",
        )


class SourceLost(ObjectiveMissed):
    """Records expired on the source before they were mirrored, and the flow is told to end then."""

    def __init__(self, what: str) -> None:
        super().__init__(
            what,
            "drlib.source.loss.policy = fail ends the worker rather than go on without them",
            "Restore them from a backup if they matter; to go on without them set the policy to continue.",
        )
