"""Java's regular expressions in Python: the table says what java.util.regex answers."""

import re
from pathlib import Path

import pytest

from drlib.config.settings import GROUPS_EXCLUDE_DEFAULT, TOPICS_EXCLUDE_DEFAULT
from drlib.errors import UsageError
from drlib.rules.selection import Selection, matches, split_list

TABLE = Path(__file__).parents[1] / "java" / "patterns.tsv"  # held to java.util.regex itself by the Java tests


def java_table() -> list[tuple[str, str, str]]:
    """(comma list, name, what java.util.regex answers), with %XXXX standing for a letter outside printable ASCII."""
    lines = TABLE.read_text(encoding="ascii").splitlines()
    plain = (re.sub("%([0-9a-f]{4})", lambda code: chr(int(code[1], 16)), line) for line in lines)
    return [(patterns, name, said) for patterns, name, said in (line.split("\t") for line in plain)]


@pytest.mark.parametrize(("patterns", "name", "said"), java_table())
def test_the_list_matches_as_java_does(patterns: str, name: str, said: str):
    try:
        ours = str(matches(split_list(patterns), name)).lower()
    except UsageError:
        ours = "refused"
    assert ours == said


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        ("[a-z&&[^b]]", "intersection"),
        ("[a[bc]]", "union"),
        ("\\p{L}+", "\\p{L}"),
        ("\\p{IsGreek}", "IsGreek"),
        ("[\\P{Alpha}]", "in a class"),
        ("\\R", "\\R"),
        ("\\h", "\\h"),
        ("a\\Z", "\\Z"),
        ("\\G", "\\G"),
        ("(?m)^a$", "the flag m"),
        ("(?xU)a", "the flag U, x"),
        ("a{,3}", "`{`"),
        ("a{", "`{`"),
        ("[]a]", "first of a class"),
        ("[a", "never closed"),
        ("(a", "never closed"),
        ("a)", "without"),
        ("*a", "nothing to repeat"),
        ("(?<=a+)b", "look-behind"),
        ("(?#c)", "(?#"),
        ("\\012", "octal"),
        ("[--a]", "--"),
        ("a\\", "backslash"),
        ("\\x4", "\\x4"),
        ("\\y", "\\y"),
        ("[\\b]", "in a class"),
        ("\\k", "\\k"),
        ("\\b{g}", "\\b{"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(pattern: str, construct: str):
    with pytest.raises(UsageError) as refused:
        matches((pattern,), "x")
    assert construct in refused.value.why
    assert pattern in refused.value.what


def test_an_empty_list_matches_nothing():
    assert split_list("  ") == ()
    assert not matches((), "")
    assert not matches((), "orders")


def test_an_exclude_beats_an_include():
    topics = Selection((".*",), split_list(TOPICS_EXCLUDE_DEFAULT))
    assert topics.chosen("orders")
    assert topics.chosen("audit.internal")
    for excluded in ("mm2-offsets.A.internal", "t.replica", "__consumer_offsets"):
        assert not topics.chosen(excluded)
    groups = Selection((".*",), split_list(GROUPS_EXCLUDE_DEFAULT))
    assert groups.chosen("payments")
    assert not groups.chosen("console-consumer-12345")
