"""What of an argument that may hold a secret is written down: in a plan, a journal, an error and a report.

Rules: an allow-list. Of an address its scheme, host and port; of a pair its name; of a value the references in it, as they are
written, and the name of a login scheme in front of them. The rest is `[hidden]`. What was hidden once stays as it is.
Not for: which arguments these are (the types in `argument_types`); what references stand for, which is never written.
"""

from collections.abc import Callable, Collection
from typing import Final

from drlib.kafka.java_formats import references
from drlib.outgoing import http_request

# Login schemes of HTTP (IANA's registry, and GenieKey of Opsgenie): words before a credential that are none themselves.
SCHEMES: Final = frozenset({"basic", "bearer", "digest", "geniekey", "negotiate", "token"})
PUBLIC_HEADERS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})
Value = str | int | float | bool | tuple[str, ...]


def address(value: Value) -> Value:
    """Host of a literal address, whose path may be the secret, as that of a chat tool's webhook is; else references."""
    return _each(value, lambda text: text and (http_request.shown(text) or references.hidden(text)))


def content(text: str) -> str:
    """A value: references, and a login scheme before them."""
    plain = references.without_references(text).strip()
    return text if not plain or (plain.lower() in SCHEMES and references.refers(text)) else references.hidden(text)


def pairs(sign: str, public: Collection[str] = ()) -> Callable[[Value], Value]:
    """For a list of `name` `sign` `value`; values of `public` names, in small letters, hold no secret."""

    def pair(text: str) -> str:
        name, between, value = text.partition(sign)
        if not between:
            return content(text)
        return f"{name}{sign}{value if name.strip().lower() in public else _after_blank(value)}"

    return lambda value: _each(value, pair)


def _after_blank(value: str) -> str:
    return value[: len(value) - len(value.lstrip())] + content(value.strip())


def _each(value: Value, kept: Callable[[str], str]) -> Value:
    if isinstance(value, tuple | list):
        return tuple(kept(text) if isinstance(text, str) else text for text in value)
    return kept(value) if isinstance(value, str) else value
