"""Machine instructions that no kernel needs, found in the disassembly of a shared object.

It keeps what an author wrote in assembly, or through an intrinsic, out of a serving process: system calls, clocks,
changes of the float state. It reads the code as `objdump` sweeps it; code that is made or entered at run time through
a computed address into the middle of an instruction is not seen.
"""

import bisect
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kernel_sandbox.sandbox import Ending, Limits, Sandbox, SandboxError, SandboxUnavailable

LIMITS = Limits(wall_s=30.0, memory_bytes=2 << 30, processes=8)
LISTING_LIMIT_BYTES = 128 << 20
_PROGRAM_NOT_FOUND = 127
_SHOWN = 3

_FORBIDDEN = {
    # Whole words of a line: whatever prefixes stand before it, an instruction's name is one, and no operand is.
    "x86_64": (
        r"syscall|sysenter|sysret\w*|sysexit\w*|int|int1|int3|icebp|into|iret\w*|hlt|cli|sti|in|out|ins[bwl]|outs[bwl]"
        r"|ljmp\w*|lcall\w*|lret\w*|l[fgs]s\w*|vmcall|vmmcall|vmfunc|enclu|xbegin|monitorx?|mwaitx?|umonitor|umwait|tpause"
        # what others have in their caches
        r"|clflush(opt)?|clwb|cldemote|wbinvd|wbnoinvd|invd"
        # clocks, counters and chance
        r"|rdtscp?|rdpmc|rdrand|rdseed"
        # the state of the thread that calls
        r"|v?ldmxcsr|fldcw|fldenv|frstor|fn?init|fxrstor\w*|xrstor\w*|wr[fg]sbase\w*|wrpkru|wrmsr|std|popf\w*"
        r"|mov\w*\s[^,]+,%[c-gs]s|pop\w*\s+%[c-gs]s"
    ),
    "aarch64": (
        r"svc|hvc|smc|hlt|udf|eret|dcps\d|brk(?!\s+#0x3e8)|wfe|wfi|wfet|wfit"
        r"|msr\s+(?!nzcv\b|fpsr\b)\S+|mrs\s+\w+,\s*(cnt\w+|pm\w+|rndr\w*)"
    ),
}
"""From the instruction set manuals (Intel SDM volume 2, Arm ARM C6); `ud2` and `brk #1000` are the compiler's traps."""
_UNKNOWN = re.compile(r"\(bad\)|^\.(byte|word|short|inst|long)\b|undefined")
_BRANCH = re.compile(r"(?:^|\s)(?:j\w+|call\w?|loop\w*)(?:,p[nt])?\s+(?:0x)?([0-9a-f]+)\s*$")
_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t([^<#]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Instruction:
    address: int
    text: str
    function: str
    offset: int
    """From the start of its function."""


def find_forbidden_instructions(sandbox: Sandbox, artifact: bytes) -> list[str]:
    """What forbids shipping the code, in words; empty when nothing does.

    Raises SandboxUnavailable without `objdump` (it comes with the compiler), SandboxError for the machine's faults.
    """
    machine = platform.machine()
    if machine not in _FORBIDDEN:
        raise SandboxUnavailable(f"no table of forbidden instructions for {machine}: add one to {__name__}")
    with sandbox.open(LIMITS) as session:
        session.put("kernel.so", artifact)
        finished = session.run(["sh", "-c", "objdump -d -z -w --no-show-raw-insn kernel.so > listing"])
        if finished.ending is Ending.EXITED and finished.exit_code == _PROGRAM_NOT_FOUND:
            raise SandboxUnavailable("no objdump on this machine: apt-get install binutils, dnf install binutils")
        if finished.exit_code != 0:
            return ["cannot be disassembled"]
        try:
            listing = session.get("listing", LISTING_LIMIT_BYTES).decode(errors="replace")
        except SandboxError:
            return [f"has more code than {LISTING_LIMIT_BYTES >> 20} MiB of disassembly show"]
    return list(dict.fromkeys(_find(listing, machine)))[:_SHOWN]


def _find(listing: str, machine: str) -> Iterator[str]:
    forbidden = re.compile(rf"(?<![\w%.$])(?:{_FORBIDDEN[machine]})(?![\w.])")
    for section in listing.split("\nDisassembly of section ")[1:]:
        instructions = list(_read(section))
        rounding = {each.function for each in instructions if "fnstcw" in each.text}
        addresses = [each.address for each in instructions]
        for each in instructions:
            where = f"in {each.function}+{each.offset:#x}"
            if found := forbidden.search(each.text):
                # The compiler rounds a long double so: it stores the control word, sets another, and sets it back.
                if not (found[0] == "fldcw" and each.function in rounding):
                    yield f"executes {' '.join(each.text.split())} {where}"
            elif _UNKNOWN.search(each.text):
                yield f"holds what is no instruction {where}"
            elif (branch := _BRANCH.search(each.text)) and machine == "x86_64":
                # To the end of the section a branch that is never taken may go.
                target = int(branch[1], 16)
                at = bisect.bisect_right(addresses, target)
                if 0 < at < len(addresses) and addresses[at - 1] != target:
                    yield f"jumps into the middle of an instruction {where}"


def _read(section: str) -> Iterator[_Instruction]:
    function, start = "no function", 0
    for line in section.splitlines():
        if found := _INSTRUCTION.match(line):
            address = int(found[1], 16)
            yield _Instruction(
                address=address,
                text=found[2].partition("//")[0].strip(),
                function=function,
                offset=address - start,
            )
        elif found := _FUNCTION.match(line):
            function, start = found[2], int(found[1], 16)
