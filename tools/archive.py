"""Downloads packages from the Debian archive that the system's own package sources name.

Sources are read as apt reads them (`man 5 sources.list`): sources.list and *.list with a line for
each archive, *.sources with a paragraph. Nothing is installed: a separate apt, with the system's
settings and keys, downloads into a folder that the caller gives. No root is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

APT = Path("/etc/apt")
RELEASE_FILE = Path("/etc/os-release")
# The names that suites have beside the code name of a release.
ALIASES = ("stable", "oldstable", "testing", "unstable", "sid")
# Options of a line that have another name in a paragraph; all others differ in case only.
LONG_NAMES = {"arch": "architectures", "lang": "languages", "target": "targets"}
STANDARD = ("types", "uris", "suites", "components", "enabled")


class Unavailable(Exception):
    """An error for something that cannot be obtained here; the text says why and what to do."""


@dataclass(frozen=True)
class Source:
    """One archive and suite of the system, with its options (its keys, for example)."""

    uri: str
    suite: str
    components: str
    options: tuple[tuple[str, str], ...]

    def paragraph(self, suite: str) -> str:
        """Returns the source for apt, in *.sources form, for this or another suite of the
        archive."""
        lines = ["Types: deb", f"URIs: {self.uri}", f"Suites: {suite}"]
        lines += [f"Components: {self.components}"] if self.components else []
        return "\n".join([*lines, *(f"{key}: {value}" for key, value in self.options)]) + "\n\n"


def sources(apt: Path = APT) -> list[Source]:
    """Returns every enabled source of binary packages, in apt's order."""
    parts = apt / "sources.list.d"
    found = _of_lines(apt / "sources.list")
    for path in sorted([*parts.glob("*.list"), *parts.glob("*.sources")]):
        found += _of_lines(path) if path.suffix == ".list" else _of_paragraphs(path)
    return [source for source in found if not source.uri.startswith("cdrom:")]


def base(apt: Path = APT, release: Path = RELEASE_FILE) -> Source:
    """Returns the package source of the release that this system runs. Raises Unavailable."""
    named = re.search(r'^VERSION_CODENAME="?([^"\n]+)', _text(release), flags=re.MULTILINE)
    names = ((named[1],) if named else ()) + ALIASES
    every = sources(apt)
    found = [source for name in names for source in every if source.suite == name]
    # Other archives also name suites like the release: only the distribution has updates of it.
    updated = {(source.uri, source.suite.removesuffix("-updates")) for source in every
               if source.suite.endswith("-updates")}  # fmt: skip
    found.sort(key=lambda source: (source.uri, source.suite) not in updated)
    if not found:
        raise Unavailable(
            f"The system's package sources ({apt}) name no archive of its own release "
            f"({names[0]}): add one, or choose another driver."
        )
    return found[0]


def fetch(work: Path, package: str, *, backports: bool = False, alone: bool = False) -> list[Path]:
    """Downloads a package of the system's release (or its backports) with its dependencies, or
    alone.

    Returns the .deb files, which are in `work`, an empty folder. Raises Unavailable."""
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{tool} is missing: {package} comes from the system's own archive.")
    source = base()
    suite = f"{source.suite}-backports" if backports else source.suite
    apt = private_apt(work, source, dict.fromkeys((source.suite, suite)))
    try:
        run_command([*apt, "update"], work)
    except Unavailable as error:
        raise Unavailable(f"{package} of {suite} is not in the system's archive: {error}") from None
    wanted = [f"{package}/{suite}"]
    if not alone:
        wanted += _needs(apt, suite, package)
    run_command([*apt, "download", *wanted], work)
    return sorted(work.glob("*.deb"))


def fetch_foreign(work: Path, packages: Sequence[str], architecture: str) -> list[Path]:
    """Downloads packages of the system's release for another architecture, with all dependencies
    down to the C library, as for an empty system.

    Returns the .deb files, which are in `work`, an empty folder. Raises Unavailable."""
    source = base()
    options = tuple(option for option in source.options if option[0] != "architectures")
    set_to = (f"-oAPT::Architecture={architecture}", f"-oAPT::Architectures={architecture}")
    return _fetch_all(work, packages, replace(source, options=options), (source.suite,), set_to)


def fetch_release(work: Path, packages: Sequence[str], release: str) -> list[Path]:
    """Downloads packages of another release's backports, with all dependencies down to the C
    library, as for an empty system.

    Returns the .deb files, which are in `work`, an empty folder. Raises Unavailable."""
    backports = f"{release}-backports"
    return _fetch_all(work, packages, base(), (release, backports), ("-t", backports))


def _fetch_all(
    work: Path,
    packages: Sequence[str],
    source: Source,
    suites: Sequence[str],
    set_to: Sequence[str],
) -> list[Path]:
    if shutil.which("apt-get") is None:
        raise Unavailable("apt-get is missing: packages come from the system's own archive.")
    apt = private_apt(work, source, dict.fromkeys(suites))
    (work / "status").touch()
    apt += [f"-oDir::State::status={work / 'status'}", *set_to]
    run_command([*apt, "update"], work)
    listing = run_command([*apt, "-s", "--no-install-recommends", "install", *packages], work)
    run_command([*apt, "download", *newest_packages(listing)], work)
    return sorted(work.glob("*.deb"))


def unpack(files: Iterable[Path], into: Path) -> None:
    """Unpacks the files of .deb packages, without their scripts. Raises Unavailable."""
    for file in files:
        run_command(["dpkg-deb", "-x", str(file), str(into)], file.parent)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _of_lines(path: Path) -> list[Source]:
    """Parses `deb [option=value ...] URI SUITE COMPONENT...`, one a line."""
    found = []
    form = re.compile(r"deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)\s*(.*)")
    for line in _text(path).splitlines():
        if match := form.fullmatch(line.split("#", 1)[0].strip()):
            options, uri, suite, components = match.groups()
            pairs = dict(item.split("=", 1) for item in (options or "").split() if "=" in item)
            named = {LONG_NAMES.get(k, k): v.replace(",", " ") for k, v in pairs.items()}
            found.append(Source(uri, suite, components, tuple(named.items())))
    return found


def _of_paragraphs(path: Path) -> list[Source]:
    """Parses `Field: value` lines, paragraphs separated by empty lines; a value continues in
    indented lines."""
    lines = [line for line in _text(path).splitlines() if not line.startswith("#")]
    found = []
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        fields = re.findall(r"^(\S+?):[ \t]*(.*(?:\n[ \t].*)*)", paragraph, flags=re.MULTILINE)
        values = {key.lower(): value for key, value in fields}
        if "deb" not in values.get("types", "").split() or values.get("enabled") == "no":
            continue
        options = tuple((key, value) for key, value in values.items() if key not in STANDARD)
        for uri in values.get("uris", "").split():
            for suite in values.get("suites", "").split():
                components = " ".join(values.get("components", "").split())
                found.append(Source(uri, suite, components, options))
    return found


def private_apt(work: Path, source: Source, suites: dict[str, None]) -> list[str]:
    """Returns an apt-get command with lists and archives of its own in `work`, and only these
    suites of the source."""
    listed = work / "archive.sources"
    listed.write_text("".join(source.paragraph(suite) for suite in suites))
    for name in ("lists/partial", "archives/partial"):
        (work / name).mkdir(parents=True)
    settings = {
        "Dir::Etc::sourcelist": listed,
        "Dir::Etc::sourceparts": "-",
        "Dir::State::Lists": work / "lists",
        "Dir::Cache": work,
        "Dir::Cache::archives": work / "archives",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
    }
    return ["apt-get", "-qq", *(f"-o{key}={value}" for key, value in settings.items())]


def _needs(apt: list[str], suite: str, package: str) -> list[str]:
    """Returns what the system would have to install or replace for the package, except headers."""
    command = [*apt, "-s", "-y", "--no-install-recommends", "-t", suite, "install", package]
    listing = subprocess.run(command, capture_output=True, text=True)
    if listing.returncode:
        raise Unavailable(f"apt cannot place {package} of {suite} here: {listing.stderr.strip()}")
    found = (item.split("=", 1) for item in newest_packages(listing.stdout))
    return [f"{name}={v}" for name, v in found if name != package and not name.endswith("-dev")]


def newest_packages(listing: str) -> list[str]:
    """Returns the packages with their versions that apt says it would install."""
    lines = re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) ", listing, flags=re.MULTILINE)
    return [f"{name}={version}" for name, version in lines]


def run_command(command: list[str], work: Path) -> str:
    """Returns the output of a command. Raises Unavailable."""
    done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"{' '.join(command[:1])} failed: {done.stderr.strip()}")
    return done.stdout
