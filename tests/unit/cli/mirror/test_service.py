"""The systemd unit as text, and as systemd itself reads it where the machine has it."""

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drlib.cli.mirror.service import bootstrap_unit, unit_for
from drlib.errors import UsageError

FILE = """clusters = LEFT, RIGHT
LEFT.bootstrap.servers = 127.0.0.1:19092
RIGHT.bootstrap.servers = 127.0.0.1:19094
LEFT->RIGHT.enabled = true
"""


def write(folder: Path, text: str = FILE, name: str = "mm2.properties") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def parsed(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


def test_unit_is_hardened_notifies_and_has_a_watchdog(tmp_path: Path) -> None:
    file = write(tmp_path)
    service = parsed(unit_for(file, "drlib-mirror"))["Service"]
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) > 0
    assert service["Restart"] == "always"
    assert service["RestartPreventExitStatus"] == str(UsageError.exit_code)
    assert service["NoNewPrivileges"] == service["DynamicUser"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["LoadCredential"] == f"mirror.properties:{file}"
    assert service["ExecStart"].split()[1:] == [
        *("-P", "-m", "drlib.cli", "mirror", "%d/mirror.properties", "--status", "%t/drlib-mirror/status.json")
    ]
    assert parsed(unit_for(file, "drlib-mirror"))["Unit"]["Description"] == "drlib mirror of LEFT to RIGHT"


def test_bootstrap_unit_is_hardened_as_the_workers_and_keeps_a_state_file(tmp_path: Path) -> None:
    file = write(tmp_path)
    made = bootstrap_unit(file, "drlib-bootstrap", ["10.0.0.1:9092"], ["kafka.example:9092"], "127.0.0.1:9465")
    service, worker = parsed(made)["Service"], parsed(unit_for(file, "drlib-bootstrap"))["Service"]
    command = f"{Path(sys.executable).absolute()} -P -m drlib.cli bootstrap %d/mirror.properties "
    command += "--state %S/drlib-bootstrap/state.json --listen 10.0.0.1:9092 --address kafka.example:9092 "
    assert service["ExecStart"] == command + "--metrics 127.0.0.1:9465"
    assert service["StateDirectory"] == "drlib-bootstrap"
    assert set(worker) - set(service) == {"RuntimeDirectory", "RuntimeDirectoryMode"}
    assert {key for key in set(worker) & set(service) if worker[key] != service[key]} == {
        "ExecStart",
        "TimeoutStartSec",
    }
    assert parsed(made)["Unit"]["Description"] == "drlib bootstrap of LEFT, RIGHT"
    assert f"--listen 10.0.0.1:9092 --address kafka.example:9092 --metrics 127.0.0.1:9465 {file}" in made


def test_bootstrap_unit_with_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    for wrong in ("9092", "%h:x"):
        with pytest.raises(UsageError):
            bootstrap_unit(write(tmp_path), "m", [wrong])
    assert "--listen %%h:1" in bootstrap_unit(write(tmp_path), "m", ["%h:1"])
    assert "\nExecStartPre" not in bootstrap_unit(write(tmp_path), "m", ["10.0.0.1:9092\nExecStartPre=/bin/id:1"])


def test_unit_names_referenced_files_and_no_secret(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        FILE + "LEFT.ssl.key.password = ${file:/etc/kafka/pw.properties:key}\n"
        "RIGHT.sasl.jaas.config = x ${env:DRLIB_TEST_PW} hush;\n",
    )
    unit = unit_for(file, "drlib-mirror")
    assert "# LoadCredential=secrets-1:/etc/kafka/pw.properties" in unit
    assert "${file:/run/credentials/drlib-mirror.service/secrets-1:KEY}" in unit
    assert "The file refers to DRLIB_TEST_PW" in unit
    assert "hush" not in unit


def test_unit_names_key_stores_and_directories_that_its_user_could_not_read(tmp_path: Path) -> None:
    """Java's key stores are readable by one group, and the unit runs as a user of its own, without /tmp and homes."""
    file = write(
        tmp_path,
        FILE
        + "RIGHT.ssl.keystore.location = /etc/kafka/mm2.p12\nRIGHT.ssl.truststore.location = /etc/kafka/trust.p12\n"
        "LEFT.ssl.truststore.location = /etc/kafka/trust.p12\nLEFT.ssl.keystore.location = ${file:/etc/pw:store}\n"
        "RIGHT.ssl.keystore.password = ${directory:/run/pw:store}\n",
    )
    unit = unit_for(file, "m")
    assert [line for line in unit.splitlines() if line.startswith("# LoadCredential=")] == [
        "# LoadCredential=secrets-1:/etc/pw",
        "# LoadCredential=secrets-of-1:/run/pw",
        "# LoadCredential=store-1:/etc/kafka/mm2.p12",
        "# LoadCredential=store-2:/etc/kafka/trust.p12",
    ]
    assert "# ${directory:/run/credentials/m.service:secrets-of-1_FILE}:" in unit
    assert "# /run/credentials/m.service/store-1:" in unit


def test_unit_percent_sign_in_path_is_escaped(tmp_path: Path) -> None:
    file = write(tmp_path, name="100%h.properties")
    assert parsed(unit_for(file, "m"))["Service"]["LoadCredential"].endswith("/100%%h.properties")


def test_unit_reference_with_a_line_break_is_no_directive(tmp_path: Path) -> None:
    """A properties file may be another team's, and it is root who installs the unit."""
    plain = unit_for(write(tmp_path, FILE + "LEFT.ssl.key.password = ${env:A}\n"), "m").splitlines()
    for break_ in ("\\n", "\\r", "\\u0085", "\\u2028", "\\u0000"):
        file = write(tmp_path, FILE + f"LEFT.ssl.key.password = ${{env:A{break_}ExecStartPre=/bin/id}}\n")
        made = unit_for(file, "m").splitlines()
        assert [line for line, expected in zip(made, plain, strict=True) if line != expected] == [
            line for line in made if line.startswith("# The file refers to A")
        ]
        with pytest.raises(UsageError, match="cannot be written for systemd"):
            unit_for(write(tmp_path, FILE + f"LEFT.ssl.key.password = ${{file:/a{break_}User=root:k}}\n"), "m")


def test_unit_install_line_is_a_shell_command_with_one_file(tmp_path: Path) -> None:
    file = write(tmp_path, name="a; touch $(id) && true.properties")
    install = next(line for line in unit_for(file, "m").splitlines() if "sudo tee" in line)
    command, pipe, tee = shlex.split(install.removeprefix("#"))[:6], "|", ["sudo", "tee"]
    assert command == ["drlib", "service", "systemd", "--name", "m", str(file)]
    assert shlex.split(install.removeprefix("#"))[6:] == [pipe, *tee, "/etc/systemd/system/m.service"]


@pytest.mark.parametrize("name", ["a\nb", "a\u2028b", "a\\", 'a"b', "a\x1bb", "a "])
def test_unit_file_whose_path_systemd_would_read_otherwise_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be written for systemd"):
        unit_for(write(tmp_path, name=name), "m")


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (FILE, "a b", "no unit name"),
        (FILE, "m\\", "no unit name"),
        (FILE, "../x", "no unit name"),
        (FILE.replace("true", "false"), "m", "no flow is enabled"),
        (FILE + "topicz = a\n", "m", "Did you mean"),
    ],
)
def test_unit_unusable_input_is_refused(tmp_path: Path, text: str, name: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        unit_for(write(tmp_path, text), name)
    assert words in str(refused.value)


def test_systemd_itself_has_nothing_to_say_against_it(tmp_path: Path) -> None:
    file = write(tmp_path)
    command = [sys.executable, "-m", "drlib.cli", "service", "systemd", str(file), "--name", "drlib-west"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    unit = tmp_path / "drlib-west.service"
    unit.write_text(printed)
    service = parsed(printed)["Service"]
    assert Path(service["ExecStart"].split()[0]).exists()
    if (analyze := shutil.which("systemd-analyze")) is not None:
        verify = [analyze, "verify", "--man=no", "--recursive-errors=no", str(unit)]
        done = subprocess.run(verify, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
