"""Collects the records of all workers, writes the report, and checks `expect/` at the end."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance import report as reports
from conformance.plugin import expect, selection
from conformance.plugin.book import MODELS, of_item
from conformance.plugin.record import FAIL, NOT_CONVERTIBLE, OUTCOMES, PASS, Record, from_json
from conformance.results import Report


class Session:
    """A pytest plugin of the process that sees every result (the controller, under xdist)."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.records: list[Record] = []
        self.seconds: dict[str, float] = {}
        self.start = time.monotonic()
        self.stale: list[expect.Entry] = []
        if folder := config.getoption("--report"):  # models of an earlier run's failures
            shutil.rmtree(Path(str(folder)) / MODELS, ignore_errors=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.when == "teardown":
            self._record(report)
        elif report.outcome != "passed":
            self._remember(report)

    def _remember(self, report: pytest.TestReport) -> None:
        """Stores how a test ended that has made no record itself: setup and call are reported
        before teardown."""
        self._ended = (report.nodeid, report.outcome, _sentence(report))

    _ended: tuple[str, str, str] = ("", "", "")

    def _record(self, report: pytest.TestReport) -> None:
        seconds = self.seconds.pop(report.nodeid)
        found = [from_json(values) for values in of_item(report.user_properties)]
        test, outcome, text = self._ended
        if not found:
            ended = outcome if test == report.nodeid else "passed"
            found = [_plain_record(report, ended, text if test == report.nodeid else "")]
        share = seconds / len(found)
        self.records += [replace(r, seconds=share, test=report.nodeid) for r in found]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.config.getoption("collectonly", False):
            return
        complete = not self._filtered()
        self.stale = expect.stale(self.config.stash[selection.ENTRIES], self.records, complete)
        if self.stale and self.config.getoption("strict", False) and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        folder = self.config.getoption("--report")
        if folder and self.records:
            made = Report(
                self.config.stash[selection.HEADER], self.records, time.monotonic() - self.start,
                [f"{e.place}: {e.what} {e.host} {e.op} {e.case}" for e in self.stale],
            )  # fmt: skip
            reports.write(made, Path(str(folder)))

    def _filtered(self) -> bool:
        """Whether the run excludes some of the suite."""
        option = self.config.getoption
        return bool(
            option("keyword", "") or option("markexpr", "")
            or not self.config.stash[selection.CHOICE].whole
            or any("::" in a or a.endswith(".py") for a in self.config.args)
        )  # fmt: skip

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        counts = Counter(r.outcome for r in self.records)
        if counts:
            line = ", ".join(f"{counts[o]} {o}" for o in OUTCOMES if counts[o])
            terminalreporter.write_line(f"conformance: {line}")
        for entry in self.stale:
            terminalreporter.write_line(f"stale: {entry.place}: nothing needs this entry")
        if folder := self.config.getoption("--report"):
            terminalreporter.write_line(f"report: {Path(str(folder)) / 'report.html'}")


def _sentence(report: pytest.TestReport) -> str:
    """Returns why a test did not pass, in one line."""
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    text = getattr(crash, "message", None) or str(report.longrepr or "")
    return " ".join(text.split())[:400]


def _plain_record(report: pytest.TestReport, ended: str, text: str) -> Record:
    """Returns the record of a test that has recorded nothing; the kind follows from its module."""
    outcome = {"passed": PASS, "failed": FAIL, "skipped": NOT_CONVERTIBLE}[ended]
    if report.outcome == "failed":
        outcome = FAIL
    module, _, name = report.nodeid.partition("::")
    kind = Path(module).stem.removeprefix("test_").replace("_", " ")
    return Record(report.nodeid, kind, outcome, case=name, text=text)
