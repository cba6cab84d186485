"""Tests the layers of the C files: code for operating systems comes first, core knows no host,
hosts do not know each other, and there are no circles."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.subprocesses import ROOT

NATIVE = ROOT / "tflgpu_plugin" / "native"
ROOMS = {
    "platform": {"platform"},
    "core": {"platform", "core"},
    "tflite": {"platform", "core", "tflite"},
    "litert": {"platform", "core", "tflite", "litert"},
    "ort": {"platform", "core", "ort"},
}
EXPORTS = ("core/tflgpu.h", "core/recorder.h")  # of functions that Python calls, wherever they are
SYSTEM = re.compile(
    r"_WIN32|__APPLE__|__linux__|__GLIBC__|_MSC_VER"
    r"|<(?:pthread|unistd|time|dlfcn|windows|sys/\w+|link)\.h>|\b(?:pthread_|dlsym|dlopen)"
)
INCLUDE = re.compile(r'^#include "((\w+)/.*)"', re.MULTILINE)
REMARK = re.compile(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
# Names that other files can see: functions, and variables with or without a value.
FUNCTION = re.compile(r"^(?!static\b)[A-Za-z_][\w *]*[ *](\w+)\([^;{]*\)\s*\{", re.MULTILINE)
VARIABLE = re.compile(
    r"^(?!static\b|typedef\b|extern\b)[a-z][\w *]*[ *](\w+)( = .*|;)$", re.MULTILINE
)
LONGEST = 132  # characters of a line


def sources(pattern: str) -> dict[str, str]:
    """Returns the texts of the C files without comments, by their names relative to `native/`."""
    paths = sorted(NATIVE.glob(pattern))
    return {p.relative_to(NATIVE).as_posix(): REMARK.sub(" ", p.read_text()) for p in paths}


def uses(texts: dict[str, str]) -> dict[str, set[str]]:
    """Returns for each file the files whose functions or variables it uses."""
    owners = {
        name: file
        for file, text in texts.items()
        for pattern in (FUNCTION, VARIABLE)
        for name in (found[1] for found in pattern.finditer(text))
    }
    texts = {file: text.replace("W(", "tgi_wgpu(") for file, text in texts.items()}  # the macro
    words = {file: set(re.findall(r"\w+", text)) for file, text in texts.items()}
    return {file: {owners[word] for word in words[file] & owners.keys()} - {file} for file in texts}


def circle(found: dict[str, set[str]]) -> list[str]:
    """Returns files that use each other in a circle; an empty list if there are none."""
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_headers_are_taken_from_the_own_folder_or_core() -> None:
    folders = {Path(name).parent.name for name in sources("*/*.[ch]")}
    assert folders == set(ROOMS)
    for path in NATIVE.glob("*/*.[ch]"):
        included = {room for file, room in INCLUDE.findall(path.read_text()) if file not in EXPORTS}
        assert included <= ROOMS[path.parent.name], path


def test_only_the_platform_layer_names_a_system() -> None:
    found = {path.parent.name for path in NATIVE.glob("*/*.[ch]") if SYSTEM.search(_code(path))}
    assert found == {"platform"}


def _code(path: Path) -> str:
    return re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.DOTALL)


APART = "platform/accelerator.c"  # another library, with a symbol of the same name


def test_no_file_uses_what_is_not_below_it() -> None:
    found = uses({file: text for file, text in sources("*/*.c").items() if file != APART})
    assert "core/gate.c" in found["core/run.c"] and len(found) > 20
    for file, others in found.items():
        folder = Path(file).parent.name
        assert {Path(other).parent.name for other in others} <= ROOMS[folder], file
    assert circle(found) == []


BODY = (
    r"^[A-Za-z_][^\n;]*?\b(\w+)\([^;{]*\)\s*\{([^\n]*\}$|.*?^\})"  # name and text of each function
)


def bodies(pattern: str) -> dict[str, str]:
    """Returns the texts of all function bodies."""
    found = (re.finditer(BODY, text, re.M | re.S) for text in sources(pattern).values())
    return {one[1]: one[2] for each in found for one in each}


def test_there_is_one_way_to_the_queue() -> None:
    """It checks that the device is alive, with its lock held; wgpu ends a process that submits to a
    lost one."""
    found = {name: text for name, text in bodies("*/*.c").items() if "QueueSubmitForIndex" in text}
    assert set(found) == {"tgi_queue"} and found["tgi_queue"].count("QueueSubmitForIndex") == 1
    asked, submitted = (found["tgi_queue"].index(t) for t in ("is_alive(", "QueueSubmit"))
    assert asked < submitted


@pytest.mark.parametrize(
    ("call", "callers"),
    {
        "W(BufferUnmap)": {"tgi_unmap"},
        "tgi_unmap(": {"tgi_unmap_ports", "unmap_outputs", "tgi_give_back", "tg_buffer_filled"},
        "tgi_unmap_ports(": {"submit", "end_replay", "read_output"},
        "W(BufferMapAsync)": {"tgi_ticket_start"},
        "tgi_ticket_start(": {"tgi_submit", "tgi_readback_start"},
        "tgi_readback_start(": {"tgi_ports_start_readbacks"},
        "tgi_ports_start_readbacks(": {"submit"},
        "&device->lock": {"tgi_device_lock", "end_all", "unlock", "tg_device_create",
                          "tg_device_release"},
    }.items(),
)  # fmt: skip
def test_what_may_report_an_error_of_a_device_has_few_callers(call: str, callers: set[str]) -> None:
    """Callers hold the device's lock, which only its own functions take and release: these also end
    objects that were released meanwhile."""
    assert {name for name, text in bodies("core/*.c").items() if call in text} == callers


@pytest.mark.parametrize("name", ["tg_replay_create", "tgi_wgpu"])
def test_a_circle_is_seen(name: str) -> None:
    texts = sources("core/*.c")
    owner = next(
        file for file, text in texts.items() if re.search(rf"^\w[\w *]*{name}\b", text, re.M)
    )
    user = next(file for file, others in uses(texts).items() if owner in others)
    mine = next(f[1] for f in FUNCTION.finditer(texts[user]))
    texts[owner] += f"\nvoid one_more(void) {{ {mine}(); }}\n"
    assert {owner, user} <= set(circle(uses(texts)))


MAX_LINES, MAX_PARAMETERS = 60, 7
# A function's name, its parameters (some are pointers to functions) and its body.
DEFINITION = re.compile(
    r"^\w[\w *]*?\b(\w+)\(((?:[^(){;]|\([^()]*\))*)\) (\{.*\}$|\{\n(?:.*\n)*?\})", re.MULTILINE
)
POINTED = re.compile(r"\(\*\w*\)\([^()]*\)")


def large(text: str) -> tuple[list[str], list[str]]:
    """Returns the functions with too many lines, and those with too many parameters."""
    found = list(DEFINITION.finditer(text))
    long = [one[1] for one in found if one[0].count("\n") >= MAX_LINES]
    wide = [one[1] for one in found if POINTED.sub("", one[2]).count(",") >= MAX_PARAMETERS]
    return long, wide


def test_functions_are_short_and_take_few_parameters() -> None:
    text = "\n".join(sources("*/*.[ch]").values())
    assert len(DEFINITION.findall(text)) > 300
    assert large(text) == ([], [])


def test_large_functions_are_seen() -> None:
    parameters = ", ".join(f"void (*p{k})(int, int)" for k in range(MAX_PARAMETERS))
    lines = "  call();\n" * (MAX_LINES - 2)
    fits = f"static int fits({parameters}) {{\n{lines}}}\n"
    assert large(fits) == ([], [])
    long = f"void long_one(void) {{\n{lines}  call();\n}}\n"
    wide = f"static int wide({parameters},\n  int last) {{ return 0; }}\n"
    assert large(fits + long + wide) == (["long_one"], ["wide"])


def test_what_the_header_exports_is_called_from_python() -> None:
    """The package calls it, or tests do where the header says "for tests"."""
    header = "".join((NATIVE / name).read_text() for name in EXPORTS)
    exported = re.findall(r"^\w[\w *]*\b(tg_\w+)\([^;]*;(.*)", header, re.MULTILINE)
    assert len(exported) > 50
    for test, folders in ((False, ("tflgpu_plugin", "providers")), (True, ("tests",))):
        paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
        words = set(re.findall(r"\w+", " ".join(path.read_text() for path in paths)))
        mine = {name for name, said in exported if ("for tests" in said) is test}
        assert {one for one in mine - words if not one.endswith("_set_callbacks")} == set()


def test_no_file_that_the_library_opens_reaches_other_programs() -> None:
    """Files are closed when the process starts another program, immediately where the system
    supports it."""
    opening = r"\b(?:f?open|openat|creat|pipe|socket|accept|dup|eventfd|memfd_create|epoll_create)"
    texts = {file: re.sub(r"\s+", " ", text) for file, text in sources("*/*.c").items()}
    found = {file: re.findall(rf"({opening}\d?)\(", text) for file, text in texts.items()}
    assert found.pop("platform/posix.c") == ["pipe2", "pipe"] and not any(found.values())
    pipe2, pipe = (texts["platform/posix.c"].split(call, 1)[1] for call in ("pipe2(", "pipe("))
    assert pipe2.startswith("probe->ends, O_CLOEXEC)")
    assert "fcntl(probe->ends[i], F_SETFD, FD_CLOEXEC)" in pipe.split("}", 1)[0]


def test_no_line_is_longer_than_a_screen() -> None:
    for path in NATIVE.glob("*/*.[ch]"):
        lines = path.read_text(encoding="utf-8").splitlines()
        long = [number for number, line in enumerate(lines, 1) if len(line) > LONGEST]
        assert not long, f"{path.name}: {long}"
