"""The one line of a usage error."""

import pytest
from command_line import drlib, error_line

from drlib.cli.usage import command_of, usage_error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mirror", "x"], ("mirror",)),
        (["lab", "up", "--dir"], ("lab", "up")),
        (["lab", "sideways"], ("lab",)),
        (["nonsense", "mirror"], ()),
        (["--version"], ()),
        ([], ()),
    ],
)
def test_command_of_takes_the_words_that_name_one(arguments: list[str], words: tuple[str, ...]) -> None:
    assert command_of(arguments) == words


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "Missing argument 'FILE'.",
            "mirror: FILE is missing. For example: drlib mirror connect-mirror-maker.properties  (all options: "
            "drlib mirror --help)",
        ),
        (
            "No such option: --metric (Possible options: --metrics)",
            "mirror: there is no option --metric. Did you mean --metrics? ",
        ),
        ("No such option: --x", "mirror: there is no option --x. See: drlib mirror --help"),
        (
            "Option '--memory' requires an argument.",
            "mirror: --memory: its value is missing. See: drlib mirror --help",
        ),
        (
            "Option '--spark' requires an argument.",
            "mirror: --spark: its value is missing. For example: drlib mirror connect-mirror-maker.properties --spark "
            "spark://HOST:7077 --workers 4  (all options: drlib mirror --help)",
        ),
        ("Got unexpected extra argument(s) (b)", "mirror: unexpected: b. See: drlib mirror --help"),
        (
            "Invalid value for '--log-format': Value error, 'x' is not one of 'text', 'json'.",
            "mirror: --log-format: 'x' is not one of 'text', 'json'. See: ",
        ),
        (
            "Invalid value for '--workers': Input should be a valid integer, unable\n to parse",
            "mirror: --workers: it should be a valid integer, unable to parse. See: ",
        ),
    ],
)
def test_usage_error_says_what_why_and_the_next_command(message: str, line: str) -> None:
    assert usage_error(message, ["mirror", "x"]).startswith(line)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], ["nonsense: there is no such command", "drlib --help"]),
        (["statu"], ["Did you mean: drlib status?"]),
        (
            ["mirror"],
            ["mirror: FILE is missing", "drlib mirror connect-mirror-maker.properties", "drlib mirror --help"],
        ),
        (["lab", "sideways"], ["lab: there is no 'sideways'", "drlib lab --help"]),
        (["lab", "stat"], ["Did you mean 'status'?"]),
        (
            ["lab", "up", "--broker", "3"],
            ["lab up: there is no option --broker. Did you mean --brokers?", "drlib lab up --help"],
        ),
        (
            ["lab", "up", "--brokers", "30"],
            ["lab up: --brokers: it should be less than or equal to 3", "drlib lab up --help"],
        ),
        (["lab", "up", "--dir"], ["lab up: --dir: its value is missing", "drlib lab up --help"]),
        (["translate", "f"], ["translate: --flow is missing", "drlib translate --help"]),
        (["pointer", "move", "f"], ["pointer move: CLUSTER is missing", "drlib pointer move --help"]),
        (["--sideways"], ["there is no option --sideways", "drlib --help"]),
        (["mirror", "a", "b\x1b[31m"], ["mirror: unexpected: b\\x1b[31m", "drlib mirror --help"]),
        (["run"], ["there is nothing to run", "failover-drill", "drlib run failover-drill --lab"]),
        (
            ["run", "failover-dril"],
            ["there is no runbook failover-dril: it is not among those in reach. Did you mean failover-drill?"],
        ),
        (["doctor", b"caf\xe9".decode("utf-8", "surrogateescape")], ["it is not UTF-8"]),
    ],
)
def test_wrong_command_line_is_one_line_that_names_command_and_remedy(arguments: list[str], words: list[str]) -> None:
    line = error_line(drlib(*arguments), 2)
    assert [word for word in words if word not in line] == []
