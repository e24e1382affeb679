"""Loops in assembly: nests, loops in two places, tables of jumps, and text that is no assembly."""

from hypothesis import given
from hypothesis import strategies as st

from candidates.languages.machine_loops import MOST_BLOCKS, Loop, find_loops


def loops_of(assembly: str) -> list[Loop]:
    lines = (line.strip() for line in assembly.strip().splitlines())
    listing = "\n".join(line if line.endswith(":") else f"\t{line}" for line in lines)
    return find_loops(listing, "candidate.cpp")


def texts(loop: Loop) -> list[str]:
    return [each.text for each in loop.instructions]


def test_a_loop_has_its_own_code_and_not_that_of_the_loop_inside():
    outer, inner = loops_of("""
        kernel:
        .L2:
        incq %rax
        .L3:
        incq %rbx
        jne .L3
        decq %rcx
        jne .L2
        ret
    """)
    assert (outer.function, outer.depth, texts(outer)) == ("kernel", 1, ["incq %rax", "decq %rcx", "jne .L2"])
    assert (inner.function, inner.depth, texts(inner)) == ("kernel", 2, ["incq %rbx", "jne .L3"])


def test_many_loops_in_each_other_each_have_their_own():
    depth = 300
    begins = "\n".join(f".L{number}:\nincq %rax" for number in range(depth))
    ends = "\n".join(f"decq %rcx\njne .L{number}" for number in reversed(range(depth)))
    loops = loops_of(f"kernel:\n{begins}\n{ends}\nret")
    assert [loop.depth for loop in loops] == list(range(1, depth + 1))
    assert {len(loop.instructions) for loop in loops} == {3}


def test_a_function_of_too_many_blocks_is_not_searched():
    blocks = "\n".join(f".L{number}:\njne .L{number}" for number in range(MOST_BLOCKS + 1))
    assert loops_of(f"kernel:\n{blocks}\nret\nother:\n.Lx:\njne .Lx\nret")[0].function == "other"


def test_two_loops_after_each_other_are_two():
    assert len(loops_of("kernel:\n.L2:\nincq %rax\njne .L2\n.L3:\ndecq %rax\njne .L3\nret")) == 2


def test_a_jump_back_that_closes_no_cycle_is_no_loop():
    assert loops_of("kernel:\ntestq %rax, %rax\nje .L9\n.L2:\nincq %rax\nret\n.L9:\ndecq %rax\njmp .L2") == []


def test_a_part_that_lies_elsewhere_belongs_to_its_loop():
    (loop,) = loops_of("""
        kernel:
        .L2:
        incq %rax
        je .L7
        .L3:
        decq %rbx
        jne .L2
        ret
        .L7:
        addq $8, %rcx
        jmp .L3
    """)
    assert texts(loop) == ["incq %rax", "je .L7", "decq %rbx", "jne .L2", "addq $8, %rcx", "jmp .L3"]


def test_what_only_a_table_of_jumps_reaches_is_read_too():
    (loop,) = loops_of("kernel:\nnotrack jmp *%rax\n.L2:\nincq %rax\njne .L2\nret")
    assert texts(loop) == ["incq %rax", "jne .L2"]


def test_a_cycle_with_two_entries_is_none():
    assert loops_of("kernel:\nje .L3\n.L2:\nincq %rax\n.L3:\ndecq %rbx\njne .L2\nret") == []


def test_lines_are_those_of_the_source_alone():
    (loop,) = loops_of("""
        .file 1 "candidate.cpp"
        .file 2 "/usr/include/math.h"
        kernel:
        .loc 1 7 3
        movq %rsp, %rbp
        .L2:
        .loc 1 9 11 discriminator 3
        incq %rax
        .loc 2 400 1
        incq %rbx
        jne .L2
        ret
    """)
    assert [each.line for each in loop.instructions] == [9, 9, 9]
    assert loop.has_frame_pointer


@given(
    st.lists(
        st.sampled_from(
            ["kernel:", "f:", ".L1:", ".L2:", ".L3:", "\tjmp .L1", "\tjne .L2", "\tje .L3", "\tjmp *%rax", "\tret",
             "\tincq %rax", "\tjmp f", "\t.loc 0 0", '\t.file 0 "candidate.cpp"', "\tjne", "", "\t", "#APP"]
        )
    )
)  # fmt: skip
def test_any_listing_has_loops_or_none(lines):
    for loop in find_loops("\n".join(lines), "candidate.cpp"):
        assert loop.instructions


@given(st.text())
def test_any_text_is_read(text):
    find_loops(text, "candidate.cpp")
