// The first process of a container: starts programs for the host, which it reaches over one socket; see
// kernel_sandbox/docker_supervisor.py.
//
//     supervisor SOCKET FOLDER...
//
// It hands the folders over, then waits for requests. A program to run becomes its child, and when that has ended all
// others of the container are killed before its status is told. A program to become replaces it: as process 1 nobody
// inside the container can kill that. When the host closes the socket, or dies, it ends, and with it the container.
//
// The programs are hostile and have its uid: it cannot be signalled, being process 1, nor looked into, not being
// dumpable, and none of its descriptors reaches them.

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

enum Kind : uint64_t { RUN = 0, BECOME = 1, KILL = 2 };
enum ExitCode { MACHINERY_FAILED = 70, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

constexpr size_t MOST_BYTES = 1 << 20;
constexpr int MOST_DESCRIPTORS = 250;  // SCM_MAX_FD is 253
constexpr uint64_t NO_CORE = ~0ull;

// All numbers of 64 bits, in this order; then limits (number, soft, hard), descriptor numbers, the filter, and the
// arguments and variables, each ended by a zero byte.
struct Header {
    uint64_t kind, core, limits, descriptors, filter_bytes, arguments, variables;
};

struct Limit {
    uint64_t number, soft, hard;
};

struct Result {
    uint64_t status, cpu_us;
};

[[noreturn]] void fail(const char* what) {
    fprintf(stderr, "supervisor: %s: %s\n", what, strerror(errno));
    _exit(MACHINERY_FAILED);
}

int connect_to(const char* path) {
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (connection < 0 || connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        fail("connect");
    return connection;
}

void hand_over(int connection, char** folders, int count) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)] = {};
    char greeting = '!';
    iovec content = {&greeting, 1};
    msghdr message = {};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    std::vector<int> descriptors;
    for (int index = 0; index < count && index < 8; ++index) {
        descriptors.push_back(open(folders[index], O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (descriptors.back() < 0) fail(folders[index]);
    }
    if (!descriptors.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
        memcpy(CMSG_DATA(header), descriptors.data(), sizeof(int) * descriptors.size());
    }
    if (sendmsg(connection, &message, MSG_NOSIGNAL) != 1) fail("sendmsg");
    for (int descriptor : descriptors) close(descriptor);
}

struct Request {
    Header header;
    std::vector<Limit> limits;
    std::vector<uint64_t> numbers;
    std::string filter;
    std::vector<char*> arguments, variables;
    std::vector<int> descriptors;
    std::string content;
};

// False when the host has closed the socket.
bool receive(int connection, Request& request) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * MOST_DESCRIPTORS)];
    request.content.resize(MOST_BYTES);
    iovec content = {request.content.data(), MOST_BYTES};
    msghdr message = {};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t size = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
    if (size <= 0) return false;
    if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) fail("a request that is too large");
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        const int* sent = reinterpret_cast<const int*>(CMSG_DATA(header));
        request.descriptors.insert(request.descriptors.end(), sent, sent + count);
    }
    char* at = request.content.data();
    memcpy(&request.header, at, sizeof request.header);
    at += sizeof request.header;
    const Header& header = request.header;
    request.limits.resize(header.limits);
    memcpy(request.limits.data(), at, header.limits * sizeof(Limit));
    at += header.limits * sizeof(Limit);
    request.numbers.resize(header.descriptors);
    memcpy(request.numbers.data(), at, header.descriptors * sizeof(uint64_t));
    at += header.descriptors * sizeof(uint64_t);
    request.filter.assign(at, header.filter_bytes);
    at += header.filter_bytes;
    for (uint64_t index = 0; index < header.arguments + header.variables; ++index, at += strlen(at) + 1)
        (index < header.arguments ? request.arguments : request.variables).push_back(at);
    request.arguments.push_back(nullptr);
    request.variables.push_back(nullptr);
    return true;
}

// Each descriptor gets the number that it has on the host; the others close with the start of the program.
void place_descriptors(const Request& request) {
    int above = 3;
    for (uint64_t number : request.numbers) above = std::max(above, static_cast<int>(number) + 1);
    std::vector<int> moved;
    for (int descriptor : request.descriptors) {
        moved.push_back(fcntl(descriptor, F_DUPFD_CLOEXEC, above));
        if (moved.back() < 0) fail("cannot move a descriptor");
    }
    for (size_t index = 0; index < moved.size(); ++index)
        if (dup2(moved[index], static_cast<int>(request.numbers[index])) < 0) fail("cannot place a descriptor");
}

[[noreturn]] void start(Request& request) {
    setsid();
    umask(022);
    place_descriptors(request);
    if (chdir("/scratch") != 0) fail("/scratch");
    if (request.header.core != NO_CORE) {
        cpu_set_t cores;
        CPU_ZERO(&cores);
        CPU_SET(request.header.core, &cores);
        if (sched_setaffinity(0, sizeof cores, &cores) != 0) fail("cannot stay on that core");
    }
    for (const Limit& limit : request.limits) {
        rlimit values = {limit.soft, limit.hard};
        if (setrlimit(static_cast<__rlimit_resource>(limit.number), &values) != 0) fail("setrlimit");
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    environ = request.variables.data();
    sock_fprog filter = {static_cast<unsigned short>(request.filter.size() / sizeof(sock_filter)),
                         reinterpret_cast<sock_filter*>(request.filter.data())};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0)
        fail("cannot filter system calls");
    execvp(request.arguments[0], request.arguments.data());
    int error = errno;
    fprintf(stderr, "%s: %s\n", request.arguments[0], strerror(error));
    _exit(error == ENOENT || error == ENOTDIR ? NOT_FOUND : NOT_EXECUTABLE);
}

// When the child has ended: ends all others, and tells.
void reap(int connection, pid_t& child) {
    int status;
    rusage usage;
    for (pid_t ended; (ended = wait4(-1, &status, WNOHANG, &usage)) > 0;) {
        if (ended != child) continue;
        child = 0;
        Result result = {};
        result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        kill(-1, SIGKILL);  // the kernel lets no fork through meanwhile
        rusage others;
        for (;;) {
            result.cpu_us += (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
                             usage.ru_stime.tv_usec;
            if (wait4(-1, nullptr, 0, &others) < 0) break;
            usage = others;
        }
        if (send(connection, &result, sizeof result, MSG_NOSIGNAL) != sizeof result) _exit(0);
    }
}

}  // namespace

int main(int count, char** arguments) {
    prctl(PR_SET_DUMPABLE, 0);
    if (count < 2) return MACHINERY_FAILED;
    int connection = connect_to(arguments[1]);
    hand_over(connection, arguments + 2, count - 2);
    sigset_t endings;
    sigemptyset(&endings);
    sigaddset(&endings, SIGCHLD);
    sigprocmask(SIG_BLOCK, &endings, nullptr);
    int ended = signalfd(-1, &endings, SFD_CLOEXEC | SFD_NONBLOCK);
    if (ended < 0) fail("signalfd");
    pollfd events[] = {{connection, POLLIN, 0}, {ended, POLLIN, 0}};
    pid_t child = 0;
    for (;;) {
        if (poll(events, 2, -1) < 0) continue;
        if (events[1].revents) {
            signalfd_siginfo info;
            while (read(ended, &info, sizeof info) > 0) {
            }
            reap(connection, child);
        }
        if (!events[0].revents) continue;
        Request request;
        if (!receive(connection, request)) return 0;
        if (request.header.kind == KILL) kill(-1, SIGKILL);
        if (request.header.kind == BECOME) start(request);
        if (request.header.kind == RUN) {
            child = fork();
            if (child < 0) fail("fork");
            if (child == 0) start(request);
        }
        for (int descriptor : request.descriptors) close(descriptor);
    }
}
