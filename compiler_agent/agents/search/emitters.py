"""Emitter: what the search needs of a language that it writes: programs, schedules, text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from candidates.candidate import Candidate, LanguageName
from candidates.task import KernelTask
from compiler_agent.agents.search.cpp_space import cpp_space
from compiler_agent.agents.search.emit_cpp import emit_candidate, parameter_bytes
from compiler_agent.agents.search.emit_naive import emit_naive
from compiler_agent.agents.search.emit_triton import emit_plain_triton, emit_triton, write_triton_program
from compiler_agent.agents.search.program import NoProgram, Program
from compiler_agent.agents.search.space import ScheduleT, Space
from compiler_agent.agents.search.staging import write_program
from compiler_agent.agents.search.triton_space import triton_space


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitter(Generic[ScheduleT]):
    write_program: Callable[[KernelTask], Program | NoProgram]
    space_of: Callable[[Program], Space[ScheduleT]]
    emit: Callable[[Program, ScheduleT], Candidate]
    parameter_bytes: Callable[[Program, ScheduleT], int]
    """That one call reads, as the schedule has them in memory."""
    emit_naive: Callable[[Program], Candidate]
    """The plainest correct kernel, for a person to start from."""


EMITTERS: Mapping[LanguageName, Emitter[Any]] = {
    LanguageName.CPP: Emitter(
        write_program=write_program,
        space_of=cpp_space,
        emit=emit_candidate,
        parameter_bytes=parameter_bytes,
        emit_naive=emit_naive,
    ),
    LanguageName.TRITON: Emitter(
        write_program=write_triton_program,
        space_of=triton_space,
        emit=emit_triton,
        parameter_bytes=lambda program, schedule: program.task.parameter_bytes(),
        emit_naive=emit_plain_triton,
    ),
}
