"""Reads a member of a zip archive: stored, deflated, or compressed with zstd, as Inspect writes its logs.

Python reads zstd members from version 3.14 on; before, pyarrow's codec does it here. Every member is held to its
checksum: a damaged archive is refused, never read in part.
"""

import struct
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa

from robustify.errors import DataError

_ZSTD = 93
_LOCAL_HEADER = 30


class Zipped:
    """An open archive. Use it as a context.

    Raises:
        DataError: no archive, or one that is cut off.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._file = path.open("rb")
        try:
            self._zip = zipfile.ZipFile(self._file)
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            self._file.close()
            raise DataError(
                f"{self.name}: is cut off or damaged ({type(error).__name__}); expected a whole .eval file"
            ) from None
        self.members = tuple(info.filename for info in self._zip.infolist())

    def __enter__(self) -> "Zipped":
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def read(self, member: str) -> bytes:
        """The bytes of a member.

        Raises:
            DataError: it is damaged, encrypted, or compressed in a way that nothing here can read.
        """
        info = self._zip.getinfo(member)
        try:
            if info.flag_bits & 1:
                raise DataError(f"{self.name}: is encrypted; expected a plain .eval file")
            if info.compress_type != _ZSTD:
                return self._zip.read(info)
            data = unzstd(self._compressed(info), info.file_size)
        except NotImplementedError:
            raise _unreadable(self.name, f"zip method {info.compress_type}") from None
        except (zipfile.BadZipFile, OSError, EOFError, zlib.error, struct.error, pa.ArrowException):
            raise _damaged(self.name) from None
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise _damaged(self.name)
        return data

    def _compressed(self, info: zipfile.ZipInfo) -> bytes:
        self._file.seek(info.header_offset)
        name, extra = struct.unpack("<HH", self._file.read(_LOCAL_HEADER)[26:])
        self._file.seek(info.header_offset + _LOCAL_HEADER + name + extra)
        return self._file.read(info.compress_size)


def has_zstd() -> bool:
    """Whether this pyarrow was built with zstd."""
    return bool(pa.Codec.is_available("zstd"))


def unzstd(data: bytes, most: int) -> bytes:
    """Decompressed zstd frames, one or several; no more than a byte over `most` is ever made.

    Raises:
        DataError: this pyarrow was built without zstd.
        OSError, pyarrow.ArrowException: damaged data.
    """
    if not has_zstd():
        raise _unreadable("zstd", "zstd, which this pyarrow cannot read")
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return bytes(stream.read(most + 1))


def _unreadable(name: str, how: str) -> DataError:
    return DataError(
        f"{name}: is compressed with {how}; expected deflate or zstd: run `pip install --upgrade pyarrow`, whose "
        "wheels read zstd, or `inspect log convert --to json --output-dir DIR FILE` and import what it writes"
    )


def _damaged(name: str) -> DataError:
    return DataError(f"{name}: a member is cut off or damaged; expected a whole .eval file")
