"""Failing allocations in the native library. Each allocation of a call fails in turn: the call
returns an error that names memory, or succeeds without it; nothing is left half made, and the next
call succeeds. Runs in a separate process, with a library built to fail allocations."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation import sandbox
from tflgpu_plugin import native

pytestmark = pytest.mark.adapter

HEADER = """
#include <stdlib.h>
#include <string.h>
void *tg_test_malloc(size_t size);
void *tg_test_calloc(size_t count, size_t size);
void *tg_test_realloc(void *old, size_t size);
char *tg_test_strdup(const char *text);
#define malloc tg_test_malloc
#define calloc tg_test_calloc
#define realloc tg_test_realloc
#undef strdup
#define strdup tg_test_strdup
"""
SOURCE = """
#include <stdlib.h>
#include <string.h>
static _Atomic int left = -1;
__attribute__((visibility("default"))) void tg_test_fail_at(int number) { left = number; }
__attribute__((visibility("default"))) int tg_test_left(void) { return left; }
static int fails(void) { return left >= 0 && left-- == 0; }
void *tg_test_malloc(size_t size) { return fails() ? NULL : malloc(size); }
void *tg_test_calloc(size_t count, size_t size) { return fails() ? NULL : calloc(count, size); }
void *tg_test_realloc(void *old, size_t size) { return fails() ? NULL : realloc(old, size); }
char *tg_test_strdup(const char *text) { return fails() ? NULL : strdup(text); }
"""
PRELUDE = """
import ctypes, gc, logging
import numpy as np
from tests.native import test_plans as plans, test_refused_calls as calls
from tflgpu_plugin import native
from tflgpu_plugin.native import library_path
from tflgpu_plugin.runtime import adapter
from tflgpu_plugin.runtime.device import NoAdapter, create
library = ctypes.CDLL(str(library_path()))

class Reasons(logging.Handler):
    \"\"\"Why runs were left to the host's kernels, or nothing runs on the GPU.\"\"\"
    def emit(self, record):
        text = record.getMessage()
        if "own CPU kernels" in text or "nothing of this model" in text:
            reasons.append(text)

reasons = []
logging.getLogger("tflgpu_plugin").addHandler(Reasons())

def each_allocation(work, host=()):
    \"\"\"Fail the first, the second and so on in what `work` does, until it comes to its end. What
    is not done says that there is not enough memory, whether it is an error or left to the host.
    \"\"\"
    work()
    for number in range(1000):
        library.tg_test_fail_at(number)
        try:
            work()
        except (native.NativeError, NoAdapter, *host) as error:
            assert library.tg_test_left() == -1, error
            assert "emory" in str(error) or isinstance(error, host), error
            assert not isinstance(error, native.NativeError) or type(error) is native.OutOfMemory
        finally:
            left = library.tg_test_left()
            library.tg_test_fail_at(-1)
            gc.collect()
        if left >= 0:
            break
    work()
    print(number, "allocations,", len(reasons), "left to the host")
    assert number > 1 and all("emory" in reason for reason in reasons), reasons
    assert reasons or not host

opened = adapter.open_device(adapter.select(None))
"""
REPLAY = """
spec = calls.spec.__wrapped__()
x = np.arange(16, dtype=np.float32)

def work():
    state = calls.buffer(spec.device)
    made = calls.replace(spec, pipeline=calls.pipeline(spec.device))
    replay = made.make()
    calls.run(replay, x)
    calls.replace(made, states=((state, 64),)).make()
    assert set(calls.read(spec, spec.bindings[1]).view(np.float32)) == set(2 * x)
    native.call(native.lib.tg_buffer_fill, state, 7)

each_allocation(work)
"""
DEVICE = """
def work():
    handle = create(opened.info, sorted(opened.target.features))
    calls.buffer(handle)

each_allocation(work)
"""
PARTITION = """
spec = calls.spec.__wrapped__()

def work():
    ffi = native.ffi
    texts = [ffi.new("char[]", text) for text in (b"x", b"y", b"z")]
    names = ffi.new("char *[]", texts)
    data = ffi.new("void *[]", [texts[0]])
    given = ffi.new("tg_ort_partition_spec *")
    nodes, sizes = ffi.new("uint64_t[]", [9, 4]), ffi.new("uint64_t[]", [2])
    given.nodes, given.node_count = nodes, 2
    given.inputs, given.input_count, given.port_count = names, 1, 1
    given.outputs, given.output_count = names + 1, 1
    given.guards, given.guard_data, given.guard_bytes, given.guard_count = names + 2, data, sizes, 1
    shape = ffi.new("int64_t[]", [1, 2])
    shapes = given.guard_shapes = ffi.new("int64_t *[]", [shape])
    given.context, given.context_bytes, given.refusal = texts[1], 2, texts[2]
    made = native.call(native.lib.tg_ort_partition_create, given)
    made = ffi.gc(made, native.lib.tg_ort_partition_release)
    for extent in range(10):
        plans.add(made, [1, extent], [1, 16], spec.make() if extent == 4 else None)

each_allocation(work)
"""
SYMBOLS = """
from tests.native import test_symbol_tables as tables
made = tables.plan(tables.copying(), tables.N)
replay = tables.made_of(made)

def work():
    tables.add(made, replay=replay)

each_allocation(work)
"""
# A host may do without the GPU, but never with other results.
TFLITE = """
from conformance import host as hosts
from tests.support import interpreters, small_models

model, host = small_models.two_partitions(), hosts.installed()[0]

def work():
    interpreter, made = interpreters.gpu(model, host)
    for seed in range(2):
        interpreters.same(interpreter, model, host, seed)

each_allocation(work, (RuntimeError, ValueError))
"""
ONNXRUNTIME = """
from tests.support import onnx_models as m

data, feeds = m.add_relu(), {"x": m.values(2, 3, 5)}
theirs = m.cpu(data)

def work():
    ours = m.session(data)
    for _ in range(2):
        m.compare(ours, theirs, feeds)

each_allocation(work, (Exception,))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux" or not shutil.which("cc"):
        pytest.skip("needs a C compiler (cc) on Linux")
    folder = tmp_path_factory.mktemp("failing")
    (header := folder / "failing.h").write_text(HEADER)
    return sandbox.rebuild(folder, ("-include", str(header)), added=SOURCE)


CODES = {
    "plan": REPLAY, "device": DEVICE, "partition": PARTITION, "symbols": SYMBOLS,
    "tflite": TFLITE, "onnxruntime": ONNXRUNTIME,
}  # fmt: skip


@pytest.mark.parametrize("name", CODES)
def test_each_allocation_that_fails_is_a_sentence(tree: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + CODES[name]],
        env=os.environ | {"PYTHONPATH": str(tree)},
        cwd=sandbox.ROOT,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


THROWING = """
#include <stdbool.h>
#include <stddef.h>
#include <unwind.h>
#include "platform/platform.h"
static struct _Unwind_Exception exception;
static int freed;
static void drop(_Unwind_Reason_Code reason, struct _Unwind_Exception *thrown) { ++freed; }
static void throws(void *given) {
  ++*(int *)given;
  exception.exception_cleanup = drop;
  _Unwind_RaiseException(&exception);
}
static void nested(void *given) {
  bool threw = !tgi_attempt(throws, given);
  if (threw) throws(given);
}
static void returns(void *given) { ++*(int *)given; }
__attribute__((visibility("default"))) int tg_test_attempts(void) {
  int calls = 0, failed = 0;
  for (int i = 0; i < 5; i++) {
    failed += !tgi_attempt(nested, &calls);
    failed += 10 * !tgi_attempt(returns, &calls);
  }
  return 10000 * freed + 100 * calls + failed;
}
"""


def test_what_a_host_throws_ends_in_its_call(tmp_path: Path) -> None:
    """tflite-runtime's kernels throw std::bad_alloc, and its invoke does not catch it."""
    if sys.platform != "linux" or not shutil.which("cc"):
        pytest.skip("needs a C compiler (cc) on Linux")
    own, library = tmp_path / "throwing.c", tmp_path / "throwing.so"
    own.write_text(THROWING)
    objects = [tmp_path / "throwing.o", tmp_path / "posix.o"]
    platform = Path(native.__file__).parent / "platform" / "posix.c"
    for source, made in zip((own, platform), objects, strict=True):
        sandbox.compile_one(source, made, ("-Wno-unused-parameter",))
    sandbox.link(objects, library)
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).tg_test_attempts())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    # Each of five threw twice, and five others did not.
    assert done.stdout.strip() == "101505", done.stderr
