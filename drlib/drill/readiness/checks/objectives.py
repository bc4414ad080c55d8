"""The objectives of a flow, and helpers for the text and the commands of findings.

Rules: commands are Kafka's own tools or drlib's, quoted for a POSIX shell; numbers carry their unit. A long list is cut, with
the number of entries left out.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from drlib.drill.readiness.score import Severity
from drlib.kafka.security.errors import CANNOT_USE

NAMED: Final = 3  # entries of a list that one sentence names
AGAIN: Final = "Restore it, then run drlib doctor again."
CORRECT: Final = "Correct that, then run drlib doctor again."

Judgements = list[tuple[str, Severity, str, str]]  # entity, severity, evidence, fix


@dataclass(frozen=True, slots=True)
class Objectives:
    """What a failover may lose, in records and in seconds of traffic, and how often a drill is due."""

    rpo_records: int = 10_000
    rpo_seconds: float = 30.0
    drill_days: int = 30


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What judgements need besides the observation.

    `file` is the properties file; `source` and `target` are bootstrap addresses as Kafka's tools take them,
    `command_configs` the client file for those that need a login. `redirected`: do producers keep one address, which leads to
    another cluster after a failover?
    """

    file: str
    source: str
    target: str
    objectives: Objectives = Objectives()
    retention_warning_s: int = 3600
    redirected: bool = False
    command_configs: Mapping[str, str] = field(default_factory=dict)

    def tool(self, name: str, server: str, *options: str) -> str:
        """Such as `kafka-topics.sh --bootstrap-server ADDRESS ...`, quoted for a POSIX shell."""
        config = ["--command-config", self.command_configs[server]] if server in self.command_configs else []
        return shlex.join([f"{name}.sh", "--bootstrap-server", server, *config, *options])

    def drlib(self, *options: str) -> str:
        """`drlib COMMAND FILE ...`, quoted for a POSIX shell."""
        return shlex.join(["drlib", options[0], self.file, *options[1:]])


def again(why: str) -> str:
    """What to do about a question that has no answer because of `why`."""
    return CORRECT if CANNOT_USE in why else AGAIN


def passed(evidence: str) -> Judgements:
    """The only row of a check that is ok."""
    return [("", Severity.OK, evidence, "")]


def unknown(why: str, fix: str) -> Judgements:
    """The only row of a check whose question has no answer."""
    return [("", Severity.UNKNOWN, why, fix)]


def count(number: int, singular: str, plural: str = "") -> str:
    """`1 record`, `12,345 records`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def is_or_are(copies: int) -> str:
    """`is 1 copy`, `are 2 copies`."""
    return f"{'is' if copies == 1 else 'are'} {count(copies, 'copy', 'copies')}"
