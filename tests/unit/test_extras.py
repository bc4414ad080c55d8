"""The base installation: what works without any extra, and what a missing extra is answered with."""

import subprocess
import sys
from pathlib import Path

import pytest
from repository_root import ROOT

from drlib.errors import MissingDependency
from drlib.extras import EXTRAS, missing_extra, require

RUNBOOK = ROOT / "runbooks" / "failover-drill.yaml"
BLOCKER = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted({module for modules in EXTRAS.values() for module in modules})!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def without_extras(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process where no package of an extra can be imported."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKER + code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def drlib(*arguments: str) -> subprocess.CompletedProcess[str]:
    return without_extras("from drlib.cli import main; main()", *arguments)


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = LEFT, RIGHT\nLEFT.bootstrap.servers = 127.0.0.1:1\nRIGHT.bootstrap.servers = 127.0.0.1:2\n"
        "LEFT->RIGHT.enabled = true\n"
    )
    return path


@pytest.mark.parametrize(
    "code",
    [
        "import drlib",
        "import drlib; drlib.ActiveCluster, drlib.active_config, drlib.publish_pointer",
        "import drlib; drlib.OrderedConsumer, drlib.CommitOutcome",
        "import drlib; drlib.translate_offsets, drlib.Scorecard, drlib.Sizing, drlib.console",
        "import drlib.cli.app, drlib.cli.mirror.doctor, drlib.cli.mirror.status, drlib.mirror.worker",
        "import drlib.runbook.plans, drlib.drill.run.runner, drlib.drill.run.planning",
    ],
)
def test_import_without_extras_succeeds(code: str) -> None:
    result = without_extras(code)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "command", ["mirror", "status", "translate", "doctor", "plan", "run", "abort", "runs", "copy", "size", "notebook"]
)
def test_help_without_extras_succeeds(command: str) -> None:
    result = drlib(command, "--help")
    assert result.returncode == 0, result.stderr


def test_doctor_and_status_without_extras_reach_for_the_clusters(properties: Path) -> None:
    assert drlib("status", str(properties)).returncode == 11
    assert "Traceback" not in drlib("doctor", str(properties)).stderr


def test_plan_without_extras_reads_the_notebooks_parameters(properties: Path, tmp_path: Path) -> None:
    runbook = ROOT / "runbooks" / "planned-switchover.yaml"
    result = drlib("plan", str(runbook), str(properties), "--runs-dir", str(tmp_path / "runs"))
    assert "No module" not in result.stderr
    assert "pip install" not in result.stderr
    assert result.returncode == 11, result.stderr  # these clusters do not answer


def test_size_without_extras_prints_the_numbers() -> None:
    result = drlib("size", "--rate", "5MB/s", "--rtt", "200ms", "--bandwidth", "1Gb/s", "--partitions", "6")
    assert result.returncode == 0, result.stderr
    assert "workers" in result.stdout


def test_run_without_notebooks_names_the_extra_and_starts_nothing(tmp_path: Path) -> None:
    result = drlib("run", str(RUNBOOK), "--lab", "--runs-dir", str(tmp_path / "runs"))
    assert result.returncode == MissingDependency.exit_code
    assert result.stderr == (
        "drlib: drlib run needs the extra 'notebooks': the Python package papermill is not installed. "
        "Install it: pip install 'drlib[notebooks]'\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_command_without_its_extra_fails_in_one_line(properties: Path) -> None:
    result = drlib("mirror", str(properties), "--spark", "local[1]")
    assert result.returncode == MissingDependency.exit_code
    last = result.stderr.splitlines()[-1]
    assert last.startswith("drlib: drlib mirror needs the extra 'spark': the Python package py")
    assert last.endswith("Install it: pip install 'drlib[spark]'")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("expression", "extra"),
    [
        ("drlib.lag_figure", "notebooks"),
        ("drlib.console('nowhere')", "notebooks"),
        ("drlib.open_nightly_audit", "spark"),
        ("drlib.Sizing('5MB/s', '200ms', '1Gb/s', 6).figure()", "notebooks"),
    ],
)
def test_public_name_without_its_extra_raises_missing_dependency(expression: str, extra: str) -> None:
    code = f"import drlib\ntry:\n    {expression}\nexcept drlib.DrlibError as error:\n    print(error)"
    result = without_extras(code)
    assert result.returncode == 0, result.stderr
    assert f"pip install 'drlib[{extra}]'" in result.stdout
    assert expression.partition("(")[0] in result.stdout or "figure" in result.stdout


def test_missing_extra_of_a_module_of_no_extra_is_none() -> None:
    assert missing_extra(ModuleNotFoundError("no", name="drlib.nothing"), "drlib") is None
    assert missing_extra(ImportError("no"), "drlib") is None


def test_require_of_installed_packages_passes() -> None:
    require("notebooks", "drlib run")
    require("spark", "drlib mirror")


def test_version_is_printed() -> None:
    result = drlib("--version")
    assert result.returncode == 0
    assert result.stdout.startswith("drlib ")
    assert result.stdout.strip().removeprefix("drlib ")[0].isdigit()
