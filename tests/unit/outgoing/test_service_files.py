"""Any text in a unit, a crontab or an Airflow file: it stays one line, and what is run is what was given."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest
from hostile_text import HOSTILE
from hypothesis import assume, example, given
from hypothesis import strategies as st

from drlib.errors import UsageError
from drlib.outgoing import service_files
from drlib.outgoing.service_files import comment, cron_command, fill, unit_argument, unit_command, unit_path, unit_text

DIRECTIVES = (
    "x\nExecStartPre=/bin/rm -rf /",
    "x\rUser=root",
    "x\0User=root",
    "x\x85User=root",
    "x\u2028[Service]",
    "ends in a backslash \\",
    "%h %n %%",
    "$HOME ${PATH}",
    '"; rm -rf / ;"',
    "';'",
    ";",
    "{{ macros.os.system('id') }}",
    "{% raw %}",
    "run.sh",
    "coding: utf-7",
    " blanks around ",
    "\ttab",
    "",
)
ANY = st.one_of(st.text(), st.sampled_from([*HOSTILE.values(), *DIRECTIVES]))
WITHOUT_NUL = ANY.filter(lambda text: "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text))
UNIT = "[Service]\n{about}\nDescription={text}\nType=oneshot\n"


def unit_lines(text: str) -> list[str]:
    """Lines as systemd's `config_parse` has them: \\n, \\r and NUL end one, an odd backslash at the end continues it."""
    found: list[str] = []
    continued = False
    for line in re.split("\r\n|[\n\r\0]", text):
        if line.lstrip().startswith(("#", ";")):
            found.append("#")
            continue
        ends = len(line) - len(line.rstrip("\\"))
        if continued:
            found[-1] += line
        else:
            found.append(line)
        continued = ends % 2 == 1
    return found


def words_of(command: str) -> Iterator[str]:
    """Arguments as systemd.service(5) reads them: quotes, C escapes, then `%%` and `$$`. Fails for a single one of those.

    `\\x` is a byte, so beyond ASCII it is no character."""
    for quoted, plain in re.findall(r'"((?:[^"\\]|\\.)*)"|([^ "\\;\']+)', command):
        text = re.sub(
            r"\\(?:x([0-7][0-9a-f])|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))",
            lambda m: m[4] or chr(int(m[1] or m[2] or m[3], 16)),
            quoted or plain,
        )
        assert re.fullmatch(r"(?:[^%$]|%%|\$\$)*", text, re.DOTALL)
        yield text.replace("%%", "%").replace("$$", "$")


@given(ANY)
def test_unit_any_text_is_one_value_and_one_comment(text: str) -> None:
    unit = fill(UNIT, about=comment(text), text=unit_text(text))
    assert [line.partition("=")[0] for line in unit_lines(unit)] == ["[Service]", "#", "Description", "Type", ""]
    value = unit_lines(unit)[2].partition("=")[2]
    assert value.isprintable() or value == value.encode().decode()
    assert "%" not in value.replace("%%", "")


@given(st.lists(WITHOUT_NUL))
@example(["\x7f", "\x80", "\uffff", "\U0010ffff"])
def test_unit_command_runs_what_was_given(arguments: list[str]) -> None:
    command = unit_command(["/opt/drlib/bin/python", *arguments])
    (line,) = unit_lines(f"ExecStart={command}")
    assert list(words_of(line.partition("=")[2])) == ["/opt/drlib/bin/python", *arguments]
    assert len(command.splitlines()) == 1


@pytest.mark.parametrize("text", ["a\0b", "a\udcffb"])
def test_unit_argument_that_no_argument_can_be_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be written for systemd"):
        unit_argument(text)


@given(ANY)
def test_unit_path_is_the_path_or_refused(text: str) -> None:
    path = Path(f"/srv/{text}") if "\0" not in text else Path("/srv/a\0")
    try:
        value = unit_path(path)
    except UsageError:
        assert not str(path).isprintable() or str(path) != str(path).strip() or set(str(path)) & set("\\\"'")
        return
    assert unit_lines(f"WorkingDirectory={value}") == [f"WorkingDirectory={value}"]
    assert value.replace("%%", "%") == str(path)


@pytest.mark.parametrize("text", ["relative", "", "-/srv", "~"])
def test_unit_path_that_is_not_absolute_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not absolute"):
        unit_path(Path(text))


@pytest.mark.parametrize("name", ["", "a b", "../x", ".", "-x", "x\\", "x\n", "x\nUser=root", "a/b", "%n", "x" * 201])
def test_unit_name_that_is_more_than_a_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no unit name"):
        service_files.unit_name(name)


@pytest.mark.parametrize("name", ["", "a b", "x\n", "%u", "-x", "01", "x" * 32, "x\nUser=root", "a:b"])
def test_unit_user_that_is_no_user_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is no user"):
        service_files.unit_user(name)
    assert service_files.unit_user("drill-1") == "drill-1"
    assert service_files.unit_user("1000") == "1000"


def test_unit_of_hostile_text_is_accepted_by_systemd_itself(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    texts = [text for text in (*HOSTILE.values(), *DIRECTIVES) if "\0" not in text and "\ud800" not in text]
    template = "[Unit]\nDescription={text}\n{about}\n[Service]\nType=oneshot\nUser=daemon\nExecStart={command}\n"
    for number, text in enumerate(texts):
        command = unit_command(["/bin/true", text, *texts])
        filled = fill(template, text=unit_text(text), about=comment(text), command=command)
        (tmp_path / f"u{number}.service").write_text(filled)
    units = sorted(map(str, tmp_path.iterdir()))
    done = subprocess.run([analyze, "verify", "--man=no", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@given(WITHOUT_NUL, st.lists(WITHOUT_NUL, min_size=1))
def test_cron_command_is_one_line_that_the_shell_reads_as_given_or_refused(folder: str, argv: list[str]) -> None:
    try:
        command = cron_command(Path("/srv") / folder.lstrip("/"), argv)
    except UsageError:
        texts = [str(Path("/srv") / folder.lstrip("/")), *argv]
        assert any(not text.isprintable() or "\\" in text for text in texts)
        return
    assert len(command.splitlines()) == 1
    assert not re.search(r"(?<!\\)%", command)
    _, _, and_, *words = shlex.split(command.replace(r"\%", "%"))
    assert (and_, words) == ("&&", argv)


@given(ANY)
def test_airflow_template_renders_to_the_text_and_names_no_file(text: str) -> None:
    assume(
        "\r" not in text and not text.endswith("\n")
    )  # Jinja has line ends of its own; a command has none at its end
    value = ast.literal_eval(service_files.airflow_template(text))
    assert not value.endswith((".sh", ".bash"))
    assert jinja2.Environment().from_string(value).render() == text


@given(ANY)
def test_python_text_is_the_text_in_one_line_of_ascii(text: str) -> None:
    literal = service_files.python_text(text)
    assert ast.literal_eval(literal) == text
    assert literal.isascii()
    assert literal.isprintable()
