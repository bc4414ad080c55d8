"""Where a secret could be written down or sent there is one function, and nothing goes around it (docs/security.md)."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache

import pytest
from repository_root import ROOT, parsed

Find = Callable[[ast.AST], list[str]]


@cache
def sources() -> dict[str, ast.Module]:
    return {str(path.relative_to(ROOT)): parsed(path) for path in sorted((ROOT / "drlib").rglob("*.py"))}


@cache
def nodes(path: str) -> tuple[ast.AST, ...]:
    """Calls and attributes of a module: all that the functions below look at."""
    return tuple(node for node in ast.walk(sources()[path]) if isinstance(node, ast.Call | ast.Attribute))


def found(find: Find) -> dict[str, list[str]]:
    """What `find` finds, by module."""
    by_module = {path: [text for node in nodes(path) for text in find(node)] for path in sources()}
    return {path: texts for path, texts in by_module.items() if texts}


def called(node: ast.AST) -> str:
    """The name of the function or method that `node` calls; "" for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


# -- plans -----------------------------------------------------------------------------------------------------------


def plans_made(node: ast.AST) -> list[str]:
    """A plan that is made, or changed."""
    if called(node) == "Plan" or (called(node) == "replace" and "plan" in ast.unparse(node).partition(",")[0].lower()):
        return [ast.unparse(node)]
    return []


def test_plan_is_made_of_what_may_be_kept_of_its_drill() -> None:
    assert found(plans_made) == {"drlib/drill/run/planning.py": ["Plan(registry.kept(drill, actions), tuple(steps))"]}


@pytest.mark.parametrize(
    "line", ["Plan(drill, ())", "plan.Plan(d, s)", "replace(plan, drill=d)", "dataclasses.replace(a.plan, drill=d)"]
)
def test_plan_is_found_however_it_is_made(line: str) -> None:
    assert any(plans_made(node) for node in ast.walk(ast.parse(line)))


def arguments_read(node: ast.AST) -> list[str]:
    """The arguments of a step or a probe, taken from its call."""
    if isinstance(node, ast.Attribute) and node.attr == "arguments" and isinstance(node.ctx, ast.Load):
        return [ast.unparse(node)]
    return []


def test_arguments_of_calls_are_read_by_their_own_class_only() -> None:
    """Which knows what of them may be written down; a runbook's are read to make and check the call; an incident's are none."""
    assert found(arguments_read).keys() == {
        "drlib/drill/step/action.py",
        "drlib/runbook/file/drill_section.py",
        "drlib/runbook/file/waves.py",
        "drlib/runbook/run_parameters.py",
        "drlib/training/incidents/lab/moves.py",
        "drlib/training/incidents/rules/moves.py",
    }


# -- parameters ------------------------------------------------------------------------------------------------------

PARAMETERS = ("run_parameters.given(", "run_parameters.known(", "run_parameters.resolved(")


def unchecked_requests(node: ast.AST) -> list[str]:
    """What a run was asked to be, with parameters from elsewhere than the module that checks them."""
    if called(node) != "Request":
        return []
    given = [word.value for word in getattr(node, "keywords", ()) if word.arg in ("parameters", None)]
    if all(ast.unparse(value).startswith(PARAMETERS) for value in given):
        return []
    return [ast.unparse(node)]


def test_parameters_of_a_run_are_checked_before_they_are_kept() -> None:
    assert found(unchecked_requests) == {}


@pytest.mark.parametrize("line", ["Request(runbook=a, parameters=dict(b))", "request.Request(**c)"])
def test_parameters_that_are_not_checked_are_found(line: str) -> None:
    assert any(unchecked_requests(node) for node in ast.walk(ast.parse(line)))


def notebooks_executed(node: ast.AST) -> list[str]:
    return [ast.unparse(node)] if called(node) in ("execute_notebook", "parameterize_notebook") else []


def test_notebook_is_executed_with_checked_parameters() -> None:
    """By one function; the engine is called by papermill itself, whoever started that, and looks at them once more."""
    folder = "drlib/runbook/execution"
    execute, client = f"{folder}/execute.py", f"{folder}/notebook_client.py"
    assert found(notebooks_executed).keys() == {execute, client, f"{folder}/papermill_engine.py"}
    (engine,) = (
        ast.unparse(node)
        for node in ast.walk(sources()[client])
        if isinstance(node, ast.FunctionDef) and node.name == "execute_notebook"
    )
    assert 0 < engine.find("parameters.refuse_secrets(given, ") < engine.find("return super().execute_notebook(")
    tree = sources()[execute]
    functions = {node.name: ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert [name for name, text in functions.items() if "execute_notebook(" in text] == ["_execute"]
    assert [name for name, text in functions.items() if "= _execute(" in text] == ["execute"]
    assert functions["execute"].count("values = ") == 1
    assert "values = run_parameters.resolved(runbook, arguments)" in functions["execute"]


# -- Spark's executors -----------------------------------------------------------------------------------------------

SOURCE = "drlib/analysis/spark/kafka_source.py"
# Options of Spark's connector, and of its clients, whose values are made here and are no login.
OPTIONS = {
    "assign", "startingOffsets", "endingOffsets", "includeHeaders", "failOnDataLoss", "subscribe", "maxOffsetsPerTrigger",
    "minPartitions", "checkpointLocation", "kafka.fetch.max.wait.ms", "kafka.isolation.level",
}  # fmt: skip


def kafka_sources(node: ast.AST) -> list[str]:
    """Spark's connector to Kafka, and options that are not among those known to hold no secret."""
    if not isinstance(node, ast.Call) or called(node) not in ("format", "option", "options", "load"):
        return []
    text, words = ast.unparse(node), [ast.unparse(word) for word in node.args]
    many = [ast.unparse(word.value) for word in node.keywords if word.arg is None]
    match called(node):
        case "format":
            bad = words == ["'kafka'"]
        case "load":
            bad = any("kafka" in ast.unparse(word) for word in (*node.args, *node.keywords))
        case "option":
            bad = words[0].strip("'") not in OPTIONS
        case _:
            bad = any(not word.startswith("_split_options(") for word in many)
    return [text] if bad else []


def test_kafka_is_read_by_spark_with_what_may_be_sent() -> None:
    assert found(kafka_sources).keys() == {SOURCE}


@pytest.mark.parametrize(
    "line",
    [
        "spark.read.format('kafka').option('kafka.sasl.jaas.config', text)",
        "spark.read.options(**cluster.confluent())",
        "spark.readStream.format('kafka')",
        "kafka_source.read(spark, cluster).option(f'kafka.{key}', text)",
        "spark.read.load(format='kafka', **settings)",
    ],
)
def test_kafka_source_of_spark_is_found_however_it_is_written(line: str) -> None:
    assert any(kafka_sources(node) for node in ast.walk(ast.parse(line)))


# -- workers on Spark ------------------------------------------------------------------------------------------------


def tokens_used(tree: ast.AST) -> list[str]:
    """Uses of a token that are no proof, no assignment, and no handing on to a function that makes the proof."""
    used = {
        id(node): ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "token"
    }
    for node in ast.walk(tree):
        if called(node) in ("_proof", "register", "Assignment") and isinstance(node, ast.Call):
            for argument in node.args:
                used.pop(id(argument), None)
        if isinstance(node, ast.Assign) and called(node.value) == "token_hex":
            for target in node.targets:
                used.pop(id(target), None)
    return list(used.values())


def test_token_of_workers_is_used_for_proofs_only() -> None:
    folder = "drlib/mirror/spark/"
    assert {
        path: texts for path, tree in sources().items() if path.startswith(folder) and (texts := tokens_used(tree))
    } == {}


@pytest.mark.parametrize(
    "line", ["json.dumps({'token': a.token})", "log(self.token)", "connection.sendall(x.token.encode())"]
)
def test_token_that_is_sent_is_found(line: str) -> None:
    assert tokens_used(ast.parse(line))
