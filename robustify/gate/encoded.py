"""Detection of encoded content in text: base64, hex and the like, arrays of bytes, token lists, hidden characters.

Short runs are decoded and read. A run of more than 160 characters is refused unless it is an acceptable image. Decoding
it would not help, because its content may be encoded again, packed or encrypted. A run is recognised by its lack of
words: `getElementById` and `python3` read as words, but most pieces of base64 do not. Line breaks, quotes and punctuation
do not end a run, but a word does.
"""

import base64
import binascii
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

from robustify.gate.opaque import image_fault, kind_of
from robustify.texts import INVISIBLE, ZERO_WIDTH

MOST = 160
"""Maximum length of a run that is decoded. Longer runs are refused. The longest digest, SHA-512 in hex, has 128
characters."""
Hidden = tuple[int, str, str | None]
"""Offset and name of hidden content, and its text. The text is None for content that must be refused."""
_LEAST = 40
"""Minimum number of characters in a run that is decoded. Eight words of text take about 60."""
_STRONG = 16
"""Minimum number of characters in a piece that starts a run. Shorter pieces must be many, with few words between them."""
_TOKEN = re.compile(r"[A-Za-z0-9+/_=-]+")
_PART = re.compile(r"[A-Za-z0-9]+")
_HUMP = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_NUMBERED = re.compile(
    r"[A-Za-z]{2,}\d{1,4}|0[xX][0-9a-fA-F]{1,16}[uUlL]*|0[bBoO][0-7]+|\d+[A-Za-z]{1,3}|[0-9a-f]{1,14}p"
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
_HUMP_SIZE, _LONG_HUMP_SIZE = 2.6, 3.4
"""Maximum mean length of a hump (as in camelHump) in encoded text, and in long encoded text. The mean is about 2 in
base64 and hex, and at least 4 in names."""
_LONGEST_WORD, _LONGEST_NAME = 25, 60
_REPEATED = re.compile(r"(.)\1{3,}")
_SHORT_ESCAPE = re.compile(
    r"\\(?:[nrt]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|%[0-9a-fA-F]{2}|#(?:[0-9a-fA-F]{3}){1,2}\b"
)
"""Colours, and escapes, whose readings are scanned separately."""
_HEX_ONLY = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_HEX = re.compile(r"(?:0x)?(?:[0-9a-f]{2})+|(?:0x)?(?:[0-9A-F]{2})+")
_BASE32 = re.compile(r"[A-Z2-7]+|[a-z2-7]+")
_DENSE, _EVEN = 0.024, 0.032
"""Maximum probability that two characters of encoded lines, or of encoded pieces, are equal. The probability is 0.012 to
0.02 in base64 and ASCII85, and at least 0.03 in programs."""
_EDGES = " \t#>*|/\"'`,+;\\"
_BYTES = (
    (2, re.compile(r"(?:\b[01]{7,8}\b[\s,;]{0,20}){8,}")),
    (16, re.compile(r"(?:\\x[0-9a-fA-F]{2}){8,}")),
    (16, re.compile(r"(?:0x[0-9a-fA-F]{1,2}[\s,;]{1,20}){8,}(?:0x[0-9a-fA-F]{1,2})?")),
    (16, re.compile(r"\b(?:[0-9a-fA-F]{2}){1,8}(?:[\s:,\"'-]{1,8}(?:[0-9a-fA-F]{2}){1,8}){7,}\b")),
    (16, re.compile(r"(?:\\[0-9a-fA-F]{2,5} ){8,}")),
    *(
        (base, re.compile(r"\b(?:0o)?\d{1,5}(?:[\s,;&+()]{1,20}(?:0o|[A-Za-z]{1,7}\()?\d{1,5}){15,}\b"))
        for base in (10, 8)
    ),
)
"""Consecutive numbers, with their base."""
_DIGITS = {
    16: re.compile(r"(?:0x|\\x)?([0-9a-fA-F]+)"),
    10: re.compile(r"(\d+)"), 8: re.compile(r"([0-7]{2,4})\b"), 2: re.compile(r"([01]+)"),
}  # fmt: skip
_MARKS = (
    ("hidden characters", 1, 0, re.compile(f"{INVISIBLE.pattern}{{16,}}")),
    ("hidden characters between letters", 60, 1 << 30, re.compile(f"[!-~][{ZERO_WIDTH}]")),
    ("tokens of a tokenizer", 24, 400, re.compile("Ġ|▁|Ċ")),
    ("pieces of words", 8, 400, re.compile(r"[\s\"'\[]##(?=\w)|</w>")),
    ("tokens with log-probabilities", 16, 3000,
     re.compile(r"token[\"']:|log_?probs?[\"']?\s?[:=]|[\"']bytes[\"']:")),
    ("words with log-probabilities", 24, 2500,
     re.compile(r"-\d+\.\d+(?=[^\d]{1,60}?[A-Za-z]{2}[^\d]{0,60}?-\d+\.\d)")),
    ("a list of tokens", 24, 600, re.compile(r"[\"'] [A-Za-z]{1,12}[\"'](?=\s*[,\]):])")),
    ("a streamed reply", 12, 12_000, re.compile(r"^data: ?\{.{0,600}\"(?:delta|content|response|text|token)\"", re.M)),
    ("a uuencoded file", 1, 0, re.compile(r"^M[ -`]{60}\nM[ -`]{60}$", re.M)),
    ("a run of symbols", 1, 0, re.compile("(?:[\u2800-\u28ff]\\s?){60}|[\U0001f300-\U0001faff]{60}")),
    ("Morse code", 1, 0, re.compile(r"[.-]*(?:\.-|-\.)[.-]*[ /]{1,3}(?:[.-]{1,5}[ /]{1,3}){40}")),
    ("a run of binary digits", 1, 0, re.compile(r"[01]{320,}")),
    ("a packed file in escapes", 1, 0,
     re.compile("NUMPY[\x01-\x03]\0|ARROW1\0\0|[\x80\ufffd][\x04\x05][\x95\ufffd][^\0]{1,5}\0\0\0|(?:\x1f[\x8b\ufffd]\x08|PK\x03\x04|BZh91AY|\ufffd?7zXZ\0)"
                "(?:[^\0-\x08\x0e-\x1f\x7f-\xff\ufffd]{0,9}[\0-\x08\x0e-\x1f\x7f-\xff\ufffd]){20}")),
)  # fmt: skip
"""Content to refuse: name, minimum number of marks, and characters that contain them. Text split into tokens has many
marks."""


def hidden(text: str) -> Iterator[Hidden]:
    """Yield the decoded texts of short runs, and one entry for each type of content that must be refused."""
    for says, enough, within, mark in _MARKS:
        if text.isascii() and not mark.pattern.isascii():
            continue
        places = [match.start() for match in mark.finditer(text)]
        near = (a for a, b in zip(places, places[enough - 1 :], strict=False) if b - a <= within)
        yield from ((at, says, None) for at in [*near][:1])
    runs = list(_in_runs(_SHORT_ESCAPE.sub(lambda match: " " * len(match[0]), text)))
    yield from runs
    yield from [(at, "", "".join(inner or "" for _, _, inner in runs)) for at, _, _ in runs[:1]]
    yield from _in_numbers(text)
    yield from _in_lines(text)


def _in_runs(text: str) -> Iterator[Hidden]:
    """Yield the content of base64 and hex runs, even if they are split into pieces."""
    begin, pieces = 0, list[str]()
    weak, weak_begin, short = 0, 0, list[str]()
    for match in _TOKEN.finditer(text):
        size = _coded(match[0])
        if size >= _STRONG or (pieces and size >= 0):
            begin = begin if pieces else match.start()
            pieces.append(match[0])
        elif size < -2 and pieces:
            yield from _judged(begin, pieces, match[0])
            pieces = []
        if size < _STRONG and (weak or size > 0):
            weak_begin = weak_begin if weak else match.start()
            weak = max(weak + size, 0)
            short = short if weak else []
            short.append(match[0])
            if weak > MOST:
                run = "".join(short)
                if _is_varied(run) or any(_as_text(data) is not None for data in _decodings(run)):
                    yield weak_begin, "an encoded run in short pieces", None
                weak, short = 0, []
    yield from _judged(begin, pieces, "")


def _is_varied(run: str) -> bool:
    """Return whether a run is hex, or uses its characters as evenly as base64. Names repeat their letters."""
    return _HEX_ONLY.fullmatch(run) is not None or _repeat_probability(run) < _EVEN


def _repeat_probability(run: str) -> float:
    n = len(run)
    return sum(k * (k - 1) for k in Counter(run).values()) / (n * (n - 1))


@lru_cache(maxsize=1 << 16)
def _coded(token: str) -> int:
    """Return the number of encoded characters in a token, or a number below zero if the token consists of words."""
    words = coded = 0
    if _UUID.fullmatch(token):
        return 0
    for part in _PART.findall(token[:400]):
        if _is_code(part):
            coded += len(part)
        elif part.isalpha():
            words += len(_REPEATED.sub(r"\1", part))  # zeros are many As in base64
    return len(token) if coded > words else -words


def _is_code(part: str) -> bool:
    if len(part) > MOST or "AAAAA" in part:
        return len(set(part)) > 5
    part = _REPEATED.sub(r"\1", part)
    n, humps = len(part), _HUMP.findall(part)
    if n < 4 or _NUMBERED.fullmatch(part):
        return False
    if n >= _STRONG and _HEX_ONLY.fullmatch(part.removeprefix("0x")):
        return not part.isdigit()
    if n >= _STRONG and _BASE32.fullmatch(part) and sum(hump.isdigit() for hump in humps) >= 2:
        return True
    if n >= _LONGEST_WORD and len(humps) == 1 and part.isalpha():
        return len(set(part)) > 8
    return len(humps) >= 2 and n <= (_HUMP_SIZE if n < _LONGEST_NAME else _LONG_HUMP_SIZE) * len(humps)


def _judged(begin: int, pieces: list[str], following: str) -> Iterator[Hidden]:
    """Yield encoded content to scan or refuse. A short piece that reads as a word may belong to the end of the run."""
    run = "".join(pieces)
    if len(run) < _LEAST:
        return
    forms = (run, run + following, run[: len(run) - len(pieces[-1])])
    decoded = [data for form in forms if len(form) >= _LEAST for data in _decodings(form)]
    names = (
        max(map(len, pieces)) < _LEAST and not _is_varied(run) and all(_as_text(d) is None for d in decoded)
    )
    picture = any(data.startswith(b"\x89PNG") for data in decoded)
    if (picture or (len(run) > MOST and not names)) and all(map(image_fault, decoded)):
        yield begin, f"an encoded run of {len(run):,} characters", None
    for data in decoded if len(run) <= MOST else ():
        text = _as_text(data)
        if text is not None:
            yield begin, "", text
        elif _is_packed(data):
            yield begin, "an encoded run of packed bytes", None


def _decodings(run: str) -> Iterator[bytes]:
    """Yield the bytes of a run, decoded as hex, base64 and base32."""
    bare = run.replace("-", "+").replace("_", "/").replace("=", "")
    if _HEX.fullmatch(run):
        yield bytes.fromhex(run.removeprefix("0x"))
        return
    yield base64.b64decode(bare[: len(bare) - (len(bare) % 4 == 1)] + "=" * (-len(bare) % 4))
    with suppress(binascii.Error):
        yield base64.b32decode(bare.upper() + "=" * (-len(bare) % 8))


def _is_packed(data: bytes) -> bool:
    """Return whether bytes are a compressed stream or an archive."""
    if data.startswith((b"PK\x03\x04", b"\xfd7zXZ", b"BZh91AY", b"\x80\x04\x95", b"Salted__")):
        return True
    try:
        # A digest can begin like a compressed stream by chance.
        return data[:1] in b"\x1f\x78" and zlib.decompressobj(47).decompress(data, 1 << 16) != b""
    except zlib.error:
        return False


def _as_text(data: bytes) -> str | None:
    """Return the text in bytes, or None if too few bytes are printable. Two in five bytes of a digest are."""
    wide = data[1::2].count(0) > len(data) // 4, data[::2].count(0) > len(data) // 4
    with suppress(UnicodeError):
        text = data.decode("utf-16-le" if wide[0] else "utf-16-be" if wide[1] else "utf-8")
        if all(c.isprintable() or c.isspace() for c in text):
            return text
    bare = data.replace(b"\0", b"")
    legible = sum(32 <= b < 127 or b in b"\t\n\r" for b in bare)
    return bare.decode("latin-1") if legible >= max(0.8 * len(bare), 20) else None


def _in_numbers(text: str) -> Iterator[Hidden]:
    """Yield the text in arrays of byte or character codes, joined for each base."""
    for base, pattern in _BYTES:
        first, codes = 0, list[int]()
        for match in pattern.finditer(text):
            digits = (found[1] for found in _DIGITS[base].finditer(match[0]))
            if base == 16:
                new = list(bytes.fromhex("".join(d if len(d) % 2 == 0 else f"0{d}" for d in digits)))
            else:
                new = [int(d, base) for d in digits]
            kind = kind_of(bytes(new)) if len(new) > MOST and max(new) < 256 else ""
            if kind and "UTF" not in kind:
                yield match.start(), f"the bytes of {kind}", None
            first = first if codes else match.start()
            codes += new
        letters = [chr(code) for code in codes if 9 <= code < 0x3000]
        if letters and sum(c.isalpha() or c == " " for c in letters) >= 0.7 * len(codes):
            yield first, "", "".join(c for c in letters if c.isprintable() or c.isspace())


def _in_lines(text: str) -> Iterator[Hidden]:
    """Yield the first block of lines that looks encoded: no blanks, and as many different characters as in base64."""
    begin, at, pieces = 0, 0, list[str]()
    for line in (*text.split("\n"), " "):
        bare = line.strip(_EDGES)
        if len(bare) >= 20 and " " not in bare and bare.isascii():
            begin = begin if pieces else at
            pieces.append(bare)
        elif pieces:
            run = "".join(pieces)[:4000]
            if len(run) > MOST and _repeat_probability(run) < _DENSE:
                yield begin, f"encoded lines of {len(run):,} characters", None
                return
            pieces = []
        at += len(line) + 1
