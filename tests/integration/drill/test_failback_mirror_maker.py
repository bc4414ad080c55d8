"""`drlib failover` and `drlib failback` where the real MirrorMaker 2 mirrors, in both directions in turn.

Paris dies with records that were not mirrored, of which the group had read some. It comes back, the records are recovered in a
transaction, nothing else is written to lyon meanwhile, and the applications move home.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from fix_engine import create_topic, latest_offsets, produce, wait_for
from testbed_mirror_maker import FLOW, PARTITIONS, TOPIC, Night, commit_at
from testbed_way_back import Application

from bench.mirror_maker import MirrorMaker2
from drlib import publish_pointer
from drlib.lab.lab import Lab

pytestmark = [pytest.mark.mm2, pytest.mark.long, pytest.mark.timeout(600)]

BACK = "lyon.orders"
MIRRORED, TAIL, MEANWHILE, NEW = range(3000), range(3000, 3200), range(3200, 3700), range(3700, 3760)
POSITIONS = {0: 1234, 1: 1490}
READ_OF_THE_TAIL = 30  # in each partition


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with Lab(tmp_path / "lab", ("paris", "lyon")) as lab:
        yield Night(tmp_path, lab)


def write(bootstrap: str, numbers: range) -> None:
    produce(bootstrap, TOPIC, len(numbers), partitions=PARTITIONS, first=numbers.start)


def documents(night: Night, *arguments: str) -> Iterator[dict[str, object]]:
    """What a command writes as JSON, line by line while it runs; its last one has `exit_code` of the process."""
    argv = [sys.executable, "-m", "drlib.cli", *arguments, "--json", "--runs-dir", str(night.root / "runs")]
    with (night.root / "stderr").open("w") as errors:
        process = subprocess.Popen(
            argv, cwd=night.root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            for line in process.stdout or ():
                yield json.loads(line)
            yield {"event": "end", "exit_code": process.wait(60)}
        finally:
            process.kill()
            process.communicate()


def arrived(bootstrap: str, topic: str, records: int) -> bool:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    if topic not in admin.list_topics(timeout=10).topics:
        return False
    return sum((latest_offsets(admin, topic, PARTITIONS) or {}).values()) >= records


def test_failback_after_recover_moves_home_with_nothing_skipped(night: Night) -> None:
    create_topic(night.paris, TOPIC, PARTITIONS)
    write(night.paris, MIRRORED)
    commit_at(night.paris, POSITIONS)
    maker = MirrorMaker2(night.root / "mm2", night.file)
    maker.start()
    wait_for("the records are copied", night.copied(len(MIRRORED)), 90)
    wait_for("the group has checkpoints", night.checkpointed(POSITIONS), 60)
    publish_pointer(night.file, "paris")
    maker.kill()
    write(night.paris, TAIL)
    night.lab.clusters["paris"].kill()
    night.drlib("failover", night.file, "--yes", "lyon", "--runs-dir", night.root / "runs", code=7)
    on_lyon = Application(night.lyon, [night.mirror, TOPIC])
    on_lyon.start()
    write(night.lyon, MEANWHILE)

    night.keys |= {"lyon->paris.enabled": "true", "lyon->paris.topics": TOPIC, "paris.offset.flush.interval.ms": "5000"}
    file = night.file
    back = night.written(
        "back.properties", {"paris->lyon.enabled": "false", "paris->lyon.emit.heartbeats.enabled": "false"}
    )
    night.lab.clusters["paris"].start()
    maker = MirrorMaker2(night.root / "mm2-back", back)
    maker.start()
    wait_for("lyon->paris is mirrored", lambda: arrived(night.paris, BACK, len(MEANWHILE)), 120)
    wait_for("the application has read what lyon took", lambda: set(MEANWHILE) <= set(on_lyon.read), 60)

    on_paris = Application(night.paris, [BACK, TOPIC])
    seen: list[dict[str, object]] = []
    for each in documents(night, "failback", str(file), str(FLOW), "--yes", "paris", "--tail", "recover"):
        print(json.dumps(each)[:3000], flush=True)
        seen.append(each)
        if each["event"] == "applications":
            read_on_lyon = on_lyon.close()
            on_paris.start()
            write(night.paris, NEW)
    assert seen[-1]["exit_code"] == 0, (night.root / "stderr").read_text()[-3000:]
    wait_for("it reads on", lambda: set(NEW) <= set(on_paris.read))
    read = read_on_lyon + on_paris.close()
    expected = {n for n in MIRRORED if n // PARTITIONS >= POSITIONS[n % PARTITIONS]} | {*TAIL, *MEANWHILE, *NEW}
    assert expected <= set(read), sorted(expected - set(read))[:10]
    print(sum(read.values()) - len(expected))
