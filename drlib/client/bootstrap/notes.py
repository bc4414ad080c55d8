"""What the bootstrap address reports: a literal table of its notes, with severity and remedy. Pure.

Rules: a note is one line of the log. Those with a remedy open and are resolved; the others are changes of state.
Not for: the form of a line (`drlib.cli.log`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Severity(StrEnum):
    """ERROR: clients cannot connect, or will not be able to; WARNING: they can, with a limitation."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Kind:
    severity: Severity = Severity.INFO
    remedy: str = ""


STATE: Final = "Bootstrap"  # changes of state: listening, moved, kept, draining, stopped
IN_DOUBT: Final = "PointerInDoubt"
UNKNOWN_CLUSTER: Final = "PointerNamesUnknownCluster"
CONFLICT: Final = "PointerConflict"
FROM_STATE: Final = "PointerFromState"
UNREACHABLE: Final = "NoServerAnswers"
TOO_MANY: Final = "TooManyConnections"
FEW_FILES: Final = "TooFewOpenFiles"
LEADS_HERE: Final = "ListenerIsBootstrapAddress"
NOT_CHECKED: Final = "ListenersNotChecked"
CERTIFICATE: Final = "CertificateWithoutAddress"
STATE_FILE: Final = "StateFileUnusable"

KINDS: Final[Mapping[str, Kind]] = {
    STATE: Kind(),
    IN_DOUBT: Kind(
        Severity.WARNING,
        "Connections stay at the cluster that is known. Start the clusters that do not answer, or correct what they refuse.",
    ),
    UNKNOWN_CLUSTER: Kind(
        Severity.ERROR,
        "Add the cluster to FILE and restart the command, or correct it: drlib pointer move FILE CLUSTER.",
    ),
    CONFLICT: Kind(Severity.ERROR, "Decide which is right: drlib pointer move FILE CLUSTER."),
    FROM_STATE: Kind(Severity.WARNING, "Start a cluster that has the pointer; then this ends by itself."),
    UNREACHABLE: Kind(
        Severity.ERROR,
        "Start a broker of the cluster. If it stays down, fail over: the pointer moves, and this follows.",
    ),
    TOO_MANY: Kind(Severity.WARNING, "Raise --max-connections, or start another instance at another address."),
    FEW_FILES: Kind(
        Severity.WARNING,
        "Raise the limit of open files (ulimit -n, LimitNOFILE= of its unit) and restart the command; or start another one.",
    ),
    LEADS_HERE: Kind(Severity.ERROR, "Correct advertised.listeners of the cluster's brokers to their own addresses."),
    NOT_CHECKED: Kind(Severity.WARNING, "Check advertised.listeners of that cluster's brokers when it answers."),
    CERTIFICATE: Kind(
        Severity.WARNING, "Issue broker certificates that have the address as a subject alternative name, too."
    ),
    STATE_FILE: Kind(
        Severity.WARNING, "Correct --state or its folder's rights: without it a restart needs the pointer."
    ),
}


@dataclass(frozen=True, slots=True)
class Note:
    """`status`: open or resolved, or the new state. `cluster`: an alias, "" for none. `count`: of connections."""

    name: str
    status: str
    detail: str
    cluster: str = ""
    count: int | None = None
