"""Runs of base64, base32 and hex inside text, decoded to bytes.

A run is decoded only to be looked at. What a run decodes to is judged elsewhere: most are digests or identifiers.
Base85 and runs that are wrapped at fewer than 24 characters are not found.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator

SHORTEST = 40
"""Characters from which a run is decoded: eight words of text make about 60."""
_LINE = 24
_JOINT = r"""["',]{0,2}(?:\\n)?["',]{0,2}[ ]?\\?\r?[\n\x0b][ \t#>*"',|]{0,80}"""
_RUN = re.compile(
    rf"[A-Za-z0-9+/_-]{{{_LINE},}}(?:{_JOINT}[A-Za-z0-9+/_-]{{{_LINE},}})*(?:({_JOINT}[A-Za-z0-9+/_-]+))?"
)
_JOINTS = re.compile(r"\\n|[^A-Za-z0-9+/_-]+")
_HEX = re.compile(r"(?:0x)?(?:(?:[0-9a-f]{2})+|(?:[0-9A-F]{2})+)\Z")
_BASE32 = re.compile(r"(?:[A-Z2-7]+|[a-z2-7]+)\Z")
_MARKS = bytes(97 if (b < 128 and chr(b).isalnum()) or b in b"+/_-" else 32 for b in range(256))
_PROBE = b"a" * _LINE


def runs(text: str) -> Iterator[tuple[int, bytes]]:
    """The offset of each run and the bytes that it decodes to, once for each way in which it reads."""
    marked = text.encode("latin-1", "replace").translate(_MARKS)
    at = marked.find(_PROBE)
    while at >= 0:
        match = _RUN.match(text, at)
        if match is None:  # a character beyond Latin-1 was taken for one of the alphabet
            at = marked.find(_PROBE, at + 1)
            continue
        for bare in _bare(match):
            yield from ((at, data) for data in _decoded(bare))
        at = marked.find(_PROBE, match.end())


def _bare(match: re.Match[str]) -> Iterator[str]:
    """The run without what joins its lines; also without its last short line, which may be no part of it."""
    whole = _JOINTS.sub("", match[0])
    if len(whole) >= SHORTEST:
        yield whole
    if match[1]:
        less = _JOINTS.sub("", match[0][: match.start(1) - match.start()])
        if len(less) >= SHORTEST:
            yield less


def _decoded(bare: str) -> Iterator[bytes]:
    if _HEX.match(bare):
        yield bytes.fromhex(bare.removeprefix("0x"))
        return
    if _BASE32.match(bare):
        found = _tried(base64.b32decode, bare.upper(), 8)
        if found is not None:
            yield found
    standard = bare.replace("-", "+").replace("_", "/")
    found = _tried(base64.b64decode, standard, 4)
    if found is not None:
        yield found


def _tried(decode: Callable[[str], bytes], bare: str, group: int) -> bytes | None:
    """The decoded run; where its length fits no whole group, without the characters past the last one."""
    try:
        return decode(bare + "=" * (-len(bare) % group))
    except (binascii.Error, ValueError):
        less = bare[: len(bare) // group * group]
    try:
        return decode(less)
    except (binascii.Error, ValueError):
        return None
