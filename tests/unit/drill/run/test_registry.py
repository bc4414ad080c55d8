"""The tables of actions and probes, and their arguments: every class resolves, and every argument is once wrong."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator

import pytest
from repository_root import ROOT

from drlib.drill.plan.plan import Argument, Call, Drill, Expectation, Mode, Plan, Step, StepPlan, canonical
from drlib.drill.run.registry import ACTIONS, PROBES, find, parse_drill
from drlib.drill.step.action import DrillAction, DrillCall, DrillProbe
from drlib.drill.step.argument_types import Value, wanted
from drlib.errors import UsageError
from drlib.model import Flow
from drlib.runbook.file import drill_section, model
from drlib.runbook.plans import values

MAKE_ACTIONS = runpy.run_path(str(ROOT / "docs" / "make_actions.py"))
WRONG: dict[str, Value] = {
    "a text": 7,
    "a list of texts": 7,
    "a list of patterns": 7,
    "a number from 0 on": -1,
    "a number of seconds from 0 on": -0.5,
    "a whole number from 0 on": 1.5,
    "a whole number from 1 on": 0,
    "true or false": "yes",
    "a list of codes, such as [0, 3]": "fine",
    "a list of 'name=value'": ("NAME",),
    "a list of 'name:value'": ("NAME",),
    "an address": 7,
}
RIGHT: dict[str, Value] = {
    "a text": "a",
    "an address": "https://h/",
    "a list of texts": ("a",),
    "a list of patterns": ("a",),
    "a whole number from 0 on": 1,
}
# of each runbook's drill from LEFT to RIGHT with its defaults and no step observed
HASHES = {
    "active-active": "5ff5d965d4fdd5cd7572ba9c0138ea06be9088a43b2fed542acf4e0f57311b3b",
    "emergency-failover": "c36fcc711e9c5e4e9684a99204fa0f31e8565076fff91a64497e9699aca1a8d7",
    "failback-drill": "898d73c4376a40169d762ee5fd55d3df60aee0346074e935b9466cdcd39ab021",
    "failover-drill": "c38318114ab438f2379fcd0ebeeb66df1c74e67d57f74e5919590e838d8f5384",
    "ordering-drill": "db2280f54ac94fff2f71d3b2643cb677fcd971cecdda570f59115733bc34965a",
    "planned-switchover": "15bd58ed2603ee194574c0aff25756b0f77ac5b8424e298553c2fb444d9bea98",
    "rehearse-failover": "040ca4b193621e21889fdb7e9428551d45117d3de298b7fba25639a0c413fb21",
    "rolling-switchover-drill": "e987202bccfec55b69cfc7dc2e7d0c4043dec41a862e46e20772586f788b07a8",
    "switchover-drill": "04eac037250510c83f5572786472e980f6a7999a16bc69cdef00d2cd55b474b7",
}


def kinds() -> Iterator[type[DrillCall]]:
    yield from (find(ACTIONS, name, "here") for name in ACTIONS)
    yield from (find(PROBES, name, "here") for name in PROBES)


def call(name: str, arguments: dict[str, Value]) -> Call:
    return Call(name, tuple(Argument(key, value) for key, value in arguments.items()))


def required(kind: type[DrillCall]) -> dict[str, Value]:
    """The least that has to be given, right."""
    given = {}
    for name, field in kind.model_fields.items():
        if field.is_required():
            words = wanted(field).words
            given[name] = RIGHT.get(words) or words.removeprefix("one of ").split(", ")[0]
    return given


ALL = {kind.name: kind for kind in kinds()}
FIELDS = [(name, field) for name, kind in ALL.items() for field in kind.model_fields]


def test_registry_every_name_resolves_to_a_complete_class_of_that_name() -> None:
    for name in ACTIONS:
        action = find(ACTIONS, name, "here")
        assert (action.name, issubclass(action, DrillAction), action.__abstractmethods__) == (name, True, frozenset())
    for name in PROBES:
        probe = find(PROBES, name, "here")
        assert (probe.name, issubclass(probe, DrillProbe), probe.__abstractmethods__) == (name, True, frozenset())


@pytest.mark.parametrize("name", ALL)
def test_action_and_its_arguments_are_documented(name: str) -> None:
    assert ALL[name].__doc__
    meanings = MAKE_ACTIONS["meanings"](ALL[name])
    assert all(meanings.get(field) for field in ALL[name].model_fields)


@pytest.mark.parametrize("name", ALL)
def test_action_parses_with_its_required_arguments_alone(name: str) -> None:
    ALL[name].parse(call(name, required(ALL[name])), "step s")


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_argument_of_a_wrong_type_or_range_is_refused_by_name(name: str, field: str) -> None:
    kind = ALL[name]
    words = wanted(kind.model_fields[field]).words
    value = WRONG.get(words, "neither")
    quoted = wanted(kind.model_fields[field]).kept(value)
    with pytest.raises(UsageError) as error:
        kind.parse(call(name, {**required(kind), field: value}), "step s")
    assert str(error.value) == f"step s: {name}: {field}: {quoted!r} is not {words}. Give {words}."


# Arguments whose text a plan holds as it is: names, places and reasons, which nobody takes for a secret.
AS_WRITTEN = {
    "application", "applications", "argv", "at", "ca", "clients", "cluster", "clusters", "deny_principals", "deny_write",
    "fault_at", "folder", "force_reason", "group", "groups", "hosts", "idle", "keep", "leave", "left_behind", "moved_alone",
    "not_read", "others", "readers", "source", "target", "topic", "topics", "undo_argv", "wave", "waves", "witnesses",
    "writers", "written",
}  # fmt: skip


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_argument_of_text_is_kept_without_secrets_unless_it_is_listed(name: str, field: str) -> None:
    """A new argument of text is listed here, or has a type that keeps hosts, names and references only."""
    argument = wanted(ALL[name].model_fields[field])
    if argument.words.startswith(("a number", "a whole number", "true or false", "a list of codes", "one of ")):
        return
    shown = [argument.kept(value) for value in ("https://h/canary", ("a=canary",), ("a: canary",), "canary")]
    assert (str(shown).count("canary") == 4) is (field in AS_WRITTEN)
    assert ("canary" not in str(shown)) is (field not in AS_WRITTEN)


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_argument_misspelt_is_refused_with_the_nearest_name(name: str, field: str) -> None:
    kind = ALL[name]
    with pytest.raises(UsageError) as error:
        kind.parse(call(name, {**required(kind), f"{field}x": 1}), "step s")
    assert error.value.what == f"step s: {name}: {field}x"
    assert error.value.why == "it has no such argument"
    assert error.value.remedy == f"Did you mean {field}?"


@pytest.mark.parametrize(
    ("name", "field"), [(name, field) for name, field in FIELDS if ALL[name].model_fields[field].is_required()]
)
def test_argument_required_and_not_given_is_named(name: str, field: str) -> None:
    given = {key: value for key, value in required(ALL[name]).items() if key != field}
    for missing in ({}, {field: ""}) if "number" not in wanted(ALL[name].model_fields[field]).words else ({},):
        with pytest.raises(UsageError, match=f"its argument '{field}' is missing"):
            ALL[name].parse(call(name, {**given, **missing}), "step s")


def test_switchover_misspelt_and_negative_arguments_are_refused() -> None:
    for arguments, expected in (
        ({"stoped_s": 1}, "switchover.move: stoped_s: it has no such argument. Did you mean stopped_s?"),
        ({"held_s": -5}, "switchover.move: held_s: -5 is not a number of seconds from 0 on"),
        ({"held_s": 31}, "switchover.move: held_s: 31 s of waiting are more than half of the 60 s"),
    ):
        drill = Drill(
            name="d",
            flow=Flow("A", "B"),
            mode=Mode.PLANNED,
            steps=(Step(name="move", title="Move", action=call("switchover.move", arguments)),),  # type: ignore[arg-type]
        )
        with pytest.raises(UsageError) as error:
            parse_drill(drill)
        assert str(error.value).startswith(f"step move: {expected}")


def test_unknown_names_are_refused_with_the_nearest_or_all_of_them() -> None:
    def drill(action: str, probe: str) -> Drill:
        step = Step(name="one", title="One", action=Call(action))
        expectation = Expectation("all is well", Call(probe, (Argument("clusters", ("A",)),)))
        return Drill(name="d", flow=Flow("A", "B"), mode=Mode.PLANNED, steps=(step,), hypothesis=(expectation,))

    with pytest.raises(UsageError, match=r"step one: pointer\.mve.*Did you mean pointer\.move\?"):
        parse_drill(drill("pointer.mve", "lab.serves"))
    with pytest.raises(
        UsageError, match=r"hypothesis 'all is well': x: no action or probe has this name\. The names are: clus"
    ):
        parse_drill(drill("pointer.move", "x"))


@pytest.mark.parametrize("name", HASHES)
def test_runbook_shipped_parses_and_its_plan_hash_is_unchanged(name: str) -> None:
    book = model.load(ROOT / "runbooks" / f"{name}.yaml")
    assert book.drill is not None
    drill = drill_section.drill(book.drill, book.name, book.objectives, values(book, {}), Flow("LEFT", "RIGHT"))
    parse_drill(drill)
    assert Plan(drill, tuple(StepPlan(step.name) for step in drill.steps)).hash == HASHES[name]


@pytest.mark.parametrize("name", ["emergency-failover", "planned-switchover", "rehearse-failover"])
def test_runbook_for_own_clusters_names_those_of_its_flow_alone(name: str) -> None:
    book = model.load(ROOT / "runbooks" / f"{name}.yaml")
    assert book.drill is not None
    assert drill_section.asked_flow(book.drill, values(book, {})) == ""
    drill = drill_section.drill(book.drill, book.name, book.objectives, values(book, {}), Flow("paris", "lyon"))
    parse_drill(drill)
    shown = canonical(Plan(drill, tuple(StepPlan(step.name) for step in drill.steps)))
    text = f"{shown} {drill_section.title(book.title, drill.flow)} {book.file.read_text()}"
    assert not re.search(r"\b(LEFT|RIGHT|kill\w*)\b", text)
    assert "paris" in shown
    assert "lyon" in shown
    assert "${" not in shown
    assert drill.objectives == book.objectives  # none leaks from the notebook


def test_actions_page_is_current() -> None:
    """Run `python docs/make_actions.py > docs/actions.md` where this fails."""
    page = MAKE_ACTIONS["markdown"]()
    assert (ROOT / "docs" / "actions.md").read_text() == page


def test_registry_import_loads_no_action_and_no_heavy_package() -> None:
    code = (
        "import sys, drlib.drill.run.registry\n"
        "heavy = {'pyspark', 'plotly', 'drlib.drill.actions.probes'} & sys.modules.keys()\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_import_of_every_action_parses_no_source() -> None:
    """Another thread may import as well, and `ast.parse` of Python 3.11 fails where two threads are in it."""
    code = (
        "import ast\n"
        "from drlib.drill.run.registry import ACTIONS, PROBES, find\n"
        "def refuse(*_, **__): raise AssertionError('source was parsed')\n"
        "ast.parse = refuse\n"
        "for table in (ACTIONS, PROBES):\n"
        "    for name in table: find(table, name, name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
