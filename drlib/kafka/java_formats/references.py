"""Resolve `${env:NAME}` and `${file:/path:key}`: values kept outside the file.

Rules: a reference is resolved when its value is needed and not before; an error or `repr` shows the reference, never the
value. Source: Kafka's `EnvVarConfigProvider` and `FileConfigProvider`; `config.providers` need not be declared.
Not for: other providers; a value that needs one is refused.
"""

import os
import re
from typing import Final

from drlib.errors import UsageError
from drlib.kafka.java_formats import properties

_SECRET_KEY: Final = re.compile(
    r"password|passwd|passphrase|secret|token(?!\.endpoint)|jaas|credential|keystore\.key$|private", re.IGNORECASE
)
HIDDEN: Final = "[hidden]"
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}:]*)\}")


def is_secret(key: str) -> bool:
    """Whether a key of this name holds a secret."""
    return _SECRET_KEY.search(key) is not None


def shown(key: str, text: str) -> str:
    """`text` as it may be printed: references as written, the rest of a secret hidden."""
    if not is_secret(key):
        return text
    references = [match.group(0) for match in _REFERENCE.finditer(text)]
    plain = _REFERENCE.sub("", text).strip()
    return " ".join([*([HIDDEN] if plain else []), *references])


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
            return os.environ[key]
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
