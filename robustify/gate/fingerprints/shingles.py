"""Keyed tags of word shingles: the same three words give the same 64 bits under one key, and noise under another.

A word's keyed BLAKE2b gives three 64-bit values, one for each place in a shingle, and a shingle's tag is their XOR
(tabulation hashing), so that a scan pays one hash for each distinct word instead of one for each shingle.
"""

import hashlib
import hmac
import zlib
from collections.abc import Sequence
from operator import xor

from robustify.gate.key_file import Key

SPAN = 3
"""Words in a shingle."""


class Tagger:
    """The tags of one key. Words once seen are remembered for the life of the process. `salt` is that of marks."""

    def __init__(self, key: Key) -> None:
        self._word_key = key.derived("gate/word")
        self._text_key = key.derived("gate/text")
        self.salt = int.from_bytes(key.derived("gate/vocabulary")[:4], "little")
        self._first: dict[bytes, int] = {}
        self._second: dict[bytes, int] = {}
        self._third: dict[bytes, int] = {}

    def tags(self, words: Sequence[bytes]) -> list[int]:
        """The tag of every three consecutive words: n - 2 of them."""
        for word in set(words).difference(self._first):
            digest = hashlib.blake2b(word, key=self._word_key, digest_size=24).digest()
            self._first[word] = int.from_bytes(digest[:8], "little")
            self._second[word] = int.from_bytes(digest[8:16], "little")
            self._third[word] = int.from_bytes(digest[16:], "little")
        first = map(self._first.__getitem__, words[:-2])
        second = map(self._second.__getitem__, words[1:-1])
        third = map(self._third.__getitem__, words[2:])
        return list(map(xor, map(xor, first, second), third))

    def mark(self, word: bytes) -> int:
        """32 bits that tell quickly that a word is not in a vocabulary; they are only kept within a sealed index."""
        return zlib.crc32(word, self.salt)

    def whole(self, words: Sequence[bytes]) -> bytes:
        """The 16-byte HMAC-SHA256 of a whole text's words."""
        return hmac.digest(self._text_key, b" ".join(words), "sha256")[:16]
