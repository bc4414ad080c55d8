"""The runbook swap-roles where both directions copy the topic: paris failed and is back, lyon stays what serves, and when lyon
fails in turn the applications continue on paris."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fix_engine import wait_for
from testbed_way_back import FLOW, GROUP, READ, TOPIC, Application, Night, a_shared_night

from drlib.client.pointer_topic import read_pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.states import DrillState
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.model import TopicPartition

LATE, READ_OF_IT = 40, 10
BACK = FLOW.reverse


def run(night: Night, runbook: str, *arguments: str) -> str:
    """What `drlib run` prints, which has to end well."""
    argv = [sys.executable, "-m", "drlib.cli", "run", runbook, str(night.file), "--runs-dir", str(night.runs_dir)]
    done = subprocess.run(
        [*argv, *arguments], capture_output=True, text=True, timeout=240, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def everywhere(night: Night) -> bool:
    return all(night.records(alias) == night.written for alias in ("paris", "lyon"))


@pytest.mark.long
@pytest.mark.timeout(420)
def test_cluster_that_failed_becomes_the_target_and_takes_over_when_the_other_one_fails(tmp_path: Path) -> None:
    with a_shared_night(tmp_path) as night:
        paris, lyon = (night.lab.clusters[alias] for alias in ("paris", "lyon"))
        unread = night.number_at("paris", READ)
        late = night.leave_a_tail(LATE, read_of_it=READ_OF_IT)
        night.cli("failover", str(night.file), str(FLOW), "--yes", "lyon", code=7)  # no application has come yet
        on_lyon = Application(lyon.bootstrap, [TOPIC])
        on_lyon.start()
        meanwhile = night.write("lyon", 60)
        night.start_worker()
        paris.start()
        wait_for("each side has all records", lambda: everywhere(night), 90)

        said = run(night, "swap-roles", "-p", f"flow={FLOW}", "-p", "tail=leave", "--approve", "settle")
        print(said)
        assert night.state().state is DrillState.REPROTECTED
        assert night.active == "lyon"
        wait_for("it has read all", lambda: {*range(unread, 400), *late, *meanwhile} <= set(on_lyon.read))
        read_on_lyon = on_lyon.close()
        assert max(read_on_lyon.values()) == 1
        end = night.end("lyon", TOPIC)

        def checkpointed() -> bool:
            known = checkpointed_positions(load_mirror_settings(night.file), BACK)
            found = known.get((GROUP, TopicPartition(TOPIC, 0)))
            return found is not None and found.offset >= end - 1

        wait_for("where it is on lyon is known on paris", checkpointed, 60)
        new = night.write("lyon", 20)
        wait_for("paris has it", lambda: everywhere(night), 60)

        lyon.kill()
        documents, _ = night.cli("failover", str(night.file), str(BACK), "--yes", "paris", code=7)
        assert night.state(BACK).state is DrillState.FAILED_OVER
        pointer = read_pointer([night.settings("paris")]).pointer
        assert pointer is not None
        assert pointer.active == "paris"
        on_paris = Application(paris.bootstrap, [TOPIC])
        on_paris.start()
        more = night.write("paris", 10)
        wait_for("it reads on", lambda: {*new, *more} <= set(on_paris.read))
        read = on_paris.close()
        groups = documents[0]["groups"]
        assert isinstance(groups, list)
        (group,) = groups
        assert sum(read.values()) - len({*new, *more}) <= int(str(group["re_reads"])), group
