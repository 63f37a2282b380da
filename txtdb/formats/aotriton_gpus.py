"""Names of GPUs in a database ↔ archs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from txtdb.faults import Fault, Span
from txtdb.layers.listing import SCHEMA_FOLDER
from txtdb.model.archs import Arch, find_arch

# `gfx942_mod0` is the plain board of its architecture; other variants are archs of their own.
_PLAIN_VARIANT = "_mod0"
# The name becomes a folder: nothing that leads out of the root, and nothing that is something else there.
_ARCH_NAME = re.compile(r"[a-z_][a-z0-9_-]*")


class Gpus:
    """Gives each GPU name its arch. With `may_add`, names that no arch has become new archs, in `added`."""

    def __init__(self, archs: Mapping[str, Arch], may_add: bool) -> None:
        self._archs, self._may_add = dict(archs), may_add
        self._exact = {arch.gpu_name: arch for arch in archs.values()}
        self.added: list[Arch] = []

    def arch_of(self, gpu: str) -> Arch | Fault:
        """The arch that a GPU name means: by its name on export, else by its name or alias."""
        if gpu in self._exact:
            return self._exact[gpu]
        plain = gpu.strip().lower().partition(":")[0].removesuffix(_PLAIN_VARIANT)
        found = find_arch(plain, self._archs)
        if isinstance(found, Arch):
            return found
        if not self._may_add:
            return Fault("unknown-arch", found.span, f"gpu {gpu!r} is no known arch", found.hint)
        if not _ARCH_NAME.fullmatch(plain) or plain == SCHEMA_FOLDER:
            return Fault("bad-gpu-name", Span(gpu), f"gpu {gpu!r} cannot name a folder", "letters, digits, _ and -")
        return self._add(Arch(plain, gpu=gpu))

    def _add(self, arch: Arch) -> Arch:
        self._archs[arch.name] = self._exact[arch.gpu_name] = arch
        self.added.append(arch)
        return arch

    def named(self, name: str) -> Arch | Fault:
        """The arch that a name on the command line means; a new one gets the name of its plain board."""
        found = find_arch(name, self._archs)
        if isinstance(found, Arch) or not self._may_add:
            return found
        return self.arch_of(Arch(name.strip().lower()).gpu_name)


def archs_text(existing: str, added: Iterable[Arch]) -> str:
    """The text of archs.toml with archs appended; what stands there stays as it is."""
    text = existing or "# Facts of each arch. `gpu` is its name in exported databases.\n"
    text = text if text.endswith("\n") else f"{text}\n"
    for arch in sorted(added, key=lambda arch: arch.name):
        text += f"\n[arch.{arch.name}]\ngpu = {json.dumps(arch.gpu_name)}\n"
    return text
