#include "worker/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "nanoseconds on a processor, nanoseconds waiting for one, slices" */
static int64_t thread_active_ns(pid_t pid, const char *thread)
{
    char path[320];
    char text[128] = "";
    char *at = text;

    (void)snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", (int)pid, thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0) {
        return 0;
    }
    int64_t running_ns = strtoll(at, &at, 10);
    return running_ns + strtoll(at, NULL, 10);
}

int64_t process_active_ns(pid_t pid)
{
    struct dirent *entry = NULL;
    char path[64];
    int64_t active_ns = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    while (threads != NULL && (entry = readdir(threads)) != NULL) {
        if (entry->d_name[0] != '.') {
            active_ns += thread_active_ns(pid, entry->d_name);
        }
    }
    if (threads != NULL) {
        (void)closedir(threads);
    }
    return active_ns;
}

bool process_uid(pid_t pid, uid_t *uid)
{
    static const char key[] = "\nUid:";
    char path[64];
    char text[1024] = "";

    /* The owner of the folder is root where a process hides itself; this file always tells. */
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    const char *at = size <= 0 ? NULL : strstr(text, key);
    if (at == NULL || strstr(text, "\nState:\tZ") != NULL) {
        return false;
    }
    *uid = (uid_t)strtoul(at + strlen(key), NULL, 10);
    return true;
}

void process_signal_all(uid_t user, int number)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry = NULL;

    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct stat info;
        if (pid > 0 && fstatat(dirfd(proc), entry->d_name, &info, 0) == 0 && info.st_uid == user) {
            (void)kill(pid, number);
        }
    }
    if (proc != NULL) {
        closedir(proc);
    }
}
