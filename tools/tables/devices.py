"""What the model knows of each device beyond archs.toml. Rates are per compute unit and clock cycle.

Sources: [spec] AMD's product pages (peak rates, clocks, bandwidths) and NVIDIA's H100/H200 data sheets, divided by
units and clock; [cdna3] "AMD CDNA 3 Architecture" white paper; [rdna3] "RDNA 3 Instruction Set Architecture";
[hopper] "NVIDIA H100 Tensor Core GPU Architecture". What nobody publishes is an assumption and marked so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Device:
    """One device as the model sees it.

    units: compute units; simds: of a unit; wave: lanes; ghz: clock. matrix16, matrix32: floating-point operations a
    cycle of a unit by matrix instructions (32: by whatever multiplies float32 exactly). lanes: scalar operations a
    cycle; exps: exponentials a cycle. lds_bytes_cycle, l2_bytes_cycle: bytes a cycle of a unit. gbs: memory, GB/s.
    registers: of a lane over all waves of a SIMD, given out in steps of `step`; waves: most of a SIMD. lds: bytes of a
    unit. latency: cycles of a load that hits L2.
    """

    name: str
    units: int
    simds: int
    wave: int
    ghz: float
    matrix16: int
    matrix32: int
    lanes: int
    exps: int
    lds_bytes_cycle: int
    l2_bytes_cycle: int
    gbs: int
    registers: int
    step: int
    waves: int
    lds: int
    latency: int


# One die of an MI250X: 191.5 TFLOP/s in 16 bit, 47.9 in 32, 1.6 TB/s. [spec]
_MI250X = Device(
    "gfx90a", 110, 4, 64, 1.7, 1024, 256, 64, 16, 128, 37, 1638, 512, 8, 8, 65536, 500
)  # fmt: skip
# MI300X: 1307 TFLOP/s in 16 bit, 163 in 32, 5.3 TB/s; L2 gives 2 KiB a cycle to the 38 units of a die. [spec] [cdna3]
_MI300X = Device(
    "gfx942", 304, 4, 64, 2.1, 2048, 256, 64, 16, 128, 54, 5300, 512, 8, 8, 65536, 500
)  # fmt: skip
# MI355X: 2.5 PFLOP/s in 16 bit, 157 TFLOP/s in 32, 8 TB/s. [spec]
_MI355X = Device(
    "gfx950", 256, 4, 64, 2.4, 4096, 256, 64, 16, 256, 64, 8000, 512, 8, 8, 163840, 500
)  # fmt: skip
# RX 7900 XTX: 122.8 TFLOP/s in 16 bit, 960 GB/s; two units share 128 KiB of local memory. [spec] [rdna3]
_RX7900XTX = Device(
    "gfx1100", 96, 2, 32, 2.5, 512, 128, 64, 16, 64, 32, 960, 1536, 24, 16, 65536, 400
)  # fmt: skip
# RX 9070 XT: 195 TFLOP/s in 16 bit, 640 GB/s. [spec]
_RX9070XT = Device(
    "gfx1201", 64, 2, 32, 2.97, 1024, 128, 64, 16, 64, 32, 640, 1536, 24, 16, 65536, 400
)  # fmt: skip
# Neither size nor rates of gfx1250 are published: an assumption, gfx950's with the local memory of archs.toml.
_GFX1250 = replace(
    _MI355X, name="gfx1250", wave=32, simds=4, lds=327680, registers=1024, step=16, waves=16, lanes=128, exps=32
)  # fmt: skip
# H200: 989 TFLOP/s in 16 bit at 1.83 GHz, 4.8 TB/s. [spec] [hopper]
_H200 = Device(
    "sm_90", 132, 4, 32, 1.83, 4096, 256, 128, 16, 128, 32, 4800, 512, 8, 16, 233472, 600
)  # fmt: skip

DEVICES = {device.name: device for device in (_MI250X, _MI300X, _MI355X, _RX7900XTX, _RX9070XT, _GFX1250, _H200)}
