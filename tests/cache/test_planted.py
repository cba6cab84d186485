"""Files in cache folders that the plugin has not written are ignored with one log line: nothing
blocks, and nothing in them is executed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.subprocesses import run_python

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")

# Python that makes it at `place`, `good` being what would be right, and what is logged about it.
FILES = {
    "a pipe": ("os.mkfifo(place)", "it is not a regular file"),
    "a folder": ("place.mkdir()", "it is not a regular file"),
    "a link": ("place.symlink_to(good)", "it is a link"),
    "a link to nothing": ("place.symlink_to('nothing')", "it is a link"),
    "a socket": ("os.mknod(place, 0o600 | stat.S_IFSOCK)", "No such device or address"),
    "a large sparse file": (
        "shutil.copy(good, place); os.truncate(place, 8 << 30)",
        "it has 8,589,934,592 bytes, more than expected",
    ),
    "a file that all can write": (
        "shutil.copy(good, place); place.chmod(0o606)",
        "others can write to it; run chmod go-w on it, or name one of your own",
    ),
    "a file that a group can write": (
        "shutil.copy(good, place); place.chmod(0o660)",
        "others can write to it; run chmod go-w on it, or name one of your own",
    ),
    "a file of another user": (
        "shutil.copy(good, place); os.chown(place, 12345, -1)",
        "it belongs to another user; name one of your own",
    ),
}
FOLDERS = {
    "a pipe": ("os.mkfifo(place)", "it is not a folder"),
    "a file": ("place.write_text('')", "it is not a folder"),
    "a link": ("place.symlink_to(good)", "it is a link"),
    "a folder that all can write": (
        "shutil.copytree(good, place); place.chmod(0o777)",
        "others can write to it; run chmod go-w on it, or name one of your own",
    ),
    "a folder of another user": (
        "shutil.copytree(good, place); os.chown(place, 12345, -1)",
        "it belongs to another user; name one of your own",
    ),
}

# All that is kept, each by the function that reads it; `file` says where.
PRELUDE = """
import json, os, pickle, resource, shutil, stat, sys
from pathlib import Path
from tests.support import stored
from tflgpu_plugin.cache import fingerprint, folders, store
from tflgpu_plugin.compile import tuning
from tflgpu_plugin.kernels import bodies

base = Path(os.environ["XDG_CACHE_HOME"]) / "tflgpu-plugin"
graph, MOST = stored.dense(), 1 << 30

def kernel():
    variant = ("lanes", 8), ("team", 8), ("shuffled", 1), ("flat", 0), ("ahead", 1), ("normed", 0)
    return bodies.body.__wrapped__("fully_connected", variant)
def code():
    return fingerprint.of_plugin.__wrapped__()
def tuned():
    folder = folders.cache("tuning")
    return tuning.kept_settings(folder and folder / "some.json")
def plan():
    found = store.Entry(base / "plans" / "plan", stored.KEY, lambda: "", MOST).load(graph)
    return found and bytes(found.segments[0].body)

folders.keep(folders.cache("tuning") / "some.json", json.dumps({"tile": "4x8"}))
(base / "plans").mkdir(mode=0o700)
(base / "plans" / "plan").write_bytes(stored.written(stored.plan()))
(base / "plans" / "plan").chmod(0o600)
shutil.rmtree(base / "kernels")  # of that plan
MADE, ONLY_KEPT = (kernel, code), (tuned, plan)
wanted = {function: function() for function in (*MADE, *ONLY_KEPT)}
assert None not in wanted.values()
def check():
    for function, value in wanted.items():
        found = function()
        assert found == (value if function in MADE else None), function.__name__
def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime
begin = used()
"""
PLANT_FILES = """
files = [path for path in base.glob("*/*") if path.is_file()]
assert len(files) == 4, files
for place in files:
    good = place.with_name("good")
    place.rename(good)
    {plant}
check()
assert used() - begin < 1
again = [path for path in files if path.is_file() and not path.is_symlink()
         and path.stat().st_size < 1 << 20 and not folders.unsafe(path.stat())]
assert len(again) == {again}, again  # put in order for the next process
"""
PLANT_FOLDERS = """
shutil.rmtree(base / "plans")  # its folder is the user's to name
for place in list(base.iterdir()):
    good = place.with_name(place.name + " good")
    place.rename(good)
    {plant}
check()
"""


def told(code: str, home: Path) -> list[str]:
    """Returns the log lines of a process that uses this cache folder."""
    done = run_python(PRELUDE + code, XDG_CACHE_HOME=str(home), TFLGPU_NO_CACHE="")
    return [line for line in done.stderr.splitlines() if line.startswith("tflgpu: ")]


def skip_unless_root(name: str) -> None:
    if "another user" in name and os.getuid():
        pytest.skip("only root can give files away")


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_of_this_user_is_not_used(name: str, tmp_path: Path) -> None:
    skip_unless_root(name)
    plant, reason = FILES[name]
    # Rendered kernels and the digest of our code are made again; a folder is left where it is.
    lines = told(PLANT_FILES.format(plant=plant, again=0 if name == "a folder" else 2), tmp_path)
    assert len(lines) == 4
    assert all(f" is not used: {reason}." in line for line in lines)


@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_no_folder_of_this_user_is_not_used(name: str, tmp_path: Path) -> None:
    skip_unless_root(name)
    plant, reason = FOLDERS[name]
    lines = told(PLANT_FOLDERS.format(plant=plant), tmp_path)
    assert len(lines) == 3  # kernels, code, tuning
    assert all(line.endswith(f" is not used: {reason}.") for line in lines)


def test_nothing_that_is_kept_is_executed(tmp_path: Path) -> None:
    """This holds for pickled Python objects and for files of older versions."""
    assert not told(
        """
class Bomb:
    def __reduce__(self):
        return os._exit, (7,)
bomb = pickle.dumps(Bomb())
for path in base.glob("*/*"):
    path.write_bytes(bomb)
import jinja2
from jinja2 import bccache
old = folders.cache("templates")  # of versions that kept compiled templates
for file in Path(bodies.__file__).parent.glob("*.wgsl"):
    key = bccache.BytecodeCache().get_cache_key(file.name, str(file))
    (old / f"{key}-jinja{jinja2.__version__}.cache").write_bytes(bccache.bc_magic + bomb)
from tflgpu_plugin.kernels import templates
templates.environment.cache_clear()  # as in another process
assert all(function() == wanted[function] for function in MADE)
assert tuned() is None
""",
        tmp_path,
    )


def test_files_are_made_for_this_user_alone(tmp_path: Path) -> None:
    assert not told(
        """
shutil.rmtree(base)
os.umask(0)
check()
folders.keep(folders.cache("tuning") / "some.json", "{}")
for path in (base, *base.glob("*"), *base.glob("*/*")):
    assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
assert len(list(base.glob("*/*"))) == 3
""",
        tmp_path,
    )
