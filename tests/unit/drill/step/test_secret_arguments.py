"""Of arguments that may hold a secret, plans have hosts, names and references."""

from __future__ import annotations

import pytest

from drlib.drill.step import secret_arguments

CANARY = "c4n4ry"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        (f"https://hooks.slack.com/services/T/B/{CANARY}", "https://hooks.slack.com"),
        (f"https://h:8443/{CANARY}?key={CANARY}#{CANARY}", "https://h:8443"),
        (f"https://me:{CANARY}@h/", "[hidden]"),
        (f"HTTPS://[::1]:1/{CANARY}", "https://[::1]:1"),
        (f"https://h/${{env:HOOK}}{CANARY}", "https://h"),
        (f"{CANARY}", "[hidden]"),
        (f"ftp://h/{CANARY}", "[hidden]"),
        ("${env:HOOK}", "${env:HOOK}"),
        ("${file:/run/x:hook}", "${file:/run/x:hook}"),
        (f"{CANARY}${{env:HOOK}}", "[hidden] ${env:HOOK}"),
        ("", ""),
        (7, 7),
    ],
)
def test_address_is_kept_as_host_or_references(url: str | int, kept: str | int) -> None:
    assert secret_arguments.address(url) == kept
    assert secret_arguments.address(kept) == kept


@pytest.mark.parametrize(
    ("sign", "given", "kept"),
    [
        ("=", f"TOKEN={CANARY}", "TOKEN=[hidden]"),
        ("=", f"TOKEN={CANARY}=${{env:T}}", "TOKEN=[hidden] ${env:T}"),
        ("=", "KUBECONFIG=${env:KUBECONFIG}", "KUBECONFIG=${env:KUBECONFIG}"),
        ("=", "EMPTY=", "EMPTY="),
        ("=", CANARY, "[hidden]"),
        (":", f"X-Key: {CANARY}", "X-Key: [hidden]"),
        (":", f"X-Key:{CANARY}:{CANARY}", "X-Key:[hidden]"),
        (":", "Authorization: Bearer ${env:T}", "Authorization: Bearer ${env:T}"),
        (":", f"Authorization: Bearer {CANARY}", "Authorization: [hidden]"),
        (":", "Authorization: bearer", "Authorization: [hidden]"),
        (":", "Content-Type: text/plain", "Content-Type: text/plain"),
        (":", f"Content-Types: {CANARY}", "Content-Types: [hidden]"),
    ],
)
def test_pair_is_kept_as_name_and_references(sign: str, given: str, kept: str) -> None:
    keep = secret_arguments.pairs(sign, secret_arguments.PUBLIC_HEADERS)
    assert keep((given, given)) == (kept, kept)
    assert keep(given) == kept
    assert keep(kept) == kept
