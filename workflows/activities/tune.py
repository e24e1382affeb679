"""The activities that end the tuning of one task, and an exam: their reports."""

from temporalio import activity

from candidates.ledger.exam_report import report_exam
from candidates.ledger.ledger import Ledger
from candidates.ledger.run_report import report_tune
from workflows.payloads import ExamInput, SearchInput


class TuneActivities:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @activity.defn
    def conclude_tune(self, search: SearchInput) -> None:
        """Writes the report that ends the run."""
        self._ledger.end_run(report_tune(self._ledger, search.run_id, search.task_id))

    @activity.defn
    def conclude_exam(self, exam: ExamInput) -> None:
        """Writes the report that ends the run."""
        self._ledger.end_run(report_exam(self._ledger, exam.run_id))
