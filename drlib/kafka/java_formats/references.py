"""Resolve `${env:NAME}` and `${file:/path:key}`: values kept outside the file.

Rules: a reference is resolved when its value is needed and not before; an error or `repr` shows the reference, never the
value. Source: Kafka's `EnvVarConfigProvider` and `FileConfigProvider`; `config.providers` need not be declared.
Not for: other providers; a value that needs one is refused. Which keys hold a secret (`drlib.config.shown`).
"""

import os
import re
from typing import Final

from drlib.errors import UsageError
from drlib.kafka.java_formats import properties

HIDDEN: Final = "[hidden]"
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}:]*)\}")


def hidden(text: str) -> str:
    """A secret `text` as it may be printed: references as written, the rest hidden."""
    references = [match.group(0) for match in _REFERENCE.finditer(text)]
    return " ".join([*([HIDDEN] if without_references(text).strip() else []), *references])


def without_references(text: str) -> str:
    """What of `text` is written out."""
    return _REFERENCE.sub("", text)


def only_references(text: str) -> bool:
    """Whether `text` is made of references alone."""
    return refers(text) and not without_references(text).strip()


def resolve(text: str, where: str) -> str:
    """`text` with every reference replaced. `where` is the file and line that a `UsageError` names."""
    return _REFERENCE.sub(lambda match: _resolve_one(match, where), text)


def values(text: str, where: str) -> tuple[str, ...]:
    """The values of the references in `text`, to be hidden wherever they appear. Raises `UsageError`."""
    return tuple(_resolve_one(match, where) for match in _REFERENCE.finditer(text))


def refers(text: str) -> bool:
    """Whether `text` holds a reference."""
    return _REFERENCE.search(text) is not None


def _resolve_one(match: re.Match[str], where: str) -> str:
    reference, provider, path, key = match.group(0), match.group(1), match.group(2), match.group(3)
    if provider == "env" and not path:
        if key in os.environ:
            return _utf8(os.environ[key], reference, where)
        raise UsageError(
            f"{where}: {reference} has no value",
            f"the environment variable {key} is not set",
            f"Export {key}, then run the command again.",
        )
    if provider == "file" and path:
        entry = properties.read(path).effective().get(key)
        if entry is not None:
            return entry.value
        raise UsageError(f"{where}: {reference} has no value", f"{path} has no key {key}", f"Add {key} to that file.")
    raise UsageError(
        f"{where}: {reference} cannot be resolved",
        f"drlib has no provider {provider} of this form",
        "Use ${env:NAME} or ${file:/path:key}.",
    )


def _utf8(value: str, reference: str, where: str) -> str:
    """The value of an environment variable, which may hold any bytes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{where}: {reference} cannot be used", "its value is not UTF-8", "Export it again as UTF-8."
        ) from None
    return value
