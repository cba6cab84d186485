"""The interface for hosts: functions that import and claim a graph, builders of rows, and (for
hosts with native code) callbacks, records and reports. Hosts use these names through
`tflgpu_plugin.providers`, which loads this module on first use; types of graphs and rows are in
`tflgpu_plugin.ir`."""
# ruff: noqa: I001

from __future__ import annotations

from tflgpu_plugin import log, native, switches, threads
from tflgpu_plugin.engine import Claim, Instance, Partition, rebuild_partition
from tflgpu_plugin.errors import BuildError, HostError, ImpossibleShapes, Unsupported
from tflgpu_plugin.frontend import callbacks, messages, stored_shapes
from tflgpu_plugin.frontend.callers import PerCaller
from tflgpu_plugin.frontend.compiled_models import packed, restore_partition, unpacked
from tflgpu_plugin.frontend.records import Client, GraphRecord, PlacedPartition, Records
from tflgpu_plugin.frontend.reshaping import flat, parted
from tflgpu_plugin.frontend.reports import (
    CPU,
    GPU,
    REVERTED,
    NodeReport,
    Report,
    TensorReport,
    remember,
)
from tflgpu_plugin.importer import arithmetic, counts, loop_layer, partition, symbols
from tflgpu_plugin.importer.builder import COUNTED, Builder
from tflgpu_plugin.importer.node_reader import Default
from tflgpu_plugin.importer.folding import narrowed
from tflgpu_plugin.importer.imported import Facts, Imported, Table
from tflgpu_plugin.importer.loop_body import otherwise
from tflgpu_plugin.importer.model import DEFAULT_DOMAINS, HostExtent, HostModel, HostNode, Value
from tflgpu_plugin.importer.row_conditions import shaped
from tflgpu_plugin.importer.rules import INCOMPLETE
from tflgpu_plugin.importer.run_values import clamps, numbers
from tflgpu_plugin.importer.subgraph import Again, Subgraph, again, given_values, kept
from tflgpu_plugin.importer.support import Judge, without_kernel
from tflgpu_plugin.importer.tensors import FIRST_ROOM
from tflgpu_plugin.importer.unrolled import Steps, not_unrolled, truth, unrolled
from tflgpu_plugin.ir import HostOp, Quantization, Refusal, Shape, operands
from tflgpu_plugin.ops.elementwise import broadcast
from tflgpu_plugin.ops.quantization import same_bits
from tflgpu_plugin.options import OptionError, Options, parse
from tflgpu_plugin.registry import Once, Registry, WeakRegistry
from tflgpu_plugin.runtime.adapter import adapters, select
from tflgpu_plugin.runtime.device import AdapterInfo, NoAdapter

__all__ = [
    "COUNTED",
    "CPU",
    "DEFAULT_DOMAINS",
    "FIRST_ROOM",
    "GPU",
    "INCOMPLETE",
    "REVERTED",
    "AdapterInfo",
    "Again",
    "BuildError",
    "Builder",
    "Claim",
    "Client",
    "Default",
    "Facts",
    "GraphRecord",
    "HostError",
    "HostExtent",
    "HostModel",
    "HostNode",
    "HostOp",
    "Imported",
    "ImpossibleShapes",
    "Instance",
    "Judge",
    "NoAdapter",
    "NodeReport",
    "Once",
    "OptionError",
    "Options",
    "Partition",
    "PerCaller",
    "PlacedPartition",
    "Quantization",
    "Records",
    "Refusal",
    "Registry",
    "Report",
    "Shape",
    "Steps",
    "Subgraph",
    "Table",
    "TensorReport",
    "Unsupported",
    "Value",
    "WeakRegistry",
    "adapters",
    "again",
    "arithmetic",
    "broadcast",
    "callbacks",
    "clamps",
    "counts",
    "flat",
    "given_values",
    "kept",
    "log",
    "loop_layer",
    "messages",
    "narrowed",
    "native",
    "not_unrolled",
    "numbers",
    "operands",
    "otherwise",
    "packed",
    "parse",
    "parted",
    "partition",
    "rebuild_partition",
    "remember",
    "restore_partition",
    "same_bits",
    "select",
    "shaped",
    "stored_shapes",
    "switches",
    "symbols",
    "threads",
    "truth",
    "unpacked",
    "unrolled",
    "without_kernel",
]  # fmt: skip
