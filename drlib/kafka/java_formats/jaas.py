"""Parse the value of `sasl.jaas.config`: one login module with its options.

Rules: the grammar is that of Kafka's own `JaasConfig` (Java's StreamTokenizer: two kinds of quotes, backslash escapes,
`//`, `/* */` and `/` comments); errors quote nothing of it, as a password may be anywhere in it.
Not for: what the options of a module mean (`drlib.kafka.security.java_keys`), JAAS files.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from drlib.errors import UsageError

EXAMPLE: Final = (
    "Write org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="..." password="${env:KAFKA_PASSWORD}";'
)
_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_TOKEN: Final = re.compile(
    r"""(?P<space>[\x00-\x20]+|//[^\n]*|/\*.*?\*/|/[^\n]*)"""
    r"""|(?P<sign>[;=])"""
    r"""|"(?P<double>(?:[^"\\\n]|\\.)*)\""""
    r"""|'(?P<single>(?:[^'\\\n]|\\.)*)'"""
    r"""|(?P<word>[^\x00-\x20;="'/]+)""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_LETTERS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """`options` hold secrets and are in no `repr`."""

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse(text: str, where: str) -> LoginModule:
    """The one module in `text`. Raises `UsageError` that names `where`, such as `LEFT.sasl.jaas.config`."""
    tokens = list(_tokens(text, where))
    signs = [kind for kind, _ in tokens]
    if signs[:2] != ["word", "word"]:
        _refuse(where, "it does not begin with a login module and a control flag")
    (_, name), (_, flag) = tokens[:2]
    if flag.upper() not in _FLAGS:
        _refuse(where, "the control flag after the login module is not required, requisite, sufficient or optional")
    options: dict[str, str] = {}
    at = 2
    while at < len(tokens) and tokens[at] != ("sign", ";"):
        if signs[at] != "word" or tokens[at + 1 : at + 2] != [("sign", "=")] or signs[at + 2 : at + 3] != ["word"]:
            _refuse(where, "its options are not name=value pairs; a value with special characters needs quotes")
        options[tokens[at][1]] = tokens[at + 2][1]
        at += 3
    if at == len(tokens):
        _refuse(where, "it does not end with a semicolon")
    if at + 1 < len(tokens):
        _refuse(where, "it holds more than one login module")
    return LoginModule(name, options)


def _tokens(text: str, where: str) -> Iterator[tuple[str, str]]:
    """("word" or "sign", text), quotes and escapes removed."""
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            _refuse(where, "a quote is not closed")
        at = token.end()
        if token["sign"] is not None:
            yield "sign", token["sign"]
        elif token["space"] is None:
            quoted = token["double"] if token["double"] is not None else token["single"]
            yield "word", token["word"] if quoted is None else _ESCAPE.sub(_unescaped, quoted)


def _unescaped(escape: re.Match[str]) -> str:
    text = escape[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _LETTERS.get(text, text)


def _refuse(where: str, why: str) -> NoReturn:
    raise UsageError(f"{where} cannot be read", why, EXAMPLE)
