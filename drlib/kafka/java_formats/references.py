"""`${env:NAME}` and `${file:/path:key}`: values kept outside the file.

Rules: looked up when a value is needed and not before; what was found is never part of an error or a `repr`, only the
reference is. Source: Kafka's `EnvVarConfigProvider` and `FileConfigProvider`; `config.providers` need not be declared.
Not for: other providers; a value that needs one is refused.
"""

from __future__ import annotations

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
    """Does a key of this name hold what nobody should read over a shoulder?"""
    return _SECRET_KEY.search(key) is not None


def shown(key: str, text: str) -> str:
    """`text` as it may be printed: references as they are written, whatever else a secret holds hidden."""
    if not is_secret(key):
        return text
    references = [found.group(0) for found in _REFERENCE.finditer(text)]
    rest = _REFERENCE.sub("", text).strip()
    return " ".join([*([HIDDEN] if rest else []), *references])


def resolve(text: str, where: str) -> str:
    """`text` with every reference replaced. `where` is the file and line that a `UsageError` names."""
    return _REFERENCE.sub(lambda found: _look_up(found, where), text)


def values(text: str, where: str) -> tuple[str, ...]:
    """What the references in `text` stand for: to be hidden wherever else it may turn up. Raises `UsageError`."""
    return tuple(_look_up(found, where) for found in _REFERENCE.finditer(text))


def refers(text: str) -> bool:
    """Does `text` hold a reference?"""
    return _REFERENCE.search(text) is not None


def _look_up(found: re.Match[str], where: str) -> str:
    reference, provider, path, key = found.group(0), found.group(1), found.group(2), found.group(3)
    if provider == "env" and not path:
        if key in os.environ:
            return os.environ[key]
        raise UsageError(
            f"{where}: {reference} has no value",
            f"the environment variable {key} is not set",
            f"Export {key} and run the command again.",
        )
    if provider == "file" and path:
        entry = properties.read(path).effective().get(key)
        if entry is not None:
            return entry.value
        raise UsageError(f"{where}: {reference} has no value", f"{path} holds no key {key}", f"Add {key} to that file.")
    raise UsageError(
        f"{where}: {reference} cannot be looked up",
        f"there is no provider {provider} of that form here",
        "Use ${env:NAME} or ${file:/path:key}.",
    )
