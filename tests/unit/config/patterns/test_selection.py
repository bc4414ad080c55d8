"""Java's regular expressions in Python: the table says what java.util.regex answers."""

import contextlib
import re
import string
import sys
import time
from collections.abc import Iterator

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from repository_root import TESTS

from drlib.config.flow_settings import GROUPS_EXCLUDE_DEFAULT, TOPICS_EXCLUDE_DEFAULT
from drlib.config.patterns import java_regex, selection
from drlib.config.patterns.java_regex import DEEPEST, compile_java
from drlib.config.patterns.selection import (
    LEAST_LIMIT_S,
    LONGEST,
    MOST_PROBES,
    MOST_SLOW_PROBES,
    TIME_LIMIT_S,
    PatternTooSlow,
    Selection,
    breaks_the_line,
    matches,
    split_list,
    validate,
)
from drlib.errors import UsageError

TABLE = TESTS / "java" / "patterns.tsv"  # held to java.util.regex itself by the Java tests


def java_table() -> list[tuple[str, str, str]]:
    """(comma list, name, java.util.regex's answer); %XXXX is a letter outside printable ASCII."""
    lines = TABLE.read_text(encoding="ascii").splitlines()
    plain = (re.sub("%([0-9a-f]{4})", lambda code: chr(int(code[1], 16)), line) for line in lines)
    return [(patterns, name, answer) for patterns, name, answer in (line.split("\t") for line in plain)]


@pytest.mark.parametrize(("patterns", "name", "answer"), java_table())
def test_matches_agrees_with_java(patterns: str, name: str, answer: str) -> None:
    try:
        ours = str(matches(split_list(patterns), name)).lower()
    except UsageError:
        ours = "refused"
    assert ours == answer


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        ("\\p{IsGreek}", "IsGreek"),
        ("\\p{InGreek}", "InGreek"),
        ("\\p{javaLowerCase}", "javaLowerCase"),
        ("[a&&]", "nothing on one side"),
        ("[&&a]", "nothing on one side"),
        ("[a-z&&[m]yz]", "Java ignores a class"),
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
        ("[a", "the [ is never closed"),
        ("(a", "the ( is never closed"),
        ("a)", "has no `(`"),
        ("*a", "`*` has nothing to repeat"),
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
        ("a**", "nothing to repeat"),
        ("(?<a>x)(?<a>y)", "the name a"),
        ("(?|a|b)", "(?|"),
        ("(?P<a>b)", "(?P"),
        ("(*FAIL)", "nothing to repeat"),
        ("a{e<=1}", "`{`"),
        ("[a-\\d]", "the range `a-\\d` in a class"),
        ("[\\b-c]", "drlib does not support `\\b` in a class"),
        ("\\p{h}", "drlib does not support `\\p{h}`"),
        ("[a&&&b]", "nothing on one side"),
    ],
)
def test_translate_unsupported_construct_is_refused_by_name(pattern: str, construct: str) -> None:
    with pytest.raises(UsageError) as refused:
        matches((pattern,), "x")
    assert construct in refused.value.why
    assert pattern in refused.value.what


def test_matches_category_has_letters_up_to_the_last_code_point() -> None:
    assert matches((r"\p{Cn}",), chr(sys.maxunicode))
    assert not matches((r"\p{Cn}",), "a")


def test_matches_empty_list_chooses_nothing() -> None:
    assert split_list("  ") == ()
    assert not matches((), "")
    assert not matches((), "orders")


def test_selection_exclude_beats_include() -> None:
    topics = Selection((".*",), split_list(TOPICS_EXCLUDE_DEFAULT))
    assert topics.chosen("orders")
    assert topics.chosen("audit.internal")
    for excluded in ("mm2-offsets.A.internal", "t.replica", "__consumer_offsets"):
        assert not topics.chosen(excluded)
    groups = Selection((".*",), split_list(GROUPS_EXCLUDE_DEFAULT))
    assert groups.chosen("payments")
    assert not groups.chosen("console-consumer-12345")


@pytest.mark.parametrize("pattern", ["(a|aa)+b", "(a|aa)*b, orders", "(a|a)*b, a+", "(?>(a|aa)+b)", "(?:(a|aa)+b)\\1"])
def test_matches_catastrophic_pattern_is_refused_within_the_time_limit(pattern: str) -> None:
    """Each of these would try more ways than there are seconds."""
    began = time.process_time()
    with pytest.raises(UsageError, match="take too long") as refused:
        matches(split_list(pattern), "a" * 249)
    assert f"within {TIME_LIMIT_S:g} s" in refused.value.why
    assert time.process_time() - began < 5


def test_validate_catastrophic_pattern_is_refused_before_a_name_meets_it() -> None:
    with pytest.raises(UsageError, match="take too long"):
        validate(("orders", "(x|xx)+y"))


@pytest.mark.parametrize("pattern", ["(a{1,14}){1,14}b", "((a{1,200}){1,200}){1,200}b", "(?:a{1,30000}){1,30000}b"])
def test_validate_nested_counted_repetitions_are_refused_in_bounded_time(pattern: str) -> None:
    began = time.process_time()
    with pytest.raises(PatternTooSlow) as refused:
        validate((pattern,))
    assert f"`{pattern}`" in refused.value.what
    assert time.process_time() - began < 5


@pytest.mark.parametrize("depth", [DEEPEST + 1, 900, 999])
@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        ("(?:", ")"),
        ("(?=", ")"),
        ("(?>", ")"),
        ("(?i:", ")"),
        ("(", ")*"),
        ("(", "|b)"),
        ("[", "]"),
        ("[^", "]"),
        ("[a&&[b", "]]"),
    ],
)
def test_validate_deeply_nested_pattern_is_refused_not_a_recursion_error(
    opening: str, closing: str, depth: int
) -> None:
    pattern = opening * depth + "a" + closing * depth
    pieces = [pattern] if len(pattern) <= LONGEST else [opening * depth + "a", closing * depth]
    with pytest.raises(UsageError) as refused:
        validate(pieces)
    assert "nested more than" in refused.value.why or "letters" in refused.value.why


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("[", "]")])
def test_validate_pattern_nested_as_deep_as_allowed_is_read(opening: str, closing: str) -> None:
    pattern = opening * DEEPEST + "a" + closing * DEEPEST
    validate((pattern,))
    assert matches((pattern,), "a")


@pytest.mark.parametrize("pattern", [r"\p{L}" * 300, r"[\p{Cn}\p{L}]" * 100, r"(?:\p{L}|\P{L})" * 100])
def test_validate_many_categories_are_refused_before_they_are_compiled(pattern: str) -> None:
    with pytest.raises(UsageError, match="too many categories"):
        validate((pattern,))
    validate((r"\p{L}+" * 10,))


def test_compile_categories_are_refused_beyond_their_letters_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_read(pattern: str, most: int) -> bool:
        monkeypatch.setattr(java_regex, "MOST_RANGES", most)
        try:
            return bool(compile_java(pattern))
        except UsageError:
            return False

    letters = next(most for most in range(1000) if is_read(r"\p{Zs}", most))
    assert is_read(r"\p{Zs}\p{Zs}", 2 * letters)
    assert not is_read(r"\p{Zs}\p{Zs}", 2 * letters - 1)


def test_validate_list_of_the_most_letters_is_read_and_a_longer_one_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "LONGEST_LIST", 10)
    validate(("orders", "bill"))
    with pytest.raises(UsageError, match="it has 11 letters, and drlib reads up to 10"):
        validate(("orders", "bills"))


def test_validate_any_text_is_read_or_refused_never_another_error() -> None:
    pieces = [
        "(",
        ")",
        "[",
        "]",
        "a",
        "b|",
        "*",
        "+",
        "?",
        "{1,14}",
        "{0,2147483647}",
        "\\",
        "^",
        "$",
        ".",
        "(?i)",
        "(?<a>",
        "&&",
        "-",
        "\\p{L}",
    ]

    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.sampled_from(pieces) | st.text(max_size=2), max_size=12).map("".join))
    def check(pattern: str) -> None:
        began = time.process_time()
        with contextlib.suppress(UsageError):
            validate((pattern,))
        assert time.process_time() - began < 60

    check()


@pytest.mark.parametrize(("hard", "tried"), [("a+", MOST_PROBES), ("(a|aa)+b", MOST_SLOW_PROBES)])
def test_validate_tries_only_so_many_hard_names_and_fewer_slow_ones(
    hard: str, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    def hard_names(_: tuple[str, ...]) -> Iterator[tuple[regex.Pattern[str], str]]:
        for number in range(2 * MOST_PROBES):
            yield regex.compile(hard), "a" * 60
            taken.append(str(number))  # it was tried: the next one is asked for

    monkeypatch.setattr(selection, "_hard_names", hard_names)
    validate((f"quick{tried}",))
    assert len(taken) == tried


def test_validate_list_of_slow_patterns_ends_in_bounded_time() -> None:
    """Each is slow and none is too slow; there are more hard names than are tried."""
    began = time.process_time()
    with contextlib.suppress(PatternTooSlow):
        validate(tuple(f"(.*[{string.ascii_letters}]){{20}}x{number}" for number in range(300)))
    assert time.process_time() - began < MOST_PROBES * LEAST_LIMIT_S + MOST_SLOW_PROBES * 2 * TIME_LIMIT_S


def test_matches_name_that_was_too_slow_is_remembered_and_halves_the_limit() -> None:
    """Who may create topics chooses the names: a thousand of them must not take a thousand seconds."""
    patterns = ("(xY|xYxY)+c", "orders")
    names = ["xY" * 60 + f"{number}c" for number in range(40)]
    began = time.process_time()
    for name in [*names, *names]:
        with pytest.raises(PatternTooSlow):
            matches(patterns, name)
    assert time.process_time() - began < 2 * TIME_LIMIT_S + 40 * 10 * LEAST_LIMIT_S
    assert matches(patterns, "orders")
    assert not matches(patterns, "payments")


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(.*)*x", "(a?){40}a{40}b", ".*a.*a.*a.*a.*b", "(?i)(A+)+b", "((ab)*)*c", "(a++)*(a+)+b"],
)
def test_matches_nested_repetitions_end_with_an_answer(pattern: str) -> None:
    began = time.process_time()
    validate((pattern,))
    assert not matches((pattern,), "a" * 249)
    assert matches((pattern, "a+"), "a" * 249)
    assert time.process_time() - began < 5


def test_matches_thousands_of_names_and_topics_quickly() -> None:
    patterns = (*(f"topic-{number}" for number in range(2000)), "(a+)+b", ".*-v[0-9]+")
    assert matches(patterns, "topic-1999")
    began = time.process_time()
    assert not any(matches(patterns, f"other-{number}") for number in range(5000))
    assert time.process_time() - began < 5


def test_split_list_a_group_may_reach_over_a_comma_as_in_java() -> None:
    assert matches(split_list("(orders,(a+)+b)"), "orders")
    assert matches(split_list("(orders,(a+)+b)"), "aab")
    assert matches(split_list("(?i)(a+)+b,orders"), "ORDERS")


def test_compile_list_refuses_a_list_of_more_than_500000_letters() -> None:
    assert matches(("orders",) * 20_000, "orders")
    with pytest.raises(UsageError, match="500004 letters"):
        matches(("orders",) * 83_334, "orders")


def test_compile_list_refuses_a_pattern_of_2001_letters() -> None:
    assert matches(("a" * 2000,), "a" * 2000)
    with pytest.raises(UsageError, match="2001 letters") as refused:
        matches(("a" * 2001,), "a")
    assert f"`{'a' * 80}...`" in refused.value.what


def test_matches_slow_pattern_is_quoted_whole_up_to_80_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "TIME_LIMIT_S", 0.01)
    pattern = "(a|aa)+b" + "c" * 72
    with pytest.raises(UsageError) as refused:
        matches((pattern,), "a" * 249)
    assert f"`{pattern}`" in refused.value.what
    with pytest.raises(UsageError) as refused:
        matches((pattern + "d",), "a" * 249)
    assert f"`{pattern}...`" in refused.value.what


@pytest.mark.parametrize("name", ["a\nb", "a\r\nb", "a\u2028b", "\n", "a\x85"])
def test_selection_name_that_only_its_line_terminators_leave_out_is_known(name: str) -> None:
    assert breaks_the_line(Selection((".*",)), name)
    assert not breaks_the_line(Selection(("(?s).*",)), name)
    assert not breaks_the_line(Selection((".*",), ("(?s).*",)), name)
    assert not breaks_the_line(Selection(("orders",)), name)


@pytest.mark.parametrize("name", ["a b", "a,b", "-a", "__a", "'a\"b'", "\u00e4\u4e2d", "x" * 300, " ", "a\tb"])
def test_selection_every_other_name_is_matched_by_the_default(name: str) -> None:
    assert matches((".*",), name)
    assert not breaks_the_line(Selection((".*",)), name)
