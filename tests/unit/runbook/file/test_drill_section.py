"""The `drill:` of a runbook: what it says becomes a drill, and what it cannot mean is refused where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from drlib.config.replication_policy import ALIAS_LETTERS
from drlib.drill.plan.plan import Argument, Danger, Mode, Plan, Rollback, StepPlan
from drlib.errors import UsageError
from drlib.model import Flow
from drlib.runbook.file import drill_section, model
from drlib.runs.scorecard import Objectives

SECTION: dict[str, Any] = {
    "flow": "LEFT->RIGHT",
    "mode": "planned",
    "hypothesis": [{"title": "RIGHT answers", "probe": "cluster.answers", "arguments": {"cluster": "RIGHT"}}],
    "steps": [
        {
            "name": "create",
            "title": "Create it",
            "action": "topic.create",
            "arguments": {"cluster": "RIGHT", "topic": "${topic}", "partitions": 3},
        },
        {
            "name": "move",
            "title": "Move them",
            "action": "groups.translate",
            "arguments": {"groups": "${groups}"},
            "danger": "destructive",
            "approval": True,
        },
    ],
}


def load(tmp_path: Path, **changed: Any) -> model.Runbook:
    (tmp_path / "n.ipynb").write_text("{}")
    document = {"name": "x", "title": "X", "notebook": "n.ipynb", "drill": {**SECTION, **changed}}
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return model.load(path)


def test_drill_section_becomes_a_drill_with_parameters_filled_in(tmp_path: Path) -> None:
    book = load(tmp_path)
    assert book.drill is not None
    assert book.file == (tmp_path / "x.yaml").resolve()
    drill = drill_section.drill(book.drill, "x", Objectives(rto_seconds=5), {"topic": "t", "groups": ["a", "b"]})
    assert (drill.flow, drill.mode, drill.rollback) == (Flow("LEFT", "RIGHT"), Mode.PLANNED, Rollback.DEFAULT)
    assert drill.steps[0].action.arguments[1:] == (Argument("topic", "t"), Argument("partitions", 3))
    assert drill.steps[1].action.arguments == (Argument("groups", ("a", "b")),)
    assert (drill.steps[1].danger, drill.steps[1].approval) == (Danger.DESTRUCTIVE, True)
    assert drill.objectives == Objectives(rto_seconds=5.0)
    assert drill.hypothesis[0].probe.arguments == (Argument("cluster", "RIGHT"),)


def test_drill_section_missing_parameter_is_named_with_its_step(tmp_path: Path) -> None:
    book = load(tmp_path)
    assert book.drill is not None
    with pytest.raises(UsageError, match=r"step move: groups.*there is no parameter groups"):
        drill_section.drill(book.drill, "x", Objectives(), {"topic": "t"})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"mod": "planned"}, "drill.mod: there is no such key. Did you mean mode"),
        ({"mode": "planed"}, "drill.mode"),
        ({"flow": "LEFT"}, "drill.flow"),
        ({"steps": [{"name": "a", "title": "A", "action": "x", "argument": {}}]}, "Did you mean arguments"),
        ({"steps": [{"name": "a", "action": "x"}]}, "drill.steps.0.title: it is missing"),
        ({"hypothesis": [{"title": "a", "prob": "x"}]}, "hypothesis.0"),
    ],
)
def test_drill_section_invalid_values_are_refused(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load(tmp_path, **changed)


def test_drill_section_without_steps_or_with_duplicate_names_is_refused(tmp_path: Path) -> None:
    for steps in ([], [SECTION["steps"][0]] * 2):
        book = load(tmp_path, steps=steps)
        assert book.drill is not None
        with pytest.raises(UsageError, match="a unique name"):
            drill_section.drill(book.drill, "x", Objectives(), {"topic": "t"})


def test_runbook_file_is_no_key(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("name: x\ntitle: X\nnotebook: n.ipynb\nfile: y\n")
    with pytest.raises(UsageError, match="file: there is no such key"):
        model.load(path)


OPEN: dict[str, Any] = {
    "flow": "${flow}",
    "hypothesis": [
        {"title": "${source} answers", "probe": "cluster.answers", "arguments": {"cluster": "${source}"}},
    ],
    "steps": [
        {
            "name": "move",
            "title": "${flow}: from ${source} to ${target}",
            "action": "hook.command",
            "arguments": {"argv": ["notify", "${target}", "to ${source}"], "at": "${target}", "topic": "${topic}"},
        }
    ],
}
ALIASES = st.text(st.sampled_from(sorted(ALIAS_LETTERS)), min_size=1, max_size=12)


@given(source=ALIASES, target=ALIASES)
def test_drill_section_open_flow_fills_titles_and_arguments(
    source: str, target: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    section = load(tmp_path_factory.mktemp("book"), **OPEN).drill
    assert section is not None
    parameters = {"flow": "", "topic": "t", "source": ""}
    assert drill_section.asked_flow(section, parameters) == ""
    made = drill_section.drill(section, "x", Objectives(), parameters, Flow(source, target))
    assert made.flow == Flow(source, target)
    assert made.hypothesis[0].title == f"{source} answers"
    assert made.hypothesis[0].probe.arguments == (Argument("cluster", source),)
    (step,) = made.steps
    assert step.title == f"{source}->{target}: from {source} to {target}"
    assert step.action.arguments == (
        Argument("argv", ("notify", target, "to ${source}")),  # of an argument only a whole item is a reference
        Argument("at", target),
        Argument("topic", "t"),
    )


def test_drill_section_plan_hash_binds_the_chosen_flow(tmp_path: Path) -> None:
    section = load(tmp_path, **OPEN).drill
    assert section is not None
    hashes = set()
    for flow in (Flow("paris", "lyon"), Flow("lyon", "paris"), Flow("paris", "nice")):
        made = drill_section.drill(section, "x", Objectives(), {"topic": "t"}, flow)
        hashes.add(Plan(made, (StepPlan("move"),)).hash)
    assert len(hashes) == 3


def test_drill_section_written_flow_has_its_values_and_refuses_another(tmp_path: Path) -> None:
    section = load(tmp_path, **{**OPEN, "flow": "paris->lyon"}).drill
    assert section is not None
    assert drill_section.asked_flow(section, {}) is None
    assert drill_section.asked_flow(section, {"flow": "paris -> lyon"}) is None
    assert (
        drill_section.drill(section, "x", Objectives(), {"topic": "t", "flow": ""})
        .steps[0]
        .title.startswith("paris->lyon")
    )
    with pytest.raises(UsageError, match="flow lyon->paris: this runbook is written for paris->lyon"):
        drill_section.asked_flow(section, {"flow": "lyon->paris"})


def test_drill_section_title_with_another_reference_is_refused() -> None:
    assert drill_section.title("${source} answers", None) == "the source answers"
    with pytest.raises(
        UsageError, match=r"there is no value sorce for titles. Use \$\{flow\}, \$\{source\}, \$\{target\}"
    ):
        drill_section.title("${sorce} answers", Flow("a", "b"))
