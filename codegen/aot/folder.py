"""The build folder: results by the key of what was compiled, images by the digest of their bytes.

    results/<2 digits>/<key>.json       images/<2 digits>/<digest>

Any number of databases and runs may share one. A file that is damaged or cut short counts as absent.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from codegen.aot.result import OK, Result, result_from
from txtdb.files import atomic_write
from txtdb.locking import alone_in, lock

_SCRATCH, _LOCK = ".new-", "lock"
# A run locks its folder right after it made it. One that is as old as this and has no lock belongs to nobody.
_UNLOCKED_S = 3600.0


def _remove_left(folder: Path) -> None:
    """Remove a folder of files on their way unless a run holds it."""
    lock_file = folder / _LOCK
    with suppress(OSError):
        if lock_file.exists():
            _remove_unless_held(lock_file)
        elif time.time() - folder.stat().st_mtime > _UNLOCKED_S:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_unless_held(lock_file: Path) -> None:
    with suppress(OSError), lock_file.open("r+b") as stream:
        if lock(stream):
            shutil.rmtree(lock_file.parent, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class BuildFolder:
    """Raises OSError where the folder cannot be read or written."""

    path: Path

    def result(self, key: str) -> Result | None:
        """What is known of a spec; None where nothing is, or the image is no longer intact."""
        try:
            result = result_from(json.loads(self._result_path(key).read_bytes()))
        except (FileNotFoundError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None
        return None if result.binary and self.image(result.binary.digest) is None else result

    def image(self, digest: str) -> bytes | None:
        """The bytes of an image; None where there is none that is intact."""
        with suppress(FileNotFoundError):
            data = self._image_path(digest).read_bytes()
            return data if sha256(data).hexdigest() == digest else None
        return None

    def keep(self, key: str, result: Result, data: bytes) -> None:
        """Keep a result and, where it is `ok`, the image."""
        if result.status == OK:
            assert result.binary and sha256(data).hexdigest() == result.binary.digest, "the worker measured these bytes"
            if self.image(result.binary.digest) is None:
                atomic_write(self._image_path(result.binary.digest), data)
        text = json.dumps(result.json(), sort_keys=True) + "\n"
        atomic_write(self._result_path(key), text.encode())

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for files on their way, on the same disk; gone afterwards.

        What killed runs have left of theirs goes first: nobody holds their locks any more, or they never got that far.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            with alone_in(self.path):
                for left in self.path.glob(f"{_SCRATCH}*"):
                    _remove_left(left)
                name = stack.enter_context(tempfile.TemporaryDirectory(dir=self.path, prefix=_SCRATCH))
                held = stack.enter_context((Path(name) / _LOCK).open("wb"))
                with suppress(OSError):  # where nothing can be locked, nobody removes what others left either
                    lock(held)
            yield Path(name)

    def _result_path(self, key: str) -> Path:
        return self.path / "results" / key[:2] / f"{key}.json"

    def _image_path(self, digest: str) -> Path:
        return self.path / "images" / digest[:2] / digest
