"""Data that another process wrote is decoded in `drlib.decoding` and read through `drlib.files`, in all of drlib's sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from repository_root import ROOT, parsed

PACKAGE = ROOT / "drlib"
DECODERS = {"drlib/decoding.py"}
READERS = {"drlib/files.py"}
# Modules whose functions decode; only what is named here may be imported from them elsewhere.
ALLOWED_NAMES = {
    "json": {"dumps", "dump"},
    "yaml": set[str](),
    "pickle": set[str](),
    "marshal": set[str](),
    "shelve": set[str](),
    "xml": set[str](),
    "tomllib": set[str](),
    "plistlib": set[str](),
    "configparser": set[str](),
}
PYDANTIC = {"validate_json", "model_validate_json", "parse_raw", "from_json", "model_validate_strings"}
WHOLE_FILE = {"read_text", "read_bytes"}
# (file, what is read): files of the kernel, of the package itself, or that the lab's own children wrote.
READ_WHOLE = {
    ("drlib/__init__.py", "Path(__file__).with_suffix('.pyi')"),
    ("drlib/cli/mirror/service.py", "resources.files('drlib.mirror.status.monitoring').joinpath(name)"),
    ("drlib/drill/actions/hooks/left_running.py", "each / 'environ'"),
    ("drlib/drill/actions/hooks/left_running.py", "each / 'stat'"),
    ("drlib/lab/brokers/certificates.py", "key"),
    ("drlib/lab/brokers/certificates.py", "self.certificate"),
    ("drlib/lab/brokers/certificates.py", "signed"),
    ("drlib/lab/brokers/jvm_log.py", "log"),
    ("drlib/lab/jars.py", "LOCK_PATH"),
    ("drlib/lab/link_trial.py", "log"),
    ("drlib/lab/ports.py", "Path('/proc/sys/net/ipv4/ip_local_port_range')"),
    ("drlib/lab/processes.py", "Path('/proc/sys/kernel/random/boot_id')"),
    ("drlib/lab/processes.py", "Path(f'/proc/{pid}/stat')"),
    ("drlib/lab/processes.py", "proc / 'net' / table"),
    ("drlib/lab/workload/applications.py", "self.history_path(name)"),
    ("drlib/training/incidents/lab/inject.py", "lab.root / broker.name / 'server.properties'"),
    ("drlib/ui/jupyterlab.py", "log"),
}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(ROOT)), parsed(path)


def decoding_uses(tree: ast.Module) -> list[str]:
    """Uses of a decoder other than those of `drlib.decoding`."""
    bound = {}  # name here -> module
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if (root := alias.name.split(".")[0]) in ALLOWED_NAMES:
                    bound[(alias.asname or alias.name).split(".")[0]] = root
        elif isinstance(node, ast.ImportFrom) and (root := (node.module or "").split(".")[0]) in ALLOWED_NAMES:
            found += [f"{root}.{a.name}" for a in node.names if a.name not in ALLOWED_NAMES[root]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            module = bound.get(node.value.id) if isinstance(node.value, ast.Name) else None
            if module is not None and node.attr not in ALLOWED_NAMES[module]:
                found.append(f"{module}.{node.attr}")
            if node.attr in PYDANTIC:
                found.append(node.attr)
    return found


def whole_reads(tree: ast.Module) -> list[str]:
    """What is read as a whole, whatever its size."""
    return [
        ast.unparse(node.func.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WHOLE_FILE
    ]


def test_foreign_data_is_decoded_by_one_module_only() -> None:
    uses = {path: found for path, tree in sources() if path not in DECODERS and (found := decoding_uses(tree))}
    assert uses == {}


def test_files_are_read_to_a_limit() -> None:
    reads = {(path, read) for path, tree in sources() if path not in READERS for read in whole_reads(tree)}
    assert reads - READ_WHOLE == set()
    assert READ_WHOLE - reads == set()


@pytest.mark.parametrize(
    "line",
    [
        "import json\njson.loads(x)",
        "import json as j\nj.load(x)",
        "from json import loads",
        "from json import JSONDecoder as D",
        "import json\nf = json.JSONDecoder",
        "import yaml\nyaml.safe_load(x)",
        "from yaml import SafeLoader",
        "def f():\n    import pickle\n    return pickle.loads(x)",
        "import xml.etree.ElementTree\nxml.etree.ElementTree.parse(x)",
        "_ADAPTER.validate_json(x)",
        "Model.model_validate_json(x)",
        "from pydantic_core import from_json\npydantic_core.from_json(x)",
    ],
)
def test_decoder_is_found_however_it_is_written(line: str) -> None:
    assert decoding_uses(ast.parse(line)) != []


def test_encoders_are_no_decoders() -> None:
    assert decoding_uses(ast.parse("import json\nfrom json import dumps\njson.dumps(x)\nmodel.model_dump_json()")) == []
    assert whole_reads(ast.parse("(a / 'b').read_text()\nPath(x).read_bytes()")) == ["a / 'b'", "Path(x)"]


def test_numbers_of_foreign_text_are_decoded_by_one_module_only() -> None:
    """`"²".isdigit()` is true, and `int` refuses it, as it does 5,000 digits: asking before converting is no check."""
    asking = {
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in {"isdigit", "isdecimal", "isnumeric"}
    }
    assert asking == set()


def test_compressed_data_is_decompressed_by_one_module_only() -> None:
    """It bounds what comes out, which none of these does by itself. The flights are data of a package that is installed, and
    aiokafka is run as a client of the lab."""
    decompressors = {"cramjam", "aiokafka", "gzip", "lzma", "bz2", "zipfile", "tarfile", "lz4", "zstandard", "snappy"}
    using = {
        path
        for path, tree in sources()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Import) and any(a.name.split(".")[0] in decompressors for a in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in decompressors)
        or (isinstance(node, ast.Attribute) and node.attr in ("decompress", "decompressobj"))
    }
    assert using == {
        "drlib/kafka/protocol/recode.py",
        "drlib/lab/apps/flights.py",
        "drlib/lab/clients/python_client.py",
    }
