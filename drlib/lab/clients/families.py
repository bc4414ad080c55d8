"""Families of Kafka clients that a drill runs unmodified at one address: which there are, which are chosen. Pure.

Rules: `all` is every family; one that this machine cannot run is then listed with the reason, while a family that was asked for
by name is refused. A family that does not ask its bootstrap servers again is restarted when it is silent, as docs/clients.md
asks of its service manager.
Not for: what a machine has (`runtimes`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from drlib.errors import UsageError

ALL: Final = "all"
RESTART_AFTER_S: Final = 8.0


@dataclass(frozen=True, slots=True)
class Family:
    """`settings` are set beside the defaults, by need; `restarts`: it continues in a new process only.

    `acknowledges`: its producer reports what was acknowledged. `logs_in`: its program reads Java's security keys.
    `sums`: its consumer is a Kafka Streams application, which keeps the running sum of each key.
    """

    name: str
    title: str
    settings: tuple[str, ...] = ()
    restarts: bool = False
    acknowledges: bool = True
    logs_in: bool = False
    sums: bool = False


FAMILIES: Final = (
    Family("java", "Java kafka-clients", logs_in=True),
    Family("java-3.9", "Java kafka-clients", settings=("metadata.recovery.strategy=rebootstrap",), logs_in=True),
    Family(
        "streams",
        "Kafka Streams (exactly_once_v2)",
        # Else it ends where TxnOffsetCommit is the first to fail, waits 45 s for the session of the thread that ended, or
        # for ever to deliver a record to an internal topic that the other cluster lacks.
        settings=(
            "uncaught.exception.handler=REPLACE_THREAD",
            "session.timeout.ms=10000",
            "producer.delivery.timeout.ms=15000",
            "producer.request.timeout.ms=10000",
        ),
        logs_in=True,
        sums=True,
    ),
    Family("console", "Kafka's console producer and consumer", acknowledges=False, logs_in=True),
    Family("librdkafka", "librdkafka (confluent-kafka)", logs_in=True),
    Family("kafka-python", "kafka-python", restarts=True),
    Family("aiokafka", "aiokafka", restarts=True),
    Family("kafkajs", "kafkajs"),
    Family("franz-go", "franz-go", restarts=True),
)
BY_NAME: Final[Mapping[str, Family]] = {family.name: family for family in FAMILIES}


@dataclass(frozen=True, slots=True)
class Runtime:
    """A family on this machine. `missing` says in words what it lacks; empty where it can run."""

    family: str
    version: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """What is on this machine. The lab itself needs Java and Kafka's jars; Python's libraries are drlib's own."""

    compiler: bool = True  # Java has one, which runs a source file
    older_jars: bool = True
    streams_jar: bool = True
    node: bool = True
    kafkajs: bool = True  # fetched
    go: bool = True
    franz_go: bool = True  # built


NO_LOGIN: Final = "its program has no TLS and no login, which this lab asks for"
FETCH: Final = "python -m drlib.lab.clients.runtimes"


def missing(name: str, machine: Machine) -> str:
    """Why the family cannot run on `machine`, in words; empty where it can."""
    if name in ("java", "java-3.9", "streams") and not machine.compiler:
        return "the Java on this machine has no compiler: a JDK is needed"
    if name == "java-3.9" and not machine.older_jars:
        return "no kafka-clients 3.9 among the jars: python -m drlib.lab.jars"
    if name == "streams" and not machine.streams_jar:
        return "no kafka-streams among the jars: python -m drlib.lab.jars"
    if name == "kafkajs" and not machine.node:
        return "no node on this machine"
    if name == "kafkajs" and not machine.kafkajs:
        return f"kafkajs is not fetched: {FETCH}"
    if name == "franz-go" and not machine.franz_go:
        return f"its program is not built: {FETCH}" if machine.go else "no go on this machine"
    return ""


def on_secured_lab(found: Sequence[Runtime]) -> tuple[Runtime, ...]:
    """The same where clients have to log in, or to trust the lab's authority."""
    return tuple(
        each if each.missing or BY_NAME[each.family].logs_in else replace(each, missing=NO_LOGIN) for each in found
    )


def chosen(names: Sequence[str], found: Sequence[Runtime]) -> tuple[Runtime, ...]:
    """What is known of the families `names`, each once, in their order. Raises `UsageError` for one that was named and
    cannot run, and where none can."""
    runtimes = {runtime.family: runtime for runtime in found}
    wanted = [family.name for family in FAMILIES if family.name in names or ALL in names]
    for name in names:
        if name != ALL and (why := runtimes[name].missing):
            raise UsageError(f"clients: {name}", why, "Leave it out, or give all: it is then listed as not run.")
    if wanted and all(runtimes[name].missing for name in wanted):
        raise UsageError("clients", "no family can run on this machine", f"Fetch their programs: {FETCH}")
    return tuple(runtimes[name] for name in wanted)
