"""The work of one thread in a dense product, and the source of its weights: starting points by
vendor, as data.

GPUs have the choices of TFLite's GPU delegate (tasks/conv_generic.cc), with its blocks of x, y and
slices as pixels and slices, and its workgroups; they are not measured here. Two vendors differ, by
the estimates of Mesa's compilers. Intel reads weights from global memory: a load that all lanes
share is one block read, but each shuffled float takes four instructions (from Skylake to Panther
Lake, networks take 0.2 to 0.6 of the time), and with more than 6 loads at once float16 kernels
spill registers. NVIDIA has workgroups of 64 lanes, with which networks of three generations take
0.93 of the time that they take with 32. Its threads have two pixels rather than more slices, since
each pixel reads all weights of the thread from workgroup memory, which bounds most layers. Software
adapters have what is fastest on lavapipe."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tflgpu_plugin.ir import Target
from tflgpu_plugin.ir.heuristics import heuristic

SHUFFLE_GROUP = 8  # invocations that share weights by shuffle
WEIGHTS = ("global", "shuffle", "memory")
BUSY_THREADS = 1 << 13  # threads that fill a mid-size GPU
MAX_PADDING_RATIO = 1.15  # most pixels, idle lanes included, relative to the tile with the fewest
WAITING_THREADS = 1 << 14  # threads that hide memory latency
MANY_PIXELS, FEW_PIXELS = 7, 2  # per thread on software adapters: maps of any size, small ones
ROW = 8  # neighbours in a row, whose windows share loads
FEW_PAY = 1.3  # an additional pipeline must save this factor
FEW_LANES = 32  # of workgroups for a row or few pixels, whose other lanes would be idle
PRODUCTS = 128  # per iteration on software adapters: more take long to compile
AHEAD = 4  # iterations on GPUs whose inputs are loaded at once, to hide latency with few waves
TEAM, MAX_TEAM = 8, 64  # threads that share an output's inputs, at least and at most
FEW_STEPS = 12  # iterations per tap; with more (ResNet-18) one tap has enough loads
MAX_LOADS = 12  # vec4 of x loaded at once, over several taps; more leave GCN one wave
WHOLE_SLICES = ("Mesa 22.",)  # drivers on which 1x1 convolutions take whole slices


@dataclass(frozen=True)
class Tile:
    """A thread computes `pixels` of `slices` channel slices, `step` input channels at a time.
    `lanes` is the workgroup's size. `weights` come from "global" memory, by "shuffle" among groups
    of 8 lanes, or from workgroup "memory" that all lanes fill. The input of `ahead` iterations is
    loaded before their products, except for neighbours in a row."""

    pixels: int
    slices: int
    step: int
    lanes: int
    weights: str
    ahead: int = 1

    @property
    def shared(self) -> bool:
        return self.weights == "shuffle"


@dataclass(frozen=True)
class Start:
    """A vendor's row: (pixels, slices) from the most work per thread to the least, the workgroup's
    size, and the source of weights (shuffles only if they passed the self-test). `wave64_sizes` are
    the sizes if all subgroups have 64 lanes; `loads` the most vec4 of x that are loaded at once,
    over several taps. `dots`: layers of bytes multiply them rather than convert them to float32,
    also in windows of 3x3 of depthwise ones, where three in four factors are zeros, and in dense
    ones of few rows; threads of dense ones compute one slice each if they are few. `streaming`: the
    threads that read weights as fast as memory gives them, where they are more than those that fill
    the GPU."""

    sizes: tuple[tuple[int, int], ...]
    lanes: int
    weights: str
    wave64_sizes: tuple[tuple[int, int], ...] = ()
    loads: int = MAX_LOADS
    dots: bool = False
    streaming: int = 0

    def sizes_on(self, target: Target) -> tuple[tuple[int, int], ...]:
        return (
            self.wave64_sizes if self.wave64_sizes and target.least_subgroup >= 64 else self.sizes
        )


STARTS: dict[str, Start] = {
    "nvidia": Start(((2, 4), (2, 2), (1, 2)), 64, "memory", dots=True),
    "amd": Start(((4, 2), (2, 2), (1, 2)), 32, "global", ((2, 2), (1, 2)), streaming=1 << 16),
    "intel": Start(((1, 4), (1, 2)), 16, "global", loads=6),
    "apple": Start(((4, 2), (2, 2), (1, 2)), 32, "global"),
    "arm": Start(((4, 2), (2, 2), (1, 2)), 16, "global"),
    "qualcomm": Start(((4, 2), (2, 2), (1, 2)), 16, "global"),
    "unknown": Start(((4, 4), (2, 4), (1, 4), (1, 2)), 32, "shuffle"),
    "software": Start(((4, 4), (2, 4), (1, 2)), 32, "shuffle"),  # for tests that plan as for a GPU
}


@heuristic
def choose_tile(target: Target, slices: int, count: int, width: int = 0, planes: int = 1) -> Tile:
    """Returns the tile for an output of `count` pixels and `slices` channel slices; few different
    tiles, so few pipelines. With a `width`, a thread's pixels are neighbours in rows of that width.

    Software adapters: the fastest measured on lavapipe; a 7 divides the maps of common networks.
    Others: the largest of the vendor's sizes that leaves enough threads to fill the GPU, few of
    them idle, or of a launch of many `planes` of `count` pixels twice as many. `target.tuning` may
    force "tile" (PIXELSxSLICES), "weights", "lanes" and "ahead"."""
    ahead = 1 if width else loads_ahead(target)
    busy = -(-WAITING_THREADS // planes) if planes > 1 else BUSY_THREADS
    return replace(_sized(target, slices, count, width, busy), ahead=ahead)


@heuristic
def word_tile(target: Target, slices: int, count: int) -> Tile:
    """Returns the tile of a product of bytes, whose threads compute less, since one load is four
    channels: the largest that leaves half of the threads that fill the GPU."""
    busy = max(BUSY_THREADS, target.threads // 2)
    tile = _sized(target, slices, count, 0, busy)
    start = STARTS.get(target.vendor, STARTS["unknown"])
    few = -(-count // tile.pixels) * -(-slices // tile.slices) < BUSY_THREADS
    if start.dots and few and not target.software and "tile" not in target.tuning:
        tile = replace(tile, pixels=1, slices=1)
    lanes = min(tile.lanes, target.workgroup(FEW_LANES)) if count <= FEW_LANES else tile.lanes
    return replace(tile, ahead=loads_ahead(target), lanes=lanes)


def hiding_threads(target: Target) -> int:
    """Returns how many threads hide memory latency: at least half of those that fill the GPU."""
    return max(WAITING_THREADS, target.threads // 2)


@heuristic
def waiting(target: Target, tile: Tile, threads: int, steps: int) -> Tile:
    """Returns the tile adapted to memory latency: it loads twice as far ahead if there are few
    threads, the registers suffice, and no more iterations than before are left over at the end."""
    few = tile.ahead == AHEAD and threads < WAITING_THREADS and tile.pixels <= FEW_PIXELS
    twice = few and "ahead" not in target.tuning and steps % (2 * AHEAD) == steps % AHEAD
    return replace(tile, ahead=2 * AHEAD) if twice else tile


def along_row(target: Target, tile: Tile, width: int, steps: int) -> tuple[Tile, int]:
    """Returns the tile for a window of this width, and how many taps of a row are loaded together:
    all of them, if iterations per tap are too few to hide memory latency, else one."""
    most = STARTS.get(target.vendor, STARTS["unknown"]).loads
    fitting = [n for n in (4, 2) if n * width * tile.pixels <= most]
    few = 1 < width and steps <= FEW_STEPS and tile.ahead > 1
    if not few or tile.weights != "global" or not fitting:
        return tile, 1
    ahead = next((n for n in fitting if n <= steps), fitting[-1])
    return replace(tile, ahead=ahead), width


def loads_ahead(target: Target) -> int:
    """Returns for how many iterations of a product the inputs are loaded before the first
    multiplication."""
    return int(target.tuning.get("ahead", 1 if target.software else AHEAD))


def _sized(
    target: Target, slices: int, count: int, width: int, threads: int = BUSY_THREADS
) -> Tile:
    least = 8 if slices > 4 else 4 if slices > 2 else 2
    start = STARTS.get(target.vendor, STARTS["unknown"])
    if forced := target.tuning.get("tile"):
        pixels, per_thread = (int(part) for part in forced.split("x"))
        size = min(pixels, width or pixels), min(per_thread, least)
        if target.software:
            return _tile(*size, SHUFFLE_GROUP, _weights(target, "shuffle"))
        return _tile(*size, _lanes(target, start), _weights(target, start.weights))
    if target.software:
        return _software(target, least, count, width)
    fitting = [(p, q) for p, q in start.sizes_on(target) if q <= least]
    busy = [(p, q) for p, q in fitting if count * slices >= threads * p * q]
    lanes = _lanes(target, start)
    least_made = min((_made(count, lanes, p) for p, _ in busy), default=0)
    full = [size for size in busy if _made(count, lanes, size[0]) <= least_made * MAX_PADDING_RATIO]
    pixels, per_thread = full[0] if full else fitting[-1]
    return _tile(pixels, per_thread, lanes, _weights(target, start.weights))


def _lanes(target: Target, start: Start) -> int:
    """Returns the size of a GPU's workgroups."""
    return target.workgroup(int(target.tuning.get("lanes", start.lanes)))


def _made(count: int, lanes: int, pixels: int) -> int:
    """Returns the number of pixels that all workgroups together compute, including those of idle
    lanes beyond `count`."""
    return -(-count // (lanes * pixels)) * lanes * pixels


@heuristic
def larger(target: Target, tile: Tile, count: int) -> list[Tile]:
    """Returns the vendor's tiles with equal slices and more pixels per thread, the largest first,
    that leave few more lanes idle over `count` pixels, also in smaller workgroups; none where lanes
    share weights by shuffle."""
    if tile.weights == "shuffle" or target.software or "tile" in target.tuning:
        return []
    most = _made(count, tile.lanes, tile.pixels) * MAX_PADDING_RATIO
    fewer = min(tile.lanes, target.workgroup(FEW_LANES))
    return [
        replace(tile, pixels=pixels, lanes=lanes)
        for pixels, slices in STARTS.get(target.vendor, STARTS["unknown"]).sizes_on(target)
        for lanes in dict.fromkeys((tile.lanes, fewer))
        if slices == tile.slices and pixels > tile.pixels
        and _made(count, lanes, pixels) <= most
    ]  # fmt: skip


def _software(target: Target, least: int, count: int, width: int) -> Tile:
    weights = _weights(target, "shuffle")
    if weights != "shuffle":
        return Tile(min(ROW, width or ROW), min(least, 4), 1, SHUFFLE_GROUP, weights)
    most = ROW if width else MANY_PIXELS
    small = rounds(count, FEW_PIXELS, width) * FEW_PAY < rounds(count, most, width)
    if small or 0 < width < most:
        most = min(FEW_PIXELS, width or FEW_PIXELS)
    return _tile(most, least, SHUFFLE_GROUP, weights)


def _tile(pixels: int, slices: int, lanes: int, weights: str) -> Tile:
    """Returns a tile whose `step` lets 8 lanes load all weights: slices * step is a multiple of 8.
    On software adapters, with groups of 8 lanes, it is a whole slice if that compiles fast
    enough."""
    whole = slices == 2 or (lanes == SHUFFLE_GROUP and 4 * pixels * slices <= PRODUCTS)
    return Tile(pixels, slices, 4 if whole else 2, lanes, weights)


def point_tile(target: Target, tile: Tile) -> Tile:
    """Returns the tile for a 1x1 convolution, the pipeline that does most of a network's work. On
    older lavapipe it takes a whole slice, which compiles longer: longer sums need less masking,
    loading and storing. MobileNet gains 8 %; on Mesa 25 it would take 1.5 times as long, on
    SwiftShader slightly longer."""
    if tile.shared and tile.lanes == SHUFFLE_GROUP and target.driver.startswith(WHOLE_SLICES):
        return replace(tile, step=4)
    return tile


def _weights(target: Target, start: str) -> str:
    wanted = target.tuning.get("weights", start)
    return "global" if wanted == "shuffle" and not target.shuffles else wanted


def passes_weights(target: Target) -> bool:
    """Whether lanes pass weights to each other by shuffle. They do not if one read from global
    memory serves all lanes, since weights in each lane's registers would reduce the number of
    waves."""
    vendor = "software" if target.software else target.vendor
    start = STARTS.get(vendor, STARTS["unknown"])
    return target.shuffles and _weights(target, start.weights) != "global"


def multiplies_bytes(target: Target) -> bool:
    """Whether depthwise layers of bytes, and dense ones of few rows, use dot products."""
    return not target.software and STARTS.get(target.vendor, STARTS["unknown"]).dots


@heuristic
def team_of(target: Target, units: int, slices: int) -> int:
    """Returns how many threads share the inputs of an output slice in products of few rows: on GPUs
    as many as keep enough of them busy, and each has one of these units."""
    found = TEAM if target.teams else 1
    streaming = max(target.threads, STARTS.get(target.vendor, STARTS["unknown"]).streaming)
    while (
        not target.software
        and 1 < found < MAX_TEAM
        and units >= 2 * found
        and 2 * found * slices <= streaming
    ):
        found *= 2
    return found


def rounds(count: int, pixels: int, width: int = 0) -> int:
    """Returns the work of groups of 8 lanes that compute `count` pixels; the unit is one pixel per
    lane. Work of a thread that does not depend on its pixels (weights, shuffles) counts as one more
    pixel. With a `width`, no thread has pixels of two rows."""
    threads = row_threads(count, pixels, width) if width else -(-count // pixels)
    return -(-threads // SHUFFLE_GROUP) * (pixels + 1)


def row_threads(count: int, pixels: int, width: int) -> int:
    """Returns the number of threads that cover `count` pixels in rows of `width`, if each computes
    `pixels` neighbours; the last thread of a row computes some pixels again."""
    return count // width * -(-width // pixels)
