"""Tests report.html: failures come first, cells read at a glance, nothing is loaded."""

from __future__ import annotations

import re

from conformance.plugin.record import FAIL, NOT_CONVERTIBLE, PASS, REFUSED, Header, Record
from conformance.report_page import anchor, as_html
from conformance.results import Report

ADAPTER = {"name": "GPU", "driver": "1", "features": ["subgroup"], "limits": {"bindings": 8}}
HEADER = Header(ADAPTER, {"numpy": "1"}, "Linux", "abc")
HOST = "tflite_runtime 2"


def record(op: str, outcome: str, share: float = 0.0, case: str = "case", **more: str) -> Record:
    return Record("t", "op", outcome, op, "f", HOST, case, "f32", share=share, **more)  # type: ignore[arg-type]


def page(*records: Record) -> str:
    return as_html(Report(HEADER, records, 1.0))


def row(text: str, op: str) -> str:
    (found,) = re.findall(rf'<tr[^>]*><td[^>]*><a id="{op}-tflite.*?</tr>', text)
    return str(found)


def hue(text: str) -> int:
    (found,) = re.findall(r"--hue:(\d+)", text)
    return int(found)


def test_failures_are_directly_under_the_verdict() -> None:
    text = page(record("ADD", PASS, 0.1), record("MUL", FAIL, 9, "spread", text="worst at [3]"))
    verdict, failure = text.index("1 of 2 tests FAIL"), text.index("worst at [3]")
    assert verdict < failure < text.index("<nav>") < text.index("What was tested</h2>")
    assert "<code>MUL</code>" in text[verdict : text.index("<nav>")]
    assert 'id="failures"' not in page(record("ADD", PASS))


def test_cells_go_from_green_to_amber_to_red_with_the_number() -> None:
    shares = {"A": 0.0, "B": 0.4, "C": 0.9, "D": 1.0, "E": 1.5}  # expect/ may allow more than 1
    text = page(*(record(op, PASS, share) for op, share in shares.items()), record("F", FAIL, 7))
    hues = [hue(row(text, op)) for op in "ABCDEF"]
    assert hues == sorted(hues, reverse=True) and len({*hues}) == 5 and hues[3] == hues[4]
    assert "0.40 <small>1</small>" in row(text, "B") and "1 FAIL" in row(text, "F")


def test_rows_without_a_result_of_the_device_are_hidden_at_first() -> None:
    text = page(
        record("A", PASS), record("B", REFUSED, text="No."), record("C", NOT_CONVERTIBLE),
        record("D", FAIL), record("E", REFUSED), record("E", PASS, case="other"),
    )  # fmt: skip
    hidden = {op for op in "ABCDE" if row(text, op).startswith('<tr class="idle">')}
    assert hidden == {"B", "C"} and "2 rows without a result of the device" in text
    assert "#matrix:not(.all) .idle { display: none; }" in text


def test_the_page_is_never_wider_than_its_window() -> None:
    """Names of operators break where they must, and rows become lines where no table fits. At other
    widths it was looked at in a browser."""
    text = page(record("ADD", PASS))
    (breaking,) = re.findall(r"^(.*) { overflow-wrap: anywhere; }$", text, re.MULTILINE)
    assert "code" in breaking.split(", ")
    (narrow,) = re.findall(r"@media \(max-width: (\d+)rem\)", text)
    assert int(narrow) * 16 > 1061  # pixels that a table of all types takes


def test_passing_cases_are_in_the_data_only() -> None:
    text = page(record("A", PASS, case="right"), record("A", REFUSED, case="left", text="No."))
    assert "right" not in text.partition('<h2 id="rest">')[2].partition("<h2")[0]
    assert "left" in text and "A tflite_runtime 2 (1)" in text


def test_every_anchor_is_there_and_nothing_is_loaded() -> None:
    text = page(record("A", PASS), record("CUSTOM x", FAIL), record("Conv", REFUSED))
    targets, names = re.findall(r'href="([^"]*)"', text), re.findall(r'id="([^"]*)"', text)
    assert targets and all(target.startswith("#") for target in targets)
    assert {target[1:] for target in targets} <= {*names} and len(names) == len({*names})
    assert "src=" not in text and "url(" not in text and "http" not in text
    assert anchor("CUSTOM x", "onnxruntime 1.2") == "CUSTOM-x-onnxruntime-1.2"
    assert anchor("A", "") == "A"


def test_cells_name_their_columns_for_narrow_screens() -> None:
    text = row(page(record("A", PASS, 0.2)), "A")
    assert re.findall(r'data-t="([^"]*)"', text) == ["operator", "host", "f32"]
