"""What C++ and CUDA candidates have in common: options for the compiler."""

import re

from candidates.candidate import Candidate
from candidates.language import SourceRefused
from candidates.languages.source_header import refuse_odd_options


def require_harmless(candidate: Candidate, flags: re.Pattern[str]) -> None:
    """Raises SourceRefused for entries, flags and launch parameters that reach beyond the kernel."""
    refuse_odd_options(candidate)
    for flag in candidate.build_flags:
        if not flags.fullmatch(flag):
            raise SourceRefused(f"build flag {flag!r} is not allowed; these are: {flags.pattern}")


def macros(candidate: Candidate) -> tuple[str, ...]:
    """Launch parameters for the compiler: `{"tile": 8}` is `-DLAUNCH_tile=8`, no name that a source has already."""
    return tuple(f"-DLAUNCH_{name}={value}" for name, value in sorted(candidate.launch_parameters.items()))
