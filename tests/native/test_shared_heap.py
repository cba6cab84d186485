"""Tests that the library frees with its own C runtime only what that has allocated, and hands
nothing of it to a host to free: on Windows both may have a heap of their own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from conformance import host as hosts
from tests.mutation import sandbox
from tests.support.subprocesses import run_python

pytestmark = [
    pytest.mark.adapter,
    pytest.mark.skipif(
        sys.platform != "linux" or not shutil.which("cc"), reason="needs a C compiler on Linux"
    ),
]
# A heap of the library's own: the C library ends the process where it frees a block of this heap.
SOURCE = """
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void __real_free(void *memory);

typedef struct head {
  uint64_t mark[2];                                      /* 16 bytes, so that blocks stay aligned */
} head;

enum { MARK = 0x7f1e57 };
static atomic_int foreign;

void *__wrap_malloc(size_t bytes) {
  head *made = bytes < SIZE_MAX - sizeof *made ? __real_malloc(bytes + sizeof *made) : NULL;
  if (!made) return NULL;
  *made = (head){{MARK, ~(uint64_t)MARK}};
  return made + 1;
}

void *__wrap_calloc(size_t count, size_t bytes) {
  void *made = bytes && count > SIZE_MAX / bytes ? NULL : __wrap_malloc(count * bytes);
  return made ? memset(made, 0, count * bytes) : NULL;
}

void __wrap_free(void *memory) {
  head *made = (head *)memory - 1;
  if (!memory) return;
  bool own = made->mark[0] == MARK && made->mark[1] == ~(uint64_t)MARK;
  if (own) *made = (head){0};
  else atomic_fetch_add(&foreign, 1);
  __real_free(own ? (void *)made : memory);
}

void *__wrap_realloc(void *memory, size_t bytes) {
  head *made = (head *)memory - 1;
  if (!memory) return __wrap_malloc(bytes);
  made = __real_realloc(made, bytes + sizeof *made);
  return made ? made + 1 : NULL;
}

/* What is shared comes from the heap of the host. */
void *__wrap_tgi_shared_alloc(size_t bytes) { return __real_malloc(bytes); }
void __wrap_tgi_shared_free(void *memory) { __real_free(memory); }

__attribute__((visibility("default"))) int tg_test_foreign(void) { return atomic_load(&foreign); }
"""
WRAPPED = ("malloc", "calloc", "realloc", "free", "tgi_shared_alloc", "tgi_shared_free")
# Runs of the host's own kernels, which allocate and free lists and tensors, also empty ones.
TESTS = {
    "tests/providers/tflite/test_fallback.py": "known_without_a_plan or kernels_of_the_host",
    "tests/providers/tflite/test_run_values.py": "empty_results",
}
CODE = """
import ctypes, pytest
from tflgpu_plugin.native import library_path
assert "heap" in str(library_path()), library_path()
status = pytest.main(["-q", "-x", "-p", "no:cacheprovider", {test!r}, "-k", {chosen!r}])
found = ctypes.CDLL(str(library_path())).tg_test_foreign()
print(f"status {{status}}, {{found}} blocks of others")
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    linked = tuple(f"-Wl,--wrap={name}" for name in WRAPPED)
    return sandbox.rebuild(tmp_path_factory.mktemp("heap"), linked=linked, added=SOURCE)


@pytest.mark.parametrize("test", TESTS)
def test_each_runtime_frees_its_own_memory(tree: Path, test: str) -> None:
    if not hosts.installed():
        pytest.skip("no TFLite host")
    done = run_python(CODE.format(test=test, chosen=TESTS[test]), PYTHONPATH=str(tree))
    assert done.stdout.splitlines()[-1] == "status 0, 0 blocks of others", done.stdout
