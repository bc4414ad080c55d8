"""`drlib failback` on clusters named paris and lyon, after a `drlib failover` exactly as that left them.

Paris comes back with records that were not mirrored, of which the group had read some. The worker is started again before that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from fix_engine import commit, create_topic, wait_for
from testbed_way_back import BACK, FLOW, GROUP, MIRROR, READ, TOPIC, Application, a_night

from drlib.drill.plan.states import DrillState


def rows(document: Mapping[str, object], name: str) -> list[dict[str, object]]:
    found = document[name]
    assert isinstance(found, list)
    return found


@pytest.mark.long
@pytest.mark.timeout(420)
def test_failback_settles_moves_home_and_the_next_failover_works(tmp_path: Path) -> None:
    with a_night(tmp_path) as night:
        paris, lyon = (night.lab.clusters[alias] for alias in ("paris", "lyon"))
        tail = night.leave_a_tail(40, read_of_it=10)
        copied = night.end("lyon", MIRROR)
        night.cli("failover", str(night.file), str(FLOW), "--yes", "lyon", code=7)  # no application has come yet
        assert night.state().state is DrillState.FAILED_OVER
        on_lyon = Application(lyon.bootstrap, [MIRROR, TOPIC])
        on_lyon.start()
        meanwhile = [*night.write("lyon", 60)]
        night.start_worker()  # of both flows, before paris is back
        paris.start()
        wait_for("lyon->paris is mirrored", lambda: night.end("paris", BACK) >= 60)
        assert night.members(FLOW) == 0  # the worker waits with the flow that is failed over
        assert night.end("lyon", MIRROR) == copied

        (assessed,), err = night.cli("failback", str(night.file), code=9)
        assert "Give --tail recover, quarantine or leave" in err
        assert (assessed["flow"], assessed["next"], assessed["state"]) == (str(FLOW), "begin", "failed-over")
        assert assessed["stages"] == ["reprotect", "fail-back"]
        assert [(t["topic"], t["records"]) for t in rows(assessed, "tail")] == [(TOPIC, 40)]
        assert assessed["read_there"] == {GROUP: 10}
        assert [row["offset"] for row in rows(assessed, "examples")] == list(range(400, 420))
        assert assessed["back_missing"] == 0
        night.cli("failback", str(night.file), "--yes", "lyon", "--tail", "recover", code=2)
        _, err = night.cli("failback", str(night.file), "--tail", "recover", code=9)
        assert "Give --yes paris" in err
        assert night.state().state is DrillState.FAILED_OVER

        meanwhile += night.write("lyon", 5)
        wait_for("the application has read all", lambda: len(on_lyon.read) >= 400 - READ + 65)
        on_paris = Application(paris.bootstrap, [BACK, TOPIC])
        process = night.started("failback", str(night.file), "--yes", "paris", "--tail", "recover")
        documents: list[dict[str, object]] = []
        try:
            for text in process.stdout or ():
                documents.append(json.loads(text))
                if documents[-1]["event"] == "applications":  # the application is moved by hand, as it says
                    read_on_lyon = on_lyon.close()
                    on_paris.start()
                    new = night.write("paris", 30)
            assert process.wait(60) == 0, documents
        finally:
            process.kill()
            process.communicate()
        first, second = [each for each in documents if each["event"] == "result"]
        assert (first["exit_code"], second["exit_code"]) == (0, 0)
        (changes,) = [each for each in documents if each["event"] == "applications"]
        (change,) = rows(changes, "groups")
        assert (change["group"], change["subscribe"], change["bootstrap"]) == (GROUP, [BACK, TOPIC], paris.bootstrap)
        assert [each["topic"] for each in rows(changes, "producers")] == [TOPIC]
        assert (documents[-1]["event"], documents[-1]["workers"]) == ("mirrored", 1)
        assert (night.active, night.state().state) == ("paris", DrillState.READY)
        wait_for("it reads on", lambda: set(new) <= set(on_paris.read))
        read = read_on_lyon + on_paris.close()
        assert set(read) == {*range(READ, 400), *tail, *meanwhile, *new}
        assert max(read.values()) == 1  # nothing is skipped, and nothing is read twice because of the way back
        wait_for("paris->lyon is mirrored again", lambda: night.end("lyon", MIRROR) >= copied + 70)

        again, _ = night.cli("failback", str(night.file), str(FLOW), "--yes", "paris")
        assert (again[0]["next"], again[-1]["exit_code"]) == ("nothing", 0)

        paris.kill()
        documents, _ = night.cli("failover", str(night.file), str(FLOW), "--yes", "lyon", code=7)
        assert (night.active, night.state().state) == ("lyon", DrillState.FAILED_OVER)
        (group,) = rows(documents[0], "groups")
        assert (group["group"], group["continues"]) == (GROUP, "exactly")


@pytest.mark.long
@pytest.mark.timeout(420)
def test_failback_with_another_choice_than_the_failed_one_is_refused_and_superseded(tmp_path: Path) -> None:
    """Lyon's topic is compacted and has newer values of the keys, so that the records of paris cannot be recovered."""
    with a_night(tmp_path) as night:
        create_topic(night.lab.clusters["lyon"].bootstrap, TOPIC, 1, cleanup_policy="compact")
        night.leave_a_tail(40, read_of_it=10)
        night.cli("failover", str(night.file), str(FLOW), "--yes", "lyon", code=7)  # no application has come yet
        night.write("lyon", 97)
        night.start_worker()
        night.lab.clusters["paris"].start()
        wait_for("lyon->paris is mirrored", lambda: night.end("paris", BACK) >= 97)
        command = ("failback", str(night.file), str(FLOW), "--yes", "paris")
        documents, _ = night.cli(*command, "--tail", "recover", code=6)
        assert "cannot be recovered" in str(documents[-1])
        left = night.state()
        assert left.state is DrillState.REPROTECT_INCOMPLETE

        (assessed,), err = night.cli(*command, "--tail", "quarantine", code=2)
        assert (assessed["next"], assessed["run"]) == ("continue", left.run)
        assert f"run {left.run} is unfinished and continues with the same parameters: --tail recover" in err
        assert f"--tail quarantine --supersede {left.run}" in err
        assert night.state() == left

        for topic in (MIRROR, TOPIC):
            commit(night.lab.clusters["lyon"].bootstrap, GROUP, topic, night.end("lyon", topic))
        superseding = (*command, "--tail", "quarantine", "--supersede", left.run)
        documents, _ = night.cli(*superseding)
        assert [each["exit_code"] for each in documents if each["event"] == "result"] == [0, 0]
        assert (night.active, night.state().state) == ("paris", DrillState.READY)
        assert night.end("lyon", "drlib.tail.paris.orders") >= 40
        assert night.end("lyon", TOPIC) == 97
