"""Images of a pack, chosen by generated tables and launched through the driver: nothing is compiled.

kernels = open_kernels("build/nvidia-sm_90.pack", "dispatch/python", "sm_90")
out = kernels.attention(q, k, v, causal=True)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType, TracebackType
from typing import Any

import torch

from codegen.aot.pack import Pack, read_pack
from codegen.aot.pack_manifest import PackedImage, PackedTable, Signature
from codegen.aot.target import CUDA
from codegen.kernels.attention import BACKWARD, FUSED, Args, Config, Grid, attention
from codegen.runtime.arguments import Arguments
from codegen.runtime.driver import Driver, Shape
from codegen.runtime.faults import LaunchFault
from codegen.runtime.fitting import fitting, fitting_bias, fitting_lengths, padded_head
from codegen.runtime.tables import Sizes, Tables, Values, load_tables
from txtdb.faults import Fault, FaultError, Span

# The back end of the backward that makes dK and dV in one launch and dQ in another.
SPLIT = "triton_split"
_REBUILD = "build the pack and generate the tables from the same database"


@dataclass(eq=False)
class Loadable:
    """An image and what its launches share; `functions` are by device."""

    image: PackedImage
    arguments: Arguments
    functions: dict[int, Any] = field(default_factory=dict)


class ImageConfig(dict[str, Any]):
    """The config fields of an image, which its grid is made from: where another image stands in, those of that one."""

    def __init__(self, fields: Mapping[str, Any], loadable: Loadable) -> None:
        super().__init__(fields)
        self.loadable = loadable


class Kernels:
    """Tables and a pack that belong together. `choose` and `launch` are the hooks of `codegen.kernels.attention`."""

    def __init__(self, tables: Tables, pack: Pack, driver: Driver) -> None:
        self.tables, self.pack = tables, pack
        self._driver = driver
        self._chosen: dict[tuple[Any, ...], ImageConfig] = {}
        self._loadables: dict[tuple[str, str], Loadable] = {}
        self._arguments = cache(_arguments)
        self._lock = Lock()

    def attention(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *,
        bias: torch.Tensor | None = None,
        sm_scale: float | None = None,
        fused_backward: bool | None = None,
        **options: Any,
    ) -> torch.Tensor:
        """As `codegen.kernels.attention.attention`, for all tensors: those that images cannot read are copied.

        `options` are the others of that function. Whether the backward is fused the operator's table says, unless it
        is given. Raises what that function and `choose` and `launch` raise.
        """
        width = q.shape[-1]
        q, k, v = (fitting(padded_head(tensor)) for tensor in (q, k, v))
        options |= {name: fitting_lengths(options.get(name)) for name in ("cu_seqlens_q", "cu_seqlens_k")}
        out = attention(
            q,
            k,
            v,
            bias=None if bias is None else fitting_bias(bias, k.shape[-2]),
            sm_scale=width**-0.5 if sm_scale is None else sm_scale,
            fused_backward=fused_backward,
            choose=self.choose,
            launch=self.launch,
            **options,
        )
        if out.requires_grad:
            out.register_hook(fitting)
        return out if out.shape[-1] == width else out[..., :width]

    def choose(self, iface: str, functional: Values, sizes: Sizes) -> Config:
        """The config of the image for a problem; for the operator of the backward its back end.

        Raises NoKernel and Unsupported, and FaultError where the pack lacks the image.
        """
        if iface == BACKWARD:
            return {"backend": self._back_end(functional, sizes)}
        config = self.tables.config(iface, functional, sizes)
        # Sizes are no part of it, as there may be any number of them.
        key = (iface, config, *functional.values())
        known = self._chosen.get(key)
        return self._choose(key, iface, config, functional) if known is None else known

    def supports(self, iface: str, functional: Values, sizes: Sizes) -> bool:
        """Whether the tables do not declare a problem unsupported."""
        return bool(self.tables.answer(iface, functional, sizes) != "unsupported")

    def launch(self, iface: str, grid: Grid, functional: Values, config: Config, arguments: Args) -> None:
        """Start the image of a config that `choose` gave, on the current stream of the tensors' device.

        Raises LaunchFault.
        """
        if not isinstance(config, ImageConfig):
            raise TypeError("images are launched with the configs that `choose` of the same kernels gives")
        x, y, z = (*grid(config), 1, 1)[:3]
        if not x * y * z:
            return
        loadable, driver = config.loadable, self._driver
        own, binary = loadable.arguments, loadable.image.binary
        tensors = [arguments[name] for name in own.tensors]
        addresses = [tensor.data_ptr() for tensor in tensors]
        own.check(addresses, arguments)
        device, stream = driver.place(tensors)
        function = loadable.functions.get(device) or self._load(loadable, device)
        scratch = driver.scratch(device, binary.scratch * x * y * z) if binary.scratch else None
        buffer = own.write(addresses, scratch.data_ptr() if scratch is not None else 0, arguments)
        shape = Shape((x, y, z), binary.warps * binary.wave, binary.resources.shared)
        driver.launch(function, shape, stream, buffer.pointers)
        own.give_back(buffer)

    def close(self) -> None:
        """Let go of the pack. Images that have been loaded stay."""
        self.pack.close()

    def __enter__(self) -> Kernels:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.close()

    def _back_end(self, functional: Values, sizes: Sizes) -> str:
        """Split where no table chooses."""
        found = self.tables.answer(BACKWARD, functional, sizes)
        chosen = SPLIT if isinstance(found, str) else str(found.backend)
        if chosen not in (SPLIT, FUSED):
            message = f"the table chooses {chosen}, which is no kernel of a pack"
            raise LaunchFault("external-back-end", f"{self.tables.arch}/{BACKWARD}", message, "give `fused_backward`")
        return chosen

    def _choose(self, key: tuple[Any, ...], iface: str, config: Any, functional: Values) -> ImageConfig:
        place = f"{self.tables.arch}/{iface}"
        image = self.pack.image(place, self.tables.image_name(iface, config, functional))
        loadable = Loadable(image, self._arguments(image.signature, place))
        loadable = self._loadables.setdefault((iface, image.file), loadable)
        found = ImageConfig(self.pack.manifest.tables[place].config(image), loadable)
        return self._chosen.setdefault(key, found)

    def _load(self, loadable: Loadable, device: int) -> Any:
        """The function of an image on a device; each image is loaded once."""
        image = loadable.image
        with self._lock:
            if device not in loadable.functions:
                self._check_arch(device)
                binary, data = image.binary, self.pack.data(image)
                shared = binary.resources.shared
                loadable.functions[device] = self._driver.load(device, data, binary.symbol, shared)
        return loadable.functions[device]

    def _check_arch(self, device: int) -> None:
        target = processor(self._packed.target)
        own = self._driver.arch(device)
        if own != target:
            message = f"device {device} is of {own}; the pack's images for {self.tables.arch} are for {target}"
            raise LaunchFault("wrong-device", self.pack.path.as_posix(), message, "open the tables for its arch")

    @property
    def images(self) -> list[PackedImage]:
        """The images that have been chosen so far."""
        return [loadable.image for loadable in self._loadables.values()]

    @property
    def _packed(self) -> PackedTable:
        """One of the arch's tables in the pack."""
        return next(table for place, table in self.pack.manifest.tables.items() if _arch(place) == self.tables.arch)


def open_kernels(pack: str | Path, tables: ModuleType | str | Path, arch: str, driver: Driver | None = None) -> Kernels:
    """Open a pack with the generated tables that it was made for: their package, or the folder that it lies in.

    `arch` may be an alias. A pack need not have all interfaces of the arch. Raises FaultError where the pack is damaged
    or belongs to other tables.
    """
    own = Tables(tables if isinstance(tables, ModuleType) else load_tables(Path(tables)), arch)
    opened, faults = read_pack(Path(pack))
    if opened is None:
        raise FaultError(faults)
    faults = unlike(own, opened)
    if faults:
        opened.close()
        raise FaultError(faults)
    return Kernels(own, opened, driver or _driver(own, opened))


def unlike(tables: Tables, pack: Pack) -> list[Fault]:
    """A fault for each table of the arch in a pack that is not the generated one, and one where there is none."""
    where, digests = Span(pack.path.as_posix()), tables.digests
    own = {place: table for place, table in pack.manifest.tables.items() if _arch(place) == tables.arch}
    faults = [
        Fault("pack-unlike-table", where, f"{place}: the pack was made for another table", _REBUILD)
        for place, table in own.items()
        if digests.get(place.partition("/")[2]) != table.digest
    ]
    if not own:
        faults.append(Fault("pack-unlike-table", where, f"the pack has no images for {tables.arch}", _REBUILD))
    return faults


def processor(target: str) -> str:
    """The arch that images of a target run on: `cuda:90:32` is sm_90, `hip:gfx942:64` gfx942."""
    backend, name, _ = target.split(":")
    return f"sm_{name}" if backend == CUDA else name


def _arch(place: str) -> str:
    return place.partition("/")[0]


def _arguments(signature: Signature, place: str) -> Arguments:
    """Raises LaunchFault for types that this program does not know."""
    try:
        return Arguments(signature)
    except ValueError as error:
        raise LaunchFault("unknown-types", place, str(error), "the pack is of a later version") from error


def _driver(tables: Tables, pack: Pack) -> Driver:
    """The driver of the arch's images. Raises ImportError or OSError where it is not installed."""
    target = next(table.target for place, table in pack.manifest.tables.items() if _arch(place) == tables.arch)
    if target.startswith(CUDA):
        from codegen.runtime.cuda import CudaDriver

        return CudaDriver()
    from codegen.runtime.hip import HipDriver

    return HipDriver()
