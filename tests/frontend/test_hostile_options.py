"""Option values that nobody intended are accepted or refused at once, with a sentence that names
the option and its values."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance import host as hosts
from tests.support import small_models
from tests.support.interpreters import delegate
from tflgpu_plugin import options
from tflgpu_plugin.cache import store
from tflgpu_plugin.frontend.callbacks import sentence
from tflgpu_plugin.harness import onnx
from tflgpu_plugin.options import TABLE, OptionError

MANY = 20_000
VALUES = (
    # what str.isdigit and str.isdecimal say of digits is not what int reads
    "²", "\u0661", "①", "Ⅷ", "1_0", "0x1", "1e3", "+1", " 1 ", "-1", "-0", "1.0", "nan", "inf",
    "9" * 5000, "-" + "9" * 5000, "9" * 30,
    "", " ", "\n", "a\nb", "\r\n", "\t", "a\0b", "\0", "\x1b[31m", "%s%n", "{}", "{0}", "\\",
    "é" * 300, "\ufeff1", "\u202e1", "\U0001d7d9", "\udcff", "\ud800", "x" * 1_000_000,
    "~", "~nobody-of-this-name/x", "/proc/x", "/dev/null", "/dev/full", "/dev/tty",
    "/" + "a" * 300, "/" + "a/" * 3000, "..", ".",
    "None", "True", "none", "[]", "()", "[", "(", "]", "['a'", "['a',]", "('a')", "[1]", "[a]",
    "{'a'}", "['\\N{nothing}']", "['\\x']", "[b'a']", "[f'{1}']", "['a' 'b']", "['a',,'b']",
    "['" + "\\'" * MANY, "['a'" * MANY, "[" + "'a'," * MANY + "]", "[" * MANY, "(" * MANY,
    "[" + "-" * MANY + "1]", "[" + "(" * MANY + ")" * MANY + "]", "," * MANY, "a," * MANY,
    "(a+)+$" * 20, "a*" * 30 + "b", "[!", "*", "**/*", "[z-a]", "?" * MANY,
)  # fmt: skip
SECONDS = 1.0
NAMED = {name: "inference_priority1" for name in ("inference_priority2", "inference_priority3")}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redirects new folders to a temporary place."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def outcome(action: Callable[[], Any]) -> str:
    """Returns the text of the error, "" if there is none; fails if parsing takes too long."""
    begin = time.process_time()
    try:
        action()
        return ""
    except (ValueError, RuntimeError) as error:
        return str(error)
    finally:
        assert time.process_time() - begin < SECONDS


def is_answered(text: str, name: str) -> None:
    """Asserts that there was no error, or one that says what is wrong with the option."""
    if text:
        assert "report" not in text and "Traceback" not in text, text
        values = next(row.values for row in TABLE if row.name == name)
        known = (f"Option {name!r} cannot be ", f"The option {name} names ",
                 f"The inference priorities ({name}", "No adapter ")  # fmt: skip
        assert any(start in text for start in known) or NAMED.get(name, "?") in text, text
        assert f"Option {name!r}" not in text or values in text or "others can" in text, text


@pytest.mark.parametrize("name", [row.name for row in TABLE])
def test_a_value_is_parsed_or_answered(name: str) -> None:
    for value in VALUES:
        text = outcome(lambda value=value: options.parse({name: value}))  # type: ignore[misc]
        is_answered(text, name)
        assert len(text) < 1000


def test_a_folder_for_what_is_kept_is_opened_or_answered() -> None:
    for value in VALUES:

        def work(value: str = value) -> None:
            store.opened(options.parse({"serialization_dir": value}))

        is_answered(outcome(work), "serialization_dir")


def test_the_home_of_nobody_is_no_folder() -> None:
    with pytest.raises(OptionError, match="'serialization_dir' cannot be '~nobody-of-this"):
        options.parse({"serialization_dir": "~nobody-of-this-name/x"})


# ---- through the hosts ---------------------------------------------------------------------------

# Values as a plugin gets them: hosts encode them as UTF-8, and C ends them at the first NUL.
PASSED = [value for value in VALUES if value not in ("\udcff", "\ud800")]


@pytest.mark.adapter
@pytest.mark.parametrize("name", [row.name for row in TABLE])
@pytest.mark.parametrize("host", hosts.installed()[:1])
def test_a_delegate_is_made_or_answered(host: str, name: str) -> None:
    for value in PASSED:
        text = outcome(lambda value=value: delegate(host, **{name: value}))  # type: ignore[misc]
        is_answered(text, name)


@pytest.mark.adapter
@pytest.mark.parametrize("host", hosts.installed()[:1])
def test_many_names_to_exclude(host: str) -> None:
    names = [f"name {k}" for k in range(MANY)]

    def work() -> None:
        made = delegate(host, exclude=[*names, "CONV_2D"])
        interpreter = hosts.interpreter(
            small_models.one_partition(), host, experimental_delegates=[made]
        )
        interpreter.allocate_tensors()

    assert not outcome(work)


LONGEST = 8192  # of a value, in onnxruntime


@pytest.mark.adapter
@pytest.mark.parametrize("name", [row.name for row in TABLE])
def test_a_session_is_made_or_answered(name: str) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from tests.support import onnx_models

    model = onnx_models.add_relu()

    def work(value: str) -> None:
        onnx_models.session(model, **{name: value})

    for value in PASSED:
        if len(value.encode()) <= LONGEST:
            is_answered(outcome(lambda value=value: work(value)), name)  # type: ignore[misc]


@pytest.mark.adapter
def test_where_a_compiled_model_cannot_be_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from tests.support import onnx_models

    path = str(tmp_path / "absent" / "x.onnx")
    settings = onnx.settings(ep__context_enable="1", ep__context_file_path=path)
    onnx.opened(onnx_models.add_relu(), settings, {})
    told = capfd.readouterr().err
    assert "cannot be written (No such file or directory); ep.context_file_path names" in told
    assert "report" not in told


def test_what_the_system_refuses_is_no_defect() -> None:
    full = sentence(OSError(28, "No space left on device", "/some/file"))
    assert full == "The operating system says: No space left on device (/some/file)."
    assert "not enough memory" in sentence(MemoryError())
