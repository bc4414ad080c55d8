"""Text as it may come from outside: names of topics and groups, messages of brokers, values of files."""

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
    "nothing": "",
}


def is_one_plain_line(text: str) -> bool:
    """Is it one line, without anything that a terminal obeys and no stream encodes?"""
    return len(text.splitlines()) <= 1 and text.isprintable() and text == text.encode().decode()
