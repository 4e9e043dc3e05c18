"""Java's regular expressions, compiled by Python: the common syntax, and a few translated constructs.

A pattern that Python would read in another way than Java, or cannot read, is rejected.
"""

from __future__ import annotations

import re
import warnings

#: Pieces of a pattern: an escape; a class, in which a bracket or && has another meaning in Java; syntax of Python
#: alone, or that Java does not have; a named group; a dot.
_PIECE = re.compile(
    r"\\(?P<escaped>.)"
    r"|(?P<class>\[\^?\]?(?:\\.|[^\]\\\[&]|&(?!&))*\])"
    r"|(?P<refused>\[|\(\?[P(]|\{,)"
    r"|\(\?<(?P<named>(?=[A-Za-z]))"
    r"|(?P<point>\.)",
    re.DOTALL,
)
#: All characters except line terminators.
_POINT = r"[^\n\r\x85\u2028\u2029]"
#: Letters that have different meanings in Java and Python after a backslash.
_OTHER_MEANING = frozenset("vZ")


def compile_java(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern; letters, digits and blanks are those of ASCII.

    Raises ValueError if it cannot be compiled as in Java.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)  # syntax whose meaning may change in Python, to that of Java
        try:
            return re.compile(_PIECE.sub(_in_python, pattern), re.ASCII)
        except (re.error, OverflowError, RecursionError, FutureWarning) as error:
            raise ValueError(str(error)) from None


def _in_python(piece: re.Match[str]) -> str:
    """Return a piece in Python's syntax. Raises ValueError."""
    if piece["refused"] is not None or piece["escaped"] in _OTHER_MEANING:
        raise ValueError(f"{piece[0]!r} at position {piece.start()} is not supported")
    if piece["named"] is not None:
        return "(?P<"
    return _POINT if piece["point"] is not None else piece[0]
