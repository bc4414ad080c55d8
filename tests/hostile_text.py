"""Text as it may come from outside: names of topics and groups, messages of brokers, values of files."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = {
    "escape sequence": "\x1b[2J\x1b[31mred",
    "C1 control": "\x9b31mred",
    "operating system command": "\x1b]0;title\x07",
    "line feed": "first\nsecond",
    "carriage return": "shown\rhidden",
    "next line": "first\x85second",
    "line separator": "first\u2028second",
    "paragraph separator": "first\u2029second",
    "tab and form feed": "a\tb\x0cc",
    "backspace": "abc\b\b\bxyz",
    "null": "a\0b",
    "right to left override": "orders\u202egpj.exe",
    "isolate": "\u2066orders\u2069",
    "zero width": "or\u200bders",
    "byte order mark": "\ufefforders",
    "tag character": "orders\U000e0041",
    "lone surrogate": "orders\ud800",
    "closing markup": "foo[/red]",
    "opening markup": "[bold red]foo",
    "markup link": "[link=file:///etc/passwd]foo[/link]",
    "emoji code": ":warning: foo",
    "format field": "{0} %s $HOME",
    "quotes": "say \"no\" or 'yes' or \\",
    "logfmt field": 'a level=debug detail="forged"',
    "HTML element": "<img src=x onerror=alert(1)>foo<a href='https://elsewhere.example'>bar</a>",
    "HTML end": "</td></table></script></style>--><script>alert(1)</script>",
    "HTML attribute": "' onmouseover='alert(1)' x=\" onfocus=\"alert(2)\" autofocus",
    "HTML entity": "&lt;b&gt; &#60;i&#62; &amp;",
    "template": "{{ 7 * 7 }} {% raw %} %{x} ${7*7}",
    "nothing": "",
}


class _Elements(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}", ()))

    def handle_comment(self, data: str) -> None:
        self.found.append(("!", ()))

    def handle_data(self, data: str) -> None:
        self.text += data


def elements(html: str) -> list[tuple[str, tuple[str, ...]]]:
    """The elements of a page in their order, with the names of their attributes: the same ones for any text in it."""
    return _Elements(html).found


def words(html: str) -> str:
    """The text of a page, as it is read."""
    return _Elements(html).text


def is_one_plain_line(text: str) -> bool:
    """Is it one line, without anything that a terminal obeys and no stream encodes?"""
    return len(text.splitlines()) <= 1 and text.isprintable() and text == text.encode().decode()
