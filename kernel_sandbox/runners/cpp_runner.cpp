// Calls a C++ kernel on tensors in shared memory when asked to over standard input; see candidates/judge/cpp_runner.py.
//
//     cpp_runner ARTIFACT INPUTS_FD INPUTS_BYTES OUTPUTS_FD OUTPUTS_BYTES THREADS
//
// ARTIFACT `-` is no kernel at all: such a runner answers null batches, and what it takes for them can be believed.
//
// It filters its own system calls before it loads the artifact, so that the kernel stays one process (with at most the
// threads of serving), and one SIGSTOP stops all of it. Nothing that it says is believed but "the calls returned".

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

namespace {

#if defined(__x86_64__)
constexpr uint32_t ARCHITECTURE = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t ARCHITECTURE = AUDIT_ARCH_AARCH64;
#else
#error "cpp_runner knows the system calls of x86_64 and aarch64 only"
#endif

enum ExitCode { MACHINERY_FAILED = 70, LOAD_FAILED = 71, CHANGED_FLOAT_STATE = 72 };
enum RequestKind : uint32_t { HELLO = 0, PREPARE = 1, LAY_OUT = 2, RUN = 3 };

struct Request {
    uint64_t nonce;
    uint32_t kind;
    uint32_t first;
    uint32_t count;
    uint32_t payload_bytes;
};

struct Reply {
    uint64_t nonce;
    uint64_t value;
};

using Call = void(void* const* tensors, const void* prepared, const int64_t* sizes);
using PreparedBytes = int64_t();
using Prepare = void(void* const* parameters, void* prepared);

[[noreturn]] void fail(ExitCode code, const char* what, const char* why) {
    fprintf(stderr, "cpp_runner: %s: %s\n", what, why);
    _exit(code);
}

// ---- float state

#ifdef WITHOUT_FLOAT_STATE  // only tests define it
constexpr bool CHECKS_FLOAT_STATE = false;
#else
constexpr bool CHECKS_FLOAT_STATE = true;
#endif

// What decides how later operations of this thread compute: MXCSR without its sticky flags and the x87 control word, or
// FPCR. A few cycles, once a request.
uint64_t float_state() {
#if defined(__x86_64__)
    uint32_t mxcsr;
    uint16_t x87_control;
    asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87_control) : : "memory");
    return (uint64_t{x87_control} << 32) | (mxcsr & ~uint32_t{0x3F});
#else
    uint64_t fpcr;
    asm volatile("mrs %0, fpcr" : "=r"(fpcr) : : "memory");
    return fpcr;
#endif
}

// ---- system calls

constexpr long ALLOWED[] = {
    __NR_read, __NR_write, __NR_writev, __NR_pread64, __NR_lseek, __NR_close, __NR_fstat, __NR_newfstatat, __NR_statx,
    __NR_statfs, __NR_getdents64, __NR_getcwd, __NR_readlinkat, __NR_faccessat, __NR_mmap, __NR_munmap, __NR_mprotect,
    __NR_mremap, __NR_mincore, __NR_brk, __NR_futex, __NR_sched_yield, __NR_sched_getaffinity,
    __NR_sched_getparam, __NR_sched_getscheduler, __NR_getpid, __NR_gettid, __NR_getuid, __NR_geteuid, __NR_getgid,
    __NR_getegid, __NR_getcpu, __NR_getrusage, __NR_getrlimit, __NR_get_mempolicy, __NR_clock_gettime,
    __NR_clock_getres, __NR_clock_nanosleep, __NR_nanosleep, __NR_gettimeofday, __NR_restart_syscall, __NR_exit,
    __NR_exit_group, __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigreturn, __NR_sigaltstack, __NR_tgkill,
    __NR_set_robust_list, __NR_set_tid_address, __NR_rseq, __NR_getrandom, __NR_sysinfo, __NR_uname,
#if defined(__x86_64__)
    __NR_access, __NR_readlink, __NR_stat, __NR_arch_prctl, __NR_time,
#endif
};

// What libraries try and do without.
struct Refused {
    long number;
    uint32_t error;
};
constexpr Refused REFUSED[] = {
    {__NR_clone3, ENOSYS}, {__NR_membarrier, ENOSYS}, {__NR_ioctl, ENOTTY},       {__NR_prctl, EINVAL},
    {__NR_fcntl, EINVAL},  {__NR_mbind, EPERM},       {__NR_set_mempolicy, EPERM}, {__NR_mlock, EPERM},
};

// What allocators, threads and this program ask for. Above all not MADV_REMOVE: a hole in the shared memory takes the
// pages of every process that maps it, and a baseline would fault in what it had before.
constexpr uint32_t ALLOWED_ADVICE[] = {
    MADV_DONTNEED, MADV_FREE, MADV_POPULATE_READ, MADV_POPULATE_WRITE, 102 /* MADV_GUARD_INSTALL */, 103 /* _REMOVE */,
};

constexpr uint32_t ARGUMENT(int index) { return offsetof(seccomp_data, args) + 8 * index; }  // its low half

class SystemCallFilter {
  public:
    explicit SystemCallFilter(bool may_start_threads) {
        add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
        jump(BPF_JEQ, ARCHITECTURE, 1, 0);
        add(BPF_RET, SECCOMP_RET_KILL_PROCESS);
        add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
        for (long number : ALLOWED) answer(number, SECCOMP_RET_ALLOW);
        for (const Refused& refused : REFUSED) answer(refused.number, SECCOMP_RET_ERRNO | refused.error);
        // Files are opened for reading only.
        allow_if_bits(__NR_openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY), 0);
        allow_if_one_of(__NR_madvise, 2, ALLOWED_ADVICE);
        if (may_start_threads) allow_if_bits(__NR_clone, 0, CLONE_THREAD, CLONE_THREAD);
        // Limits are read, not set: no new limit is given.
        jump(BPF_JEQ, __NR_prlimit64, 0, 5);
        add(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(2));
        jump(BPF_JEQ, 0, 0, 3);
        add(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(2) + 4);
        jump(BPF_JEQ, 0, 0, 1);
        add(BPF_RET, SECCOMP_RET_ALLOW);
        add(BPF_RET, SECCOMP_RET_KILL_PROCESS);
    }

    void install() {
        sock_fprog program = {static_cast<unsigned short>(code_.size()), code_.data()};
        // SPEC_ALLOW: on kernels before 5.16 a filter would otherwise slow the kernel's loads and stores.
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) != 0)
            fail(MACHINERY_FAILED, "cannot install the system call filter", "seccomp refused");
    }

  private:
    void add(uint16_t code, uint32_t value) { code_.push_back({code, 0, 0, value}); }
    void jump(uint16_t test, uint32_t value, uint8_t on_true, uint8_t on_false) {
        code_.push_back({static_cast<uint16_t>(BPF_JMP | test | BPF_K), on_true, on_false, value});
    }
    void answer(uint32_t value, uint32_t action) {
        jump(BPF_JEQ, value, 0, 1);
        add(BPF_RET, action);
    }
    void allow_if_bits(long number, int argument, uint32_t mask, uint32_t expected) {
        jump(BPF_JEQ, number, 0, 5);
        add(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(argument));
        add(BPF_ALU | BPF_AND | BPF_K, mask);
        jump(BPF_JEQ, expected, 0, 1);
        add(BPF_RET, SECCOMP_RET_ALLOW);
        add(BPF_RET, SECCOMP_RET_KILL_PROCESS);
    }
    template <size_t COUNT>
    void allow_if_one_of(long number, int argument, const uint32_t (&values)[COUNT]) {
        jump(BPF_JEQ, number, 0, 2 * COUNT + 2);
        add(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(argument));
        for (uint32_t value : values) answer(value, SECCOMP_RET_ALLOW);
        add(BPF_RET, SECCOMP_RET_KILL_PROCESS);
    }

    std::vector<sock_filter> code_;
};

// ---- the arena

struct Segment {
    char* start;
    size_t bytes;
    int protection;
    size_t populated_bytes;

    void map(const char* descriptor, const char* size, int mapping_protection) {
        int fd = atoi(descriptor);
        bytes = strtoull(size, nullptr, 10);
        protection = mapping_protection;
        // Between unmapped pages, so that a kernel that reads on beyond the last tensor crashes.
        size_t page = sysconf(_SC_PAGESIZE);
        void* reserved = mmap(nullptr, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (reserved == MAP_FAILED) fail(MACHINERY_FAILED, "cannot reserve room for the arena", "mmap failed");
        start = static_cast<char*>(reserved) + page;
        if (mmap(start, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
            fail(MACHINERY_FAILED, "cannot map the arena", "mmap failed");
        close(fd);
    }

    // Page faults belong to the layout, not to the timed calls.
    void populate(size_t used_bytes) {
        if (used_bytes <= populated_bytes) return;
        size_t from = populated_bytes & ~size_t{4095};
        madvise(start + from, used_bytes - from, protection & PROT_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
        populated_bytes = used_bytes;
    }
};

Segment segments[2];

constexpr uint64_t OUTPUTS_BIT = uint64_t{1} << 63;

void* locate(uint64_t place) {
    const Segment& segment = segments[(place & OUTPUTS_BIT) != 0];
    uint64_t offset = place & ~OUTPUTS_BIT;
    if (offset >= segment.bytes) fail(MACHINERY_FAILED, "a tensor lies outside the arena", "bad request");
    return segment.start + offset;
}

// ---- requests

bool receive(void* target, size_t bytes) {
    char* next = static_cast<char*>(target);
    while (bytes > 0) {
        ssize_t got = read(STDIN_FILENO, next, bytes);
        if (got <= 0) return false;
        next += got;
        bytes -= got;
    }
    return true;
}

class Runner {
  public:
    explicit Runner(const char* artifact) {
        if (strcmp(artifact, "-") == 0) return;
        void* library = dlopen(artifact, RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) fail(LOAD_FAILED, "cannot load the kernel", dlerror());
        call_ = reinterpret_cast<Call*>(dlsym(library, "compiler_agent_call"));
        prepared_bytes_ = reinterpret_cast<PreparedBytes*>(dlsym(library, "compiler_agent_prepared_bytes"));
        prepare_ = reinterpret_cast<Prepare*>(dlsym(library, "compiler_agent_prepare"));
        if (call_ == nullptr) fail(LOAD_FAILED, "cannot load the kernel", "it exports no compiler_agent_call");
    }

    void serve() {
        Request request;
        std::vector<uint64_t> payload;
        while (receive(&request, sizeof request)) {
            Reply reply = {request.nonce, 0};
            if (request.kind == RUN) {
                run(request.first, request.count);
            } else {
                payload.resize(request.payload_bytes / sizeof(uint64_t));
                if (!receive(payload.data(), request.payload_bytes)) return;
                if (request.kind == PREPARE) reply.value = prepare(payload.data());
                if (request.kind == LAY_OUT) lay_out(payload.data());
            }
            // Also what loading left: the first request only waits for it.
            if (CHECKS_FLOAT_STATE && float_state() != float_state_before_)
                fail(CHANGED_FLOAT_STATE, "the float state is not what it was", "the kernel changed it");
            if (write(STDOUT_FILENO, &reply, sizeof reply) != sizeof reply) return;
        }
    }

  private:
    // Returns the bytes that all prepared sets take together.
    uint64_t prepare(const uint64_t* words) {
        uint64_t sets = *words++, parameters = *words++;
        segments[0].populate(*words++);
        prepared_.assign(sets, nullptr);
        if (prepare_ == nullptr || prepared_bytes_ == nullptr) return 0;
        int64_t bytes = prepared_bytes_();
        if (bytes < 0) fail(LOAD_FAILED, "prepare", "its size is negative");
        std::vector<void*> tensors(parameters);
        for (uint64_t set = 0; set < sets; ++set) {
            for (void*& tensor : tensors) tensor = locate(*words++);
            size_t rounded = (static_cast<size_t>(bytes) + 63) / 64 * 64;
            prepared_[set] = aligned_alloc(64, rounded == 0 ? 64 : rounded);
            if (prepared_[set] == nullptr) fail(LOAD_FAILED, "prepare", "std::bad_alloc: no memory for its result");
            prepare_(tensors.data(), prepared_[set]);
        }
        return sets * static_cast<uint64_t>(bytes);
    }

    void lay_out(const uint64_t* words) {
        segments[0].populate(*words++);
        segments[1].populate(*words++);
        sizes_.resize(*words++);
        for (int64_t& size : sizes_) size = static_cast<int64_t>(*words++);
        uint64_t calls = *words++;
        tensors_per_call_ = *words++;
        call_prepared_.assign(calls, nullptr);
        tensors_.resize(calls * tensors_per_call_);
        for (uint64_t call = 0; call < calls; ++call) {
            uint64_t set = *words++;
            if (set < prepared_.size()) call_prepared_[call] = prepared_[set];
            for (uint64_t index = 0; index < tensors_per_call_; ++index)
                tensors_[call * tensors_per_call_ + index] = locate(*words++);
        }
    }

    void run(uint32_t first, uint32_t count) {
        if (first + size_t{count} > call_prepared_.size())
            fail(MACHINERY_FAILED, "a call outside the layout", "bad request");
        for (size_t call = first; call < first + size_t{count}; ++call)
            call_(tensors_.data() + call * tensors_per_call_, call_prepared_[call], sizes_.data());
    }

    // Initialised before the constructor's body loads the kernel.
    const uint64_t float_state_before_ = float_state();
    Call* call_ = nullptr;
    PreparedBytes* prepared_bytes_ = nullptr;
    Prepare* prepare_ = nullptr;
    std::vector<void*> prepared_;
    std::vector<int64_t> sizes_;
    std::vector<void*> tensors_;
    std::vector<void*> call_prepared_;
    size_t tensors_per_call_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 7) fail(MACHINERY_FAILED, "usage", "ARTIFACT INPUTS_FD INPUTS_BYTES OUTPUTS_FD OUTPUTS_BYTES THREADS");
    segments[0].map(argv[2], argv[3], PROT_READ);
    segments[1].map(argv[4], argv[5], PROT_READ | PROT_WRITE);
#ifndef WITHOUT_SYSTEM_CALL_FILTER  // only tests define it
    SystemCallFilter(atoi(argv[6]) > 1).install();
#endif
    Runner runner(argv[1]);
    runner.serve();
    _exit(0);
}
