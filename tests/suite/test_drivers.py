"""Software drivers come from the archive that the system's own package sources name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

import archive  # noqa: E402

LINES = """
# deb http://commented.example/debian bookworm main
deb [signed-by=/keys/other.gpg] http://other.example/x bookworm main  # same name, another archive
deb [arch=amd64,arm64 signed-by=/keys/own.gpg] http://own.example/debian bookworm main contrib
deb-src http://own.example/debian bookworm main
deb http://own.example/debian bookworm-updates main
deb cdrom:[Debian]/ bookworm main
"""
PARAGRAPHS = """Types: deb deb-src
# a remark inside
URIs: http://own.example/ubuntu
Suites: noble noble-updates
Components: main
 universe
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 xyz
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
Enabled: no
URIs: http://off.example/ubuntu
Suites: noble
Components: main
"""


def system(folder: Path, codename: str, **files: str) -> tuple[Path, Path]:
    """Returns a folder like /etc/apt and a file like /etc/os-release."""
    (folder / "sources.list.d").mkdir()
    (folder / "sources.list").write_text(files.get("lines", ""))
    (folder / "sources.list.d" / "system.sources").write_text(files.get("paragraphs", ""))
    (folder / "os-release").write_text(f'ID=x\nVERSION_CODENAME="{codename}"\n')
    return folder, folder / "os-release"


def test_an_archive_of_one_line(tmp_path: Path) -> None:
    source = archive.base(*system(tmp_path, "bookworm", lines=LINES))
    assert source.paragraph("bookworm-backports").splitlines() == [
        "Types: deb",
        "URIs: http://own.example/debian",
        "Suites: bookworm-backports",
        "Components: main contrib",
        "architectures: amd64 arm64",
        "signed-by: /keys/own.gpg",
        "",
    ]


def test_an_archive_of_a_paragraph(tmp_path: Path) -> None:
    place, release = system(tmp_path, "noble", paragraphs=PARAGRAPHS)
    source = archive.base(place, release)
    assert (source.uri, source.suite) == ("http://own.example/ubuntu", "noble")
    assert source.components == "main universe"
    assert " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n xyz\n" in source.paragraph("noble")
    assert {each.suite for each in archive.sources(place)} == {"noble", "noble-updates"}


def test_a_system_without_one_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(archive.Unavailable, match="name no archive of its own release"):
        archive.base(*system(tmp_path, "trixie", lines=LINES))


def test_apt_reads_what_is_written(tmp_path: Path) -> None:
    """A private apt accepts the paragraph, and a suite that does not exist gives a sentence."""
    place, _ = system(tmp_path, "bookworm", lines=f"deb [arch=amd64] file:{tmp_path}/a b c")
    (tmp_path / "a").mkdir()
    source = archive.sources(place)[0]
    command = archive.private_apt(tmp_path, source, {"b": None})
    try:
        done = subprocess.run([*command, "update"], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("apt-get is missing here")
    assert "does not have a Release file" in done.stderr
    assert f"file:{tmp_path}/a b Release" in done.stderr


def test_what_apt_would_install_is_asked_for() -> None:
    listing = "NOTE: a simulation\nInst libc6 (2.36-9 Debian:12 [arm64])\n"
    listing += (
        "Inst mesa [22.3-1] (22.3-2 Debian:12 [arm64]) []\nConf libc6 (2.36-9 Debian [arm64])\n"
    )
    assert archive.newest_packages(listing) == ["libc6=2.36-9", "mesa=22.3-2"]


def test_another_architecture_is_of_an_empty_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packages installed here do not count, and sources limited to this architecture are
    adjusted."""
    asked: list[list[str]] = []

    def run(command: list[str], work: Path) -> str:
        asked.append(command)
        (work / "a_1_arm64.deb").touch()
        return "Inst a (1 Debian [arm64])\n"

    options = (("architectures", "amd64"), ("signed-by", "/keys/own.gpg"))
    source = archive.Source("http://own.example/debian", "bookworm", "main", options)
    monkeypatch.setattr(archive, "base", lambda: source)
    monkeypatch.setattr(archive.shutil, "which", lambda name: name)
    monkeypatch.setattr(archive, "run_command", run)
    (found,) = archive.fetch_foreign(tmp_path, ["a"], "arm64")
    assert found.name == "a_1_arm64.deb"
    written = (tmp_path / "archive.sources").read_text()
    assert "signed-by: /keys/own.gpg" in written and "amd64" not in written
    for command in asked:
        assert {"-oAPT::Architecture=arm64", f"-oDir::State::status={tmp_path}/status"} <= {
            *command
        }
    assert asked[-1][-2:] == ["download", "a=1"] and (tmp_path / "status").read_text() == ""


def hosts_of_registries() -> set[str]:
    """Returns the host names that this machine's package clients use."""
    from pip._internal.models.index import PyPI

    uris = [PyPI.simple_url, *(source.uri for source in archive.sources())]
    return {host for uri in uris if (host := urlsplit(uri).hostname)}


def test_no_file_names_a_package_registry() -> None:
    hosts = hosts_of_registries()
    assert hosts
    patterns = [word for host in sorted(hosts) for word in ("-e", host)]
    done = subprocess.run(
        ["git", "grep", "-nIF", *patterns], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode > 1:
        pytest.skip("this is no checkout")
    assert not done.stdout
