"""Java's regular expressions in Python: the table says what java.util.regex answers."""

import pytest

from drlib.config.settings import GROUPS_EXCLUDE_DEFAULT, TOPICS_EXCLUDE_DEFAULT
from drlib.errors import UsageError
from drlib.rules.selection import Selection, matches, split_list

# (list, name, does java.util.regex match the whole name); the Java test of this repository runs the same table.
JAVA_TABLE = [
    ("orders", "orders", True),
    ("orders", "orders2", False),
    ("order", "orders", False),
    ("orders, pay.*", "payments", True),
    (".*", "", True),
    (".*[\\-\\.]internal", "a-internal", True),
    (".*[\\-\\.]internal", "a_internal", False),
    ("(?i)ORDERS, Pay", "orders", True),
    ("(?i)ORDERS, Pay", "PAY", True),
    ("x(?i)b, c", "xB", True),
    ("x(?i)b, c", "XB", False),
    ("x(?i)b, c", "C", True),
    ("(a(?i)b|c)d", "Cd", True),
    ("(a(?i)b|c)d", "CD", False),
    ("(?i:ab)c", "ABc", True),
    ("(?i:ab)c", "ABC", False),
    ("(?i)a(?-i)b", "Ab", True),
    ("(?i)a(?-i)b", "AB", False),
    ("(?i)ü", "Ü", False),
    ("a++b", "aab", True),
    ("a++ab", "aab", False),
    ("a*+b", "b", True),
    ("(?>a|ab)c", "abc", False),
    ("(?<env>prod|test)-\\k<env>", "prod-prod", True),
    ("(?<env>prod|test)-\\k<env>", "prod-test", False),
    ("(a|b)\\1", "aa", True),
    ("(a|b)\\1", "ab", False),
    ("\\Qa.b\\E.*", "a.bc", True),
    ("\\Qa.b\\E.*", "axbc", False),
    ("\\Qa.b", "a.b", True),
    ("\\p{Upper}+", "ABC", True),
    ("\\p{Upper}+", "ABc", False),
    ("\\P{Digit}", "x", True),
    ("\\P{Digit}", "7", False),
    ("[\\p{Alpha}_]+", "a_B", True),
    ("\\p{Punct}", "]", True),
    ("\\p{Punct}", "a", False),
    ("\\d", "\u0663", False),
    ("\\w+", "grüppe", False),
    ("a.b", "a\rb", False),
    ("a.b", "a\u2028b", False),
    ("(?s)a.b", "a\rb", True),
    ("(?s:a.)b.c", "a\nb\nc", False),
    ("[\\w-.]+", "a-b.c", True),
    ("[a-c&]+", "a&b", True),
    ("[|~]+", "|~", True),
    ("[^a-c]+", "xyz", True),
    ("[^a-c]+", "xbz", False),
    ("a{2}", "aa", True),
    ("a{2}b", "ab", False),
    ("(?=.*7)[a-z0-9]+", "ab7", True),
    ("(?!test).*", "test1", False),
    ("(?<!x)y.*", "y1", True),
    ("\\x41\\u0042", "AB", True),
    ("^orders$", "orders", True),
    ("orders\\z", "orders", True),
    ("\\Aorders", "orders", True),
    ("a\\-b\\/c", "a-b/c", True),
    ("a}b", "a}b", True),
    ("orders, ", "", True),
]


@pytest.mark.parametrize(("patterns", "name", "expected"), JAVA_TABLE)
def test_the_list_matches_as_java_does(patterns: str, name: str, expected: bool):
    assert matches(split_list(patterns), name) is expected


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
