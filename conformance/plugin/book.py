"""Closes a test: turns a result into an outcome, a record for the report and pytest's verdict.

Tests call `Book.close` (or leave by an exception, which the plugin in `conftest` records)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from conformance.plugin import expect
from conformance.plugin.record import FAIL, NOT_CONVERTIBLE, PASS, REFUSED, Record

PROPERTY = "conformance"
MODELS = "failed_models"  # the folder in that of the report


@dataclass
class Book:
    """The state that tests of one process share: the expectations for this adapter, the folder for
    failed models, and the command-line options that reproduce a test."""

    entries: Sequence[expect.Entry]
    folder: Path
    options: Mapping[str, str] = field(default_factory=dict)
    properties: list[tuple[str, object]] = field(default_factory=list)
    test: str = ""

    def allowance(self, who: Mapping[str, Any]) -> float:
        """Returns the factor of `expect/` on the tolerance of a case; `who` holds fields of its
        record."""
        return expect.allowance(self.entries, Record(**who, outcome=PASS))

    def close(self, record: Record, model: bytes | None = None, again: str = "") -> None:
        """Records the test and ends it: returns for a pass, else raises pytest's outcome. A refusal
        that the case asks for passes. One that `expect/` lists is an expected failure; any other is
        a failure. The `model` of a failure is saved, `again` reproduces it."""
        record, listed = self.judge(record)
        suffix = ".onnx" if record.host.startswith("onnxruntime") else ".tflite"
        if record.outcome == FAIL and model is not None:
            record = replace(record, model=str(self._save(record, model, suffix)))
        self.add(replace(record, test=self.test))
        if record.outcome == FAIL:
            pytest.fail(self._explain(record, again), pytrace=False)
        if listed is not None:
            pytest.xfail(f"{record.text} [{listed.place}: {listed.reason}]")
        if record.outcome == NOT_CONVERTIBLE:
            pytest.skip(record.text)
        assert record.outcome in (PASS, REFUSED)

    def judge(self, record: Record) -> tuple[Record, expect.Entry | None]:
        """Returns the record with its refusal judged, and the entry of `expect/` that lists it: a
        refusal without an entry that the case does not ask for is a failure."""
        if record.outcome != REFUSED or record.expected_refusal:
            return record, None
        listed = expect.refusal(self.entries, record)
        if listed is None:
            return replace(record, outcome=FAIL, text=f"refused: {record.text}"), None
        return replace(record, expected_refusal=True), listed

    def add(self, record: Record) -> None:
        """Records without ending the test."""
        self.properties.append((PROPERTY, record.as_json()))

    def _save(self, record: Record, content: bytes, suffix: str) -> Path:
        folder = self.folder / MODELS
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^\w.+-]+", "_", f"{record.op}-{record.case}-{record.host.split()[0]}")
        path = folder / f"{name}{suffix}"
        path.write_bytes(content)
        return path

    def _explain(self, record: Record, again: str) -> str:
        chosen = "".join(f" {name} {text!r}" for name, text in self.options.items() if text)
        test = again or f'pytest "{self.test}"{chosen}'
        lines = [f"{record.op} {record.case!r} in {record.host}", record.text, f"again: {test}"]
        if record.model:
            lines.append(f"model: {record.model}")
        return "\n".join(line for line in lines if line.strip())


def of_item(properties: Sequence[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Returns the records among a test's properties."""
    return [dict(value) for name, value in properties if name == PROPERTY]
