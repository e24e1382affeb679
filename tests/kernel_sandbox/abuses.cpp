// Programs that a sandbox must survive: `abuses NAME`. Exits with 0 when the abuse worked.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

static int refused(const char* what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return 1;
}

static int connect_out() {
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(80);
    inet_pton(AF_INET, "169.254.169.254", &address.sin_addr);
    return connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? 0 : refused("connect");
}

static int trace() {
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    int result = ptrace(PTRACE_ATTACH, child, 0, 0) == 0 ? 0 : refused("ptrace");
    kill(child, SIGKILL);
    return result;
}

static int fork_bomb() {
    int children = 0;
    while (children < 500) {
        pid_t child = fork();
        if (child < 0) break;
        if (child == 0) {
            pause();
            _exit(0);
        }
        ++children;
    }
    printf("%d children\n", children);
    return children < 500 ? 1 : 0;
}

static int eat_memory() {
    for (long total = 0; total < (8L << 30); total += 64 << 20) {
        char* piece = new char[64 << 20];
        memset(piece, 1, 64 << 20);
    }
    return 0;
}

static int outlive() {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            signal(SIGTERM, SIG_IGN);
            signal(SIGHUP, SIG_IGN);
            for (;;) {
                close(open("/work/alive", O_CREAT | O_WRONLY, 0644));
                usleep(1000);
            }
        }
        _exit(0);
    }
    wait(nullptr);
    usleep(20000);
    return 0;
}

int main(int, char** argv) {
    std::string abuse = argv[1];
    if (abuse == "network") return connect_out();
    if (abuse == "trace") return trace();
    if (abuse == "fork_bomb") return fork_bomb();
    if (abuse == "eat_memory") return eat_memory();
    if (abuse == "outlive") return outlive();
    if (abuse == "write_outside") return open("/usr/planted", O_CREAT | O_WRONLY, 0644) >= 0 ? 0 : refused("open");
    if (abuse == "nest") return unshare(CLONE_NEWUSER) == 0 ? 0 : refused("unshare");
    if (abuse == "mount") return mount("none", "/work", "tmpfs", 0, nullptr) == 0 ? 0 : refused("mount");
    if (abuse == "become_root") return setuid(0) == 0 ? 0 : refused("setuid");
    if (abuse == "change_core") {
        cpu_set_t all;
        memset(&all, 0xff, sizeof all);
        return sched_setaffinity(0, sizeof all, &all) == 0 ? 0 : refused("sched_setaffinity");
    }
    if (abuse == "hurry") return setpriority(PRIO_PROCESS, 0, -5) == 0 ? 0 : refused("setpriority");
    if (abuse == "ignore_term") {
        signal(SIGTERM, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        for (;;) pause();
    }
    if (abuse == "flood") {
        std::string line(1 << 16, 'x');
        for (int i = 0; i < 2000; ++i)
            if (write(1, line.data(), line.size()) < 0 || write(2, line.data(), line.size()) < 0) return 1;
        return puts("\xff\xfe the end") < 0;
    }
    if (abuse == "link_output") return symlink("/etc/passwd", "/work/output");
    if (abuse == "pipe_output") return mkfifo("/work/output", 0644);
    if (abuse == "lock_folders") {
        for (int depth = 0; depth < 1200; ++depth)
            if (mkdir("deep", 0755) != 0 || chdir("deep") != 0) return refused("mkdir");
        return chmod("/work/deep", 0);
    }
    if (abuse == "fill_scratch") {
        std::string piece(1 << 20, 'x');
        for (int file = 0; file < 1000; ++file) {
            int descriptor = open(("/work/piece" + std::to_string(file)).c_str(), O_CREAT | O_WRONLY, 0644);
            if (write(descriptor, piece.data(), piece.size()) < 0) return refused("write");
            close(descriptor);
            usleep(2000);
        }
        return 0;
    }
    return 2;
}
