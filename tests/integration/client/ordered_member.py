"""One application as a process: `drlib.OrderedConsumer` in a loop, commits now and then, and a line for all it does.

A line is JSON and written in one call: `{"handed": [n, topic, partition, offset, key, value]}` with n from the system's
monotonic clock, `{"acked": true}` for everything handed before it, `{"refused": true}` alike. With `freeze_after` it takes its
time until it shares the group's `partitions` with another member, and after as many acknowledged records since then takes a few
more, says `{"frozen": true}` and never goes on, so that it can be killed there.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

import drlib


def main(path: Path) -> None:
    spec = json.loads(path.read_text())
    log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def say(**what: object) -> None:
        os.write(log, (json.dumps(what) + "\n").encode())

    consumer = drlib.OrderedConsumer(
        {"bootstrap.servers": spec["bootstrap"]},
        spec["group"],
        spec["topic"],
        remote=spec["remote"],
        cutover=spec["cutover"],
        scope=spec["scope"],
        max_batch=20,
        settings={"session.timeout.ms": 6000, "heartbeat.interval.ms": 200},
    )
    acked, open_, alone = 0, 0, bool(spec["freeze_after"])
    with consumer:
        while True:
            record = consumer.poll(0.2)
            if record is not None:
                open_ += 1
                if alone:
                    time.sleep(0.02)
                    alone = not 0 < len(consumer.assigned) < spec["partitions"]
                key, value = (record.key or b"").decode(), int(record.value or b"-1")
                at = record.partition
                say(handed=[time.monotonic_ns(), at.topic, at.partition, record.offset, key, value])
                if spec["freeze_after"] and acked >= spec["freeze_after"] and open_ == 5:
                    say(frozen=True)
                    threading.Event().wait()
            if open_ >= 10 or (record is None and open_):
                outcome = consumer.commit()
                if outcome is drlib.CommitOutcome.ACKED:
                    say(acked=True)
                    acked += 0 if alone else open_
                elif outcome is drlib.CommitOutcome.REFUSED:
                    say(refused=True)
                else:
                    continue
                open_ = 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
