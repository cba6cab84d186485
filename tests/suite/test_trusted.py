"""Processes with rights that their user does not have do not open anything that the environment
names."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tflgpu_plugin import native, trusted
from tflgpu_plugin.cache import folders
from tflgpu_plugin.native import drivers

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no such rights here")


@pytest.fixture(autouse=True)
def asked_again() -> Iterator[None]:
    trusted.privileged.cache_clear()
    yield
    trusted.privileged.cache_clear()


@pytest.fixture
def privileged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


def test_a_plain_process() -> None:
    assert not trusted.privileged()


def test_rights_of_a_file() -> None:
    """A program with capabilities has its user's ids; the kernel tells about its rights."""
    entries = [(6, 4096), (trusted.AT_SECURE, 1), (0, 0)]
    vector = b"".join(struct.pack("@LL", *entry) for entry in entries)
    assert trusted.is_secure(vector) and trusted.is_secure(vector + b"\0")
    assert not trusted.is_secure(vector[:16]) and not trusted.is_secure(b"")
    assert not trusted.is_secure(struct.pack("@LL", trusted.AT_SECURE, 0))


@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError])
def test_a_vector_that_cannot_be_read(
    error: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr("builtins.open", refuse)
    assert trusted.privileged() == (error is PermissionError)


@pytest.mark.usefixtures("privileged")
def test_nothing_named_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = tmp_path / "vulkan" / "icd.d" / "mine.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"ICD": {"library_path": "/tmp/evil.so"}}')
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES"):
        monkeypatch.setenv(name, str(manifest))
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("WGPU_LIB_PATH", "/tmp/evil.so")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert manifest not in list(drivers.manifests())
    assert native.wgpu_path() != Path("/tmp/evil.so")
    assert folders.cache("plans") is None
    assert not (tmp_path / folders.PACKAGE).exists()


def test_the_same_of_a_plain_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = tmp_path / "mine.json"
    manifest.write_text("{}")
    monkeypatch.setenv("VK_DRIVER_FILES", str(manifest))
    monkeypatch.setenv("WGPU_LIB_PATH", "/tmp/other.so")
    assert list(drivers.manifests()) == [manifest]
    assert native.wgpu_path() == Path("/tmp/other.so")


def test_variables_that_name_files_are_read_in_one_way() -> None:
    """Only `trusted.variable` reads a path from the environment, or `folders.cache`, which asks
    `privileged` first."""
    package = Path(trusted.__file__).parent
    named = ("WGPU_LIB_PATH", "VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES")
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in named:
            assert f'environ.get("{name}"' not in text and f'environ["{name}"' not in text, path


@pytest.mark.parametrize("content", ["pipe", "device", "deep", "long"])
def test_manifests_that_are_none(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.json"
    if content == "pipe":
        os.mkfifo(path)
    elif content == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_text("[" * (100_000 if content == "deep" else drivers.MAX_BYTES + 1))
    monkeypatch.setenv("VK_DRIVER_FILES", str(path))
    assert list(drivers.libraries()) == []


@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root makes such a program"
)
def test_a_program_of_another_user(tmp_path: Path) -> None:
    """Python really runs as a set-user-ID program."""
    import shutil

    program = tmp_path / "python"
    shutil.copy(Path(sys.executable).resolve(), program)
    tmp_path.chmod(0o755)
    os.chown(program, 65534, -1)
    program.chmod(0o4755)
    text = Path(trusted.__file__).read_text(encoding="utf-8")
    command = [str(program), "-I", "-S", "-c", f"{text}\nprint(privileged())"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if found.returncode:
        pytest.skip(f"this Python does not run from elsewhere: {found.stderr[-100:]}")
    assert found.stdout.strip() == "True"
