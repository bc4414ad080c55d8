"""Findings about certificates: have bootstrap servers' the name of the address that clients keep (`drlib.clients.address`)?

Rules: a certificate without it is a warning, as clients that check host names refuse that server, on either cluster: the
source's matters again when applications come back. A server that was not compared is unknown. Without TLS there is nothing
to compare.
Not for: certificates of clients, and the brokers' own names, which every connection checks.
"""

from typing import Final

from drlib.drill.readiness.checks.objectives import AGAIN, Judgements, again, count, passed
from drlib.drill.readiness.checks.observations import AddressCertificates
from drlib.drill.readiness.score import Severity
from drlib.formats import first_few

REMEDY: Final = "Issue certificates that have it as a further subject alternative name. docs/clients.md#setting-it-up"


def certificates(found: AddressCertificates) -> Judgements:
    """Will clients that connect to the address accept every bootstrap server of both clusters?"""
    if not found.hosts:
        return passed("no address that clients keep is named (drlib.clients.address)")
    rows: Judgements = [(alias, Severity.UNKNOWN, f"not checked: {why}", again(why)) for alias, why in found.unasked]
    for alias, compared in found.compared.items():
        other = [f"{each.server} is not {each.host}" for each in compared if each.named is False]
        if other:
            rows.append((alias, Severity.WARN, f"clients will refuse certificates: {first_few(other)}", REMEDY))
        unknown = [f"{each.server}: {each.why}" for each in compared if each.named is None]
        if unknown:
            rows.append((alias, Severity.UNKNOWN, f"not checked: {first_few(unknown)}", AGAIN))
    if rows:
        return rows
    checked = sum(map(len, found.compared.values()))
    if not checked:
        return passed(f"{' and '.join(found.without_tls)} have no TLS, so no certificate")
    plain = f"; {', '.join(found.without_tls)} has no TLS" if found.without_tls else ""
    return passed(f"{count(checked, 'certificate')} compared, all have {first_few(found.hosts)}{plain}")
