"""Errors that end a lane's claim or its ownership, and causes that park a mirror topic.

`LaneLost`: another worker claimed the lane; it is claimed again only if the group still assigns it to us a whole session
later. `LaneFault`: this claim cannot continue (lost connection, an unexpected response), so the lane is claimed, fenced and
read back again: the one way out of every doubt, because the promise for a sequence never changes and nothing is resent
blindly. `SourceLost`: records expired before they were mirrored, and the flow's policy is to end.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping

from drlib.errors import DrlibError, LeaseHeld, ObjectiveMissed, first_error
from drlib.kafka.net.api_versions import UnsupportedRequest
from drlib.kafka.security.errors import CANNOT_USE, SecurityFault


def log_traceback(error: BaseException) -> None:
    """Write the traceback of an error that nothing expected. The errors that a user can meet have none."""
    if not isinstance(error, DrlibError | OSError | TimeoutError):
        logging.getLogger("drlib.mirror").error("unexpected error", exc_info=error)


def no_answer(error: BaseException) -> tuple[str, str]:
    """Detail and remedy of an event that says that a cluster does not answer.

    A wrong password or certificate, and a broker that is too old, have their own remedy. For anything else the event's says
    more, and the remedy is "".
    """
    first = first_error(error)
    if not isinstance(first, DrlibError):
        return f"{type(first).__name__}: {first}", ""
    what = f"{CANNOT_USE}: {first.what}" if isinstance(first, SecurityFault) else first.what
    return f"{what}: {first.why}", first.remedy if isinstance(first, SecurityFault | UnsupportedRequest) else ""


def remirror_remedy(source: str) -> str:
    """How to mirror a topic again from the source's start."""
    return (
        f"To mirror it again from the start of the source: drlib remirror FILE {source} shows what that means; with --yes it "
        "is done, and the worker continues by itself."
    )


def shared_remedy(topic: str) -> str:
    """How to fill a topic that both directions copy from the cluster whose history counts."""
    return (
        "Both directions copy it: disable the flow away from the cluster whose history does not count, restart the workers, "
        f"delete {topic} there, and fill it by the flow towards it: drlib remirror FILE {topic} --flow 'A->B' --yes. Enable "
        "the other flow again when all is copied."
    )


class LaneLost(LeaseHeld):
    """Another worker holds a newer claim on this lane."""

    def __init__(self, lane: str, why: str) -> None:
        super().__init__(
            f"lane {lane} was taken over",
            why,
            "Nothing to do: the other worker continues. Start another 'drlib mirror' only if that worker is gone.",
        )


class LaneFault(DrlibError):
    """The state of this claim is in doubt; a new claim reads back what was written and continues there."""

    def __init__(self, lane: str, why: str) -> None:
        super().__init__(
            f"lane {lane} stopped to read back what it wrote",
            why,
            "Nothing to do: it claims the lane again. If this repeats, check the target cluster.",
            retriable=True,
        )


class ClaimAgain(LaneFault):
    """Only a new claim can continue, without a fault: the target forgot this one, or a topic changed while it was claimed."""


class TopicsJudged(ClaimAgain):
    """Source topics without an ID, or with a new one, turned out to be others than were journaled, or the same.

    `recreated`: by name, the journaled ID whose topic is gone; `identified`: made IDs, and those that the source gives now.
    """

    def __init__(
        self, lane: str, recreated: Mapping[str, uuid.UUID], identified: Mapping[uuid.UUID, uuid.UUID]
    ) -> None:
        found = [f"{name} was re-created" for name in sorted(recreated)]
        found += [f"{made} is {real}" for made, real in identified.items()]
        super().__init__(lane, f"source topics were compared with their mirrors: {', '.join(found)}")
        self.recreated, self.identified = recreated, identified


class MirrorUnauthorized(DrlibError):
    """The target does not let us write a mirror topic, or read back what is in it."""

    def __init__(self, topic: str, why: str, remedy: str) -> None:
        super().__init__(f"mirror topic {topic} cannot be claimed", why, remedy)


class MirrorUnavailable(DrlibError):
    """A partition of a mirror topic cannot be written now: it has no leader, or too few of its replicas are in sync."""

    def __init__(
        self,
        partition: str,
        why: str,
        remedy: str = "Start the brokers that have its other replicas; the partition then continues by itself.",
    ) -> None:
        super().__init__(f"mirror partition {partition} cannot be written", why, remedy, retriable=True)


class MirrorMissing(MirrorUnavailable):
    """A partition of a mirror topic, or of the journal, does not exist."""

    def __init__(self, partition: str) -> None:
        super().__init__(
            partition,
            "it does not exist on the target",
            "Nothing to do: a missing mirror topic is created and mirrored by itself, unless an event MirrorTopicRefused says "
            "why not. Find out who deletes it if this repeats.",
        )


class JournalLost(DrlibError):
    """A mirror topic holds records that no journal entry explains."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"mirror topic {topic} holds records that the journal does not explain",
            "the journal was deleted or emptied, or another producer filled the topic; where to continue is unknown, and "
            "starting again would duplicate its records",
            f"Delete {topic} on the target to mirror it again from the source's start, or restore the journal.",
        )


class RecordsUnexplained(JournalLost):
    """A topic that both directions copy holds records on the target that no journal entry explains.

    `journal`: the one for which the operator may say that they are the target's own; "" where `why` shows that some are not.
    """

    def __init__(self, topic: str, flow: str, journal: str, why: str) -> None:
        own = (
            "If the applications of the target wrote all of them, and no replicator any, set "
            f"{flow}.drlib.own.records.journal = {journal} and restart the worker. Else delete"
        )
        self.journal = journal
        DrlibError.__init__(
            self,
            f"{topic} on the target holds records that the journal does not explain",
            f"{why}, and if any of them are copies, they would be copied back",
            f"{own if journal else 'Delete'} {topic} on one side, or mirror it one way only.",
        )


class RecordsReturned(DrlibError):
    """Records that the flow copied are written to its source again because it copies them."""

    def __init__(self, source: str, target: str, first: int, copy: int | None, last: int) -> None:
        on_target = target if copy is None else f"{target} at offset {copy}"
        super().__init__(
            f"records of {source} that were copied to the target return to the source",
            f"the record at offset {first} was copied to {on_target}, and an equal one was written to {source} again, last at "
            f"offset {last}; none was written while the partition was held back, and each time after it was copied again, so "
            "another replicator copies the topic back under the same name",
            "Stop that replicator or leave the topic out of one direction, then restart this worker, which continues at the "
            "exact record. To copy a topic in both directions enable both flows in one file.",
        )


class SourceRewound(DrlibError):
    """The source's log was truncated below what had been read of it: its later records are not those we have."""

    def __init__(self, partition: str, first: int, following: int) -> None:
        super().__init__(
            f"the source's log of {partition} went back to offset {first} after it had been read through to {following}",
            "an unclean leader election or an old backup removed records that the mirror holds, and other records took their "
            "offsets",
            "Nothing more of it is mirrored until you decide which history counts.",
        )


class NoStartPosition(DrlibError):
    """A topic was never mirrored, and the file says that such a topic does not begin by itself."""

    def __init__(self, topic: str, rule: str) -> None:
        super().__init__(
            f"{topic} is not mirrored",
            f"it has no position, and {rule} names none",
            "Set auto.offset.reset = earliest or latest for the source's consumer, or drlib.start.timestamp, and restart the "
            "worker.",
        )


class StartUnknown(DrlibError):
    """Where a topic without a position begins cannot be determined now."""

    def __init__(self, partition: str, rule: str, why: str = "") -> None:
        why = why or f"{partition} has no leader on the source, or we may not describe it"
        super().__init__(
            f"the topic of {partition} is not mirrored yet",
            f"it has no position, and where it begins by {rule} is not known: {why}",
            "Start a broker that has a replica of it, or grant Describe on the topic; it then begins by itself.",
            retriable=True,
        )


class MirrorTopicRecreated(DrlibError):
    """A mirror topic was deleted or re-created: its former records and their offsets are gone. `now`: its ID, if it exists."""

    def __init__(self, source: str, topic: str, was: uuid.UUID, now: uuid.UUID | None) -> None:
        self.now = now
        super().__init__(
            f"mirror topic {topic} is not the one this lane wrote to",
            f"it had topic ID {was} and is now " + ("deleted" if now is None else f"re-created as {now}"),
            f"Its partitions are parked, the others continue; keep consumers away from it. {remirror_remedy(source)}",
        )


class SourceLost(ObjectiveMissed):
    """Records expired on the source before they were mirrored, and the flow's policy is to end then."""

    def __init__(self, what: str) -> None:
        super().__init__(
            what,
            "drlib.source.loss.policy = fail ends the worker rather than continue without them",
            "Restore them from a backup if they matter; to continue without them set the policy to continue.",
        )
