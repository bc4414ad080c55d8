"""Resolve `${env:NAME}`, `${file:/path:key}` and `${directory:/path:file}`: values kept outside the file.

Rules: a reference is resolved when its value is needed and not before; an error or `repr` shows the reference, never the
value. `config.providers` need not be declared; a file that gives Kafka's providers other names is read with its names.
Source: Kafka's `EnvVarConfigProvider`, `FileConfigProvider` and `DirectoryConfigProvider`.
Not for: other providers; a value that needs one is refused. Which keys hold a secret (`drlib.config.shown`).
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from drlib.errors import UsageError
from drlib.files import read_given_bytes
from drlib.kafka.java_formats import properties
from drlib.kafka.java_formats.properties import PropertiesFile

HIDDEN: Final = "[hidden]"
MOST_VALUE: Final = 1 << 20  # bytes of a file that is one value, as a key store in PEM may be
_CLASSES: Final = {
    f"org.apache.kafka.common.config.provider.{name}ConfigProvider": provider
    for name, provider in (("EnvVar", "env"), ("File", "file"), ("Directory", "directory"))
}


@dataclass(frozen=True, slots=True)
class _Reference:
    """`text[start:end]` is `${provider:key}` or `${provider:path:key}`; `path` is empty in the first."""

    start: int
    end: int
    provider: str
    path: str
    key: str


def _references(text: str) -> Iterator[_Reference]:
    """In one pass, whatever the text. Source: `ConfigTransformer.DEFAULT_PATTERN`, a pattern whose time is quadratic."""
    begun = 0
    while (end := text.find("}", begun)) >= 0:
        start = text.find("${", begun, end)
        provider, colon, rest = text[start + 2 : end].partition(":") if start >= 0 else ("", "", "")
        if colon:
            path, _, key = rest.rpartition(":")
            yield _Reference(start, end + 1, provider, path, key)
        begun = end + 1


def as_declared(file: PropertiesFile) -> PropertiesFile:
    """With drlib's names of the providers that the file declares under others (`config.providers.NAME.class`)."""
    declared = {
        key.removeprefix("config.providers.").removesuffix(".class"): _CLASSES[entry.value.strip()]
        for key, entry in file.effective().items()
        if key.startswith("config.providers.") and key.endswith(".class") and entry.value.strip() in _CLASSES
    }
    if all(name == provider for name, provider in declared.items()):
        return file

    def renamed(found: _Reference) -> str:
        parts = (declared.get(found.provider, found.provider), *([found.path] if found.path else []), found.key)
        return f"${{{':'.join(parts)}}}"

    return replace(file, entries=tuple(replace(e, value=_replaced(e.value, renamed)) for e in file.entries))


def hidden(text: str) -> str:
    """A secret `text` as it may be printed: references as written, the rest hidden."""
    references = [text[found.start : found.end] for found in _references(text)]
    return " ".join([*([HIDDEN] if without_references(text).strip() else []), *references])


def without_references(text: str) -> str:
    """What of `text` is written out."""
    return _replaced(text, lambda _: "")


def only_references(text: str) -> bool:
    """Whether `text` is made of references alone."""
    return refers(text) and not without_references(text).strip()


def resolve(text: str, where: str) -> str:
    """`text` with every reference replaced. `where` is the file and line that a `UsageError` names."""
    return _replaced(text, lambda found: _resolve_one(text, found, where))


def values(text: str, where: str) -> tuple[str, ...]:
    """The values of the references in `text`, to be hidden wherever they appear. Raises `UsageError`."""
    return tuple(_resolve_one(text, found, where) for found in _references(text))


def refers(text: str) -> bool:
    """Whether `text` holds a reference."""
    return next(_references(text), None) is not None


def declared_text(file: PropertiesFile) -> str:
    """All values of a file, with drlib's names of the providers."""
    return "\n".join(entry.value for entry in as_declared(file).effective().values())


def variables(text: str) -> tuple[str, ...]:
    """The variables of the environment that `text` refers to, by name."""
    return tuple(sorted({found.key for found in _references(text) if found.provider == "env" and not found.path}))


def _replaced(text: str, replacement: Callable[[_Reference], str]) -> str:
    parts, end = [], 0
    for found in _references(text):
        parts += [text[end : found.start], replacement(found)]
        end = found.end
    return "".join([*parts, text[end:]])


def _resolve_one(text: str, found: _Reference, where: str) -> str:
    reference, provider, path, key = text[found.start : found.end], found.provider, found.path, found.key
    if provider == "env" and not path:
        if key in os.environ:
            return _utf8(os.environ[key], reference, where)
        raise UsageError(
            f"{where}: {reference} has no value",
            f"the environment variable {key} is not set",
            f"Export {key}, then run the command again.",
        )
    if provider == "file" and path:
        try:
            entry = properties.read(path).effective().get(key)
        except UsageError as error:
            raise UsageError(
                f"{where}: {reference} has no value",
                f"{error.what}: {error.why}",
                f"Write {key} to {path}, in the form of Java's .properties files.",
            ) from None
        if entry is not None:
            return entry.value
        raise UsageError(f"{where}: {reference} has no value", f"{path} has no key {key}", f"Add {key} to that file.")
    if provider == "directory" and path and Path(key).name == key:
        try:
            return read_given_bytes(Path(path) / key, MOST_VALUE).decode()
        except (OSError, UnicodeDecodeError) as error:
            why = "its content is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error.strerror)
            raise UsageError(
                f"{where}: {reference} has no value", f"{path}/{key}: {why}", f"Write the value to {path}/{key}."
            ) from None
    raise UsageError(
        f"{where}: {reference} cannot be resolved",
        f"drlib has no provider {provider} of this form",
        "Use ${env:NAME}, ${file:/path:key} or ${directory:/path:file}.",
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
