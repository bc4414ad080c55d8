"""Who asked for an abort, or made a plan: the user's name, where the system has one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drlib.runs.abort import Abort

_PLAN = """
import os, sys, tempfile
from pathlib import Path
from drlib import decoding
from drlib.drill.plan.plan import Call, Drill, Mode, Plan, Step, StepPlan
from drlib.drill.run import lease, planning
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow
from drlib.runs.abort import user_name

flow = Flow("a", "b")
os.setuid(int(sys.argv[1]))
with tempfile.TemporaryDirectory() as folder:
    drill = Drill(name="d", flow=flow, mode=Mode.PLANNED, steps=(Step(name="s", title="s", action=Call("s")),))
    path = planning.write(Plan(drill, (StepPlan("s", (), ()),)), Path(folder))
    print(decoding.json_value(path.read_bytes())["made_by"], user_name())
lease.Lease(ClusterSettings("b", ("127.0.0.1:1",)), flow, "run")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes a user without a name")
def test_user_of_whom_the_system_has_no_name_plans_and_takes_leases() -> None:
    """As in a container whose platform chooses the user's number."""
    named = {name: value for name, value in os.environ.items() if name not in ("LOGNAME", "USER", "LNAME", "USERNAME")}
    done = subprocess.run(
        [sys.executable, "-c", _PLAN, "1000730000"], env=named, capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["1000730000", "1000730000"], "")


def test_condition_with_much_evidence_is_still_named_as_what_asked_for_it(tmp_path: Path) -> None:
    abort = Abort(tmp_path)
    abort.request("stop condition 'ready' does not hold: " + "\u00e9" * 10_000)
    assert Abort(tmp_path).by().startswith("stop condition 'ready' does not hold: \u00e9")
