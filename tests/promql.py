"""Which metrics and labels an expression of PromQL uses: a strict tokenizer, which refuses what it does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<range>\[(?:\d+(?:ms|[smhdwy])|\$__(?:rate_)?interval)(?::(?:\d+[smhd])?)?\])
    |(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)
    |(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
    |(?P<operator>=~|!~|!=|==|>=|<=|[-+*/%^<>=])
    |(?P<bracket>[(){},])""",
    re.VERBOSE,
)
AGGREGATIONS = {"sum", "min", "max", "avg", "count", "topk", "bottomk", "quantile", "stddev", "group"}
FUNCTIONS = {"absent", "changes", "deriv", "rate", "increase", "time", "vector", "clamp_min", "label_values"}
MATCHING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
OPERATORS = {"and", "or", "unless", "bool"}


@dataclass(frozen=True)
class Selector:
    """A metric and the labels that select its series, with the literal or pattern of each."""

    metric: str
    labels: tuple[tuple[str, str, str], ...]  # name, operator, value


@dataclass(frozen=True)
class Expression:
    selectors: tuple[Selector, ...]
    grouped_by: frozenset[str]


def tokens(text: str) -> list[tuple[str, str]]:
    """(kind, text) of each token. Raises `ValueError` for anything that is no token."""
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"no PromQL at {at}: {text[at : at + 20]!r}")
        at = match.end()
        if match.lastgroup != "space":
            found.append((str(match.lastgroup), match[0]))
    return found


def parse(text: str) -> Expression:
    """Every selector and every label that is grouped or matched by. Raises `ValueError` for what it does not know."""
    rest = iter([*tokens(text), ("end", "")])
    selectors: list[Selector] = []
    grouped: set[str] = set()
    depth = 0
    kind, word = next(rest)
    while kind != "end":
        following = next(rest)
        if kind == "name" and word in MATCHING:
            grouped |= set(_labels(following, rest))
            following = next(rest)
        elif kind == "name" and word in AGGREGATIONS | FUNCTIONS:
            if following[1] not in ("(", "by", "without"):
                raise ValueError(f"{word} without its arguments in {text!r}")
        elif kind == "name" and word not in OPERATORS:
            matchers: tuple[tuple[str, str, str], ...] = ()
            if following[1] == "{":
                matchers = tuple(_matchers(rest))
                following = next(rest)
            if following[1] == "(":
                raise ValueError(f"unknown function {word} in {text!r}")
            selectors.append(Selector(word, matchers))
        elif word in "({":
            depth += 1
        elif word in ")}" and kind == "bracket":
            depth -= 1
        if depth < 0:
            raise ValueError(f"a bracket too many in {text!r}")
        kind, word = following
    if depth:
        raise ValueError(f"a bracket is not closed in {text!r}")
    return Expression(tuple(selectors), frozenset(grouped))


def _labels(opening: tuple[str, str], rest: Iterator[tuple[str, str]]) -> Iterator[str]:
    if opening[1] != "(":
        raise ValueError("labels are in round brackets")
    while (token := next(rest))[1] != ")":
        if token[0] == "name":
            yield token[1]
        elif token[1] != ",":
            raise ValueError(f"{token[1]!r} is no label")


def _matchers(rest: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    while True:
        kind, name = next(rest)
        if name == "}":
            return
        operator, value = next(rest)[1], next(rest)
        if kind != "name" or operator not in ("=", "=~", "!=", "!~") or value[0] != "string":
            raise ValueError(f"{name}{operator}{value[1]} selects no label")
        yield name, operator, value[1][1:-1]
        separator = next(rest)[1]
        if separator == "}":
            return
        if separator != ",":
            raise ValueError(f"{separator!r} between two labels")


def alternatives(operator: str, pattern: str) -> list[str]:
    """What a label is compared with, one by one: the names of `A|B|C`."""
    return pattern.split("|") if operator in ("=~", "!~") else [pattern]
