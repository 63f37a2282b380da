"""A resolved table as one flat table: the text of a file without layers that resolves to the same cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

from txtdb.layers.resolve import Layer
from txtdb.layers.resolved import ResolvedTable
from txtdb.model.writing import table_text


def flat_text(table: ResolvedTable, roots: Sequence[Path]) -> str:
    """Canonical text. Fallbacks stay fallbacks, holes stay open, masked cells masked.

    The origin line names the files that it was made from, lowest layer first, each by its root's name and the path
    below, so that the text does not depend on where the database lies.
    """
    sources = dict.fromkeys(_short_name(layer, roots) for layer in table.layers)
    origin = f"imported resolved from {' '.join(sources)}"
    return table_text(
        table.schema, table.arch, table.functionals, table.bins, table.cells, table.pool, {"origin": [origin]}
    )


def _short_name(layer: Layer, roots: Sequence[Path]) -> str:
    root = roots[layer.root]
    below = PurePath(layer.file).relative_to(root.as_posix()).as_posix()
    return "_".join(f"{root.resolve().name}/{below}".split())
