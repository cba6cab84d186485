"""The commands for speed, `tflgpu bench` and `tflgpu profile`: their arguments and output."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from tflgpu_plugin.cli.exits import DIFFERS
from tflgpu_plugin.cli.shared import (
    adapter_option,
    as_json,
    console,
    existing,
    fed,
    finite,
    prepared,
    print_json,
    progress,
    table,
)
from tflgpu_plugin.cli.written import OutFile, replacing

_runs = click.option(
    "--runs", default=20, type=click.IntRange(min=1), help="Timed inferences.", show_default=True
)

_above = click.FloatRange(min=0, min_open=True)


def _write(path: Path, text: str) -> None:
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def _show_measured(found: Any) -> None:
    from tflgpu_plugin.harness import inputs

    console.print(f"{found.model} in {found.host}, {found.adapter}")
    if sentence := inputs.shapes_sentence(found.chosen_shapes):
        console.print(sentence)


@click.command()
@click.argument("model", type=existing)
@click.option("--engines", default="cpu,gpu", show_default=True, metavar="NAME,...",
              help="What to time: cpu, gpu, gpu-f16 (is_precision_loss_allowed=1).")  # fmt: skip
@click.option("--warmup", default=2, type=click.IntRange(min=0), show_default=True,
              help="Inferences of each engine before those that are timed.")  # fmt: skip
@_runs
@click.option("--seconds", type=_above, callback=finite,
              help="Run for this long instead, all engines together.")  # fmt: skip
@click.option("--max-ms", type=click.FloatRange(min=0), callback=finite,
              help="Exit with status 1 if the median on the GPU is larger (on the CPU, "
              "where only that is timed).")  # fmt: skip
@fed
@adapter_option
@prepared
@click.option("--plot", type=OutFile(".svg"), metavar="FILE.svg",
              help="Write a plot.")  # fmt: skip
@click.option("--csv", "as_csv", is_flag=True, help="Print a line of CSV for each engine.")
@as_json
def bench(
    model: Path, as_csv: bool, as_json: bool, max_ms: float | None, plot: Path | None,
    **arguments: Any,
) -> None:  # fmt: skip
    """Time MODEL on the host's CPU kernels and through this plugin, alternately.

    For engines on the GPU, a second table shows where the time of an inference goes."""
    from tflgpu_plugin.cli import bench as timing, plot as plotting

    if as_csv and as_json:
        raise click.UsageError("Use either --csv or --json.")
    asked = timing.request(model, arguments)
    with progress("Timing") as done:
        found = timing.bench(asked, done)
    if plot is not None:
        _write(plot, plotting.written(found))
    if as_json:
        print_json(asdict(found))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows(_csv_rows(found))
    else:
        _show_bench(found)
        if plot is not None:
            console.print(f"\nWrote {plot}.")
    if max_ms is not None and (slow := found.slower_than(max_ms)):
        for one in slow:
            click.echo(f"{one.engine}: the median of {one.median_ms:.2f} ms is over {max_ms:g} ms.",
                       err=True)  # fmt: skip
        raise SystemExit(DIFFERS)


def _csv_rows(found: Any) -> Iterator[list[Any]]:
    """Yields the heads, then a row per engine; columns of parts are empty for the CPU."""
    for number, one in enumerate(found.timings):
        row = asdict(one)
        parts = row.pop("parts") or {}
        names = [name for timing in found.timings for name in asdict(timing)["parts"] or ()]
        row |= {name: parts.get(name) for name in names}
        row = {"model": found.model, "host": found.host, "adapter": found.adapter} | row
        if not number:
            yield list(row)
        yield list(row.values())


def _show_bench(found: Any) -> None:
    _show_measured(found)
    head = ["engine", "first result ms", "mean ms", "p50", "p90", "p99", "max", "per second",
            "largest difference"]  # fmt: skip
    table(head, [
        [t.engine, f"{t.first_ms:.0f}",
         *(f"{ms:.2f}" for ms in (t.mean_ms, t.median_ms, t.p90_ms, t.p99_ms, t.max_ms)),
         f"{t.per_second:.1f}", f"{t.difference:.1e}" if place else ""]
        for place, t in enumerate(found.timings)
    ])  # fmt: skip
    for one in found.timings:
        if one.host_runs:
            which = "some" if one.parts else "all"
            console.print(f"{one.engine}: the host's own kernels did {which} runs of partitions "
                          f"({one.host_runs} so far), which the GPU could not do; a warning says "
                          "why.", style="yellow")  # fmt: skip
    on_gpu = [(t.engine, t.partitions, t.parts) for t in found.timings if t.parts]
    if on_gpu:
        console.print("\nParts of the median of further inferences, with timestamps, ms:")
        head = ["engine", "partitions", "inference", "upload", "wait for the device",
                "(its kernels)", "download", "host"]  # fmt: skip
        table(head, [
            [name, str(partitions), f"{p.inference_ms:.2f}", f"{p.upload_ms:.2f}",
             f"{p.waiting_ms:.2f}", "-" if p.kernels_ms is None else f"({p.kernels_ms:.2f})",
             f"{p.download_ms:.2f}", f"{p.host_ms:.2f}"]
            for name, partitions, p in on_gpu
        ])  # fmt: skip


@click.command()
@click.argument("model", type=existing)
@click.option("--sort", type=click.Choice(["order", "time"]), default="order", show_default=True,
              help="List launches as they run, or the longest first.")  # fmt: skip
@click.option("--top", type=click.IntRange(min=1), help="List only the first of them.")
@click.option("--trace", type=OutFile(".json"), metavar="FILE.json",
              help="Write a timeline for ui.perfetto.dev or chrome://tracing.")  # fmt: skip
@click.option("--html", "page", type=OutFile(".html"), metavar="FILE.html",
              help="Write a page with a timeline and tables.")  # fmt: skip
@click.option("--peak-gflops", type=_above, callback=finite, help="1e9 float operations per second "
              "of this adapter, as its maker states them.")  # fmt: skip
@click.option(
    "--peak-gbs", type=_above, callback=finite, help="1e9 bytes per second of its memory."
)
@_runs
@fed
@adapter_option
@prepared
@as_json
def profile(
    model: Path, sort: str, top: int | None, trace: Path | None, page: Path | None, as_json: bool,
    **arguments: Any,
) -> None:  # fmt: skip
    """Show the device time of MODEL, launch by launch, from timestamps, and the nodes that its host
    computes on the CPU.

    GFLOP/s and GB/s are what the nodes of a launch reach, by their multiply-adds and the bytes of
    their tensors in the model. The limits of an adapter are not known to WebGPU; give
    --peak-gflops and --peak-gbs to see the part of them."""
    from tflgpu_plugin.cli import profile as measure, profile_page, trace as tracing

    with progress("Profiling") as done:
        found = measure.profiled(measure.request(model, arguments), done)
    if trace is not None:
        _write(trace, json.dumps(tracing.trace(found)))
    if page is not None:
        _write(page, profile_page.written(found))
    if as_json:
        return print_json(found.as_json())
    _show_measured(found)
    _show_launches(found, sort, top)
    for written in filter(None, (trace, page)):
        console.print(f"\nWrote {written}.")


def _show_launches(found: Any, sort: str, top: int | None) -> None:
    share, launches = 100 / (found.total or 1), list(found.launches)
    if sort == "time":
        launches.sort(key=lambda one: -one.milliseconds)
    limits = any(one.of_limit is not None for one in launches)
    head = ["partition", "ms", "%", "GFLOP/s", "GB/s", *(["% of limit"] if limits else []),
            "kernel", "nodes"]  # fmt: skip
    table(head, [
        [str(one.partition), f"{one.milliseconds:.3f}", f"{one.milliseconds * share:.1f}",
         _known(one.gflops), _known(one.gbs),
         *([_known(one.of_limit and 100 * one.of_limit)] if limits else []),
         one.kernel, ", ".join(one.nodes or one.names)] for one in launches[:top]
    ])  # fmt: skip
    console.print(
        f"\n{found.total:.2f} ms on the device in {len(found.launches)} launches; an inference "
        f"takes {found.inference_ms:.2f} ms with timestamps, {found.outside_ms:.2f} of them in the "
        "host and its own kernels"
    )
    table(["kernel", "launches", "ms", "%"], [
        [name, str(count), f"{taken:.3f}", f"{taken * share:.1f}"]
        for name, count, taken in found.by_kernel()
    ])  # fmt: skip
    if found.cpu_nodes:
        console.print("\nOn the CPU:")
        table(["operator", "ms", "node"], [
            [one.operator, f"{one.milliseconds:.3f}", one.name] for one in found.cpu_nodes
        ])  # fmt: skip


def _known(number: float | None) -> str:
    return "-" if number is None else f"{number:.1f}"
