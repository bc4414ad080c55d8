"""No input of any size makes a command use more than 400 MiB of memory or 30 s of processor time, or end with a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from repository_root import ROOT

MOST_MIB, MOST_S = 400, 30
CLUSTERS = (
    "clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:2\nA->B.enabled = true\n"
)
FILE_BYTES = (4 << 20) - 4096  # just below the limit of a file that a user names
DOCUMENT = (1 << 20) - 100  # the same for YAML
RUN = "20261101T000000Z-failover-drill-abcdef"
# A process of its own runs the command with each file, forked from one that has imported it. The kernel's VmHWM is its peak.
MEASURED = """\
import json, os, pathlib, re, sys, time
from drlib.cli import main
command, files = json.loads(sys.argv[1]), sys.argv[2:]
for name in files:
    if not (child := os.fork()):
        sys.argv = ["drlib", *(name if part == "FILE" else part for part in command)]
        began, code = time.process_time(), 0
        try:
            main()
        except SystemExit as ending:
            code = ending.code
        peak = re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())
        row = [pathlib.Path(name).name, int(peak[1]) / 1024, time.process_time() - began, code]
        print("\\n" + json.dumps({"measured": row}), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind that a command reads, as large as they may be and larger."""
    root = tmp_path_factory.mktemp("large")

    def filled(start: str, unit: str, size: int = FILE_BYTES) -> str:
        return start + unit * ((size - len(start)) // len(unit))

    texts = {
        "line": filled(CLUSTERS, "x"),
        "keys": filled(CLUSTERS, "\nsome.key = 1"),
        "continued": filled(f"{CLUSTERS}A->B.topics = a", ",\\\n a"),
        "references": filled(f"{CLUSTERS}A->B.topics = ", "${env:HOME}"),
        "escapes": filled(f"{CLUSTERS}A->B.topics = ", "\\u0061"),
        "groups": f"{CLUSTERS}A->B.topics = {'(' * 1900}{')' * 1900}",
        "flows": f"clusters = {', '.join(f'c{n}' for n in range(30))}\n"
        + "".join(f"c{n}.bootstrap.servers = 127.0.0.1:{n + 1}\n" for n in range(30))
        + "".join(f"c{a}->c{b}.enabled = true\n" for a in range(30) for b in range(30) if a != b),
        "brackets": "[" * FILE_BYTES,
        "objects": f"[{'{},' * 900_000}{{}}]",
        "rows": json.dumps([{"topic": "t", "partition": n, "offset": n} for n in range(60_000)]),
        "steps": filled(
            "name: x\ntitle: x\nnotebook: n.ipynb\ndrill:\n  steps:\n", "    - {name: a, action: b}\n", DOCUMENT
        ),
        "dashes": filled("", "- ", DOCUMENT),
        "aliases": "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)),
    }
    for name, text in texts.items():
        (root / name).write_text(text)
    with (root / "endless").open("wb") as file:
        file.truncate(16 << 30)
    run = root / "runs" / RUN
    run.mkdir(parents=True, mode=0o700)
    for name in ("scorecard.json", "run.json", "plan.json", "manifest.sha256", "journal.jsonl"):
        (run / name).write_bytes(b'{"a": [' + b"{}," * 10_000_000 + b"{}]}")
    (root / "good").write_text(CLUSTERS)
    return root


@pytest.mark.parametrize(
    "command",
    [
        ["config", "explain", "FILE"],
        ["config", "import", "FILE"],
        ["copy", "--consumer.config", "FILE", "--producer.config", "FILE", "--include", "x"],
        ["translate", "--flow", "A->B", "--offsets", "FILE", "GOOD"],
        ["plan", "FILE", "GOOD"],
        ["schedule", "emit", "FILE", "--as", "cron"],
        ["service", "systemd", "FILE"],
        ["abort", "FILE"],
        ["runs", "--runs-dir", "RUNS"],
        ["runs", "verify", "--runs-dir", "RUNS"],
    ],
    ids=" ".join,
)
def test_command_with_files_of_any_size_stays_small_and_quick(command: list[str], folder: Path) -> None:
    places = {"GOOD": folder / "good", "RUNS": folder / "runs"}
    files = sorted(path for path in folder.iterdir() if path.is_file()) if "FILE" in command else [folder / "good"]
    arguments = [str(places.get(part, part)) for part in command]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, json.dumps(arguments), *map(str, files)],
        capture_output=True,
        text=True,
        errors="replace",
        cwd=ROOT,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr, done.stderr[-4000:]
    rows = [json.loads(line)["measured"] for line in done.stdout.splitlines() if line.startswith('{"measured"')]
    assert [name for name, *_ in rows] == [path.name for path in files]
    assert [row for row in rows if row[1] > MOST_MIB or row[2] > MOST_S] == []
