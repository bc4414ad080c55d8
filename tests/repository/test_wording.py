"""Words that texts of the product avoid, because they hide who does what.

A word in `WORDS` or a phrase in `PHRASES` fails with its place and what to write instead. `ALLOWED` has the uses that stay.
"""

from __future__ import annotations

import re
from pathlib import Path

from repository_root import ROOT

# Word -> what to write instead.
WORDS = {
    "anew": "again",
    "anybody": "any process, any client, anyone",
    "everybody": "every client, every principal",
    "hear": "receive, read",
    "heard": "received, reported",
    "hears": "receives, reads",
    "hence": "so",
    "lest": "so that ... not",
    "nobody": "no client, none, unknown",
    "somebody": "another client, an operator",
    "stood": "was",
    "thereby": "so",
    "told": "reported, stated",
    "upon": "on, when",
    "whoever": "the client that",
    "whosoever": "the client that",
}
PHRASES = {
    "as it was begun": "with the same parameters",
    "be told apart": "be distinguished",
    "cannot be told": "is unknown",
    "goes on": "continues",
    "in earnest": "really",
    "in vain": "say what fails",
    "it never ran": "drlib mirror has never run for ...",
    "it is not so": "say what does not hold",
    "it was not so": "say what did not happen",
    "left nothing standing": "undid everything",
    "look who": "find out which client",
    "nothing is claimed": "say which checks could not be made",
    "nothing of that name": "say what has no such name",
    "slip of the pen": "say what is unknown",
    "taken up": "resumed",
    "takes it up": "resumes it",
    "that could be seen": "say what was found",
    "there is none of that name": "say what has no such name",
    "what became of": "the result of",
    "verdict of its own": "a verdict",
    "was not heard": "is unknown",
    "what it comes to": "the result",
    "what it has to tell": "what it reports",
}
# (file, part of the line) that keeps a word: values and keys of stored formats, which do not change.
ALLOWED = (
    ("drlib/drill/actions/applications/pointer.py", 'NO_POINTER = "nobody"'),
    ("drlib/drill/scenarios/failover/clusters.py", '"told": alert'),
    ("drlib/training/academy/lessons/l1_offsets.py", 'f"stood{partition'),
)
GLOSSARY = ROOT / "docs" / "glossary.md"
FOLDERS = ("drlib", "docs", "notebooks", "runbooks")
FILES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
SUFFIXES = {".py", ".md", ".ipynb", ".yaml", ".j2", ".js", ".html"}
PATTERN = re.compile(rf"\b(?:{'|'.join(sorted(WORDS | PHRASES))})\b", re.IGNORECASE)


def texts() -> list[Path]:
    inside = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
    return [*inside, *(ROOT / name for name in FILES)]


def avoided(text: str) -> list[tuple[int, str]]:
    """Line number, from 1, and word of each use; a phrase may be broken by the end of a line."""
    joined = re.sub(r"\s", " ", text)
    return [(text.count("\n", 0, found.start()) + 1, found[0].lower()) for found in PATTERN.finditer(joined)]


def is_allowed(file: str, line: str) -> bool:
    return any(file == name and part in line for name, part in ALLOWED)


def test_texts_of_the_product_have_no_avoided_words() -> None:
    uses = []
    for path in texts():
        file, text = str(path.relative_to(ROOT)), path.read_text()
        lines = text.splitlines()
        uses += [
            f"{file}:{number}: {word!r}, write: {WORDS.get(word) or PHRASES[word]}"
            for number, word in avoided(text)
            if not is_allowed(file, lines[number - 1])
        ]
    assert uses == []


def test_allowed_words_are_still_in_their_files() -> None:
    assert [(file, part) for file, part in ALLOWED if part not in (ROOT / file).read_text()] == []


def test_avoided_words_are_found_in_any_case_and_across_lines() -> None:
    assert avoided("Nobody\nknows what became\nof a hearing") == [(1, "nobody"), (2, "what became of")]


def own_terms() -> list[str]:
    """The glossary's terms, without `run` and `hold`, which are everyday words as well."""
    return [term for term in re.findall(r'<a id="([a-z]+)">', GLOSSARY.read_text()) if term not in {"run", "hold"}]


def prose(page: Path) -> str:
    """A page without code, links, headings and the parts that other programs write."""
    text = re.sub(
        r"<!-- (?:folders|results).*?<!-- (?:end of folders|/results) -->", "", page.read_text(), flags=re.DOTALL
    )
    text = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)
    return "\n".join(line for line in text.splitlines() if not line.startswith(("#", "    ")))


def test_docs_pages_link_our_terms_to_the_glossary() -> None:
    unlinked = [
        f"{page.name}: link {term} as [{term}](glossary.md#{term})"
        for page in sorted((ROOT / "docs").glob("*.md"))
        for term in own_terms()
        if page != GLOSSARY
        and re.search(rf"\b{term}s?\b", prose(page), re.IGNORECASE)
        and f"glossary.md#{term}" not in page.read_text()
    ]
    assert unlinked == []
