"""BOARDS: the cards whose rates a document states, by architecture.

A board's peak rates are those of NVIDIA's data sheets, dense; a number that they do not state is None, and a
card that they do not describe is not here.  Boards of one GPU differ in their memory and their clock: an
H100-SXM5 reads 3.35 TB/s, an H100-PCIe 2.04.  The first board of an architecture is that of its record.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from layoutalg.arch.model import Board

_MIB = 1 << 20

_A100 = "NVIDIA A100 data sheet; NVIDIA A100 Tensor Core GPU Architecture white paper"
_H100 = "NVIDIA H100 data sheet; NVIDIA H100 Tensor Core GPU Architecture white paper"
_GH200 = "NVIDIA GH200 data sheet, which states no L2 and no clock; SMs: NVIDIA Grace Hopper white paper"


def _a100(name: str, dram_bytes_per_s: float) -> Board:
    """An A100 whose memory alone differs."""
    return Board(
        name=name,
        sms=108,
        l2_bytes=40 * _MIB,
        dram_bytes_per_s=dram_bytes_per_s,
        f32_flops_per_s=19.5e12,
        f16_tensor_flops_per_s=312e12,
        boost_hz=1410e6,
        source=_A100,
    )


def _gh200(name: str, dram_bytes_per_s: float) -> Board:
    """The GPU of a GH200, whose memory alone differs."""
    return Board(
        name=name,
        sms=132,
        l2_bytes=None,
        dram_bytes_per_s=dram_bytes_per_s,
        f32_flops_per_s=67e12,
        f16_tensor_flops_per_s=990e12,
        source=_GH200,
    )


BOARDS: Mapping[str, tuple[Board, ...]] = MappingProxyType(
    {
        "sm_70": (
            Board(
                name="Tesla V100-SXM2",
                sms=80,
                l2_bytes=6 * _MIB,
                dram_bytes_per_s=900e9,
                f32_flops_per_s=15.7e12,
                f16_tensor_flops_per_s=125e12,
                boost_hz=1530e6,
                source="NVIDIA Tesla V100 GPU Architecture white paper, table 1",
            ),
        ),
        "sm_75": (
            Board(
                name="T4",
                sms=40,
                l2_bytes=4 * _MIB,
                dram_bytes_per_s=320e9,
                f32_flops_per_s=8.1e12,
                f16_tensor_flops_per_s=65e12,
                boost_hz=1590e6,
                source="NVIDIA T4 data sheet; NVIDIA Turing GPU Architecture white paper",
            ),
        ),
        "sm_80": (
            _a100("A100-SXM4-80GB", 2039e9),
            _a100("A100-SXM4-40GB", 1555e9),
            _a100("A100-PCIe-80GB", 1935e9),
            _a100("A100-PCIe-40GB", 1555e9),
            Board(
                name="A30",
                sms=56,
                l2_bytes=None,
                dram_bytes_per_s=933e9,
                f32_flops_per_s=10.3e12,
                f16_tensor_flops_per_s=165e12,
                boost_hz=1440e6,
                source="NVIDIA A30 data sheet; clock: NVIDIA A30 product brief",
            ),
        ),
        "sm_86": (
            Board(
                name="GeForce RTX 3090",
                sms=82,
                l2_bytes=6 * _MIB,
                dram_bytes_per_s=936e9,
                f32_flops_per_s=35.6e12,
                f16_tensor_flops_per_s=71e12,
                boost_hz=1695e6,
                source="NVIDIA Ampere GA102 GPU Architecture white paper, appendix A; tensor: f16 into f32",
            ),
            Board(
                name="GeForce RTX 3060 12GB",
                sms=28,
                l2_bytes=None,
                dram_bytes_per_s=360e9,
                f32_flops_per_s=12.7e12,
                f16_tensor_flops_per_s=None,
                boost_hz=1777e6,
                source="NVIDIA GeForce RTX 3060 specifications: 3584 cores, 1.78 GHz, 192 bits of 15 Gbit/s",
            ),
        ),
        "sm_87": (
            Board(
                name="Jetson AGX Orin 64GB",
                sms=16,
                l2_bytes=4 * _MIB,
                dram_bytes_per_s=204.8e9,
                f32_flops_per_s=5.3e12,
                f16_tensor_flops_per_s=None,
                boost_hz=1300e6,
                source="NVIDIA Jetson AGX Orin Series technical brief TB_10749-001, without a rate of f16",
            ),
        ),
        "sm_89": (
            Board(
                name="L40S",
                sms=142,
                l2_bytes=96 * _MIB,
                dram_bytes_per_s=864e9,
                f32_flops_per_s=91.6e12,
                f16_tensor_flops_per_s=362e12,
                boost_hz=2520e6,
                source="NVIDIA L40S data sheet; NVIDIA Ada GPU Architecture white paper",
            ),
            Board(
                name="L4",
                sms=58,
                l2_bytes=None,
                dram_bytes_per_s=300e9,
                f32_flops_per_s=30.3e12,
                f16_tensor_flops_per_s=121e12,
                boost_hz=2040e6,
                source="NVIDIA L4 data sheet; clock: NVIDIA L4 product brief",
            ),
            Board(
                name="GeForce RTX 4090",
                sms=128,
                l2_bytes=72 * _MIB,
                dram_bytes_per_s=1008e9,
                f32_flops_per_s=82.6e12,
                f16_tensor_flops_per_s=165.2e12,
                boost_hz=2520e6,
                source="NVIDIA Ada GPU Architecture white paper, appendix A; tensor: f16 into f32",
            ),
        ),
        "sm_90": (
            Board(
                name="H200-SXM",
                sms=132,
                l2_bytes=60 * _MIB,
                dram_bytes_per_s=4.8e12,
                f32_flops_per_s=66.9e12,
                f16_tensor_flops_per_s=989e12,
                boost_hz=1980e6,
                source="NVIDIA H200 data sheet; L2, SM count and clock as the device reports them",
            ),
            Board(
                name="H100-SXM5",
                sms=132,
                l2_bytes=50 * _MIB,
                dram_bytes_per_s=3.35e12,
                f32_flops_per_s=66.9e12,
                f16_tensor_flops_per_s=989e12,
                boost_hz=1980e6,
                source=f"{_H100}; clock: that of its rate of f32",
            ),
            Board(
                name="H100-PCIe",
                sms=114,
                l2_bytes=50 * _MIB,
                dram_bytes_per_s=2.039e12,
                f32_flops_per_s=51.2e12,
                f16_tensor_flops_per_s=756e12,
                boost_hz=1755e6,
                source=f"{_H100}; memory and clock: NVIDIA H100 PCIe GPU product brief",
            ),
            _gh200("GH200-96GB", 4e12),
            _gh200("GH200-144GB", 4.9e12),
        ),
        "sm_100": (
            Board(
                name="B200",
                sms=148,
                l2_bytes=126 * _MIB,
                dram_bytes_per_s=8e12,
                f32_flops_per_s=75e12,
                f16_tensor_flops_per_s=2250e12,
                boost_hz=None,
                source="NVIDIA DGX B200 and HGX B200 data sheets",
            ),
        ),
        "sm_103": (),
        "sm_120": (
            Board(
                name="GeForce RTX 5090",
                sms=170,
                l2_bytes=96 * _MIB,
                dram_bytes_per_s=1792e9,
                f32_flops_per_s=104.8e12,
                f16_tensor_flops_per_s=209.5e12,
                boost_hz=2407e6,
                source="NVIDIA RTX Blackwell GPU Architecture white paper, appendix A; tensor: f16 into f32",
            ),
            Board(
                name="GeForce RTX 5060",
                sms=30,
                l2_bytes=None,
                dram_bytes_per_s=448e9,
                f32_flops_per_s=19.2e12,
                f16_tensor_flops_per_s=None,
                boost_hz=2497e6,
                source="NVIDIA GeForce RTX 5060 specifications: 3840 cores, 2.50 GHz, 128 bits of 28 Gbit/s",
            ),
        ),
    }
)
"""By architecture, read only; none of sm_103."""
