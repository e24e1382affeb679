"""RecordedReports: what compilers made of candidates, kept for readers who must not compile."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.compiler_report import CompilerReport
from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import CompilerReportRow


class RecordedReports:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def put(self, task_id: str, candidate_id: str, report: CompilerReport) -> None:
        """Task and candidate are in the ledger. The first report of a candidate for a task stays."""
        record = report.model_dump(mode="json")
        self._ledger.insert(CompilerReportRow(task_id=task_id, candidate_id=candidate_id, record=record))

    def of(self, task_id: str, candidate_id: str) -> CompilerReport | None:
        """None: nobody has asked the compiler yet."""
        found = select(CompilerReportRow.record).where(
            CompilerReportRow.task_id == task_id, CompilerReportRow.candidate_id == candidate_id
        )
        with Session(self._ledger.reader) as session:
            record = session.scalars(found).first()
        return None if record is None else CompilerReport.model_validate(record)
