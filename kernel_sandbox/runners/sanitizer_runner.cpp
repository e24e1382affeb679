// Calls a C++ kernel that was compiled with sanitizers; see candidates/judge/sanitizers.py.
//
//     sanitizer_runner ARTIFACT CALLS
//
// Every tensor lies alone, its last byte next to poison, with unmapped memory beyond: instrumented code is caught at the
// first byte, code that no sanitizer instruments (intrinsics with masks, assembly) at the next page. What may not be
// written is read-only, and what a call was given is unmapped after it.
//
// CALLS: parameter count, axis count, tensors a call, calls; the parameters' sizes; for each call the axes' sizes and
// for each tensor its kind and its size (a parameter's index); then the content of the parameters and of what each call
// is given. All words are 64 bits.

#include <dlfcn.h>
#include <fcntl.h>
#include <sanitizer/asan_interface.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

enum ExitCode { ALL_CALLS_RETURNED = 100, MACHINERY_FAILED = 70, LOAD_FAILED = 71 };
enum Kind : uint64_t { PARAMETER = 0, ACTIVATION = 1, STATE = 2, OUTPUT = 3 };

using Call = void(void* const* tensors, const void* prepared, const int64_t* sizes);
using PreparedBytes = int64_t();
using Prepare = void(void* const* parameters, void* prepared);

constexpr size_t MOST_TENSORS = 64, MOST_AXES = 16;
constexpr size_t PAGE = 4096, LINE = 64, GUARD = size_t{1} << 20;
constexpr int POISON = 0xFF;  // NaN in every float type, -1 in every integer

[[noreturn]] void fail(ExitCode code, const char* what) {
    fprintf(stderr, "sanitizer_runner: %s\n", what);
    _exit(code);
}

size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

struct Block {
    char* start;
    size_t bytes;

    char* mapped() const { return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(start) & ~(PAGE - 1)); }
    size_t mapped_bytes() const { return round_up(start + bytes - mapped(), PAGE); }
};

Block make_block(size_t bytes, const char* content, bool is_writable) {
    size_t pages = round_up(bytes == 0 ? 1 : bytes, PAGE);
    char* reserved = static_cast<char*>(
        mmap(nullptr, pages + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (reserved == MAP_FAILED) fail(MACHINERY_FAILED, "cannot reserve room for a tensor");
    char* first = reserved + GUARD;
    if (mprotect(first, pages, PROT_READ | PROT_WRITE) != 0) fail(MACHINERY_FAILED, "no memory for a tensor");
    Block block = {first + pages - round_up(bytes == 0 ? 1 : bytes, LINE), bytes};
    memset(first, POISON, pages);
    if (content != nullptr) memcpy(block.start, content, bytes);
    if (!is_writable) mprotect(first, pages, PROT_READ);
    __asan_poison_memory_region(reserved, block.start - reserved);
    __asan_poison_memory_region(block.start + bytes, first + pages + GUARD - (block.start + bytes));
    return block;
}

// Its addresses are never used again: who kept one crashes.
void retire(const Block& block) {
    __asan_poison_memory_region(block.start, block.bytes);
    mmap(block.mapped(), block.mapped_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

// One line of the log, whole, before anything can go wrong in what it announces.
void announce(const char* what, uint64_t number, const Block* blocks, size_t count) {
    char line[4096];
    int used = snprintf(line, sizeof line, "sanitizer_runner: %s %llu", what, static_cast<unsigned long long>(number));
    for (size_t index = 0; index < count && used < 4000; ++index)
        used += snprintf(line + used, sizeof line - used, " %#lx+%zu",
                         reinterpret_cast<unsigned long>(blocks[index].start), blocks[index].bytes);
    line[used++] = '\n';
    if (write(STDERR_FILENO, line, used) != used) _exit(MACHINERY_FAILED);
}

const char* read_calls(const char* path) {
    int fd = open(path, O_RDONLY);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) fail(MACHINERY_FAILED, "cannot open the calls");
    void* content = mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (content == MAP_FAILED) fail(MACHINERY_FAILED, "cannot map the calls");
    close(fd);
    return static_cast<const char*>(content);
}

template <typename Function>
Function* find(void* library, const char* name) {
    return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) fail(MACHINERY_FAILED, "usage: sanitizer_runner ARTIFACT CALLS");
    const char* file = read_calls(argv[2]);
    const uint64_t* words = reinterpret_cast<const uint64_t*>(file);
    uint64_t parameters = *words++, axes = *words++, tensors = *words++, calls = *words++;
    if (parameters > MOST_TENSORS || tensors > MOST_TENSORS || axes > MOST_AXES)
        fail(MACHINERY_FAILED, "the task has too many tensors or axes");
    const char* content = reinterpret_cast<const char*>(words + parameters + calls * (axes + 2 * tensors));

    void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) fail(LOAD_FAILED, dlerror());
    Call* call_kernel = find<Call>(library, "compiler_agent_call");
    PreparedBytes* prepared_bytes = find<PreparedBytes>(library, "compiler_agent_prepared_bytes");
    Prepare* prepare = find<Prepare>(library, "compiler_agent_prepare");
    if (call_kernel == nullptr) fail(LOAD_FAILED, "the kernel exports no compiler_agent_call");

    Block fixed[MOST_TENSORS + 1];
    void* pointers[MOST_TENSORS];
    for (uint64_t index = 0; index < parameters; ++index) {
        fixed[index] = make_block(*words, content, false);
        pointers[index] = fixed[index].start;
        content += *words++;
    }
    Block& prepared = fixed[parameters] = {nullptr, 0};
    if (prepared_bytes != nullptr && prepare != nullptr) {
        announce("prepare", 0, fixed, parameters);
        int64_t bytes = prepared_bytes();
        if (bytes < 0) fail(LOAD_FAILED, "the size that prepare gives is negative");
        prepared = make_block(bytes, nullptr, true);
        announce("prepare", 1, fixed, parameters + 1);
        prepare(pointers, prepared.start);
    }
    for (uint64_t call = 0; call < calls; ++call) {
        int64_t sizes[MOST_AXES];
        for (uint64_t axis = 0; axis < axes; ++axis) sizes[axis] = static_cast<int64_t>(*words++);
        Block blocks[MOST_TENSORS + 1];
        bool is_fixed[MOST_TENSORS];
        for (uint64_t index = 0; index < tensors; ++index) {
            uint64_t kind = *words++, size = *words++;
            is_fixed[index] = kind == PARAMETER;
            if (is_fixed[index]) {
                blocks[index] = fixed[size];
            } else {
                blocks[index] = make_block(size, kind == OUTPUT ? nullptr : content, kind != ACTIVATION);
                if (kind != OUTPUT) content += size;
            }
            pointers[index] = blocks[index].start;
        }
        blocks[tensors] = prepared;
        announce("call", call, blocks, tensors + 1);
        call_kernel(pointers, prepared.start, sizes);
        for (uint64_t index = 0; index < tensors; ++index)
            if (!is_fixed[index]) retire(blocks[index]);
    }
    _exit(ALL_CALLS_RETURNED);
}
