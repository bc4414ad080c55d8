"""`drlib failback` where both directions copy the topic under one name: paris fails with records that were not copied, of which
the group had read some, comes back, and serves again. The next failover works."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from beside import beside
from fix_engine import wait_for
from testbed_way_back import FLOW, GROUP, READ, TOPIC, Application, Night, a_shared_night

from drlib.drill.plan.states import DrillState
from drlib.kafka.admin.cluster import Cluster
from drlib.model import TopicPartition

LATE, READ_OF_IT = 40, 10


def rows(document: Mapping[str, object], name: str) -> list[dict[str, object]]:
    found = document[name]
    assert isinstance(found, list)
    return found


@contextmanager
def traffic(night: Night, alias: str, written: list[int]) -> Iterator[threading.Event]:
    """Records are written there until the event is set, and their numbers are added to `written`."""

    def write(end: threading.Event) -> None:
        while not end.wait(0.1):
            written.extend(night.write(alias, 5))

    with beside(write) as end:
        yield end


def moved(
    night: Night,
    command: str,
    to: str,
    then: Application,
    on: Application | None = None,
    producers: threading.Event | None = None,
) -> tuple[list[dict[str, object]], Counter[int], range]:
    """A command that moves to `to`, with the application moved by hand when it says so, and producers stopped after its first
    run: its documents, what was read before, and what was written then."""
    process = night.started(command, str(night.file), str(FLOW), "--yes", to)
    documents: list[dict[str, object]] = []
    read, new = Counter[int](), range(0)
    try:
        for text in process.stdout or ():
            documents.append(json.loads(text))
            if documents[-1]["event"] == "result" and producers is not None:
                producers.set()
            if documents[-1]["event"] == "applications":
                read = Counter() if on is None else on.close()
                then.start()
                new = night.write(to, 30)
        assert process.wait(60) == 0, documents
    finally:
        process.kill()
        process.communicate()
    print(*documents, sep="\n")
    (changes,) = [each for each in documents if each["event"] == "applications"]
    (change,) = rows(changes, "groups")
    assert (change["group"], change["subscribe"], change["bootstrap"]) == (GROUP, [TOPIC], then.bootstrap)
    return documents, read, new


def drlib(night: Night, *arguments: str) -> str:
    """What a command that ends well prints."""
    argv = [sys.executable, "-m", "drlib.cli", *arguments, "--runs-dir", str(night.runs_dir)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(420)
def test_what_crossed_late_is_said_and_the_group_goes_home_and_away_again(tmp_path: Path) -> None:
    with a_shared_night(tmp_path) as night:
        paris, lyon = (night.lab.clusters[alias] for alias in ("paris", "lyon"))
        unread = night.number_at("paris", READ)  # markers of the flow back have offsets, too
        late = night.leave_a_tail(LATE, read_of_it=READ_OF_IT)
        night.cli("failover", str(night.file), str(FLOW), "--yes", "lyon", code=7)  # no application has come yet
        assert (night.active, night.state().state) == ("lyon", DrillState.FAILED_OVER)
        on_lyon = Application(lyon.bootstrap, [TOPIC])
        on_lyon.start()
        meanwhile = [*night.write("lyon", 60)]
        night.start_worker()  # of both flows, before paris is back
        paris.start()
        wait_for("each side has all records", lambda: all(night.records(a) == 500 for a in ("paris", "lyon")), 90)

        (assessed,), err = night.cli("failback", str(night.file), str(FLOW), code=9)
        assert "Give --yes paris" in err
        assert (assessed["next"], assessed["state"], assessed["both_ways"]) == ("begin", "failed-over", True)
        assert assessed["stages"] == ["reprotect", "fail-back"]
        assert assessed["crossed"] == [{"topic": TOPIC, "crossed": LATE, "left": 0}]
        assert (assessed["read_there"], assessed["read_there_at_most"]) == ({GROUP: READ_OF_IT}, False)
        night.cli("failback", str(night.file), str(FLOW), "--yes", "lyon", code=2)

        on_paris = Application(paris.bootstrap, [TOPIC])
        with traffic(night, "lyon", meanwhile) as end:
            documents, read_on_lyon, new = moved(night, "failback", "paris", on_paris, on_lyon, end)
        assert [each["exit_code"] for each in documents if each["event"] == "result"] == [0, 0]
        assert (documents[-1]["event"], documents[-1]["workers"]) == ("mirrored", 1)
        assert (night.active, night.state().state) == ("paris", DrillState.READY)
        wait_for("it reads on", lambda: set(new) <= set(on_paris.read))
        assert read_on_lyon.keys() == {*range(unread, 400), *late, *meanwhile}
        assert max(read_on_lyon.values()) == 1
        again, _ = night.cli("failback", str(night.file), str(FLOW), "--yes", "paris")
        assert (again[0]["next"], again[-1]["exit_code"]) == ("nothing", 0)
        read_on_paris = Counter(on_paris.read)
        assert read_on_paris == Counter(new)  # nothing is skipped, and nothing is read twice because of the way back

        wait_for("lyon has it, too", lambda: night.records("lyon") == night.written)
        folder = night.file.parent / "runbooks"
        drlib(night, "init", str(night.file), "--names", "identical")
        said = drlib(night, "run", str(folder / "rehearse-paris-lyon.yaml"), str(night.file))
        assert "pass" in said
        on_paris.close()
        new = night.write("paris", 20)
        wait_for("lyon has it, too", lambda: night.records("lyon") == night.written)
        paris.kill()
        on_lyon = Application(lyon.bootstrap, [TOPIC])
        documents, _, more = moved(night, "failover", "lyon", on_lyon)  # by the runbook that init wrote
        assert (night.active, night.state().state) == ("lyon", DrillState.FAILED_OVER)
        (group,) = rows(documents[0], "groups")
        wait_for("it reads on", lambda: {*new, *more} <= set(on_lyon.read))
        read = on_lyon.close()
        assert sum(read.values()) - len({*new, *more}) <= int(str(group["re_reads"])), group


@pytest.mark.timeout(240)
def test_what_a_group_read_of_late_records_is_a_bound_where_its_positions_are_synchronized_back(tmp_path: Path) -> None:
    sync = {"sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "1"}
    with a_shared_night(tmp_path, **sync) as night:
        night.leave_a_tail(LATE, read_of_it=READ_OF_IT)
        night.cli("failover", str(night.file), str(FLOW), "--yes", "lyon", code=7)  # no application has come yet
        on_lyon = Application(night.lab.clusters["lyon"].bootstrap, [TOPIC])
        on_lyon.start()
        night.start_worker()
        night.lab.clusters["paris"].start()
        wait_for("lyon has all records", lambda: night.records("lyon") == night.written, 90)

        def written_back() -> bool:
            with Cluster(night.settings("paris")) as cluster:
                return cluster.group_offsets(GROUP)[TopicPartition(TOPIC, 0)].offset >= night.end("paris", TOPIC) - 1

        wait_for("what it read on lyon is its position on paris, too", written_back, 90)
        (assessed,), _ = night.cli("failback", str(night.file), str(FLOW), code=9)
        assert (assessed["read_there"], assessed["read_there_at_most"]) == ({GROUP: LATE}, True)
        on_lyon.close()
