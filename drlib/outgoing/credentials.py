"""What is recognised as a credential by its name or its form, so that it is refused where it would be written down.

Rules: this is a second look at values that are allowed already, such as parameters that a notebook declares: it says what a
text looks like and quotes nothing of it. References (`${env:NAME}`) are not looked at.
Not for: deciding what may leave the process. That is an allow-list at each boundary, as a form that is not known here passes.
"""

import re
from typing import Final

# Words of a name, such as the parts of `pager_auth` or `apiKey`.
_WORDS: Final = frozenset(
    word
    for line in (
        "apikey auth authorization bearer cookie cookies credential credentials dsn hmac jaas jwt login oauth otp passcode",
        "passphrase passwd password privatekey pwd salt sas secret sig signature token tokens webhook webhooks",
    )
    for word in line.split()
)
_LAST: Final = frozenset({"creds", "pass", "pin", "pw"})  # secret at the end of a name
_PLACES: Final = frozenset(
    {"dir", "directory", "file", "folder", "location", "path"}
)  # where it is, as in `password_file`
_KEY: Final = r"(?:access|account|api|encryption|integration|private|routing|service|shared|signing|storage)[_.-]?key"
_INSIDE: Final = re.compile(rf"password|passwd|secret|credential|jaas|{_KEY}", re.IGNORECASE)
# A reference, and the login scheme before it.
_REFERENCE: Final = re.compile(
    r"(?:\b(?:basic|bearer|digest|geniekey|negotiate|token) )?\$\{(?:env|file):[^}]*\}", re.IGNORECASE
)
_TERM: Final = (
    rf"(?:[\w.-]*(?:password|passwd|passphrase|secret|token|credentials?|{_KEY})"
    r"|-{0,2}(?:pwd|auth|authorization|sig|signature|cookie))"
)
NAMED: Final = "a named secret"
# What it looks like, and how that is recognised.
_FORMS: Final = (
    ("a private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY")),
    ("an address with a login", re.compile(r"://:*[^/\s@:][^/\s@]*@")),
    ("a login", re.compile(r"^\s*(basic|bearer|digest|geniekey|negotiate|token)\s+\S+\s*$", re.IGNORECASE)),
    ("a login", re.compile(r"\b(bearer|basic|geniekey)\s+(?=\S*\d)[\w.~+/=-]{8,}", re.IGNORECASE)),
    (NAMED, re.compile(rf"(?<![\w.-]){_TERM}[\"']?\s*[=:]\s*[\"']?[^\s\"'&]", re.IGNORECASE)),
    ("a token", re.compile(r"\beyJ[\w-]{8,}\.[\w-]+")),
    (
        "a token",
        re.compile(
            r"\b((AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|"
            r"glpat-[\w-]{16,}|hv[sb]\.[\w-]{16,}|npm_\w{30,}|pypi-[\w-]{30,}|[sr]k_(live|test)_\w{16,}|sk-(ant|live|proj)-[\w-]{8,}|"
            r"dop_v1_\w{16,}|SG\.[\w-]{16,}|shp(at|ss)_\w{16,})"
        ),
    ),
    (
        "the address of a webhook",
        re.compile(
            r"https?://\S{0,500}(/services/T|/web-?hooks?/|webhookb2/|/bot\d+:|/hooks/|/incoming|hooks\.slack\.com/.|"
            r"/integration/[\w-]{16,}|/v2/enqueue|chat\.googleapis\.com/v1/spaces/)",
            re.IGNORECASE,
        ),
    ),
)


def form_of(text: str) -> str:
    """What credential `text` looks like, such as "a private key"; "" for none."""
    plain = _REFERENCE.sub("", text)
    return next((form for form, pattern in _FORMS if pattern.search(plain)), "")


def names_secret(name: str) -> bool:
    """Whether a value of this `name` is likely a secret: `pager_auth`, `apiKey`, `slackWebhookUrl`."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]
    if words[-1:] and words[-1] in _PLACES:
        return False
    return bool(_INSIDE.search(name) or _WORDS.intersection(words) or (words[-1:] and words[-1] in _LAST))
