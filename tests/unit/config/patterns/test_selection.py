"""Java's regular expressions in Python: the table says what java.util.regex answers."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repository_root import TESTS

from drlib.config.patterns.bounded_match import BoundedPattern
from drlib.config.patterns.selection import Selection, matches, split_list
from drlib.config.settings import GROUPS_EXCLUDE_DEFAULT, TOPICS_EXCLUDE_DEFAULT
from drlib.errors import UsageError

TABLE = TESTS / "java" / "patterns.tsv"  # held to java.util.regex itself by the Java tests


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
        ("\\p{IsGreek}", "IsGreek"),
        ("\\p{InGreek}", "InGreek"),
        ("\\p{javaLowerCase}", "javaLowerCase"),
        ("[a&&]", "nothing on one side"),
        ("[&&a]", "nothing on one side"),
        ("[a-z&&[m]yz]", "behind a class"),
        ("\\X", "\\X"),
        ("\\N{DIGIT ONE}", "\\N"),
        ("\\R", "\\R"),
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


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*)*x", "(a?){40}a{40}b", ".*a.*a.*a.*a.*b", "(?i)(A+)+b", "((ab)*)*c"],
)
def test_no_pattern_takes_for_ever(pattern: str):
    """Each of these would try more ways than there are seconds."""
    began = time.monotonic()
    assert not matches((pattern,), "a" * 249)
    assert matches((pattern, "a+"), "a" * 249)
    assert time.monotonic() - began < 5


def test_many_plain_names_stay_quick_beside_one_that_needs_care():
    patterns = (*(f"topic-{number}" for number in range(2000)), "(a+)+b")
    assert matches(patterns, "topic-1999")
    began = time.monotonic()
    assert not any(matches(patterns, f"other-{number}") for number in range(2000))
    assert time.monotonic() - began < 5


def test_a_group_may_reach_over_a_comma_as_in_java():
    assert matches(split_list("(orders,(a+)+b)"), "orders")
    assert matches(split_list("(orders,(a+)+b)"), "aab")
    assert matches(split_list("(?i)(a+)+b,orders"), "ORDERS")


@pytest.mark.parametrize("pattern", ["(a++)*(a+)+b", "(?:(a+)+b)\\\\1", "(?>(a+)+)b"])
def test_what_cannot_be_matched_in_bounded_time_is_refused(pattern: str):
    with pytest.raises(UsageError, match="take for ever"):
        matches((pattern.replace("\\\\", "\\"),), "a")


def test_a_pattern_without_end_is_refused():
    with pytest.raises(UsageError, match="2001 letters"):
        matches(("a" * 2001,), "a")


LETTERS = st.sampled_from(["a", "b", "[ab]", "[^a]", "\\w", "(a|b)", "(ab|a)", "(?:a)", "(?i:A)"])
QUANTIFIERS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "*?"])
PLACES = st.sampled_from(["^", "$", "\\b", "(?=a)", "(?<!b)"])
PARTS = st.one_of(st.tuples(LETTERS, QUANTIFIERS).map("".join), PLACES)


@given(st.lists(PARTS, min_size=1, max_size=4), st.text("abA-\n", max_size=7))
@settings(max_examples=300)
def test_the_bounded_way_answers_as_the_quick_one(parts: list[str], name: str):
    plain = "".join(parts)
    for pattern in (plain, f"({plain})*", f"(?:{plain}|b)+a"):
        assert BoundedPattern(pattern).fullmatch(name) == (re.compile(pattern, re.ASCII).fullmatch(name) is not None)
