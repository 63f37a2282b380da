"""Generated files → an output folder: written only where they differ, and taken away when no longer generated."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from codegen.generate import Generated
from codegen.index import INDEX_FILE, Index
from txtdb.files import atomic_write


@dataclass(frozen=True, slots=True)
class Written:
    """Paths below the output folder, sorted. `unchanged` counts the files that hold just what they should."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int


def write(out: Path, generated: Generated, old: Index | None) -> Written:
    """Bring an output folder up to date. Only files that the old index lists are ever removed.

    Raises OSError when a file cannot be written. The index comes last: a run that was cut short is made up for by the
    next one.
    """
    plan = differences(out, generated, old)
    changed = set(plan.written)
    for path, data in generated.files.items():
        if path in changed:
            atomic_write(out / path, data)
    for path in plan.removed:
        _remove(out, path)
    return plan


def differences(out: Path, generated: Generated, old: Index | None) -> Written:
    """What `write` does, without doing it."""
    changed = [path for path, data in generated.files.items() if _content(out / path) != data]
    removed = [path for path in _stale(generated, old) if (out / path).is_file()]
    return Written(tuple(sorted(changed)), tuple(removed), len(generated.files) + len(generated.kept) - len(changed))


def depfile_text(target: Path, inputs: list[Path]) -> str:
    """A depfile for make and ninja: the target depends on every input. Folders are inputs where a new file would be."""
    paths = " \\\n  ".join(_escaped(path) for path in dict.fromkeys(inputs))
    return f"{_escaped(target)}: \\\n  {paths}\n"


def _escaped(path: Path) -> str:
    text = path.as_posix().replace("$", "$$").replace("#", "\\#")
    return text.replace(" ", "\\ ")


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _stale(generated: Generated, old: Index | None) -> list[str]:
    current = generated.files.keys() | generated.kept.keys() | {INDEX_FILE}
    return sorted(set(old.files) - current) if old else []


def _remove(out: Path, path: str) -> None:
    """Remove a file, and its folders where they are empty then."""
    (out / path).unlink()
    for folder in (out / path).parents:
        if folder == out:
            break
        with suppress(OSError):
            folder.rmdir()
