"""The process that holds the GPU for one job: `python -m compiler_agent.gpu_check.child`, a Job on standard input.

Every answer is one line of JSON on standard output; what libraries print goes to standard error. A fault of the device
ends it with DEVICE_FAULT_STATUS, which ends nothing else: the context that is lost was its own.
"""

import os
import sys
from collections.abc import Callable

from pydantic import TypeAdapter

from compiler_agent.gpu_check.jobs import MakeContest, do_job
from compiler_agent.gpu_check.results import Job
from kernel_sandbox.runners.gpu_device import (
    NO_DEVICE_STATUS,
    Device,
    DeviceFault,
    DeviceMissing,
    exit_after,
    open_device,
)


def serve(opener: Callable[[str | None], Device], make: MakeContest | None = None) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    job: Job = TypeAdapter(Job).validate_json(sys.stdin.buffer.read())
    try:
        device = opener(job.uuid)
    except DeviceMissing as missing:
        sys.stderr.write(f"{missing}\n")
        raise SystemExit(NO_DEVICE_STATUS) from missing
    try:
        for answer in do_job(device, job, make) if make else do_job(device, job):
            answers.write(answer.model_dump_json() + "\n")
            answers.flush()
    except DeviceFault as fault:
        exit_after(fault)
    answers.flush()
    sys.stdout.flush()  # into standard error, where nothing else would bring what libraries have printed
    sys.stderr.flush()
    os._exit(0)  # libraries with threads of their own may not survive the interpreter's shutdown


if __name__ == "__main__":
    serve(open_device)
