"""manifest.json of a pack: the tables that it belongs to, and for each image its file and how it is launched.

    {"format": 1,
     "compilers": ["triton-3.9.0+llvm-…"],
     "signatures": [{"arguments": [["Q", "*bf16", 16], …], "fixed": {"stride_bn": 1}}],
     "tables": {"gfx942/attn_fwd": {
        "digest": "sha256:…", "target": "hip:gfx942:64", "keys": [name…], "fields": [name…],
        "images": {name: {"functional": [value…], "config": [value…], "source": "16 digits", "compiler": 0,
                          "signature": 0, "file": "<sha-256>.hsaco", "binary": {…}}},
        "replaced": {name: {"functional": […], "config": […], "source": …, "compiler": 0, "by": name,
                            "status": "timeout", "resources": null, "cells": [[bin…]…]}}}}}

`compiler` and `signature` are places in the lists above.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from codegen.aot.result import STATUSES, Binary, Resources, binary_from, resources_from
from txtdb.model.table import ConfigValues
from txtdb.model.values import Functional, Value

FORMAT = 1

IMAGE_FILE = re.compile(r"(?P<digest>[0-9a-f]{64})\.(?:hsaco|cubin)")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,199}")


@dataclass(frozen=True, slots=True)
class Signature:
    """`arguments` are (name, type, what the value is a multiple of); a launch passes them in this order. `fixed` have
    one value and are not passed.
    """

    arguments: tuple[tuple[str, str, int], ...]
    fixed: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """What an image is of, and what made it."""

    functional: Functional
    config: ConfigValues
    source: str
    compiler: str


@dataclass(frozen=True, slots=True)
class PackedImage:
    """One image. `file` is its name in the pack; functionals and archs may share one."""

    name: str
    origin: Origin
    signature: Signature
    file: str
    binary: Binary


@dataclass(frozen=True, slots=True)
class Substitute:
    """An image that could not be built: `by` stands in for it in the cells at these bins."""

    name: str
    origin: Origin
    by: str
    status: str
    resources: Resources | None
    cells: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class PackedTable:
    """The images of one arch and interface. `digest` is that of the dispatch table that asks for them."""

    digest: str
    target: str
    keys: tuple[str, ...]
    fields: tuple[str, ...]
    images: dict[str, PackedImage]
    replaced: dict[str, Substitute]

    def image(self, name: str) -> PackedImage | None:
        """The image for a name: its own, or the one that stands in for it."""
        substitute = self.replaced.get(name)
        return self.images.get(substitute.by if substitute else name)

    def config(self, image: PackedImage) -> dict[str, Value]:
        """The config fields of an image: what its launch grid is made from."""
        return dict(zip(self.fields, image.origin.config, strict=True))


@dataclass(frozen=True)
class Manifest:
    """`tables` by `arch/interface`."""

    tables: dict[str, PackedTable]

    @property
    def files(self) -> frozenset[str]:
        """The names of all image files."""
        return frozenset(image.file for table in self.tables.values() for image in table.images.values())


def manifest_text(manifest: Manifest) -> str:
    """The manifest as text, the same for equal manifests."""
    tables = manifest.tables
    images = [image for table in tables.values() for image in table.images.values()]
    substitutes = [item for table in tables.values() for item in table.replaced.values()]
    origins = [image.origin for image in images] + [item.origin for item in substitutes]
    compilers = sorted({origin.compiler for origin in origins})
    signatures = sorted({image.signature for image in images}, key=repr)
    numbers = _Numbers({name: n for n, name in enumerate(compilers)}, {own: n for n, own in enumerate(signatures)})
    content = {
        "format": FORMAT,
        "compilers": compilers,
        "signatures": [{"arguments": own.arguments, "fixed": dict(own.fixed)} for own in signatures],
        "tables": {place: numbers.table(tables[place]) for place in sorted(tables)},
    }
    return json.dumps(content, separators=(",", ":")) + "\n"


def read_manifest(data: bytes) -> Manifest:
    """The manifest that `manifest_text` wrote. Raises ValueError for anything else."""
    try:
        content = json.loads(data)
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}; this program reads {FORMAT}")
        signatures = [_signature(given) for given in content["signatures"]]
        reader = _Reader(tuple(map(str, content["compilers"])), tuple(signatures))
        return Manifest({_place(place): reader.table(given) for place, given in content["tables"].items()})
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"not as expected: {type(error).__name__} {error}") from error


@dataclass(frozen=True)
class _Numbers:
    compilers: dict[str, int]
    signatures: dict[Signature, int]

    def table(self, table: PackedTable) -> dict[str, Any]:
        return {
            "digest": table.digest,
            "target": table.target,
            "keys": table.keys,
            "fields": table.fields,
            "images": {name: self.image(table.images[name]) for name in sorted(table.images)},
            "replaced": {name: self.substitute(table.replaced[name]) for name in sorted(table.replaced)},
        }

    def image(self, image: PackedImage) -> dict[str, Any]:
        signature = self.signatures[image.signature]
        own = {"signature": signature, "file": image.file, "binary": asdict(image.binary)}
        return {**self.origin(image.origin), **own}

    def substitute(self, item: Substitute) -> dict[str, Any]:
        resources = asdict(item.resources) if item.resources else None
        own = {"by": item.by, "status": item.status, "resources": resources, "cells": item.cells}
        return {**self.origin(item.origin), **own}

    def origin(self, origin: Origin) -> dict[str, Any]:
        return {**asdict(origin), "compiler": self.compilers[origin.compiler]}


@dataclass(frozen=True)
class _Reader:
    compilers: tuple[str, ...]
    signatures: tuple[Signature, ...]

    def table(self, given: Mapping[str, Any]) -> PackedTable:
        images = {_name(name): self.image(name, image) for name, image in given["images"].items()}
        replaced = {_name(name): self.substitute(name, item) for name, item in given["replaced"].items()}
        lost = [item.by for item in replaced.values() if item.by not in images]
        if lost or replaced.keys() & images.keys():
            raise ValueError(f"a substitute names no image: {', '.join(lost)}")
        keys, fields = tuple(map(str, given["keys"])), tuple(map(str, given["fields"]))
        origins = [item.origin for own in (images, replaced) for item in own.values()]
        if any((len(own.functional), len(own.config)) != (len(keys), len(fields)) for own in origins):
            raise ValueError("an image has other keys or fields than its table")
        return PackedTable(str(given["digest"]), str(given["target"]), keys, fields, images, replaced)

    def image(self, name: str, given: Mapping[str, Any]) -> PackedImage:
        found = IMAGE_FILE.fullmatch(given["file"])
        own = binary_from(given["binary"])
        if found is None or found["digest"] != own.digest:
            raise ValueError(f"image {name}: `{given['file']}` is no file name for it")
        return PackedImage(name, self.origin(given), self.signatures[given["signature"]], given["file"], own)

    def substitute(self, name: str, given: Mapping[str, Any]) -> Substitute:
        if given["status"] not in STATUSES:
            raise ValueError(f"image {name}: unknown status {given['status']}")
        resources = resources_from(given["resources"]) if given["resources"] else None
        cells = tuple(tuple(map(int, cell)) for cell in given["cells"])
        return Substitute(name, self.origin(given), str(given["by"]), given["status"], resources, cells)

    def origin(self, given: Mapping[str, Any]) -> Origin:
        values = tuple(given["functional"]), tuple(given["config"])
        if not all(isinstance(value, bool | int | str) for own in values for value in own):
            raise ValueError("a value is no bool, number or name")
        return Origin(*values, str(given["source"]), self.compilers[given["compiler"]])


def _signature(given: Mapping[str, Any]) -> Signature:
    arguments = tuple((str(name), str(kind), int(multiple)) for name, kind, multiple in given["arguments"])
    if len({name for name, _, _ in arguments}) < len(arguments):
        raise ValueError("an argument stands twice")
    if not all(kind and multiple > 0 for _, kind, multiple in arguments):
        raise ValueError("an argument without a type, or a multiple of nothing")
    return Signature(arguments, tuple((str(name), int(value)) for name, value in given["fixed"].items()))


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"`{text}` is no image name")
    return text


def _place(text: str) -> str:
    arch, _, iface = text.partition("/")
    if not _NAME.fullmatch(arch) or not _NAME.fullmatch(iface):
        raise ValueError(f"`{text}` is no arch and interface")
    return text
