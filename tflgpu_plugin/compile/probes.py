"""Small kernels that a device is timed with: the inner loops of dense products, in each of the ways
that a tile may load its weights, of products in float16 and of bytes, and of attention.

They have the loads, the arithmetic and about the registers of the kernels that models run, and a
tenth of their text, since drivers take that much less time to compile them. Their results are not
read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tflgpu_plugin.ir import Buffer, Dispatch, Pipeline, Plan, Port

PIXELS, SLICES, BLOCKS = 2, 4, 16  # of a thread; blocks of slices (the y axis of the launch)
X_PIXELS = 1 << 10  # pixels in memory, which are read again beyond: a power of two
MAX_STEPS = 136  # iterations for which there are weights in memory
STAGE = 8  # iterations whose weights share workgroup memory
HEAD, KEYS, VALUES = 16, 128, 2  # attention: slices of a query, keys, slices of a result per thread
UNIFORM_BYTES = 256


@dataclass(frozen=True)
class Probe:
    """A launch of `threads` in workgroups of `lanes`, of a kernel of this `kind`:

    product    float32, with weights from `weights` (see `ops.tiles.Tile`)
    stored     x stored as float16, multiplied in float32
    half       both stored and multiplied as float16, 16 terms at a time
    bytes      both stored as bytes, multiplied by integer dot products
    scores     `rows` queries of attention share the keys that a thread loads

    `steps` are the iterations, of 4 channels each or, for scores, of 32 keys; the loads of
    `ahead` iterations, or slices of keys, come before their products."""

    kind: str = "product"
    weights: str = "global"
    lanes: int = 32
    ahead: int = 4
    rows: int = 1
    threads: int = 1 << 14
    steps: int = 64

    @property
    def pipeline(self) -> Pipeline:
        """Returns the kernel, which is the same for any number of threads and steps."""
        text = _scores(self) if self.kind == "scores" else _product(self)
        return Pipeline(f"probe_{self.kind}", "\n".join(text), "urrw")

    @property
    def groups(self) -> tuple[int, int, int]:
        """Returns the numbers of workgroups."""
        if self.kind == "scores":
            return max(1, self.threads // self.lanes), 1, 1
        blocks = min(BLOCKS, max(1, self.threads // self.lanes))
        return max(1, self.threads // blocks // self.lanes), blocks, 1

    @property
    def vectors(self) -> int:
        """Returns the vec4 of weights in an iteration."""
        return SLICES if self.kind == "bytes" else 4 * SLICES

    def plan(self, launches: int) -> Plan:
        """Returns a plan that launches the kernel this many times, one after the other."""
        x, w = X_PIXELS * MAX_STEPS * 16, BLOCKS * MAX_STEPS * 4 * SLICES * 16
        y = BLOCKS * SLICES * X_PIXELS * 16
        roles = Buffer("uniforms", UNIFORM_BYTES), Buffer("pool", x), Buffer("pool", w)
        launch = Dispatch("probe", 0, (0, 1, 2, 3), 0, self.groups, ())
        uniforms = struct.pack("<I", self.steps).ljust(UNIFORM_BYTES, b"\0")
        made = (launch,) * launches
        read = Port(0, "y", (4,), "f32", 3, 16)  # runs wait for their results
        return Plan(
            (self.pipeline,), (*roles, Buffer("output", y)), (), uniforms, made, (), (read,), ()
        )


# By kind: WGSL's types of x, of the weights, and of a sum.
TYPES = {
    "product": ("vec4f", "vec4f", "vec4f"),
    "stored": ("vec4<f16>", "vec4f", "vec4f"),
    "half": ("vec4<f16>", "vec4<f16>", "vec4f"),
    "bytes": ("u32", "vec4u", "vec4i"),
    "scores": ("vec4f", "vec4f", "vec4f"),
}


def _head(probe: Probe) -> Iterator[str]:
    x, w, y = TYPES[probe.kind]
    if "f16" in x:
        yield "enable f16;"
    yield "struct P { steps: u32 }"
    yield "@group(0) @binding(0) var<uniform> p: P;"
    yield f"@group(0) @binding(1) var<storage, read> x: array<{x}>;"
    yield f"@group(0) @binding(2) var<storage, read> w: array<{w}>;"
    yield f"@group(0) @binding(3) var<storage, read_write> y: array<{y}>;"
    if probe.weights == "memory":
        yield f"var<workgroup> staged: array<{w}, {STAGE * probe.vectors}>;"
    shuffles = probe.weights == "shuffle" or probe.kind == "scores"
    lane = ", @builtin(subgroup_invocation_id) sid: u32" if shuffles else ""
    yield f"@compute @workgroup_size({probe.lanes}) fn main(@builtin(workgroup_id) group: vec3u,"
    yield f"    @builtin(local_invocation_index) lid: u32{lane}) {{"
    if shuffles:
        yield "let base = sid & ~7u;"
    yield f"let thread = group.x * {probe.lanes}u + lid;"


def _product(probe: Probe) -> Iterator[str]:
    y = TYPES[probe.kind][2]
    yield from _head(probe)
    vectors = probe.vectors
    yield f"let block = group.y * {MAX_STEPS * vectors}u;"
    yield f"let at = thread * {PIXELS}u % {X_PIXELS}u;"
    if probe.weights == "memory":
        yield "let own = select(0u, 1u, at == 0xffffffffu);"  # as in conv.wgsl
    for pixel, slice_ in _sums():
        yield f"var c{pixel}{slice_} = {y}();"
    yield f"for (var k = 0u; k < p.steps; k += {probe.ahead}u) {{"
    if probe.weights == "memory":
        count = STAGE * vectors
        yield f"if (k % {STAGE}u == 0u) {{ workgroupBarrier();"
        yield f"for (var j = lid; j < {count}u; j += {probe.lanes}u)"
        yield f"  {{ staged[j] = w[block + k * {vectors}u + j]; }} workgroupBarrier(); }}"
    for k in range(probe.ahead):
        for pixel in range(PIXELS):
            yield f"let x{k}{pixel} = x[(k + {k}u) * {X_PIXELS}u + at + {pixel}u];"
    yield from PRODUCTS.get(probe.kind, _float)(probe)
    yield "}"
    for pixel, slice_ in _sums():
        place = f"(group.y * {SLICES}u + {slice_}u) * {X_PIXELS}u + at + {pixel}u"
        yield f"y[{place}] = c{pixel}{slice_};"
    yield "}"


def _sums() -> Iterator[tuple[int, int]]:
    return ((pixel, slice_) for pixel in range(PIXELS) for slice_ in range(SLICES))


def _weight(probe: Probe, k: int) -> str:
    """Returns vec4 {0} of the weights of an iteration, also as {2} of every eighth, {1}."""
    return {
        "global": f"w[block + (k + {k}u) * {probe.vectors}u + {{0}}u]",
        "shuffle": f"subgroupShuffle(v{k}{{1}}, base + {{2}}u)",
        "memory": f"staged[own + (k % {STAGE}u + {k}u) * {probe.vectors}u + {{0}}u]",
    }[probe.weights]


def _own(probe: Probe, k: int) -> Iterator[str]:
    """Yields the loads of the weights that a lane passes on by shuffles."""
    for eight in range(-(-probe.vectors // 8)) if probe.weights == "shuffle" else ():
        place = f"block + (k + {k}u) * {probe.vectors}u + {8 * eight}u + lid % 8u"
        yield f"let v{k}{eight} = w[{place}];"


def _float(probe: Probe) -> Iterator[str]:
    for k in range(probe.ahead):
        yield from _own(probe, k)
        weight = _weight(probe, k)
        for n in range(SLICES):
            yield f"let m{k}{n} = mat4x4f({_four(weight, n)});"
            for pixel in range(PIXELS):
                yield f"c{pixel}{n} += m{k}{n} * vec4f(x{k}{pixel});"


def _bytes(probe: Probe) -> Iterator[str]:
    for k in range(probe.ahead):
        yield from _own(probe, k)
        for n in range(SLICES):
            yield f"let m{k}{n} = {_weight(probe, k).format(n, 0, n)};"
            for pixel in range(PIXELS):
                dots = ", ".join(f"dot4I8Packed(x{k}{pixel}, m{k}{n}.{c})" for c in "xyzw")
                yield f"c{pixel}{n} += vec4i({dots});"


def _four(weight: str, slice_: int) -> str:
    places = range(4 * slice_, 4 * slice_ + 4)
    return ", ".join(weight.format(n, n // 8, n % 8) for n in places)


def _half(probe: Probe) -> Iterator[str]:
    """Yields sums of products of two iterations, of which two are added before float32 gets
    them."""
    for n in range(SLICES):
        for k in range(probe.ahead):
            yield f"let m{k}{n} = mat4x4<f16>({_four(_weight(probe, k), n)});"
        for pixel in range(PIXELS):
            runs = " + ".join(f"m{k}{n} * x{k}{pixel}" for k in range(probe.ahead))
            yield f"c{pixel}{n} += vec4f({runs});"


PRODUCTS = {"half": _half, "bytes": _bytes}


def _scores(probe: Probe) -> Iterator[str]:
    """Yields a loop over blocks of 32 keys: 4 scores per thread and row, their exponentials, and
    the sums of values by these."""
    rows, q = range(probe.rows), f"thread / 8u * {probe.rows}u"
    yield from _head(probe)
    yield f"let own = ({q} + lid % {probe.rows}u) % {X_PIXELS}u * {HEAD}u;"
    for r in rows:
        yield f"var peak{r} = -1e30; var sum{r} = 0.0;"
        yield from (f"var y{r}{n} = vec4f();" for n in range(VALUES))
    yield "for (var b = 0u; b < p.steps; b++) {"
    yield f"let first = b % {KEYS // 32}u * 32u; let key = (first + 4u * (lid % 8u)) * {HEAD}u;"
    yield from (f"var s{r} = vec4f();" for r in rows)
    yield f"for (var k = 0u; k < {HEAD}u; k += {probe.ahead}u) {{"
    for u in range(probe.ahead):
        yield from (f"let k{u}{j} = w[key + {j * HEAD + u}u + k];" for j in range(4))
        yield f"let q{u} = x[own + k + {u}u];"
    for u in range(probe.ahead):
        for r in rows:
            yield f"let q{u}{r} = subgroupShuffle(q{u}, base + {r}u);"
            dots = ", ".join(f"dot(q{u}{r}, k{u}{j})" for j in range(4))
            yield f"s{r} += vec4f({dots});"
    yield "}"
    for r in rows:
        yield f"let m{r} = max(peak{r}, max(max(s{r}.x, s{r}.y), max(s{r}.z, s{r}.w)));"
        yield f"let kept{r} = exp(peak{r} - m{r}); peak{r} = m{r}; s{r} = exp(s{r} - m{r});"
        yield f"sum{r} = sum{r} * kept{r} + (s{r}.x + s{r}.y) + (s{r}.z + s{r}.w);"
        yield from (f"y{r}{n} *= kept{r};" for n in range(VALUES))
    fours = max(1, probe.ahead // 2)
    yield f"for (var k = 0u; k < 8u; k += {fours}u) {{"
    places = [(t, j, n) for t in range(fours) for j in range(4) for n in range(VALUES)]
    for t, j, n in places:
        at = f"(first + 4u * k + {4 * t + j}u) * {HEAD}u + lid % 8u + {8 * n}u"
        yield f"let v{t}{j}{n} = w[{at}];"
    for t in range(fours):
        yield from (f"let a{t}{r} = subgroupShuffle(s{r}, base + k + {t}u);" for r in rows)
    for t, j, n in places:
        yield from (f"y{r}{n} = fma(vec4f(a{t}{r}[{j}]), v{t}{j}{n}, y{r}{n});" for r in rows)
    yield "}}"
    for r in rows:
        at = f"(({q} + {r}u) % {X_PIXELS}u * 8u + lid % 8u) * {VALUES}u"
        yield from (f"y[{at} + {n}u] = y{r}{n} / sum{r};" for n in range(VALUES))
    yield "}"
