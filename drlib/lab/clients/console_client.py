"""Kafka's console producer or consumer, fed or read as from a shell, with a history of what it was given and what it printed.

Rules: the tools are as they are in Kafka's jars, with default settings. The console producer reports no acknowledgement, so its
rows are in doubt, all of them; whether a record arrived is seen in the log. The consumer prints headers and values, without
topic, partition and offset; it commits by itself every five seconds. A record counts as processed when its line was read here.

Run as `python -m drlib.lab.clients.console_client produce|consume NAME ALIAS SERVERS TOPICS HISTORY PER_S JAVA...`, where
JAVA... is the command of the Java launcher with its options and class path.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drlib.clock import now_ms
from drlib.lab.checker.history import NO_OFFSET, Consumed, Produced, ProducedStatus
from drlib.lab.checker.history_files import HistoryWriter
from drlib.outgoing.environment import child_environment

KEYS: Final = 7
_TOOLS: Final = "org.apache.kafka.tools"
_LINE: Final = re.compile(r"id:(\S+)-(\d+),n:(\d+)\t")


def command(java: Sequence[str], role: str, name: str, servers: str, topics: Sequence[str]) -> list[str]:
    """The command line of the tool, with its default settings."""
    if role == "produce":
        headers = ["--reader-property", "parse.headers=true"]
        return [*java, f"{_TOOLS}.ConsoleProducer", "--bootstrap-server", servers, "--topic", topics[0], *headers]
    names = "|".join(map(re.escape, topics))
    group = ["--include", names, "--group", name, "--from-beginning", "--formatter-property", "print.headers=true"]
    return [*java, f"{_TOOLS}.consumer.ConsoleConsumer", "--bootstrap-server", servers, *group]


def identity(line: str) -> tuple[str, int, int] | None:
    """Name of the producer, number and number within its key of a printed record; None for a line that is none."""
    found = _LINE.match(line)
    return None if found is None else (found[1], int(found[2]), int(found[3]))


def feed(
    tool: subprocess.Popen[str],
    ended: threading.Event,
    name: str,
    alias: str,
    topic: str,
    per_s: float,
    history: HistoryWriter,
) -> None:
    assert tool.stdin is not None
    number = 0
    while not ended.wait(1 / per_s) and tool.poll() is None:
        row = Produced(
            f"{name}-{number}", f"{name}-k{number % KEYS}", number // KEYS, alias, topic, -1, NO_OFFSET,
            now_ms(), NO_OFFSET, ProducedStatus.IN_DOUBT,
        )  # fmt: skip
        tool.stdin.write(f"id:{row.id},n:{row.n}\t{row.id}\n")
        tool.stdin.flush()
        history.append(row)
        history.tick()
        number += 1
    tool.stdin.close()  # the tool sends what it has, and ends


def follow(tool: subprocess.Popen[str], name: str, alias: str, history: HistoryWriter) -> None:
    assert tool.stdout is not None
    for line in tool.stdout:
        found = identity(line)
        if found is None:
            continue
        producer, number, n = found
        key = f"{producer}-k{number % KEYS}"
        history.append_all([Consumed(name, alias, "", -1, NO_OFFSET, f"{producer}-{number}", key, n, now_ms())])


def main() -> None:
    role, name, alias, servers, topics, path, per_s, *java = sys.argv[1:]
    ended = threading.Event()
    names = topics.split(",")
    with (
        HistoryWriter(Path(path)) as history,
        subprocess.Popen(
            command(java, role, name, servers, names),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=child_environment(),
        ) as tool,
    ):

        def end(*_: object) -> None:
            ended.set()
            if role == "consume":
                tool.send_signal(signal.SIGTERM)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        if role == "produce":
            feed(tool, ended, name, alias, names[0], float(per_s), history)
            until = time.monotonic() + 8
            while tool.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            tool.kill()
        else:
            follow(tool, name, alias, history)


if __name__ == "__main__":
    main()
