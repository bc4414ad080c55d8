"""Kafka's console producer or consumer, fed or read as from a shell, with a history of what it was given and what it printed.

Rules: the tools are as they are in Kafka's jars, with default settings and, where a lab asks for a login, a file of security
keys. The console producer reports no acknowledgement, so its rows are in doubt, all of them; whether a record arrived is seen
in the log. The consumer prints partition, offset, headers and value, and no topic: with several, a row has none. It commits by
itself every five seconds, and when it is stopped. A record counts as processed when its line was read here.

Run as `python -m drlib.lab.clients.console_client ROLE NAME ALIAS SERVERS TOPICS HISTORY PER_S FIRST CONFIG JAVA...`.
ROLE is produce or consume, FIRST the number of the first record, CONFIG a file of Java's security keys or "", and JAVA... the
command of the Java launcher with its options and class path.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib.clock import now_ms
from drlib.lab.checker.history import NO_OFFSET, Consumed, Produced, ProducedStatus
from drlib.lab.checker.history_files import HistoryWriter
from drlib.lab.processes import bind_to
from drlib.outgoing.environment import child_environment
from drlib.runs.signals import SIGNALS, SignalSafeEvent

KEYS: Final = 7
_TOOLS: Final = "org.apache.kafka.tools"
_LINE: Final = re.compile(r"Partition:(\d+)\tOffset:(\d+)\tid:(\S+)-(\d+),n:(\d+)\t")
_END_S: Final = 8.0  # that a tool has to end by itself


@dataclass(frozen=True, slots=True)
class Printed:
    """A record as the consumer prints it; `number` counts the records of `producer`, `n` those of its key."""

    producer: str
    number: int
    n: int
    partition: int
    offset: int


def command(
    java: Sequence[str], role: str, name: str, servers: str, topics: Sequence[str], config: str = ""
) -> list[str]:
    """The command line of the tool, with its default settings; `config` names a file of security keys."""
    place = ["--bootstrap-server", servers, *(["--command-config", config] if config else [])]
    if role == "produce":
        read = ["--reader-property", "parse.headers=true", "--reader-property", "parse.key=true"]
        return [*java, f"{_TOOLS}.ConsoleProducer", *place, "--topic", topics[0], *read]
    group = ["--include", "|".join(map(re.escape, topics)), "--group", name, "--from-beginning"]
    for what in ("partition", "offset", "headers"):
        group += ["--formatter-property", f"print.{what}=true"]
    return [*java, f"{_TOOLS}.consumer.ConsoleConsumer", *place, *group]


def printed(line: str) -> Printed | None:
    """The record of a printed line; None for a line that is none."""
    found = _LINE.match(line)
    return None if found is None else Printed(found[3], int(found[4]), int(found[5]), int(found[1]), int(found[2]))


def feed(
    tool: subprocess.Popen[str],
    ended: SignalSafeEvent,
    name: str,
    alias: str,
    topic: str,
    per_s: float,
    number: int,
    history: HistoryWriter,
) -> None:
    """Give it records until `ended`, the first one with `number`. Blocks while the tool takes none."""
    assert tool.stdin is not None
    with suppress(BrokenPipeError):  # it was ended while it took none
        while not ended.wait(1 / per_s) and tool.poll() is None:
            row = Produced(
                f"{name}-{number}", f"{name}-k{number % KEYS}", number // KEYS, alias, topic, -1, NO_OFFSET,
                now_ms(), NO_OFFSET, ProducedStatus.IN_DOUBT,
            )  # fmt: skip
            tool.stdin.write(f"id:{row.id},n:{row.n}\t{row.key}\t{row.id}\n")
            tool.stdin.flush()
            history.append(row)
            history.tick()
            number += 1
    with suppress(BrokenPipeError):
        tool.stdin.close()  # the tool sends what it has, and ends


def follow(tool: subprocess.Popen[str], name: str, alias: str, topic: str, history: HistoryWriter) -> None:
    """Write down what it prints; `topic` is what it reads, empty where that is not known."""
    assert tool.stdout is not None
    for line in tool.stdout:
        found = printed(line)
        if found is None:
            continue
        key, record = f"{found.producer}-k{found.number % KEYS}", f"{found.producer}-{found.number}"
        history.append_all(
            [Consumed(name, alias, topic, found.partition, found.offset, record, key, found.n, now_ms())]
        )


def main() -> None:
    role, name, alias, servers, topics, path, per_s, first, config, *java = sys.argv[1:]
    ended = SignalSafeEvent()
    ending: list[threading.Timer] = []
    names = topics.split(",")
    with (
        HistoryWriter(Path(path)) as history,
        subprocess.Popen(
            command(java, role, name, servers, names, config),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if role == "consume" else subprocess.DEVNULL,
            text=True,
            env=child_environment(),
            preexec_fn=bind_to(os.getpid()),  # noqa: PLW1509  # two system calls, no Python locks
        ) as tool,
    ):

        def end(*_: object) -> None:
            ended.set()
            if not ending:
                if role == "consume":
                    tool.send_signal(signal.SIGTERM)
                ending.append(threading.Timer(_END_S, tool.kill))  # it waits half a minute for a cluster that is gone
                ending[-1].start()

        for number in SIGNALS:
            signal.signal(number, end)
        if role == "produce":
            feed(tool, ended, name, alias, names[0], float(per_s), int(first), history)
        else:
            follow(tool, name, alias, names[0] if len(names) == 1 else "", history)
    for timer in ending:
        timer.cancel()


if __name__ == "__main__":
    main()
