"""Which value of a parameter may be written down: parameters are in the executed notebook, `run.json`, and schedules.

Rules: a reference may, `${env:NAME}` or `${file:/path:key}` (or `env:NAME` and `file:/path`, where the notebook itself reads
those), and so may what the notebook has as its default. Any other value may not where the parameter's name is that of a secret,
where the value has the form of a credential, or where it is an address of HTTP with more than a host: the path of a webhook is
a secret. An error quotes nothing of a value.
Not for: parameters that steps of a drill take for a secret (`drlib.runbook.run_parameters`), types (`parameters`).
"""

import re
from typing import Final

from drlib.drill.step import secret_arguments
from drlib.errors import UsageError
from drlib.kafka.java_formats import references
from drlib.outgoing import credentials, http_request

_NAMED: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/[^\s=]+")
_HTTP: Final = re.compile(r"https?://", re.IGNORECASE)


def is_reference(text: str) -> bool:
    """Whether `text` is made of references, with at most a login scheme before them, such as Bearer."""
    if _NAMED.fullmatch(text):
        return True
    return references.refers(text) and secret_arguments.content(text.strip()) == text.strip()


def refuse_secret(name: str, value: object, default: object = None) -> None:
    """Raises `UsageError` where `value` of the parameter `name` may not be written down. `default`: the notebook's own."""
    if not isinstance(value, str) or not value or is_reference(value) or value == default:
        return
    form = credentials.form_of(value)
    if form:
        raise refused(name, f"it looks like a secret: {form}")
    if credentials.names_secret(name):
        raise refused(name, "it looks like a secret by its name")
    if _HTTP.match(value.strip()) and not _host_only(value.strip()):
        raise refused(name, "it looks like a secret: an address with more than a host, as that of a webhook")


def refused(name: str, why: str) -> UsageError:
    """For the parameter `name`, which may be a reference only."""
    return UsageError(
        f"parameter {name}",
        f"{why}, and parameters are written into the executed notebook",
        "Give a reference, which is resolved where it is needed: ${env:NAME} or ${file:/PATH:KEY}.",
    )


def _host_only(url: str) -> bool:
    try:
        return http_request.parse(url).target == "/" and "#" not in url
    except http_request.NotAnAddress:
        return False
