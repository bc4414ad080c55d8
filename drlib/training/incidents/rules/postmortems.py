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

POSTMORTEMS: Final[Mapping[int, Cause]] = MappingProxyType({16: _RETENTION})
