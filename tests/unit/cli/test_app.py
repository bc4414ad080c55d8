"""What a person gets for a slip: an exit code, one line with what, why and what to do, and no traceback."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import drlib, error_line
from repository_root import ROOT

RUNBOOK = str(ROOT / "runbooks" / "failover-drill.yaml")


@pytest.fixture
def closed() -> Iterator[tuple[int, int]]:
    """Two ports of this machine without a listener: bound here, so that no other process takes them."""
    with socket.socket() as one, socket.socket() as two:
        for held in (one, two):
            held.bind(("127.0.0.1", 0))
        yield one.getsockname()[1], two.getsockname()[1]


@pytest.fixture
def file(tmp_path: Path, closed: tuple[int, int]) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = LEFT, RIGHT\n"
        f"LEFT.bootstrap.servers = 127.0.0.1:{closed[0]}\n"
        f"RIGHT.bootstrap.servers = 127.0.0.1:{closed[1]}\n"
        "LEFT->RIGHT.enabled = true\n"
    )
    return path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("LEFT->RIGHT.topicz = a", [":5:", "LEFT->RIGHT.topicz", "Did you mean LEFT->RIGHT.topics?"]),
        ("LEFT->RIGHT.enabled = maybe", [":5:", "maybe", "Write true or false"]),
        ("clusters = LEFT, LEFT", [":5:", "listed twice", "once"]),
    ],
)
def test_mirror_wrong_properties_line_is_named_with_its_number(file: Path, line: str, words: list[str]) -> None:
    file.write_text(file.read_text() + line + "\n")
    line = error_line(drlib("mirror", str(file)), 2)
    assert [word for word in words if word not in line] == []


def test_mirror_missing_file_is_named(tmp_path: Path) -> None:
    assert "nowhere.properties" in error_line(drlib("mirror", str(tmp_path / "nowhere.properties")), 2)


def test_mirror_without_enabled_flow_is_refused(file: Path) -> None:
    file.write_text(file.read_text().replace("enabled = true", "enabled = false"))
    assert "no flow is enabled" in error_line(drlib("mirror", str(file)), 2)


@pytest.mark.parametrize("flow", ["LEFT", "LEFT->", "->RIGHT", "LEFT=>RIGHT", " -> RIGHT", ""])
def test_translate_malformed_flow_is_refused(file: Path, flow: str) -> None:
    assert "LEFT->RIGHT" in error_line(drlib("translate", str(file), "--flow", flow), 2)


def test_translate_flow_of_an_unknown_cluster_is_refused(file: Path) -> None:
    line = error_line(drlib("translate", str(file), "--flow", "LEFT->UP"), 2)
    assert "LEFT->UP" in line
    assert "LEFT, RIGHT" in line


def test_translate_unreachable_clusters_exit_11(file: Path, closed: tuple[int, int]) -> None:
    result = drlib("translate", str(file), "--flow", "LEFT->RIGHT")
    line = error_line(result, 11)
    assert "LEFT and RIGHT cannot be reached" in line
    assert str(closed[0]) in line
    assert str(closed[1]) in line


def test_status_unreachable_clusters_are_shown_and_exit_11(file: Path) -> None:
    result = drlib("status", str(file))
    assert result.returncode == 11, result.stderr
    assert result.stderr == ""
    assert "UNKNOWN" in result.stdout
    assert "SourceUnreachable LEFT->RIGHT" in result.stdout
    assert "TargetUnreachable LEFT->RIGHT" in result.stdout


def test_status_without_flows_or_with_two_formats_is_refused(file: Path) -> None:
    assert "do not go together" in error_line(drlib("status", str(file), "--json", "--watch"), 2)
    file.write_text(file.read_text().replace("enabled = true", "enabled = false"))
    assert "no flow is enabled" in error_line(drlib("status", str(file)), 2)


def test_mirror_malformed_metrics_address_is_refused(file: Path) -> None:
    assert "HOST:PORT" in drlib("mirror", str(file), "--metrics", "9464").stderr.splitlines()[-1]


def test_run_unknown_runbook_lists_the_known_ones() -> None:
    line = error_line(drlib("run", str(ROOT / "runbooks" / "failover-dril.yaml")), 2)
    assert "failover-drill.yaml" in line


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("recods_per_second=1", "Did you mean records_per_second?"),
        ("backlog=many", "'many' is not an int. Give an int, for example 30000."),
        ("records_per_second=nan", "'nan' is not a float"),
        ("backlog", "it has no '='"),
        ("run_dir=password=hunter", "looks like a secret"),
    ],
)
def test_run_wrong_parameter_starts_nothing(tmp_path: Path, pair: str, words: str) -> None:
    runs = tmp_path / "runs"
    result = drlib("run", RUNBOOK, "--lab", "-p", pair, "--runs-dir", str(runs))
    assert words in error_line(result, 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["lab"]])
def test_command_group_alone_shows_its_help(arguments: list[str]) -> None:
    result = drlib(*arguments)
    assert result.returncode == 2
    assert "Usage:" in result.stdout
    assert result.stderr == ""


def test_lab_down_without_a_lab_is_refused(tmp_path: Path) -> None:
    said = error_line(drlib("lab", "down", "--dir", str(tmp_path / "a lab")), 2)
    assert "There is no lab" in said
    assert said.endswith(f". Start one: drlib lab up --dir '{tmp_path / 'a lab'}'")


def test_lab_up_without_java_leaves_nothing(tmp_path: Path) -> None:
    result = drlib("lab", "up", "--dir", str(tmp_path / "lab"), PATH=str(tmp_path), JAVA_HOME=None)
    assert "Java" in error_line(result, 2)
    assert list(tmp_path.iterdir()) == []


def test_lab_up_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    result = drlib("lab", "up", "--dir", str(tmp_path / "labs" / "one"))
    assert f"the folder {tmp_path / 'labs'} does not exist" in error_line(result, 2)
    assert list(tmp_path.iterdir()) == []


def test_run_with_lab_without_java_leaves_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    result = drlib("run", RUNBOOK, "--lab", "--runs-dir", str(tmp_path / "runs"), PATH=str(empty), JAVA_HOME=None)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "Java is missing" in result.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


@pytest.mark.parametrize("command", ["status", "reset"])
def test_academy_of_a_file_says_that_it_is_no_folder(tmp_path: Path, command: str) -> None:
    (tmp_path / "afile").write_text("x")
    said = error_line(drlib("academy", command, "--dir", str(tmp_path / "afile")), 2)
    assert said.endswith("afile is not a folder: progress is kept in one. Name it: --dir DIR.")
