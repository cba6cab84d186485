"""Tests the conformance suite's own bookkeeping: expectations, reports, comparison. No device is
needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance import compare, report, results
from conformance.plugin import expect, selection
from conformance.plugin.book import Book, of_item
from conformance.plugin.record import (
    FAIL,
    NOT_CONVERTIBLE,
    PASS,
    REFUSED,
    Header,
    Record,
    from_json,
)
from conformance.plugin.session import Session
from conformance.report_page import as_html
from tflgpu_plugin.cli import tables
from tflgpu_plugin.ir import Refusal, Target, quirks
from tflgpu_plugin.ir.quirks import Quirk


def header(name: str = "llvmpipe (LLVM 15.0.6, 256 bits)", driver: str = "Mesa 22.3.6 (LLVM 15)",
           package: str = "") -> Header:  # fmt: skip
    adapter = {
        "name": name, "vendor": "software", "driver": driver, "backend": "Vulkan",
        "kind": "software", "features": ["subgroup"], "limits": {"invocations": 256},
        "subgroup_size": 8,
    }  # fmt: skip
    return Header(adapter, {"tflgpu-plugin": "0.1.0"}, "Linux", "abc", package)


REPORTS = Path(report.__file__).with_name("reports")
GOOD = Record("t::a", "op", PASS, "ADD", "binary", "tflite_runtime 2", "same", "f32", 1, share=0.4)
BAD = Record("t::b", "op", FAIL, "ADD", "binary", "tflite_runtime 2", "spread", "f32", 1,
             text="worst at [0]: expected 1 | got 2", share=9e9)  # fmt: skip
REFUSAL = Record("t::c", "op", REFUSED, "EXP", "unary", "tflite_runtime 2", "long", text="No.")


# ---- records and reports ------------------------------------------------------------------------


@pytest.mark.parametrize("record", [GOOD, BAD, REFUSAL])
def test_records_survive_json(record: Record) -> None:
    assert from_json(record.as_json()) == record


def test_an_infinite_share_survives_json() -> None:
    record = Record("t", "op", FAIL, share=float("inf"))
    assert from_json(record.as_json()) == record


def test_a_report_is_read_back(tmp_path: Path) -> None:
    made = results.Report(header(), [GOOD, BAD], 1.0)
    report.write(made, tmp_path)
    again = report.read(tmp_path / "report.json")
    assert again.records == [GOOD.brief(), BAD] and again.header == made.header
    with pytest.raises(ValueError, match="is no report"):
        (tmp_path / "other.json").write_text("{}")
        report.read(tmp_path / "other.json")


def test_what_a_repository_keeps_is_read_like_the_report(tmp_path: Path) -> None:
    report.write(results.Report(header(), [GOOD, BAD], 1.0), tmp_path / "lavapipe")
    for place in ("one", "two"):
        report.main(["--keep", str(tmp_path / place), str(tmp_path / "lavapipe" / "report.json")])
    kept = tmp_path / "one" / "lavapipe"
    assert sorted(path.name for path in kept.iterdir()) == ["report.json.gz", "report.md"]
    assert report.read(kept / "report.json") == report.read(tmp_path / "lavapipe" / "report.json")
    twin = tmp_path / "two" / "lavapipe" / "report.json.gz"
    assert twin.read_bytes() == (kept / "report.json.gz").read_bytes()
    assert compare.main([str(kept), str(tmp_path / "lavapipe")]) == 0
    twin.write_bytes(b"no report")
    with pytest.raises(ValueError, match="is no report"):
        report.read(twin)


def test_reports_in_the_repository_are_compact() -> None:
    """There is one file of all cases and one page for each driver, and for ARM: no old reports and
    no copies."""
    places = [path for path in REPORTS.iterdir() if path.is_dir()]
    kept = {"lavapipe", "lavapipe-backports", "swiftshader", "aarch64"}
    assert {path.name for path in places} == kept
    for place in places:
        assert sorted(path.name for path in place.iterdir()) == ["report.json.gz", "report.md"]
        found = report.read(place / "report.json")
        size = sum(path.stat().st_size for path in place.iterdir())
        assert size < 30_000 + 12 * len(found.records)
        assert all(record.good for record in found.records)


def test_a_failure_is_seen_on_every_page() -> None:
    made = results.Report(header(), [GOOD, BAD], 1.0, ["llvmpipe.txt:1: REFUSED ADD x"])
    for page in (report.as_markdown(made), as_html(made)):
        assert "1 of 2 tests FAIL" in page and "spread" in page and "llvmpipe.txt:1" in page
    assert "All 1 tests are as they must be" in as_html(results.Report(header(), [GOOD], 1.0))


def test_a_report_says_who_judged() -> None:
    exact = Record("t::d", "8 bits", PASS, "Conv", case="c", judge="exact integers")
    made = results.Report(header(), [GOOD, exact], 1.0)
    assert "| exact integers | 1 |" in report.as_markdown(made)
    assert "| the host's CPU kernels | 1 |" in report.as_markdown(made)
    assert "exact integers" in as_html(made)
    assert '"judge": "exact integers"' in report.as_json(made)


def test_text_cannot_break_the_page() -> None:
    record = Record("t", "op", FAIL, "ADD", case="<script>", text="a | b <b>")
    page = as_html(results.Report(header(), [record], 1.0))
    assert page.count("<script>") == 1 and "&lt;script&gt;" in page  # the page's own
    assert "a \\| b" in report.as_markdown(results.Report(header(), [record], 1.0))


def test_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Record(**{**GOOD.__dict__, "outcome": FAIL, "text": "wrong", "share": 3.0})
    for name, records in (("a", [GOOD, REFUSAL]), ("b", [other])):
        report.write(results.Report(header(driver=name), records, 1.0), tmp_path / name)
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    text = capsys.readouterr().out
    assert "driver: a | b" in text and "PASS | FAIL: wrong" in text
    assert "only in the first: 1" in text and "0.400 | 3.000" in text
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "a" / "report.json")]) == 0


# ---- expectations -------------------------------------------------------------------------------


def test_slugs_name_adapter_and_driver() -> None:
    assert expect.slug(header()) == "llvmpipe-mesa-22.3.6"
    swiftshader = header("SwiftShader Device (Subzero)", "", "chromium-common 150.0.1-1~deb12u1")
    assert expect.slug(swiftshader) == "swiftshader-chromium-common-150.0.1-1-deb12u1"


def test_files_hold_for_adapters_whose_slug_they_begin(tmp_path: Path) -> None:
    for name in ("llvmpipe", "llvmpipe-mesa-22.3.6", "llvmpipe-mesa-22.3", "swiftshader"):
        (tmp_path / f"{name}.txt").write_text(f"REFUSED * EXP {name} # known, see issue 1\n")
    found = expect.load("llvmpipe-mesa-22.3.6", tmp_path)
    assert {e.case for e in found} == {"llvmpipe", "llvmpipe-mesa-22.3.6"}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("REFUSED * EXP long", "ends with # and a reason"),
        ("REFUSED * EXP # because of issue 1", "write REFUSED host op case"),
        ("WRONG * EXP long # because of issue 1", "write REFUSED host op case"),
        ("TOLERANCE * EXP long 100 # because of issue 1", "belongs in ir.quirks"),
    ],
)
def test_bad_lines_say_what_to_write(tmp_path: Path, line: str, sentence: str) -> None:
    (tmp_path / "a.txt").write_text(f"# a comment\n\n{line}\n")
    with pytest.raises(expect.BadExpectation, match=sentence) as error:
        expect.load("a", tmp_path)
    assert str(error.value).startswith("a.txt:3: ")


def entries(tmp_path: Path, text: str) -> list[expect.Entry]:
    (tmp_path / "a.txt").write_text(text)
    return expect.load("a", tmp_path)


def test_what_nothing_needs_is_stale(tmp_path: Path) -> None:
    found = entries(
        tmp_path, "REFUSED * EXP * # see issue 1\nTOLERANCE tflite_* ADD same 2 # see issue 2\n"
    )
    assert [e.op for e in expect.stale(found, [GOOD, REFUSAL], complete=True)] == ["ADD"]
    assert [e.op for e in expect.stale(found, [REFUSAL], complete=False)] == []
    assert [e.op for e in expect.stale(found, [GOOD], complete=False)] == ["ADD"]


def test_every_expectation_of_ours_can_be_read() -> None:
    for path in expect.FOLDER.glob("*.txt"):
        expect.read(path)


# ---- outcomes -----------------------------------------------------------------------------------


def test_only_pass_passes(tmp_path: Path) -> None:
    listed = entries(tmp_path, "REFUSED tflite_runtime EXP long # see issue 1\n")
    Book([], tmp_path).close(GOOD)
    with pytest.raises(pytest.fail.Exception, match="spread"):
        Book([], tmp_path).close(BAD)
    with pytest.raises(pytest.fail.Exception, match="refused: No"):
        Book([], tmp_path).close(REFUSAL)
    with pytest.raises(pytest.xfail.Exception, match="see issue 1"):
        Book(listed, tmp_path).close(REFUSAL)
    with pytest.raises(pytest.skip.Exception, match="no such type"):
        Book([], tmp_path).close(Record("", "op", NOT_CONVERTIBLE, text="no such type"))


def test_records_hold_plain_text(tmp_path: Path) -> None:
    """They are passed between processes."""
    said = Refusal("dtype.unsupported", "No.")
    book = Book([], tmp_path)
    record = Record("", "op", REFUSED, text=said, expected_refusal=True)
    book.close(record)
    book.add(record)
    assert [type(values["text"]) for values in of_item(book.properties)] == [str, str]


def test_a_failure_leaves_its_model_and_how_to_run_it_again(tmp_path: Path) -> None:
    options = {"--adapter": "nvidia", "--dtype": "all", "--host": ""}
    book = Book([], tmp_path, options, test="conformance/test_ops.py::t[ADD]")
    with pytest.raises(pytest.fail.Exception) as failure:
        book.close(BAD, b"content")
    text = str(failure.value)
    assert "pytest \"conformance/test_ops.py::t[ADD]\" --adapter 'nvidia' --dtype 'all'\n" in text
    (saved,) = (tmp_path / "failed_models").iterdir()
    assert saved.read_bytes() == b"content" and str(saved) in text and saved.suffix == ".tflite"


def test_a_new_run_deletes_the_models_of_the_last_one_only(tmp_path: Path) -> None:
    """The folder of the report may be one in which a user keeps models."""
    kept, last = tmp_path / "models" / "m.onnx", tmp_path / "failed_models" / "m.onnx"
    for path in (kept, last):
        path.parent.mkdir()
        path.touch()
    Session(SimpleNamespace(getoption={"--report": str(tmp_path)}.get))  # type: ignore[arg-type]
    assert kept.exists() and not last.exists()


# ---- quirks -------------------------------------------------------------------------------------


def test_quirks_of_an_adapter_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Quirk("geforce", "add", "ADD goes wrong there.", last="535")
    monkeypatch.setattr(quirks, "QUIRKS", [row])
    bad, good = Target(name="GeForce", driver="530"), Target(name="GeForce", driver="540")
    listed = {r["operator"]: r["quirks"] for r in tables.op_rows(bad)}
    assert listed["ADD"] == ["ADD goes wrong there."] and listed["SUB"] == []
    assert all(not r["quirks"] for r in tables.op_rows(good))


# ---- types --------------------------------------------------------------------------------------


def test_types_are_columns_of_the_matrix() -> None:
    eight = Record("t::d", "8 bits", FAIL, "ADD", "binary", "tflite_runtime 2", "u8_same", "u8")
    other = Record("t::e", "node test", REFUSED, "Add", "", "onnxruntime 1", "test_add", "f64")
    cells, types = results.matrix([GOOD, eight, other])
    assert types == ["f32", "u8", "other"]
    assert cells["ADD", "tflite_runtime 2"]["u8"].bad == 1
    assert "| ADD | tflite_runtime 2 | 1 pass, worst 0.40 | 1 fail |  |" in report.as_markdown(
        results.Report(header(), [GOOD, eight, other], 1.0)
    )


class Item:
    """The part of a pytest item that the selection reads."""

    def __init__(self, *dtypes: str) -> None:
        self.dtypes = dtypes

    def get_closest_marker(self, name: str) -> Any:
        return SimpleNamespace(args=self.dtypes) if name == "dtype" and self.dtypes else None


def test_an_operator_that_is_misspelled_is_guessed() -> None:
    with pytest.raises(ValueError, match=r"^--op cannot be SOFMAX\. Did you mean 'softmax'\? "):
        selection._known_ops(["ADD", "SOFMAX"])


@pytest.mark.parametrize(
    ("chosen", "left"), [(("f32", "bool"), 1), (("i8",), 1), (("f16", "i8"), 2), ((), 3)]
)
def test_a_run_takes_the_types_that_it_is_asked_for(chosen: tuple[str, ...], left: int) -> None:
    items: list[Any] = [Item(), Item("f16"), Item("i8")]
    kept, out = selection.split(items, selection.Choice((), False, dtypes=frozenset(chosen)))
    assert len(kept) == left and len(out) == 3 - left


def test_a_run_of_one_type_takes_tests_that_name_it() -> None:
    items: list[Any] = [Item(), Item("i16"), Item("i8")]
    choice = selection.Choice((), False, dtypes=frozenset({"i16"}), typed=True)
    assert selection.split(items, choice)[0] == [items[1]]
    assert not selection.split(items, replace(choice, ops=frozenset({"add"})))[0]
