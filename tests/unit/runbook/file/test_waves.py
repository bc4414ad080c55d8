"""The `waves` of a runbook: the step that moves the applications becomes one for each wave, each verified before the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from repository_root import ROOT

from drlib.drill.plan.plan import Danger, Rollback
from drlib.drill.run.registry import parse_drill
from drlib.errors import UsageError
from drlib.model import Flow
from drlib.runbook.file import drill_section, model
from drlib.runbook.plans import values

FIRST = {"name": "money", "applications": [{"name": "billing", "groups": ["billing-.*"], "written": ["invoices"]}]}
SECOND = {
    "name": "shop",
    "applications": [{"name": "shop", "written": ["orders"]}, {"name": "mail", "groups": ["mail"], "idle": True}],
    "within_s": 600,
    "approval": True,
}


def load(tmp_path: Path, of: str, waves: object, **drill: object) -> model.Runbook:
    book = yaml.safe_load((ROOT / "runbooks" / f"{of}.yaml").read_text())
    book["drill"] |= {"waves": waves, **drill}
    book["notebook"] = str(ROOT / "notebooks" / "10_run_a_drill.ipynb")
    path = tmp_path / "waves.yaml"
    path.write_text(yaml.safe_dump(book, sort_keys=False))
    return model.load(path)


LAB_STEPS = [
    {"name": "start", "title": "Start", "action": "lab.applications", "arguments": {"backlog": 5}},
    {"name": "move", "title": "Move", "action": "pointer.move"},
]


def steps(book: model.Runbook) -> list[drill_section.StepSection]:
    assert book.drill is not None
    return book.drill.steps


@pytest.mark.parametrize(
    ("of", "moving", "names"),
    [
        (
            "emergency-failover",
            "move",
            ["decide", "inventory", "fence", "drain", "transactions", "translate", "topics"],
        ),
        ("planned-switchover", "go-home", ["workers", "caught-up", "topics", "inventory"]),
    ],
)
def test_waves_replace_the_step_that_moves_in_their_order_each_followed_by_its_verification(
    tmp_path: Path, of: str, moving: str, names: list[str]
) -> None:
    found = steps(load(tmp_path, of, [FIRST, SECOND]))
    waves = [f"{moving}-money", f"{moving}-money-served", f"{moving}-shop", f"{moving}-shop-served"]
    assert [step.name for step in found] == [*names, *waves, "verify" if of == "emergency-failover" else "transactions"]
    move, served, last, last_served = (step for step in found if step.name in waves)
    title = "Wave 1 of 2, money (billing): "
    assert (move.title[: len(title)], served.title) == (
        title,
        f"{title}every application of it is served on ${{target}}",
    )
    assert last.title.startswith("Wave 2 of 2, shop (shop, mail): ")
    assert (move.action, served.action) == ("wave.move" if moving == "move" else "wave.switchover", "wave.verify")
    assert [(step.approval, step.danger is Danger.NONE) for step in (move, served, last, last_served)] == [
        (False, False),
        (False, True),
        (True, False),
        (False, True),
    ]
    said = {"waves": ["money: billing", "shop: shop, mail"], "readers": ["billing=billing-.*", "mail=mail"]}
    said |= {"writers": ["billing=invoices", "shop=orders"], "idle": ["mail"]}
    for step, wave in ((move, "money"), (served, "money"), (last, "shop"), (last_served, "shop")):
        assert step.arguments.items() >= {"wave": wave}.items()
        assert {key: step.arguments[key] for key in said} == said
    assert (served.arguments.get("within_s"), last_served.arguments["within_s"]) == (None, 600)
    assert (served.arguments["source"], served.arguments["target"]) == ("${source}", "${target}")


@pytest.mark.parametrize("of", ["emergency-failover", "planned-switchover", "fail-back"])
def test_waves_of_shipped_runbooks_are_drills_whose_arguments_are_right(tmp_path: Path, of: str) -> None:
    book = load(tmp_path, of, [FIRST, SECOND])
    assert book.drill is not None
    wanted = drill_section.drill(book.drill, "x", book.objectives, values(book, {}), Flow("LEFT", "RIGHT"))
    parsed = parse_drill(wanted)
    verified = [action for name, action in parsed.actions.items() if name.endswith("-served")]
    target = "LEFT" if of == "fail-back" else "RIGHT"
    assert [getattr(action, "target", "") for action in verified] == [target, target]


def test_planned_waves_are_not_rolled_back_unless_the_runbook_says_so(tmp_path: Path) -> None:
    for given, expected in (({}, Rollback.NEVER), ({"rollback": "deviated"}, Rollback.DEVIATED)):
        book = load(tmp_path, "planned-switchover", [FIRST], **given)
        assert book.drill is not None
        assert book.drill.rollback is expected
    emergency = load(tmp_path, "emergency-failover", [FIRST])
    assert emergency.drill is not None
    assert emergency.drill.rollback is Rollback.DEFAULT


def with_application(**changed: Any) -> list[dict[str, Any]]:
    return [{"name": "money", "applications": [{"name": "billing", "groups": ["g"], **changed}]}]


@pytest.mark.parametrize(
    ("of", "waves", "why"),
    [
        ("reprotect", [FIRST], "0 steps move the applications"),
        ("planned-switchover", [FIRST, FIRST], "two waves are called money"),
        ("planned-switchover", [FIRST, {**SECOND, "applications": FIRST["applications"]}], "'billing' is in two waves"),
        ("planned-switchover", with_application(groups=[]), "neither groups nor written topics"),
        ("planned-switchover", with_application(name="a b"), "drill.waves.0.applications.0.name: string should match"),
        ("planned-switchover", with_application(topics=["t"]), r"applications.0.topics: there is no such key.*written"),
        (
            "planned-switchover",
            [{"name": "money", "order": 1, "applications": []}],
            "waves.0.order: there is no such key",
        ),
        (
            "planned-switchover",
            [{"name": "money", "applications": []}],
            "waves.0.applications: list should have at least 1",
        ),
    ],
)
def test_waves_that_mean_nothing_are_refused_where_they_stand(tmp_path: Path, of: str, waves: object, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        load(tmp_path, of, waves)


def test_step_that_starts_the_applications_of_a_lab_gets_the_names_of_those_that_move_alone(tmp_path: Path) -> None:
    """Their pointers are there as soon as it has made that of all, which a plan has to expect."""
    start, *others = steps(load(tmp_path, "failback-drill", [FIRST, SECOND], steps=LAB_STEPS))
    assert start.arguments == {"backlog": 5, "moved_alone": ["billing", "shop", "mail"]}
    assert all("moved_alone" not in step.arguments for step in others)
