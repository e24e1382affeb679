"""CompilerReports: asks a candidate's compiler what it made of it, in the sandbox and by the rules of every build."""

import re
from collections.abc import Mapping

from candidates.builder import Builder, CompilerUnavailable
from candidates.candidate import Candidate, LanguageName
from candidates.compiler_report import CompilerReport, CompilerReporter
from candidates.task import KernelTask
from candidates.verdict import Rejected

_MOST_FAILURE_CHARACTERS = 4000
_FOLDER = re.compile(r"(?<![\w<./])/(?:[\w.+-]+/)+")
"""Of an absolute path."""


class CompilerReports:
    """Safe to share between threads; shares its builder's slots."""

    def __init__(self, builder: Builder, reporters: Mapping[LanguageName, CompilerReporter]) -> None:
        self._builder, self._reporters = builder, reporters

    def report(self, task: KernelTask, candidate: Candidate) -> CompilerReport:
        """Takes one compilation. A candidate that does not build gets a report with the compiler's message alone.

        Raises SandboxError (CompilerUnavailable) for the machine's faults, as `Builder.build` does.
        """
        reporter = self._reporters.get(candidate.language)
        if reporter is None:
            raise CompilerUnavailable(f"no compiler reports for {candidate.language.value}: {sorted(self._reporters)}")
        made = self._builder.follow(lambda: reporter.report_recipe(task, candidate))
        if isinstance(made, Rejected):
            message = made.evidence.log_tail.strip() or made.evidence.message
            if made.evidence.message not in message:
                message = f"{made.evidence.message}\n{message}"
            return CompilerReport(failure=without_folders(message)[:_MOST_FAILURE_CHARACTERS])
        return reporter.read_report(candidate, made)


def without_folders(text: str) -> str:
    """`/usr/include/c++/12/cmath:45` becomes `cmath:45`: where a machine keeps its files is no author's business."""
    return _FOLDER.sub("", text)
