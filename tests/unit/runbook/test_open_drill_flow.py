"""The flow of a shipped runbook: chosen from the file before a plan is made, and the plan's own afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from repository_root import ROOT

from drlib.analysis.sessions.analysed_flow import open_flow
from drlib.drill.plan.plan import Plan, StepPlan
from drlib.drill.run import planning
from drlib.drill.run.request import ClusterTarget
from drlib.errors import UsageError
from drlib.model import Flow
from drlib.runbook.file import drill_section, model
from drlib.runbook.introduce import introduce
from drlib.runbook.open_drill import chosen_flow
from drlib.runbook.plans import values

BOOK = model.load(ROOT / "runbooks" / "emergency-failover.yaml")
PARIS, LYON = Flow("paris", "lyon"), Flow("lyon", "paris")


def file(folder: Path, *enabled: Flow) -> ClusterTarget:
    path = folder / "mm2.properties"
    lines = ["clusters = paris, lyon", "paris.bootstrap.servers = h:1", "lyon.bootstrap.servers = h:2"]
    path.write_text("\n".join([*lines, *(f"{flow}.enabled = true" for flow in enabled)]))
    return ClusterTarget(path)


def test_chosen_flow_is_the_files_only_enabled_one(tmp_path: Path) -> None:
    assert chosen_flow(BOOK, file(tmp_path, PARIS), values(BOOK, {})) == PARIS
    with pytest.raises(UsageError, match="2 flows are enabled there"):
        chosen_flow(BOOK, file(tmp_path, PARIS, LYON), values(BOOK, {}))


def test_chosen_flow_of_a_run_is_its_plans_whatever_the_file_says(tmp_path: Path) -> None:
    assert BOOK.drill is not None
    drill = drill_section.drill(BOOK.drill, BOOK.name, BOOK.objectives, values(BOOK, {}), PARIS)
    planning.write(Plan(drill, tuple(StepPlan(step.name) for step in drill.steps)), tmp_path)
    for enabled in ((PARIS, LYON), (LYON,), ()):
        assert chosen_flow(BOOK, file(tmp_path, *enabled), values(BOOK, {}), place=tmp_path) == PARIS


def test_chosen_flow_without_clusters_or_lab_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no clusters were given"):
        chosen_flow(BOOK, ClusterTarget(), values(BOOK, {}))
    with pytest.raises(UsageError, match="There is no lab"):
        chosen_flow(BOOK, ClusterTarget(lab_dir=tmp_path), values(BOOK, {}), start_lab=False)
    assert chosen_flow(BOOK, ClusterTarget(lab_dir=tmp_path), values(BOOK, {})) == Flow("LEFT", "RIGHT")


def test_introduction_has_the_flow_in_its_title_and_says_production(tmp_path: Path) -> None:
    shown = introduce(BOOK, {}, file(tmp_path, PARIS))
    assert shown.title == "Emergency failover: paris is down, applications continue on lyon"
    assert str(shown.banner) == "PRODUCTION  flow paris->lyon, clusters paris and lyon: real applications move."
    on_lab = introduce(BOOK, {}, ClusterTarget(), lab=True)
    assert str(on_lab.banner) == "LAB  flow LEFT->RIGHT, clusters LEFT and RIGHT: only the lab is changed."
    unknown = introduce(BOOK, {}, ClusterTarget())
    assert (unknown.title, unknown.banner) == (
        "Emergency failover: the source is down, applications continue on the target",
        None,
    )


@pytest.mark.parametrize("name", ["nightly-audit", "duplicates-audit", "lag-report", "continuous-audit"])
def test_introduction_of_an_analysis_says_that_clusters_are_only_read(name: str, tmp_path: Path) -> None:
    book = model.load(ROOT / "runbooks" / f"{name}.yaml")
    given = {"properties": str(file(tmp_path, PARIS).properties)}
    shown = introduce(book, given, ClusterTarget())
    assert str(shown.banner) == "PRODUCTION  flow paris->lyon, clusters paris and lyon: the clusters are only read."
    assert (
        introduce(book, {**given, "flow": "lyon->paris"}, ClusterTarget()).banner is not None
    )  # disabled, and only read
    file(tmp_path, PARIS, LYON)
    with pytest.raises(UsageError, match="2 flows are enabled there"):
        introduce(book, given, ClusterTarget())


def test_analysis_of_own_clusters_plants_no_duplicates(tmp_path: Path) -> None:
    given = str(file(tmp_path, PARIS).properties)
    analysed = open_flow(given, "", "", plant=True)  # the clusters do not even answer
    assert (str(analysed.flow), analysed.practice) == ("paris->lyon", None)
