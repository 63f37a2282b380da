"""A database several times as large as another: every arch with cells of its own again under further names."""

from __future__ import annotations

import re
import shutil
from pathlib import Path


def enlarge(root: Path, target: Path, times: int) -> None:
    """Write a database with `times` copies of every arch of `root`; copy n of gfx942 is `gfx942_c<n>`.

    Bases name the copy of the same number, so that each copy inherits within itself.
    """
    shutil.copytree(root, target)
    folders = sorted(path for path in root.iterdir() if path.is_dir() and path.name != "schema")
    archs = [folder.name for folder in folders]
    for number in range(1, times):
        for folder in folders:
            _copy_arch(folder, target / f"{folder.name}_c{number}", number)
    with (target / "archs.toml").open("a", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"\n[arch.{arch}_c{number}]\n" for number in range(1, times) for arch in archs)
    for schema in (target / "schema").glob("*.toml"):
        _extend_schema(schema, times)


def _copy_arch(folder: Path, target: Path, number: int) -> None:
    target.mkdir()
    for path in folder.iterdir():
        if path.suffix in (".txtdb", ".dbpatch"):
            text = re.sub(r"^(#! (?:arch|base) \S+)$", rf"\1_c{number}", path.read_text(encoding="utf-8"), flags=re.M)
            (target / path.name).write_text(text, encoding="utf-8", newline="\n")


def _extend_schema(schema: Path, times: int) -> None:
    """Each copy is declared like its original, or like what the original is declared like."""
    text = schema.read_text(encoding="utf-8")
    sections = re.findall(r'^\[arch\.([^\].]+)\]\n(?:like = "([^"]+)"\n)?', text, re.M)
    copies = [f'\n[arch.{arch}_c{n}]\nlike = "{like or arch}"\n' for n in range(1, times) for arch, like in sections]
    schema.write_text(text + "".join(copies), encoding="utf-8", newline="\n")
