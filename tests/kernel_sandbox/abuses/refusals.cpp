// One forbidden act each: `refusals NAME [ARGUMENT]`. Exits with 0 when it was let through, 1 when refused.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/vm_sockets.h>
#include <netdb.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>

using Act = std::function<bool(const char* argument)>;

static bool connect_to(int family, int type, const char* host, const char* port) {
    addrinfo hints = {}, *found = nullptr;
    hints.ai_family = family;
    hints.ai_socktype = type;
    hints.ai_flags = AI_NUMERICHOST;
    if (getaddrinfo(host, port, &hints, &found) != 0) return false;
    int descriptor = socket(family, type, 0);
    return descriptor >= 0 && connect(descriptor, found->ai_addr, found->ai_addrlen) == 0 &&
           write(descriptor, "x", 1) == 1;
}

static bool connect_unix(std::string path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path[0] == '@') path[0] = '\0';
    memcpy(address.sun_path, path.data(), path.size());
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t size = offsetof(sockaddr_un, sun_path) + path.size();
    return connect(descriptor, reinterpret_cast<sockaddr*>(&address), size) == 0;
}

static bool connect_hypervisor() {
    sockaddr_vm address = {};
    address.svm_family = AF_VSOCK;
    address.svm_cid = VMADDR_CID_HOST;
    address.svm_port = 1;
    int descriptor = socket(AF_VSOCK, SOCK_STREAM, 0);
    // Refused by the host is no refusal: it was reached.
    return descriptor >= 0 &&
           (connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 || errno == ECONNRESET);
}

static bool trace_child() {
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    bool traced = ptrace(PTRACE_ATTACH, child, 0, 0) == 0;
    int error = errno;
    kill(child, SIGKILL);
    errno = error;
    return traced;
}

static bool read_memory(pid_t pid) {
    char taken[8];
    iovec to = {taken, sizeof taken}, from = {reinterpret_cast<void*>(&errno), sizeof taken};
    return process_vm_readv(pid, &to, 1, &from, 1, 0) >= 0;
}

static bool opens(const char* path, int flags) { return open(path, flags, 0644) >= 0; }

static bool reads(const char* path) {
    char taken;
    return read(open(path, O_RDONLY), &taken, 1) == 1;
}

static bool writes(const char* path, const char* text) {
    int descriptor = open(path, O_WRONLY);
    return descriptor >= 0 && write(descriptor, text, strlen(text)) > 0;
}

static bool clones(int flags) {
    long child = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    return child > 0;
}

static bool all_cores() {
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    return sched_setaffinity(0, sizeof all, &all) == 0;
}

static bool runs_in_real_time() {
    sched_param priority = {1};
    return sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
}

static bool raises(int resource) {
    rlimit limit;
    getrlimit(static_cast<__rlimit_resource>(resource), &limit);
    limit.rlim_max += 1 << 20;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0;
}

static bool lowers_cpu_limit() {
    rlimit limit = {1, 1};
    return setrlimit(RLIMIT_CPU, &limit) == 0 || syscall(SYS_prlimit64, 0, RLIMIT_CPU, &limit, nullptr) == 0;
}

static bool counts_instructions() {
    perf_event_attr attributes = {};
    attributes.size = sizeof attributes;
    attributes.exclude_kernel = 1;
    return syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0) >= 0;
}

static bool sets_clock() {
    timeval now = {1, 0};
    return settimeofday(&now, nullptr) == 0;
}

static bool sets_ring() {
    char parameters[256] = {};
    return syscall(SYS_io_uring_setup, 8, parameters) >= 0;
}

static bool gives_itself_capabilities() {
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct all[2] = {{~0u, ~0u, 0}, {~0u, ~0u, 0}};
    return syscall(SYS_capset, &header, all) == 0;
}

static const std::map<std::string, Act> ACTS = {
    // network
    {"tcp", [](const char* port) { return connect_to(AF_INET, SOCK_STREAM, "127.0.0.1", port); }},
    {"metadata", [](const char*) { return connect_to(AF_INET, SOCK_STREAM, "169.254.169.254", "80"); }},
    {"udp", [](const char*) { return connect_to(AF_INET, SOCK_DGRAM, "9.9.9.9", "53"); }},
    {"ipv6", [](const char*) { return connect_to(AF_INET6, SOCK_STREAM, "2606:4700:4700::1111", "443"); }},
    {"dns", [](const char*) { addrinfo* found; return getaddrinfo("example.com", "80", nullptr, &found) == 0; }},
    {"unix", [](const char* name) { return connect_unix(name); }},
    {"docker", [](const char*) { return connect_unix("/var/run/docker.sock") || connect_unix("/run/docker.sock"); }},
    {"hypervisor", [](const char*) { return connect_hypervisor(); }},
    {"packets", [](const char*) { return socket(AF_PACKET, SOCK_RAW, 0) >= 0; }},
    {"raw_socket", [](const char*) { return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0; }},
    // other processes
    {"trace_child", [](const char*) { return trace_child(); }},
    {"trace_parent", [](const char*) { return ptrace(PTRACE_ATTACH, getppid(), 0, 0) == 0; }},
    {"read_parent", [](const char*) { return read_memory(getppid()); }},
    // No system call of its own that a filter could tell from others.
    {"read_init", [](const char*) { return opens("/proc/1/mem", O_RDONLY); }},
    {"signal_launcher", [](const char* pid) { return kill(atoi(pid), 0) == 0; }},
    {"hurry", [](const char*) { return setpriority(PRIO_PROCESS, 0, -5) == 0; }},
    {"real_time", [](const char*) { return runs_in_real_time(); }},
    {"change_core", [](const char*) { return all_cores(); }},
    {"no_oom", [](const char*) { return writes("/proc/self/oom_score_adj", "-1000"); }},
    {"more_processes", [](const char*) { return raises(RLIMIT_NPROC); }},
    {"more_memory", [](const char*) { return raises(RLIMIT_AS); }},
    {"stack_of_init", [](const char*) { rlimit none = {0, 0}; return prlimit(1, RLIMIT_STACK, &none, nullptr) == 0; }},
    {"own_cpu_limit", [](const char*) { return lowers_cpu_limit(); }},
    // privileges and namespaces
    {"become_root", [](const char*) { return setuid(0) == 0; }},
    {"capabilities", [](const char*) { return gives_itself_capabilities(); }},
    {"user_namespace", [](const char*) { return unshare(CLONE_NEWUSER) == 0; }},
    {"user_namespace_by_clone", [](const char*) { return clones(CLONE_NEWUSER); }},
    {"network_namespace", [](const char*) { return unshare(CLONE_NEWNET) == 0; }},
    {"join_namespace", [](const char*) { return setns(open("/proc/1/ns/user", O_RDONLY), 0) == 0; }},
    {"mount", [](const char*) { return mount("none", "/scratch", "tmpfs", 0, nullptr) == 0; }},
    {"remount", [](const char*) { return mount("none", "/usr", nullptr, MS_REMOUNT | MS_BIND, nullptr) == 0; }},
    {"unmount", [](const char*) { return umount2("/proc", MNT_DETACH) == 0; }},
    {"new_mount_api", [](const char*) { return syscall(SYS_fsopen, "tmpfs", 0) >= 0; }},
    {"change_root", [](const char*) { return chroot("/scratch") == 0; }},
    {"device_node", [](const char*) { return mknod("/scratch/disk", S_IFBLK | 0600, 8 << 8) == 0; }},
    // the kernel
    {"keyring", [](const char*) { return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, -3, 1) >= 0; }},
    {"add_key", [](const char*) { return syscall(SYS_add_key, "user", "k", "v", 1, -3) >= 0; }},
    {"bpf", [](const char*) { return syscall(SYS_bpf, 0, nullptr, 0) >= 0 || errno == EFAULT; }},
    {"perf", [](const char*) { return counts_instructions(); }},
    {"io_uring", [](const char*) { return sets_ring(); }},
    {"userfaultfd", [](const char*) { return syscall(SYS_userfaultfd, 1) >= 0; }},
    {"kernel_log", [](const char*) { return syscall(SYS_syslog, 3, nullptr, 0) >= 0 || opens("/dev/kmsg", O_RDONLY); }},
    {"clock", [](const char*) { return sets_clock(); }},
    {"host_name", [](const char*) { return sethostname("mine", 4) == 0; }},
    {"reboot", [](const char*) { return reboot(RB_DISABLE_CAD) == 0; }},
    {"sysrq", [](const char*) { return writes("/proc/sysrq-trigger", "h"); }},
    {"sysctl", [](const char*) { return writes("/proc/sys/kernel/core_pattern", "|/scratch/x"); }},
    {"core_offline", [](const char*) { return writes("/sys/devices/system/cpu/cpu1/online", "1"); }},
    {"kernel_memory", [](const char*) { return reads("/proc/kcore") || reads("/dev/mem"); }},
    // files
    {"write_system", [](const char*) { return opens("/usr/planted", O_CREAT | O_WRONLY); }},
    {"write_root", [](const char*) { return opens("/planted", O_CREAT | O_WRONLY); }},
    {"write_devices", [](const char*) { return opens("/dev/planted", O_CREAT | O_WRONLY); }},
    {"write_preload", [](const char*) { return opens("/etc/ld.so.preload", O_CREAT | O_WRONLY); }},
    {"write_socket_folder", [](const char*) { return opens("/run/supervisor/planted", O_CREAT | O_WRONLY); }},
    {"reach_host", [](const char*) { return connect_unix("/run/supervisor/socket"); }},
    {"write_cgroup", [](const char*) { return opens("/sys/fs/cgroup/cgroup.procs", O_WRONLY); }},
    {"climb_out", [](const char*) { return opens("/scratch/../../../../../etc/shadow", O_RDONLY); }},
    {"launchers_descriptors", [](const char* pid) {
         return opens((std::string("/proc/") + pid + "/fd/0").c_str(), O_RDONLY) || fcntl(3, F_GETFD) >= 0;
     }},
};

int main(int count, char** arguments) {
    if (count < 2 || !ACTS.count(arguments[1])) return 2;
    errno = 0;
    bool worked = ACTS.at(arguments[1])(count > 2 ? arguments[2] : "");
    fprintf(stderr, "%s: %s\n", arguments[1], worked ? "worked" : strerror(errno));
    return worked ? 0 : 1;
}
