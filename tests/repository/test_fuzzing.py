"""Every module that decodes what others wrote is fuzzed: `tests/fuzz/targets.py` names it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module

import pytest
from fuzz.targets import TARGETS
from repository_root import ROOT, parsed

# What a module that takes bytes or files from outside imports or calls.
IMPORTS = {"drlib.decoding", "drlib.kafka.answers", "nbformat", "regex"}
READERS = {"read_given", "read_given_bytes", "read_stored", "read_json", "open_stored"}  # of drlib.files
CALLS = {"from_bytes", "unpack", "unpack_from", "iter_unpack", "b64decode", "urlsafe_b64decode"}

# What of drlib.decoding takes one word of a text; it is fuzzed itself.
OF_WORDS = {"address", "integer", "integer_or", "Undecodable"}

# Modules that do so and are in no row, and why.
_REACHED = "its reading is what rows above call: "
EXEMPT = {
    "drlib.cli.incident": "it prints what drlib.decoding has read",
    "drlib.client.pointer_file": f"{_REACHED}drlib.client.pointer",
    "drlib.config.imports.document": f"{_REACHED}drlib.config.imports",
    "drlib.config.patterns.java_regex": f"{_REACHED}drlib.config.patterns.selection",
    "drlib.drill.plan.plan": f"{_REACHED}drlib.drill.run.planning",
    "drlib.files": "it reads, and hands on",
    "drlib.cli.drill.witness": "it looks for one line, and hands the file on to OpenSSL",
    "drlib.cli.notebook": "notebooks and runbooks of its own package, which it copies",
    "drlib.kafka.net.requests": f"{_REACHED}drlib.kafka.net.cluster_client",
    "drlib.kafka.protocol.flexible": f"{_REACHED}drlib.kafka.protocol.fetch",
    "drlib.mirror.journal.fields": f"{_REACHED}drlib.mirror.journal.entries",
    "drlib.mirror.monitor.lag_monitor": "the fixed header of a batch that drlib.kafka.protocol.batch has found",
    "drlib.mirror.journal.transactions": f"{_REACHED}drlib.mirror.journal.entries",
    "drlib.mirror.journal.producers.kinds": f"{_REACHED}drlib.mirror.journal.entries",
    "drlib.mirror.journal.packed_segments": f"{_REACHED}drlib.mirror.journal.entries",
    "drlib.mirror.offsets.comparison.compare_logs": "digests that it computed itself",
    "drlib.mirror.spark.task": f"{_REACHED}drlib.mirror.spark.control_channel",
    "drlib.runbook.execution.notebook_client": "it looks whether the log of its own kernel is empty",
    "drlib.runs.folder": f"{_REACHED}drlib.drill.run.stored_run",
    "drlib.runs.table": "figures that it made itself",
    "drlib.drill.testbed.traffic_counts": f"{_REACHED}drlib.lab.checker.history",
    "drlib.lab.brokers.broker": "the file of its own broker",
    "drlib.lab.brokers.record_classes": "an archive that Java has just written and checked, which it hands on",
    "drlib.lab.clients.runtimes": "files of its own package",
    "drlib.lab.checker.history_files": f"{_REACHED}drlib.lab.checker.history",
    "drlib.ui.report.digests": "digests of files",
    "drlib.ui.report.page": "figures that it made itself",
    "drlib.ui.report.pdf": "a PDF of the browser that it started, which it hands on",
    "drlib.lab.brokers.renewal": "a certificate that the lab has made",
    "drlib.training.academy.secured_testbed": "what drlib's own command has printed",
}


def of_words_only(tree: ast.Module) -> bool:
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    named = {text.removeprefix("decoding.") for text in used if text.startswith("decoding.")}
    return bool(named) and named <= OF_WORDS


def decoders(tree: ast.Module) -> list[str]:
    """What in a module takes bytes, text or files from outside."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in IMPORTS]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {alias.name for alias in node.names}
            imported = {f"{node.module}.{name}" for name in names} & IMPORTS
            found += sorted(one for one in imported if one != "drlib.decoding" or not of_words_only(tree))
            found += [node.module] if node.module in IMPORTS else []
            found += sorted(names & READERS) if node.module == "drlib.files" else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
            found.append(node.func.attr)
    return found


def modules() -> Iterator[tuple[str, list[str]]]:
    for path in sorted((ROOT / "drlib").rglob("*.py")):
        if found := decoders(parsed(path)):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), found


def test_every_module_that_decodes_is_fuzzed() -> None:
    fuzzed = {target.name.partition(":")[0] for target in TARGETS}
    decoding = dict(modules())
    assert {module: found for module, found in decoding.items() if module not in fuzzed | EXEMPT.keys()} == {}
    assert sorted(EXEMPT.keys() - decoding.keys()) == []
    assert sorted(EXEMPT.keys() & fuzzed) == []


def test_targets_are_named_after_what_they_call() -> None:
    names = [target.name for target in TARGETS]
    assert len(set(names)) == len(names)
    missing = [name for name in names if not hasattr(import_module(name.partition(":")[0]), name.partition(":")[2])]
    assert missing == []


@pytest.mark.parametrize(
    "line",
    [
        "from drlib import decoding",
        "from drlib import decoding\ndecoding.address(text)\ndecoding.json_value(text)",
        "from drlib.decoding import Undecodable",
        "import drlib.decoding",
        "from drlib.files import read_json",
        "struct.unpack_from('>h', data)",
        "int.from_bytes(data)",
        "def f():\n    import regex",
        "base64.b64decode(text)",
    ],
)
def test_decoder_is_found_however_it_is_written(line: str) -> None:
    assert decoders(ast.parse(line)) != []


def test_decoding_of_single_words_needs_no_row() -> None:
    assert decoders(ast.parse("from drlib import decoding\ndecoding.address(text)")) == []
