"""The value of a formula such as `\\sqrt{2}`, `3π` or `2^10`, read by math-verify.

Only short products of numbers, roots, powers and fractions are read: a sum may be a range, and a power of powers may take
for ever.
"""

import logging
import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache

LONGEST = 60
_FORMULA = re.compile(
    r"-?(?:\d{1,9}(?:\.\d{1,9})?|\\d?frac|\\sqrt|sqrt|√|π|\\?pi\b|\^\s?\{?\s?-?\d{1,2}(?![\d.])\s?\}?|\\left|\\right"
    r"|[\s(){}*/·×])+"
)
_ADVANCED = re.compile(r"sqrt|√|π|pi\b|\^|frac")
_AS_LATEX = (
    (re.compile(r"\\?sqrt\s?\(([^()]{1,40})\)"), r"\\sqrt{\1}"),
    (re.compile(r"√\s?(?:\(([^()]{1,40})\)|(\d+(?:\.\d+)?))"), lambda m: f"\\sqrt{{{m[1] or m[2]}}}"),
    (re.compile(r"π|\\?\bpi\b"), r"\\pi "),
    (re.compile(r"[·×*]"), r"\\cdot "),
)


@lru_cache(maxsize=1024)
def value_of(text: str) -> Decimal | None:
    """Return the value of a text that is a formula as a whole, to 15 digits, or None."""
    plain = text.strip(" ;:,$").rstrip(".")
    if len(plain) > LONGEST or not _ADVANCED.search(plain) or not _FORMULA.fullmatch(plain):
        return None
    if plain.count("^") > 1:
        return None
    from math_verify import LatexExtractionConfig, parse

    # Its messages repeat the text that it is given.
    for name in ("math_verify", "latex2sympy2_extended"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    for pattern, latex in _AS_LATEX:
        plain = pattern.sub(latex, plain)
    found = parse(f"${plain}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None)
    try:
        value = found[0].evalf(15)
        return Decimal(str(value)) if value.is_real and value.is_finite else None
    except (IndexError, AttributeError, InvalidOperation, ValueError):
        return None
