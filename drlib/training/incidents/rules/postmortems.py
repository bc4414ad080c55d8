"""The causes of level 6, each known from published postmortems, with the seed that plays it when no level is given.

Rules: a literal table as in `causes`. A seed is never given another cause. Levels 1 to 5 do not draw from it, so that their
incidents stay what they are.
Not for: injecting a cause (`drlib.training.incidents.lab.inject`).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from drlib.training.incidents.rules.cause import Cause
from drlib.training.incidents.rules.symptoms import Symptom

LEVEL: Final = 6

_RETENTION = Cause(
    name="retention-cut",
    level=LEVEL,
    title="A configuration change cut retention",
    story="A change of configurations gave topic {where} on LEFT retention.ms={how} and short segments.",
    wheres=("bookings", "flights"),
    hows=("10000", "15000"),
    places=("LEFT", "{where}"),
    symptoms=(Symptom.RECORDS_EXPIRE,),
    repair=("raise-retention {where}",),
    harmful=("move-applications", "stop-mirror", "restart-mirror"),
    good="Everything works, but the log start of one topic advances: LEFT deletes records that it would have kept. Describe "
    "that topic and compare its configurations with the others'. Raise retention first: while it is seconds, every pause of a "
    "reader or of the mirror that is longer loses records for good. A restart of the mirror is such a pause.",
    hints=(
        "Every component works. For how long does LEFT keep what is written to it?",
        "Describe each topic on LEFT: one has configurations that the others do not have.",
        "Raise the retention of {where} before anything is stopped or restarted.",
    ),
)

_LATEST = Cause(
    name="reset-to-latest",
    level=LEVEL,
    title="A consumer started at the end of its topic",
    story="The offsets of group {where} were deleted, and its consumer was started once with auto.offset.reset=latest.",
    wheres=("arrivals", "billing"),
    places=("LEFT", "applications"),
    symptoms=(Symptom.RECORDS_SKIPPED,),
    repair=("stop-application {where}", "group-back {where} 120", "start-application {where}"),
    harmful=("move-applications",),
    good="No lag and no error: the group is at the end, but its application has never processed the records before. They are "
    "still in the log. Stop the consumer, because offsets of a group with members cannot be changed, move the group back to "
    "before the gap, and start it. Some records are read again, which at-least-once consumers must stand; the start of the "
    "topic would repeat all of them.",
    hints=(
        "A lag of 0 says where a group is, not what it has processed.",
        "Compare what application {where} has processed with the committed offsets of its group.",
        "Stop {where}, move its group back to before the gap, and start it again.",
    ),
    spares_positions=False,
)

_POISON = Cause(
    name="poison-record",
    level=LEVEL,
    title="A record that its consumer cannot parse",
    story="A record with an Avro value was written to {where}-{how} on LEFT, a topic of JSON values.",
    wheres=("bookings",),
    hows=("0", "1"),
    places=("LEFT", "{where}"),
    symptoms=(Symptom.APPLICATION_STALLED,),
    repair=("stop-application billing", "skip-record billing {where} {how}", "start-application billing"),
    harmful=("move-applications",),
    good="One application stands still while its topic is written to and mirrored, and nothing else is wrong: read its log. "
    "It names partition and offset, and describe-group shows the group at that offset. Keep the record, move the group past "
    "it and no further, and start the application. A restart alone stops at the same record, a failover finds its copy on "
    "RIGHT, and a group at the end of the topic never processes what came after it.",
    hints=(
        "One application makes no progress. What does it say itself?",
        "Read the log of billing, and describe its group: it stands before one record.",
        "Stop billing, skip that one record of {where}-{how}, and start billing again.",
    ),
)

_HALF_DEAD = Cause(
    name="half-dead-source",
    level=LEVEL,
    title="The source is half dead",
    story="The process of {where}'s broker was suspended: its port accepts connections, and no request is answered.",
    wheres=("LEFT",),
    places=("{where}",),
    symptoms=(Symptom.SITE_SILENT, Symptom.APPLICATION_STALLED),
    repair=("restart-broker {where}",),
    harmful=("move-applications",),
    good="A check of the port says that the broker is there; only a request shows that it does not answer, and its log has no "
    "error. Restart it: as long as its process exists it may continue at any moment and acknowledge records, so that a "
    "failover away from it risks a split brain.",
    hints=(
        "A port that accepts connections is no answer. What does the broker answer?",
        "Ask the broker of {where}: its process exists and its port is open, and a Metadata request is not answered.",
        "Restart the broker of {where}.",
    ),
)

_WRONG_WAY = Cause(
    name="wrong-failover",
    level=LEVEL,
    title="The wrong cluster was failed over",
    story="The broker of {where} died, and in answer all applications were moved from LEFT, which worked, to {where}.",
    wheres=("RIGHT",),
    places=("LEFT", "RIGHT", "applications"),
    symptoms=(Symptom.SITE_SILENT, Symptom.APPLICATION_STALLED),
    repair=("move-applications LEFT", "restart-broker {where}"),
    harmful=("stop-mirror",),
    good="The site that does not answer is the one at which the applications are, and the other one works. {where} was dead "
    "when they were moved, so it has acknowledged nothing and moving them back loses nothing: do that first. As soon as its "
    "broker runs, producers that are still there write records which LEFT does not have and no mirror brings back. Start the "
    "broker afterwards; the mirror catches up.",
    hints=(
        "At which site are the applications, and which site does not answer?",
        "The broker of {where} was dead before they were moved there: what can it have acknowledged?",
        "Move the applications back to LEFT, and only then start the broker of {where}.",
    ),
    spares_positions=False,
)

_AHEAD = Cause(
    name="clock-ahead",
    level=LEVEL,
    title="A clock is hours ahead",
    story="The clock of the machine that runs {where} was set {how} minutes ahead: the broker refuses its records.",
    wheres=("gates",),
    hows=("120", "300"),
    places=("applications",),
    symptoms=(Symptom.APPLICATION_STALLED,),
    repair=("set-clock {where}",),
    harmful=("move-applications",),
    good="One application is not acknowledged anything while all others on the same broker are, so it is not the broker. Its "
    "log has the reason: INVALID_TIMESTAMP, because a timestamp may be at most message.timestamp.after.max.ms (one hour) "
    "ahead of the broker. Correct the clock of that machine. A restart sends the same timestamps again, and a higher limit "
    "would keep records past their retention.",
    hints=(
        "All other applications write to the same broker. What does the one that stands still say itself?",
        "Read the log of {where}: the broker refuses its timestamps.",
        "Set the clock of the machine of {where}.",
    ),
)

_COLLISION = Cause(
    name="producer-id-collision",
    level=LEVEL,
    title="Two producers with one producer ID",
    story="The address of application loyalty was led from LEFT to {where}: it continued with its producer ID, which is "
    "another producer's there.",
    wheres=("RIGHT",),
    places=("{where}",),
    symptoms=(Symptom.APPLICATION_STALLED,),
    repair=(
        "stop-application loyalty",
        "stop-application lounges",
        "start-application loyalty",
        "start-application lounges",
    ),
    harmful=("move-applications",),
    good="One producer ends with OUT_OF_ORDER_SEQUENCE_NUMBER. Read both logs: they name one producer ID, and one of the two "
    "came from the other cluster with it. The broker takes its records for retries of the other's, acknowledges them and does "
    "not write them. So restart both, and first the one that shows no problem: a start obtains a new producer ID and writes "
    "its list again.",
    hints=(
        "Two applications write vouchers on {where}. Which of them has a problem, and which has caused it?",
        "Read the logs of loyalty and lounges: both name one producer ID. More is acknowledged than describe-topic shows.",
        "Stop both loyalty and lounges, then start both.",
    ),
)

_EXPIRED = Cause(
    name="expired-certificate",
    level=LEVEL,
    title="A certificate has expired",
    story="The certificate of {where}'s broker expired. Clients that were connected stayed so; {how} was restarted, and could "
    "not connect.",
    wheres=("LEFT",),
    hows=("arrivals", "billing"),
    places=("LEFT", "applications"),
    symptoms=(Symptom.SITE_SILENT, Symptom.APPLICATION_STALLED),
    repair=("renew-certificate {where}",),
    harmful=("restart-broker", "restart-mirror", "stop-mirror", "move-applications"),
    good="Your own tools cannot connect, and one application cannot, while all others work on the same broker: what is "
    "connected stays connected, and every new TLS handshake fails. Ask the broker: its certificate is refused, because it has "
    "expired. Renew it while the broker runs; clients then connect by themselves. Until then nothing may be restarted: a "
    "restart of the broker, of the mirror or of an application ends connections that work and makes none that do.",
    hints=(
        "{where} does not answer you, and most applications work there. What is different about their connections?",
        "Ask the broker of {where}: its port is open, and its certificate is refused.",
        "Renew the certificate of {where}, and restart nothing before.",
    ),
)

POSTMORTEMS: Final[Mapping[int, Cause]] = MappingProxyType(
    {
        13: _COLLISION,
        14: _POISON,
        15: _EXPIRED,
        16: _RETENTION,
        17: _WRONG_WAY,
        18: _HALF_DEAD,
        19: _AHEAD,
        20: _LATEST,
    }
)

# Not drawn by other seeds of level 6, whose incidents were agreed before.
LATER: Final = frozenset({15})
