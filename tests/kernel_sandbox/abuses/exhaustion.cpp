// Programs that take more than they were given, and ones that will not end: `exhaustion NAME [ARGUMENT]`.
// Where the name says that they are refused, 1 is their exit status.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <string>

static int refused(const char* what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return 1;
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

static void* wait_for_ever(void*) {
    pause();
    return nullptr;
}

static int thread_bomb() {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    int threads = 0;
    for (pthread_t thread; threads < 500; ++threads)
        if (pthread_create(&thread, &small, wait_for_ever, nullptr) != 0) break;
    return threads < 500 ? 1 : 0;
}

static void touch(size_t bytes) {
    char* piece = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (piece == MAP_FAILED) _exit(refused("mmap"));
    for (size_t byte = 0; byte < bytes; byte += 4096) piece[byte] = 1;
}

static int eat_memory() {
    for (long total = 0; total < (8L << 30); total += 64 << 20) {
        char* piece = new char[64 << 20];
        memset(piece, 1, 64 << 20);
    }
    return 0;
}

// 12 times an eighth of a GiB, each below what one process may have.
static int eat_memory_together() {
    for (int child = 0; child < 12; ++child) {
        if (fork() == 0) {
            touch(128 << 20);
            pause();
        }
        usleep(1000);
    }
    int status = 0;
    for (int second = 0; second < 3; ++second, sleep(1))
        if (waitpid(-1, &status, WNOHANG) > 0) return 1;
    return 0;
}

static int burn_together() {
    for (int child = 0; child < 8; ++child)
        if (fork() == 0)
            for (;;) {
            }
    while (wait(nullptr) > 0) {
    }
    return 1;
}

static int fill(const std::string& folder) {
    std::string piece(1 << 20, 'x');
    for (int file = 0; file < 1000; ++file) {
        int descriptor = open((folder + "/piece" + std::to_string(file)).c_str(), O_CREAT | O_WRONLY, 0644);
        if (descriptor < 0 || write(descriptor, piece.data(), piece.size()) < 0) return refused("write");
        close(descriptor);
        usleep(2000);
    }
    return 0;
}

static int fill_inodes(const std::string& folder) {
    for (int file = 0; file < 10000000; ++file) {
        int descriptor = open((folder + "/" + std::to_string(file)).c_str(), O_CREAT | O_WRONLY, 0644);
        if (descriptor < 0) return refused("open");
        close(descriptor);
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
                close(open("/scratch/alive", O_CREAT | O_WRONLY, 0644));
                usleep(1000);
            }
        }
        _exit(0);
    }
    wait(nullptr);
    usleep(20000);
    return 0;
}

static int leave_zombies() {
    for (int child = 0; child < 500; ++child) {
        pid_t made = fork();
        if (made < 0) return refused("fork");
        if (made == 0) _exit(0);
    }
    return 0;
}

static int flood(int which, const std::string& piece) {
    for (int i = 0; i < 2000; ++i)
        if (((which & 1) && write(1, piece.data(), piece.size()) < 0) ||
            ((which & 2) && write(2, piece.data(), piece.size()) < 0))
            return 2;
    return puts("\xff\xfe the end") < 0;
}

// ---- ways to look as if somebody outside had killed the program; exit with 3 when none came

static int pretend(const std::string& how) {
    if (how == "exit") _exit(128 + SIGKILL);
    if (how == "exit_of_thread") syscall(SYS_exit, 128 + SIGKILL);
    if (how == "kill") kill(1, SIGKILL);
    if (how == "kill_all") kill(-1, SIGKILL);
    if (how == "kill_from_child" && fork() == 0) _exit(kill(1, SIGKILL));
    if (how == "timer") {
        sigevent event = {};
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGKILL;
        timer_t timer;
        itimerspec soon = {{0, 0}, {0, 1000000}};
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0) timer_settime(timer, 0, &soon, nullptr);
    }
    if (how == "child_exit" && syscall(SYS_clone, SIGKILL, 0, 0, 0, 0) == 0) _exit(0);
    if (how == "parent_death") prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (how == "pipe_signal") {
        int ends[2];
        if (pipe(ends) == 0) {
            fcntl(ends[0], F_SETOWN, getpid());
            fcntl(ends[0], 10 /* F_SETSIG */, SIGKILL);
            fcntl(ends[0], F_SETFL, O_ASYNC);
            if (write(ends[1], "x", 1) < 0) return 2;
        }
    }
    usleep(50000);
    return 3;
}

int main(int count, char** arguments) {
    std::string abuse = arguments[1], argument = count > 2 ? arguments[2] : "";
    if (abuse == "fork_bomb") return fork_bomb();
    if (abuse == "thread_bomb") return thread_bomb();
    if (abuse == "eat_memory") return eat_memory();
    if (abuse == "eat_memory_together") return eat_memory_together();
    if (abuse == "burn_together") return burn_together();
    if (abuse == "fill") return fill(argument);
    if (abuse == "fill_inodes") return fill_inodes(argument);
    if (abuse == "outlive") return outlive();
    if (abuse == "zombies") return leave_zombies();
    if (abuse == "pretend") return pretend(argument);
    if (abuse == "sparse") return ftruncate64(open("/scratch/sparse", O_CREAT | O_WRONLY, 0644), 1LL << 40) == 0 ? 0 : refused("truncate");
    if (abuse == "flood") return flood(3, std::string(1 << 16, 'x'));
    if (abuse == "flood_stdout") return flood(1, std::string(1 << 16, '\0'));
    if (abuse == "flood_stderr") return flood(2, "\x1b[2J\x1b[31m\r\b\xf0\x9f\n");
    if (abuse == "sleep") sleep(1000);
    if (abuse == "stop_itself") {
        raise(SIGSTOP);
        sleep(1000);
    }
    if (abuse == "ignore_signals") {
        for (int number = 1; number < 65; ++number) signal(number, SIG_IGN);
        for (;;) pause();
    }
    if (abuse == "link_output") return symlink("/etc/passwd", "/scratch/output");
    if (abuse == "climbing_link_output") return symlink("../../../../etc/passwd", "/scratch/output");
    if (abuse == "hard_link_output") {
        close(open("/scratch/other", O_CREAT | O_WRONLY, 0644));
        return link("/scratch/other", "/scratch/output");
    }
    if (abuse == "pipe_output") return mkfifo("/scratch/output", 0644);
    if (abuse == "socket_output") return mknod("/scratch/output", S_IFSOCK | 0644, 0);
    if (abuse == "device_output") return mknod("/scratch/output", S_IFCHR | 0644, 0);  // 0:0 needs no privilege
    if (abuse == "folder_output") return mkdir("/scratch/output", 0755);
    if (abuse == "lock_folders") {
        for (int depth = 0; depth < 1200; ++depth)
            if (mkdir("deep", 0755) != 0 || chdir("deep") != 0) return refused("mkdir");
        return chmod("/scratch/deep", 0);
    }
    return 2;
}
