"""What is not text: code, addresses, placeholders, numbers. It passes through as it is."""

import re
from collections import Counter

Span = tuple[int, int]
"""Where a part of a text begins and ends."""

# Whatever must come out of a translation letter by letter.
_PROTECTED = re.compile(
    r"""
    (?:(?:https?|ftp|file)://|mailto:)[^\s<>"'“”„«»]+[^\s<>"'“”„«».,;:!?)\]}]   # addresses
    | \bwww\.[^\s<>"']+[^\s<>"'.,;:!?)\]}]
    | (?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+              # mail; looked for once a word
    | \{[a-z\d]{1,4}> | <[a-z\d]{1,4}\}                        # {1> and <1} around a text
    | <[a-zA-Z/][^<>\n]*>                                    # tags inside text
    | \$\$[^$\n]{1,400}\$\$                                  # formulas
    | \$(?=[^\s$])[^$\n]{0,200}?[\\^_=][^$\n]{0,200}(?<=\S)\$(?![\w$])
    | \{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal|choice)\s*,   # {n, plural, …}, whole
      (?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\}){0,200}+\}
    | [$%\#]?\{\{?\s?[\w.:%$\[\]-]*\s?\}?\}                    # {name} {0} ${name} {{ name }}
    | \{\d+,[^{}\n]{1,60}\}                                     # {0,date,short}
    | \{[\w.\[\]]*(?:![rsa])?(?::[^{}\s]{1,20})?\}              # {name!r} {0:>5}
    | \{%[^{}\n]*%\} | \{\{[<%][^{}\n]*[%>]\}\}              # {% tag %} {{< shortcode >}}
    | \{(?:\#[\w-]|:)[^{}\n]*\}                              # {#anchor} {: .class}
    | %\([\w.-]+\)[-+\#0]*\d*(?:\.\d+)?[diouxXeEfFgGcrs]     # %(name)s
    | %% | %n(?![^\W\d_]) | %L\d+                             # Qt
    | %(?:\d+\$)?[-+\#0*']*\d*(?:\.\d+)?(?:hh?|ll?|[jztL])?  # %s %1$d
      [diouxXeEfFgGcprsS@](?![^\W\d_])
    | %[A-Za-z_]\w*%                                         # %NAME%
    | %\d+(?![\d.,]*\w)                                      # %1
    | \$\([\w-]+\)                                           # $(name)
    | \$[A-Za-z_]\w*                                         # $name
    | (?<![\w)])(?:~|\.{1,2})?(?:/[\w.+-]+){2,64}(?<!\.)/?    # paths
    | (?<![\w./+-])[\w+-]+(?:/[\w+-]+){1,64}(?:/(?!\w)|\.[a-z]\w{0,5}\b)
    | \b[A-Za-z]:\\[\w.\\+-]+
    | (?<![\w-])--?[A-Za-z][\w-]+(?==)                       # --option=
    """,
    re.VERBOSE,
)

# None of them is without one of these, and it takes a twentieth of the time to see that there is
# none.
_SIGN = re.compile(r"[<{%$/\\@=]|www\.|mailto:")


def find_protected(text: str) -> list[Span]:
    """The parts of a text that a translation must have as they are, in their order."""
    return [match.span() for match in _PROTECTED.finditer(text)] if _SIGN.search(text) else []


def is_text(text: str) -> bool:
    """Whether there is anything to translate: a letter outside what is protected."""
    rest = _PROTECTED.sub("", text) if _SIGN.search(text) else text
    return any(character.isalpha() for character in rest)


def missing_protected(text: str, translation: str) -> list[Span]:
    """The protected parts of a text that its translation does not have, or not often enough."""
    missing: list[Span] = []
    found = Counter(translation[start:end] for start, end in find_protected(translation))
    for start, end in find_protected(text):
        part = text[start:end]
        found[part] -= 1
        if found[part] < 0:
            missing.append((start, end))
    return missing
