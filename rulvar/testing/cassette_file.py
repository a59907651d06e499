"""A cassette that is being recorded: one writer, whole lines, nothing torn left behind.

The writer holds an advisory lock on the file for as long as it lives. A line is written with one
``write``; a line that a killed recorder left unfinished is cut off before the next one is added.
"""

from __future__ import annotations

import contextlib
import gc
import os
import weakref

from rulvar.contracts.canonical import decode_json
from rulvar.errors import ConfigError

try:
    import fcntl
except ImportError:  # pragma: no cover - no advisory locks on this platform
    fcntl = None  # type: ignore[assignment]

__all__ = ["CassetteFile", "WrittenLine"]

_MOST_OPENS = 8


class WrittenLine:
    """Where an appended line stands: byte offsets, and its 1-based number."""

    __slots__ = ("end", "number", "start")

    def __init__(self, start: int, end: int, number: int) -> None:
        self.start = start
        self.end = end
        self.number = number


class CassetteFile:
    """The one writer of a cassette file; a missing file is created with its header line.

    Attributes:
        path: the file, as it was given.
        found: the bytes of the whole lines that were there when the file was opened.
    """

    def __init__(self, path: str, header: bytes, *, fresh: bool = False) -> None:
        """Open and lock the file.

        Args:
            fresh: what is in the file is thrown away, once nobody else can be writing it.

        Raises:
            ConfigError: another recorder holds the file, or it cannot be opened.
        """
        self.path = path
        self._place = os.path.abspath(path)  # the working directory may change while we record
        try:
            self._fd = self._open(header)
        except OSError as error:
            raise self._cannot_record(error) from None
        self._close = weakref.finalize(self, os.close, self._fd)
        if fresh:
            self._empty(header)
        content = self._read()
        self._good, self._gap = _whole_lines(content)
        self.found = content[: self._good]
        self._lines = self.found.count(b"\n") + (not self.found.endswith(b"\n"))
        self._size = len(content)

    @property
    def closed(self) -> bool:
        """Whether the file has been given up."""
        return not self._close.alive

    def append(self, line: bytes) -> WrittenLine:
        """Write one line (without its newline) after the last whole one.

        Raises:
            ConfigError: the file was closed, another program changed it, or the disk refused the line;
                nothing of it stays.
        """
        if self.closed:
            raise self._refusal("the recording session is closed")
        self._check_untouched()
        start = self._good
        try:
            if self._size > self._good:  # what a killed recorder left unfinished
                os.ftruncate(self._fd, self._good)
            self._size = self._good
            gap = b"\n" if self._gap else b""
            self._write(gap + line + b"\n")
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, start)
            problem = f"cannot write a row: {error.strerror or error}; make room and record it again"
            raise self._refusal(problem) from None
        self._gap = False
        start += len(gap)
        self._size = self._good = start + len(line) + 1
        self._lines += 1
        return WrittenLine(start, self._good, self._lines)

    def retract(self, line: WrittenLine) -> None:
        """Take an appended line back: it is cut off, or blanked when others follow it."""
        if line.end == self._good:
            os.ftruncate(self._fd, line.start)
            self._size = self._good = line.start
            self._lines -= 1
            return
        blank = b" " * (line.end - line.start - 1) + b"\n"
        with open(self._place, "r+b") as file:
            file.seek(line.start)
            file.write(blank)

    def close(self) -> None:
        """Give the lock and the file up; closing twice is fine."""
        self._close()

    def _open(self, header: bytes) -> int:
        folder = os.path.dirname(os.path.abspath(self.path))
        os.makedirs(folder, exist_ok=True)
        for _ in range(_MOST_OPENS):
            try:
                fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            except FileNotFoundError:
                _create(self.path, folder, header)
                continue
            try:
                self._lock(fd)
                if _is_same_file(fd, self.path):
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # replaced while we waited for nothing: take the new one
        raise self._refusal("the file keeps being replaced; stop the other program and record again")

    def _check_untouched(self) -> None:
        """Refuse a file that is no longer what this writer left: rows would be lost, or put amid others."""
        try:
            there = os.stat(self._place)
        except OSError:
            there = None
        if there is None or not os.path.samestat(there, os.fstat(self._fd)):
            raise self._refusal(
                "the file was removed or replaced while it was being recorded; record it again"
            )
        if there.st_size != self._size:
            raise self._refusal(
                "another program changed the file while it was being recorded; record it again"
            )

    def _lock(self, fd: int) -> None:
        if fcntl is None:  # pragma: no cover
            return
        try:
            if not _try_lock(fd):
                gc.collect()  # a session that nobody holds any more may sit in a reference cycle
                if _try_lock(fd):
                    return
                raise self._refusal(
                    "another recorder is active on this cassette; end that session first "
                    "(one recorder per cassette), or record to another file"
                )
        except OSError:
            pass  # a file system without locks: the numbering check at replay still stands

    def _empty(self, header: bytes) -> None:
        try:
            os.ftruncate(self._fd, 0)
            self._write(header + b"\n")
        except OSError as error:
            self._close()
            raise self._cannot_record(error) from None

    def _read(self) -> bytes:
        os.lseek(self._fd, 0, os.SEEK_SET)
        with open(self._fd, "rb", closefd=False) as file:
            return file.read()

    def _write(self, data: bytes) -> None:
        written = os.write(self._fd, data)
        while written < len(data):
            written += os.write(self._fd, data[written:])

    def _cannot_record(self, error: OSError) -> ConfigError:
        said = error.strerror or error
        return self._refusal(f"cannot record to the cassette: {said}; record where files can be written")

    def _refusal(self, problem: str) -> ConfigError:
        return ConfigError(f"{self.path}: {problem}", data={"cassette": self.path})


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _create(path: str, folder: str, header: bytes) -> None:
    """Put a new file in place with its header, or leave the one that somebody else just put there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.urandom(8).hex()}")
    fd = os.open(temporary, flags, 0o666)
    try:
        os.write(fd, header + b"\n")
        os.close(fd)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)


def _is_same_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _whole_lines(content: bytes) -> tuple[int, bool]:
    """Return where the whole lines end, and whether the last of them lacks its newline."""
    if not content or content.endswith(b"\n"):
        return len(content), False
    last = content.rfind(b"\n") + 1
    if last == 0:
        return len(content), True  # a lone header
    try:
        decode_json(content[last:])
    except (ValueError, RecursionError):
        return last, False
    return len(content), True
