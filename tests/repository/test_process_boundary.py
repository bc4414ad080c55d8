"""What leaves the process goes through `drlib.outgoing`, in all of drlib's sources."""

from __future__ import annotations

import ast
from functools import cache

from repository_root import ROOT, parsed

PACKAGE = ROOT / "drlib"
OUTGOING = PACKAGE / "outgoing"
HTTP_CLIENTS = (
    "urllib.request", "http.client", "requests", "urllib3", "httpx", "aiohttp", "tornado.httpclient", "ftplib", "smtplib",
)  # fmt: skip

HTTP_SERVERS = (
    "http.server", "socketserver", "wsgiref", "aiohttp.web", "tornado.httpserver", "prometheus_client.start_http_server",
)  # fmt: skip


@cache
def sources() -> tuple[tuple[str, ast.Module], ...]:
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if not path.is_relative_to(OUTGOING)]
    return tuple((str(path.relative_to(ROOT)), parsed(path)) for path in paths)


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def http_imports(tree: ast.Module) -> list[str]:
    names = [name for node in ast.walk(tree) for name in imported(node)]
    return [name for name in names if any(name == client or name.startswith(f"{client}.") for client in HTTP_CLIENTS)]


def test_http_is_sent_by_one_module_only() -> None:
    assert {path: found for path, tree in sources() if (found := http_imports(tree))} == {}


def test_http_imports_are_found_however_they_are_written() -> None:
    for line in (
        "import urllib.request",
        "from urllib import request",
        "from urllib.request import urlopen as get",
        "import http.client as c",
        "from http import client",
        "def f():\n    import requests.sessions",
    ):
        assert http_imports(ast.parse(line)), line
    assert http_imports(ast.parse("from http import HTTPStatus\nfrom urllib.parse import quote")) == []


def test_http_is_served_by_one_module_only() -> None:
    """It bounds connections, which the servers of these libraries do not."""
    serving = {
        path
        for path, tree in sources()
        for node in ast.walk(tree)
        for name in imported(node)
        if any(name == server or name.startswith(f"{server}.") for server in HTTP_SERVERS)
    }
    assert serving == {"drlib/mirror/status/endpoint.py"}


# Starting a process, by the name of what is called. spark-submit is started by pyspark, the kernel by Jupyter.
STARTERS = (
    "Popen", "run", "call", "check_call", "check_output", "create_subprocess_exec", "create_subprocess_shell", "system",
    "popen", "execv", "execve", "execvp", "execvpe", "spawnv", "spawnve", "spawnvp", "spawnvpe", "posix_spawn", "getoutput",
    "getstatusoutput",
)  # fmt: skip
# Modules whose processes are drlib's own Python, which resolves references itself.
WHOLE = {"drlib/lab/processes.py", "drlib/mirror/spark/task.py"}


def unbounded_children(tree: ast.Module) -> list[str]:
    """Calls that start a process with another environment than one of `drlib.outgoing.environment`."""
    made_by: dict[str, str] = {}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made_by[node.targets[0].id] = ast.unparse(node.value)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in STARTERS):
            continue
        of = ast.unparse(node.func.value)
        if of not in ("subprocess", "asyncio", "os"):
            continue
        if of == "asyncio" and not node.func.attr.startswith("create_"):
            continue
        environment = next((ast.unparse(word.value) for word in node.keywords if word.arg == "env"), "")
        if not made_by.get(environment, environment).startswith(("child_environment(", "whole(")):
            found.append(ast.unparse(node))
    return found


def test_child_processes_get_an_environment_of_the_boundary() -> None:
    assert {path: found for path, tree in sources() if (found := unbounded_children(tree))} == {}


def test_child_processes_are_found_however_they_are_started() -> None:
    for line in (
        "subprocess.run(['x'])",
        "subprocess.Popen(['x'], env={**os.environ})",
        "subprocess.Popen(['x'], env=os.environ.copy())",
        "subprocess.check_output(['x'], env=None)",
        "asyncio.create_subprocess_exec('x')",
        "os.system('x')",
        "os.execvpe('x', [], os.environ)",
        "environment = dict(os.environ)\nsubprocess.run(['x'], env=environment)",
    ):
        assert unbounded_children(ast.parse(line)), line
    assert not unbounded_children(ast.parse("subprocess.run(['x'], env=child_environment())\nasyncio.run(x())"))


def test_child_processes_are_started_by_subprocess_under_its_own_name() -> None:
    """So that the test above sees each of them."""
    renamed = {}
    for path, tree in sources():
        names = [name for node in ast.walk(tree) for name in imported(node)]
        aliased = [
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.name in ("subprocess", "os", "asyncio") and alias.asname is not None
        ]
        if wrong := [
            name for name in names if name.startswith(("subprocess.", "os.exec", "os.spawn", "multiprocessing"))
        ]:
            renamed[path] = wrong
        if aliased:
            renamed[path] = aliased
    assert renamed == {}


def test_whole_environment_goes_to_drlibs_own_processes_only() -> None:
    users = {
        path
        for path, tree in sources()
        if any("drlib.outgoing.environment.whole" in imported(node) for node in ast.walk(tree))
    }
    assert users == WHOLE


def test_whole_environment_is_not_copied_elsewhere() -> None:
    """`os.environ` is read by name; as a whole it is handed on by the boundary only."""
    copies = {}
    for path, tree in sources():
        by_name = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Subscript)
            or (isinstance(node, ast.Attribute) and node.attr in ("get", "pop", "setdefault"))
        } | {id(side) for node in ast.walk(tree) if isinstance(node, ast.Compare) for side in node.comparators}
        lines = [
            f"line {node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "os.environ" and id(node) not in by_name
        ]
        if lines and path != "drlib/mirror/status/systemd.py":  # takes any mapping, and reads one name of it
            copies[path] = lines
    assert copies == {}


def test_python_is_started_without_the_working_folder_among_its_modules() -> None:
    """A file `jupyterlab.py` or `json.py` there would be run. A Spark executor's folder holds drlib itself."""
    found = {
        path
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.List | ast.Tuple) and "sys.executable" in (words := [ast.unparse(e) for e in node.elts])
        if words[words.index("sys.executable") + 1 :][:1] == ["'-m'"]
    }
    assert found == {"drlib/mirror/spark/task.py"}


# Modules whose clients connect to the lab's own brokers, on this machine.
LAB = ("drlib/lab/", "drlib/training/", "drlib/drill/scenarios/", "drlib/analysis/sessions/audit_practice.py")


def test_configurations_of_librdkafka_are_made_in_one_place() -> None:
    """It checks what librdkafka does not: see `drlib.kafka.admin.connect`."""
    makers = {
        path
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("java_keys.librdkafka")
    }
    assert makers == {"drlib/kafka/admin/connect.py"}
    importing = {path for path, tree in sources() if any(n.endswith("java_keys.librdkafka") for n in names_in(tree))}
    assert importing == {"drlib/lab/brokers/security.py"}
    named = {
        path
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in ("bootstrap.servers", "sasl.password", "sasl.mechanism")
        if "confluent_kafka" in {name.split(".")[0] for name in names_in(tree)} and not path.startswith(LAB)
    }
    assert named == {"drlib/client/ordered_consumer.py"}  # which is given its configuration


def test_clients_of_librdkafka_write_to_no_terminal() -> None:
    """It writes a fatal error to standard error at any level, unless it has a logger. Not for: the lab, lessons, practice."""
    made = [
        f"{path}:{node.lineno}"
        for path, tree in sources()
        if "confluent_kafka" in {name.split(".")[0] for name in names_in(tree)}
        if not path.startswith((*LAB, "drlib/training/", "drlib/analysis/sessions/"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Producer", "Consumer", "AdminClient")
        if "logger" not in {keyword.arg for keyword in node.keywords}
    ]
    assert made == []


def names_in(tree: ast.Module) -> list[str]:
    return [name for node in ast.walk(tree) for name in imported(node)]
