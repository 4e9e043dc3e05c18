"""Regular expressions as Java reads them, by Python's: what both have alike, and a few things put into Python's words.

What Python would read in another way than Java is refused, and so is what it does not read at all.
"""

from __future__ import annotations

import re
import warnings

#: Of a pattern: what is escaped; a class, in which a bracket or && would mean more in Java; what is Python's alone, or
#: not read by Java; a named group; a point.
_PIECE = re.compile(
    r"\\(?P<escaped>.)"
    r"|(?P<class>\[\^?\]?(?:\\.|[^\]\\\[&]|&(?!&))*\])"
    r"|(?P<refused>\[|\(\?[P(]|\{,)"
    r"|\(\?<(?P<named>(?=[A-Za-z]))"
    r"|(?P<point>\.)",
    re.DOTALL,
)
#: All but the ends of lines.
_POINT = r"[^\n\r\x85\u2028\u2029]"
#: Letters that mean one thing to Java behind a backslash, and another one to Python.
_OTHER_MEANING = frozenset("vZ")


def compile_java(pattern: str) -> re.Pattern[str]:
    """The pattern; letters, digits and blanks are ASCII's. ValueError: it cannot be read, or not as Java does."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)  # of what Python may read in another way one day, and Java does
        try:
            return re.compile(_PIECE.sub(_in_python, pattern), re.ASCII)
        except (re.error, OverflowError, RecursionError, FutureWarning) as error:
            raise ValueError(str(error)) from None


def _in_python(piece: re.Match[str]) -> str:
    """Raises ValueError."""
    if piece["refused"] is not None or piece["escaped"] in _OTHER_MEANING:
        raise ValueError(f"{piece[0]!r} at position {piece.start()} is not read here")
    if piece["named"] is not None:
        return "(?P<"
    return _POINT if piece["point"] is not None else piece[0]
