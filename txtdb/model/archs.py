"""archs.toml: facts of each architecture, and the names under which people ask for one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from txtdb.faults import Fault, Span
from txtdb.model.toml import NAME, NAME_HINT, TomlReader, parse_toml, shown
from txtdb.wording import near_names

_FACTS = ("wave_size", "lds_bytes", "vgpr_budget", "compute_units", "xcds")
_TEXTS = ("pack", "gpu")
_RESOURCES = "resources"


@dataclass(frozen=True, slots=True)
class Arch:
    """Facts of one architecture; None where they are not known.

    `wave_size` in lanes, `lds_bytes` per workgroup, `vgpr_budget` in 32-bit registers per lane, `compute_units` and
    `xcds` (dies) per device. `pack` names the file of kernel images, `gpu` the device in exported databases.
    """

    name: str
    aliases: tuple[str, ...] = ()
    wave_size: int | None = None
    lds_bytes: int | None = None
    vgpr_budget: int | None = None
    compute_units: int | None = None
    xcds: int | None = None
    pack: str | None = None
    gpu: str | None = None

    @property
    def gpu_name(self) -> str:
        """The name on export: as stated, else the arch's default variant `_mod0`."""
        return self.gpu or (self.name if "_mod" in self.name else f"{self.name}_mod0")


def read_archs(data: bytes, file: str) -> tuple[dict[str, Arch], list[Fault]]:
    """Read archs.toml: arch name → facts."""
    content, faults = parse_toml(data, file)
    if content is None:
        return {}, faults
    reader = TomlReader(file, "archs", data=data)
    reader.known(content, ("arch", _RESOURCES), "archs.toml")
    if not isinstance(content.get(_RESOURCES, False), bool):
        reader.fault(f"`{_RESOURCES}` must be true or false")
    tables = reader.table(content, "arch", "archs.toml")
    archs = {name: _read_arch(reader, name, reader.table(tables, name, "arch")) for name in tables}
    owners: dict[str, str] = {}
    for arch in archs.values():
        for alias in map(_plain, (arch.name, *arch.aliases)):
            if owners.setdefault(alias, arch.name) != arch.name:
                reader.fault(f"`{alias}` names both {owners[alias]} and {arch.name}", "an alias belongs to one arch")
    return archs, reader.faults


def keeps_resources(data: bytes) -> bool:
    """Whether archs.toml says `resources = true`: the images of all kernels are on record.

    False for a file that cannot be decoded.
    """
    content, _ = parse_toml(data, "")
    return content is not None and content.get(_RESOURCES) is True


def _read_arch(reader: TomlReader, name: str, table: dict[str, object]) -> Arch:
    where = f"arch {name}"
    if not NAME.fullmatch(name):
        reader.fault(f"{where}: `{name}` is no name", NAME_HINT)
    reader.known(table, ("aliases", *_FACTS, *_TEXTS), where)
    facts: dict[str, int | None] = {}
    for fact in _FACTS:
        value = table.get(fact)
        if value is not None and (type(value) is not int or value <= 0):
            reader.fault(f"{where}: `{fact}` must be a positive int")
            value = None
        facts[fact] = value if isinstance(value, int) else None
    texts = {text: reader.text(table, text, where) for text in _TEXTS if text in table}
    aliases = reader.list_of(table.get("aliases", []), str, f"{where}: `aliases`")
    if not all(map(_plain, aliases)):
        reader.fault(f"{where}: an alias is empty", "remove it")
    return Arch(name, aliases, **facts, **texts)  # type: ignore[arg-type]


def arch_text(stated: object) -> str:
    """An arch as a device or a file states it, for a message: whatever it is."""
    return stated if isinstance(stated, str) and stated and stated.isprintable() else shown(stated)


def split_archs(given: Iterable[str]) -> list[str]:
    """Names separated by commas, semicolons or blanks."""
    return [name for text in given for name in re.split(r"[,;\s]+", text) if name]


def find_arch(name: str, archs: dict[str, Arch]) -> Arch | Fault:
    """The arch that a name or alias means, whatever its case and feature suffixes (`gfx90a:sramecc+:xnack-`)."""
    plain = _plain(name)
    for arch in archs.values():
        if plain in map(_plain, (arch.name, *arch.aliases)):
            return arch
    hint = f"{_guess(plain, archs)}known are {known_archs(archs)}"
    return Fault("unknown-arch", Span(name), f"unknown arch `{name}`", hint)


def is_arch(stated: str, arch: str, archs: dict[str, Arch]) -> bool:
    """Whether what a device says of itself is an arch of the database, or an alias of it."""
    found = find_arch(stated, archs)
    return found.name == arch if isinstance(found, Arch) else _plain(stated) == _plain(arch)


def _guess(plain: str, archs: Mapping[str, Arch]) -> str:
    """`did you mean gfx942 (MI300A, MI300X)? `: an arch whose name is near, or some of its aliases are."""
    owners = {name: arch for arch in archs.values() for name in (arch.name, *arch.aliases)}
    for near in near_names(plain, owners):
        arch = owners[near]
        aliases = ", ".join(near_names(plain, arch.aliases, most=3))
        return f"did you mean {arch.name if near == arch.name else f'{arch.name} ({aliases})'}? "
    return ""


def known_archs(archs: Mapping[str, Arch]) -> str:
    """All archs with their aliases, for a hint: `gfx942 (MI300A, MI300X), gfx1100`; `none` where there are none."""
    aliases = {name: f" ({', '.join(arch.aliases)})" if arch.aliases else "" for name, arch in archs.items()}
    return ", ".join(f"{name}{aliases[name]}" for name in sorted(archs)) or "none"


def _plain(name: str) -> str:
    return name.strip().lower().partition(":")[0]
