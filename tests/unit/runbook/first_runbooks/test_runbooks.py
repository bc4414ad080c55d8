"""First runbooks made of an observation: accepted by the loader, whatever the names, and nothing invented."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from first_runbooks import PARIS_LYON, facts_of, group, paris_and_lyon
from hostile_text import HOSTILE

from drlib.config.patterns.selection import matches
from drlib.drill.plan.plan import Drill, Step
from drlib.model import Flow
from drlib.runbook.file import drill_section, model
from drlib.runbook.first_runbooks import folder, runbooks
from drlib.runbook.first_runbooks.observation import FlowFacts
from drlib.runbook.first_runbooks.runbooks import (
    FAILOVER,
    Place,
)
from drlib.runs.scorecard import Objectives

PLACE = Place("mm2.properties", "runbooks", frozenset({"force_reason"}))
NONE = Objectives()
HOSTILE_GROUPS = [name for kind, name in HOSTILE.items() if kind not in ("lone surrogate", "nothing")]


def books(
    flows: tuple[FlowFacts, ...], to: Path, objectives: Objectives = NONE, place: Place = PLACE
) -> dict[str, model.Runbook]:
    """The runbooks as `drlib run` loads them, by file."""
    made = folder.make(flows, place, objectives, folder.shipped_notebooks())
    folder.check(made)
    folder.write(made, to)
    return {path: folder.accept(to / path) for path in made.files if path.endswith(".yaml")}


def drill_of(book: model.Runbook) -> Drill:
    assert book.drill is not None
    return drill_section.drill(book.drill, book.name, book.objectives, book.parameters)


def arguments(book: model.Runbook, step: str) -> dict[str, object]:
    (found,) = [each for each in drill_of(book).steps if each.name == step]
    return {each.name: each.value for each in found.action.arguments}


def test_runbooks_of_one_flow_have_its_names_groups_and_written_topics(tmp_path: Path) -> None:
    clusters = paris_and_lyon(group("billing", clients=("billing-1",), topics=("orders",)), group("search"))
    made = books(facts_of(clusters), tmp_path)
    assert list(made) == [f"{kind}.yaml" for kind in runbooks.KINDS]
    assert all("paris" in book.title or "lyon" in book.title for book in made.values())
    failover = made["failover.yaml"]
    assert drill_of(failover).flow == PARIS_LYON
    assert arguments(failover, "translate") == {"groups": ("billing", "search", ".*"), "leave": ()}
    by_hand = {"members_s": 300, "deadline_s": 300}
    assert arguments(failover, "verify") == {"groups": ("billing", "search", ".*"), "written": ("orders",), **by_hand}
    assert arguments(made["rehearse.yaml"], "translate") == {"groups": ("billing", "search", ".*")}
    assert [step.name for step in drill_of(failover).steps if step.approval] == ["fence"]
    assert [step.name for step in drill_of(made["swap-roles.yaml"]).steps if step.approval] == ["settle"]
    assert [step.name for step in drill_of(made["planned-switchover.yaml"]).steps if step.approval] == ["go-home"]
    assert [step.name for step in drill_of(made["reprotect.yaml"]).steps if step.approval] == ["settle"]
    assert [step.name for step in drill_of(made["fail-back.yaml"]).steps if step.approval] == ["go-home"]
    assert made["nightly-audit.yaml"].parameters["flow"] == "paris->lyon"
    text = (tmp_path / "failover.yaml").read_text()
    assert "billing: 1 member, client ids billing-1, reads orders" in text


def test_runbooks_are_scheduled_rehearsal_by_month_and_audit_by_night(tmp_path: Path) -> None:
    made = books(facts_of(paris_and_lyon()), tmp_path)
    schedules = {path: book.schedule.every for path, book in made.items() if book.schedule is not None}
    assert schedules == {"rehearse.yaml": "30d", "nightly-audit.yaml": "1d"}


def test_objectives_without_an_answer_are_in_no_runbook(tmp_path: Path) -> None:
    made = books(facts_of(paris_and_lyon()), tmp_path)
    assert [path for path, book in made.items() if book.objectives != NONE] == []
    assert "\nobjectives:" not in (tmp_path / "failover.yaml").read_text()


def test_runbooks_have_an_objective_as_it_was_given_however_large(tmp_path: Path) -> None:
    given = Objectives(rto_seconds=0.25, rpo_seconds=30, rpo_records=12_345_678)
    made = books(facts_of(paris_and_lyon()), tmp_path, given)
    assert made["failover.yaml"].objectives == given


def test_objectives_given_are_in_the_runbooks_that_move_applications(tmp_path: Path) -> None:
    given = Objectives(rto_seconds=300, rpo_seconds=30, rpo_records=0)
    made = books(facts_of(paris_and_lyon()), tmp_path, given)
    assert made["failover.yaml"].objectives == given
    assert made["planned-switchover.yaml"].objectives == Objectives(rpo_records=0)
    assert made["swap-roles.yaml"].objectives == NONE
    assert made["fail-back.yaml"].objectives == Objectives(rpo_records=0)
    assert made["rehearse.yaml"].objectives == NONE
    assert made["lag-report.yaml"].parameters["objective"] == "30s"


@pytest.mark.parametrize(("name", "empty"), [("fault_at", '""'), ("witnesses", "[]")])
def test_parameter_of_an_emergency_is_there_only_where_the_notebook_takes_it(name: str, empty: str) -> None:
    (facts,) = facts_of(paris_and_lyon())
    files = runbooks.names([facts])[0]
    without = runbooks.texts(facts, files, PLACE, NONE)["failover.yaml"]
    given = runbooks.texts(facts, files, replace(PLACE, takes=frozenset({name})), NONE)["failover.yaml"]
    assert name not in without
    assert f'{name}: "${{{name}}}"' in given
    assert f"  {name}: {empty} #" in given


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("reprotect", {"tail": "leave"}),
        ("swap-roles", {"tail": "leave"}),
        ("fail-back", {}),
        ("planned-switchover", {}),
    ],
)
def test_runbooks_of_the_same_name_do_what_the_shipped_ones_do(
    tmp_path: Path, name: str, parameters: dict[str, str]
) -> None:
    (facts,) = facts_of(paris_and_lyon())
    made = books((facts,), tmp_path, place=replace(PLACE, takes=frozenset({"tail"})))[f"{name}.yaml"]
    shipped = model.load(Path("runbooks") / f"{name}.yaml")
    assert made.drill is not None
    assert shipped.drill is not None

    def steps(book: model.Runbook, flow: Flow | None) -> Drill:
        assert book.drill is not None
        values = {**book.parameters, **parameters}
        found = drill_section.drill(book.drill, name, NONE, values, flow)
        return replace(found, objectives=NONE, steps=tuple(map(without_topics, found.steps)))

    def without_topics(step: Step) -> Step:
        """What is verified, without the topics and times of the applications' owners."""
        kept = tuple(a for a in step.action.arguments if a.name not in ("written", "members_s", "deadline_s"))
        return replace(step, action=replace(step.action, arguments=kept))

    expected = steps(shipped, PARIS_LYON)
    if (
        name == "planned-switchover"
    ):  # made for people's own clusters, it waits for an approval before it moves anything
        waits = tuple(replace(step, approval=step.name == "go-home") for step in expected.steps)
        expected = replace(expected, steps=waits)
    assert steps(made, None) == expected


@pytest.mark.parametrize("name", ["reprotect", "swap-roles"])
def test_settling_with_a_notebook_that_takes_no_tail_quarantines(tmp_path: Path, name: str) -> None:
    made = books(facts_of(paris_and_lyon()), tmp_path)[f"{name}.yaml"]
    assert "tail" not in made.parameters
    assert arguments(made, "settle") == {"how": "quarantine"}


@pytest.mark.parametrize("name", HOSTILE_GROUPS)
def test_pattern_of_any_group_matches_that_group_alone(name: str) -> None:
    written = runbooks.pattern(name)
    assert written is not None
    assert matches((written,), name)
    assert not matches((written,), f"{name}x")
    assert not matches((written,), "other")


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 2001])
def test_pattern_that_cannot_be_written_is_none(name: str) -> None:
    assert runbooks.pattern(name) is None


def test_runbooks_of_hostile_groups_are_accepted_with_each_group_as_written(tmp_path: Path) -> None:
    groups = [group(name, clients=(name,), topics=("orders",)) for name in HOSTILE.values()]
    flows = facts_of(paris_and_lyon(*groups), "paris->lyon.enabled = true\ngroups = (?s).*\n")
    book = books(flows, tmp_path)["failover.yaml"]
    patterns = arguments(book, "translate")["groups"]
    assert isinstance(patterns, tuple)
    assert {name for name in HOSTILE_GROUPS if matches(tuple(patterns[:-1]), name)} == set(HOSTILE_GROUPS)
    assert len(patterns) == len(HOSTILE_GROUPS) + 1


def test_runbooks_of_many_groups_name_them_and_stay_loadable(tmp_path: Path) -> None:
    few = books(facts_of(paris_and_lyon(*(group(f"g{n:04}") for n in range(500)))), tmp_path / "few")
    patterns = arguments(few["failover.yaml"], "translate")["groups"]
    assert isinstance(patterns, tuple)
    assert len(patterns) == 501
    long = [group(f"{'g' * 240}{n}", clients=("c" * 300,) * 3) for n in range(9000)]
    many = books(facts_of(paris_and_lyon(*long)), tmp_path / "many")
    patterns = arguments(many["failover.yaml"], "translate")["groups"]
    assert isinstance(patterns, tuple)
    assert patterns[-1] == ".*"
    assert "more\n" in (tmp_path / "many" / "failover.yaml").read_text()


def test_runbooks_of_silent_clusters_name_them_and_leave_lines_to_fill_in(tmp_path: Path) -> None:
    clusters = {a: replace(c, silence="no answer\nat all") for a, c in paris_and_lyon(seen=False).items()}
    made = books(facts_of(clusters), tmp_path)
    text = (tmp_path / "failover.yaml").read_text()
    assert "# paris did not answer: no answer at all" in text
    assert "# the groups of paris are not known" in text
    assert arguments(made["failover.yaml"], "verify")["written"] == ()


def test_runbooks_of_two_flows_have_files_and_run_names_of_their_own(tmp_path: Path) -> None:
    both = "paris->lyon.enabled = true\nlyon->paris.enabled = true\n"
    made = books(facts_of(paris_and_lyon(), both), tmp_path)
    assert {"failover-paris-lyon.yaml", "failover-lyon-paris.yaml"} <= set(made)
    assert len({book.name for book in made.values()}) == len(made) == 16
    assert str(drill_of(made["failover-lyon-paris.yaml"]).flow) == "lyon->paris"


def test_names_of_flows_that_differ_in_case_only_are_distinct() -> None:
    (facts,) = facts_of(paris_and_lyon())
    flows = [replace(facts, flow=replace(PARIS_LYON, source=source)) for source in ("a", "A")]
    one, two = runbooks.names(flows)
    assert one[FAILOVER] == "failover-a-lyon.yaml"
    assert two[FAILOVER] == "failover-a-lyon-2.yaml"


@pytest.mark.parametrize("aliases", [("eu-west.1", "us_east"), ("A", "b"), ("-x", "9.9"), ("null", "true")])
def test_runbooks_of_any_aliases_are_accepted(aliases: tuple[str, str], tmp_path: Path) -> None:
    source, target = aliases
    made = books(facts_of(paris_and_lyon(group("billing"), aliases=aliases), aliases=aliases), tmp_path)
    assert str(drill_of(made["failover.yaml"]).flow) == f"{source}->{target}"


@pytest.mark.parametrize(
    ("authorizer", "said"), [(True, "has an authorizer"), (False, "has no authorizer"), (None, "not known")]
)
def test_fence_says_whether_the_source_has_an_authorizer(authorizer: bool | None, said: str) -> None:
    clusters = paris_and_lyon()
    (facts,) = facts_of({**clusters, "paris": replace(clusters["paris"], authorizer=authorizer)})
    text = runbooks.texts(facts, runbooks.names([facts])[0], PLACE, NONE)["failover.yaml"]
    assert said in text.partition("name: fence")[2].partition("name: drain")[0]


@pytest.mark.parametrize(
    ("missing", "notes"),
    [
        (("prices",), ["# missing on lyon when this was written: prices"]),
        ((), []),
        (None, ["# lyon did not answer: whether topics are missing there is not known"]),
    ],
)
@pytest.mark.parametrize("name", ["failover.yaml", "planned-switchover.yaml"])
def test_runbooks_name_the_topics_that_the_target_lacks(
    name: str, missing: tuple[str, ...] | None, notes: list[str]
) -> None:
    (facts,) = facts_of(paris_and_lyon())
    one = replace(facts, missing=missing)
    text = runbooks.texts(one, runbooks.names([one])[0], PLACE, NONE)[name]
    assert [line.strip() for line in text.splitlines() if "missing" in line and "lyon" in line] == notes


IDENTICAL = (
    "paris->lyon.enabled = true\nlyon->paris.enabled = true\n"
    "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
)


def test_runbooks_of_topics_that_both_directions_copy_are_those_that_work_for_them(tmp_path: Path) -> None:
    clusters = paris_and_lyon(mirrors=False)
    clusters["paris"] = replace(clusters["paris"], authorizer=True)
    made = books(facts_of(clusters, IDENTICAL), tmp_path)
    assert set(made) == {f"{kind}-{flow}.yaml" for kind in runbooks.KINDS for flow in ("paris-lyon", "lyon-paris")}
    assert "nothing is settled" in (tmp_path / "reprotect-paris-lyon.yaml").read_text()
    assert 'deny_principals: ["User:NAME"]' in (tmp_path / "failover-paris-lyon.yaml").read_text()
    assert "No way back" not in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(
    ("lines", "fence"),
    [
        (IDENTICAL.replace("lyon->paris.enabled = true\n", ""), 'deny_write: [".*"]}'),  # one direction
        (
            f"{IDENTICAL}paris->lyon.topics = orders, prices\nlyon->paris.topics = orders\n",
            'deny_principals: ["User:NAME"]',
        ),
        (f"{IDENTICAL}paris->lyon.topics = prices\nlyon->paris.topics = orders\n", 'deny_write: [".*"]}'),
    ],
)
def test_runbooks_of_topics_without_a_way_back_are_those_that_work_for_them(
    lines: str, fence: str, tmp_path: Path
) -> None:
    clusters = paris_and_lyon(mirrors=False)
    clusters["paris"] = replace(clusters["paris"], authorizer=True)
    flows = facts_of(clusters, lines)
    made = books(flows[:1], tmp_path)
    own = "-paris-lyon" if len(flows) > 1 else ""
    assert set(made) == {f"{kind}{own}.yaml" for kind in ("rehearse", "failover", "nightly-audit", "lag-report")}
    assert "No way back" in (tmp_path / "README.md").read_text()
    assert fence in (tmp_path / f"failover{own}.yaml").read_text()


@pytest.mark.parametrize(("name", "moving"), [("failover", "move"), ("planned-switchover", "go-home")])
def test_runbooks_that_move_applications_say_how_to_move_them_in_waves(tmp_path: Path, name: str, moving: str) -> None:
    books(facts_of(paris_and_lyon(group("billing"))), tmp_path)
    path = tmp_path / f"{name}.yaml"
    text = path.read_text()
    for line in ("waves:", "  - {name: first,", "  - {name: last,"):
        assert text.count(f"  # {line}") == 1
        text = text.replace(f"  # {line}", f"  {line}")
    path.write_text(text)
    names = [step.name for step in drill_of(model.load(path)).steps]
    at = names.index(f"{moving}-first")
    waves = [f"{moving}-first", f"{moving}-first-served", f"{moving}-last", f"{moving}-last-served"]
    assert names[at : at + 4] == waves
