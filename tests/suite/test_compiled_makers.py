"""Tests the models of Intel's, NVIDIA's and Qualcomm's GPUs, the emulated devices, and the list of
kernels that spill, without the compilers themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.compiled import adreno, apple, gpus, intel, nvidia, shim
from benchmarks.compiled.cost import Code, Gpu, cost
from benchmarks.compiled.devices import DEVICES
from benchmarks.compiled.flow import in_order
from benchmarks.compiled.rounds import Loop
from benchmarks.compiled.spills import SPILLS, unexpected
from benchmarks.compiled.waiting import Unit
from benchmarks.engine import Unavailable
from tflgpu_plugin.ops import FAMILIES
from tflgpu_plugin.ops.tiles import STARTS

INTEL = """\
mov(16)         g10<1>F         0x00000000F                     { align1 1H };
LABEL0:
send(16)        g20UD           g2UD            nullUD          0x04116e13                0x00000000
                hdc1 MsgDesc: (DC untyped surface read)  mlen 2 ex_mlen 0 rlen 2 { align1 1H $0 };
mad(16)         g10<1>F         g10<8,8,1>F     g20<8,8,1>F     g4<8,8,1>F { align1 1H $0.dst };
mad(16)         g10<1>F         g10<8,8,1>F     g21<8,8,1>F     g4.1<0,1,0>F { align1 1H };
add(16)         g3<1>D          g3<8,8,1>D      1D              { align1 1H };
(+f0.0) while(16) JIP:  LABEL0                                  { align1 1H };
send(16)        nullUD          g2UD            g10UD           0x04026e13                0x00000080
                hdc1 MsgDesc: (DC untyped surface write) mlen 2 ex_mlen 2 rlen 0 { align1 1H };
"""
NVIDIA = """\
block 0 L0 [] -> {
      r0      = s2r sr[0x21]                                    // delay=1 wr:0
} -> [1]
block 1 L1 [0, 1] -> {
      r4..8   = ld.global.constant.a32.b128.strong [r2..4]      // delay=2 wr:1
      r8      = ffma.ftz r4 r5 r8                               // delay=1 wt=000010
      r9      = ffma.ftz r6 r7 r9                               // delay=1
@p0             bra pT L1                                       // delay=5
} -> [2, 1]
block 2 L2 [1] -> {
                st.global.a32.b32.strong [r2..4] r8             // delay=1 rd:0
                exit                                            // delay=1
} -> []
"""
QUALCOMM = """\
mov.f32f32 r1.x, 0
l4:
isam.v.base0 (u32)(xyzw)r8.w, r8.x, s#0, t#1
(sy)(rpt3)mad.f32 r6.y, (r)r6.y, (r)r8.w, (r)r6.y
(nop2) cmps.u.ge p0.x, r5.z, r6.x
(rpt1)nop
br p0.x, #l20
jump #l4
l20:
stib.b.untyped.1d.u32.4.imm.base0 r1.x, r0.x, 3
end
"""
NUMBERS = {"Lanes": 32, "Max warps/SM": 32, "Max Waves Per Core": 16}
CODES: list[tuple[Gpu, Code, int]] = [
    (intel.GPUS["tgl"], intel.Made(NUMBERS | {"Lanes": 16}, INTEL, intel.GPUS["tgl"]), 2),
    (nvidia.GPUS["tu102"], nvidia.Made(NUMBERS, NVIDIA, nvidia.GPUS["tu102"]), 2),
    (adreno.GPUS["a740"], adreno.Made(NUMBERS | {"Lanes": 64}, QUALCOMM, adreno.GPUS["a740"]), 4),
]


@pytest.mark.parametrize(("gpu", "code", "products"), CODES)
def test_a_loop_waits_for_its_loads_and_makes_its_products(
    gpu: Gpu, code: Code, products: int
) -> None:
    assert code.depths() == [1]
    one, two = (cost(code, gpu, [Loop(1, 1, rounds)], 1, code.lanes) for rounds in (10, 20))
    assert one.sure and one.counted and one.bound == "latency"
    assert one.products == products * 10 * code.lanes
    assert 10 * 250 <= one.us * gpu.ghz * 1e3 < 10 * 400
    assert two.us == pytest.approx(2 * one.us, rel=0.1)


@pytest.mark.parametrize(("gpu", "code", "products"), CODES)
def test_many_workgroups_take_at_least_what_their_loads_take(
    gpu: Gpu, code: Code, products: int
) -> None:
    groups = 1000 * gpu.units * gpu.schedulers
    found = cost(code, gpu, [Loop(1, 1, 100)], groups, code.lanes)
    # 16 bytes a lane on NVIDIA and Qualcomm, 4 on Intel
    moved = (4 if isinstance(gpu, intel.Intel) else 16) * code.lanes * 100 * groups
    assert isinstance(gpu, Unit)
    assert found.us * gpu.ghz * 1e3 >= moved / gpu.units / gpu.bandwidth
    twice = cost(code, gpu, [Loop(1, 1, 100)], 2 * groups, code.lanes)
    assert twice.us == pytest.approx(2 * found.us)


DPAS = "dpas.8x8(8) g10<1>F g10<1>F g20<1>HF g30<1>HF"
HMMA = "block 0 L0 [] -> {\n r0..4 = hmma.m16n8k16.f32 r0 r4 r6 // delay=2\n} -> []"


@pytest.mark.parametrize(
    ("gpu", "code", "counted"),
    [
        ("dg2", intel.Made(NUMBERS, DPAS, intel.GPUS["dg2"]), False),
        ("dg2", intel.Made(NUMBERS, INTEL, intel.GPUS["dg2"]), True),
        ("ad102", nvidia.Made(NUMBERS, HMMA, nvidia.GPUS["ad102"]), False),
        ("ad102", nvidia.Made(NUMBERS, HMMA.replace("hmma", "hfma2"), nvidia.GPUS["ad102"]), True),
    ],
)
def test_products_of_matrices_are_uncounted(gpu: str, code: Code, counted: bool) -> None:
    assert cost(code, gpus.model(gpu), [], 1, 32).counted == counted


def test_half_precision_takes_half_the_slots_on_intel_and_two_products_on_nvidia() -> None:
    single = "mad(16)         g10<1>F  g10<8,8,1>F  g20<8,8,1>F  g4<8,8,1>F"
    codes = [
        intel.Made(NUMBERS, line, intel.GPUS["tgl"])
        for line in (single, single.replace("F ", "HF ").replace(">F", ">HF"))
    ]
    ((full,),), ((half,),) = (code.blocks for code in codes)
    assert (full.slots, half.slots) == (2, 1) and full.products == half.products == 1
    text = NVIDIA.replace("ffma.ftz", "hfma2")
    blocks = nvidia.Made(NUMBERS, text, nvidia.GPUS["ad102"]).blocks
    assert sum(each.products for each in blocks[1]) == 4


def test_shared_memory_is_apart_from_global_memory() -> None:
    line = NVIDIA.replace("ld.global.constant.a32", "ld.shared")
    kinds = [each.kind for each in nvidia.Made(NUMBERS, line, nvidia.GPUS["tu102"]).blocks[1]]
    assert kinds == ["shared", "float", "float", "other"]
    qualcomm = QUALCOMM.replace(
        "isam.v.base0 (u32)(xyzw)r8.w, r8.x, s#0, t#1", "ldl.u32 r8.w, l[r8.x], 4"
    )
    steps = adreno.Made(NUMBERS, qualcomm, adreno.GPUS["a740"]).blocks[1]
    assert steps[0].kind == "shared"


def test_blocks_of_a_loop_stand_together() -> None:
    """0 -> 1 -> 2 -> 1, where 3, the end, was written between them; and a loop in a loop."""
    order, loops = in_order([[1], [4, 3], [], [2], [1]])
    assert order[:2] == [0, 1] and set(order[2:]) == {2, 3, 4}
    assert loops == [(1, 2)] and order[2] == 4
    order, loops = in_order([[1], [2], [3, 2], [4, 1], []])
    assert order == [0, 1, 2, 3, 4] and loops == [(1, 3), (2, 2)]
    assert in_order([[]]) == ([0], [])


def test_devices_have_rows_of_tiles_and_models() -> None:
    assert all(device.vendor in STARTS for device in DEVICES.values())
    assert set(DEVICES) < set(gpus.MODELS)
    assert gpus.target("lnl").least_subgroup == 32 and gpus.target("lnl").vendor == "intel"
    assert gpus.target("dg2").threads > gpus.target("mtl").threads == gpus.target("lnl").threads
    assert gpus.target("vega10").least_subgroup == 64
    assert not gpus.target("a740").native_half


@pytest.mark.parametrize("name", ["tgl", "m1"])
def test_libdrm_finds_a_device_in_the_tree(name: str, tmp_path: Path) -> None:
    device = DEVICES[name]
    shim._tree(tmp_path, device)
    node = tmp_path / "sys/dev/char" / shim.NUMBER
    assert (tmp_path / "dev/dri" / shim.NODE).exists()
    bus = (node / "device/subsystem").resolve().name
    told = (node / "device/uevent").read_text()
    assert f"DRIVER={device.kernel}" in told and bus == ("pci" if device.pci else "platform")
    if device.pci:
        assert (node / "device/device").read_text() == "0x9a49\n"
        assert (node / "device/config").read_bytes()[:4] == b"\x86\x80\x49\x9a"
    else:
        assert "OF_COMPATIBLE_0=apple,agx" in told


def test_apples_kernels_have_numbers_but_no_estimate() -> None:
    code = apple.Made({"Lanes": 32, "GPRs": 75, "Spills": 0, "Threads": 832}, "")
    assert (code.registers, code.spills, code.waves) == (75, 0, 6)
    with pytest.raises(Unavailable, match="no assembly"):
        cost(code, apple.GPUS["m1"], [], 1, 32)


def test_only_known_spills_pass() -> None:
    known = {"tgl": {"conv": 2}}
    assert unexpected("tgl", ["conv", "conv"], True, known) == []
    assert unexpected("tgl", ["conv"], False, known) == []
    assert unexpected("tgl", ["conv"], True, known) == [
        "tgl: 1 kernels of conv spill, 2 are known"
    ]  # fmt: skip
    assert unexpected("tgl", ["conv"] * 3, False, known)
    assert unexpected("lnl", ["lstm"], False, known) == [
        "lnl: 1 kernels of lstm spill, 0 are known"
    ]  # fmt: skip
    assert all(family in FAMILIES for families in SPILLS.values() for family in families)
