#include "worker/collect.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static enum status seal(int fd, struct error *err)
{
    int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

    if (fcntl(fd, F_ADD_SEALS, seals) != 0 || lseek(fd, 0, SEEK_SET) != 0) {
        return error_set(err, ERR_IO, "cannot seal a memory file: %m");
    }
    return OK;
}

static enum status open_plain(int directory, const char *name, size_t bytes_max, int *fd,
                              struct stat *info, struct error *err)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
    int opened = (int)syscall(SYS_openat2, directory, name, &how, sizeof how);

    if (opened < 0) {
        return errno == ENOENT ? error_set(err, ERR_NOT_FOUND, "there is no '%s'", name)
                               : error_set(err, ERR_INVALID, "cannot open '%s': %m", name);
    }
    enum status status = OK;
    if (fstat(opened, info) != 0 || !S_ISREG(info->st_mode) || info->st_nlink != 1) {
        status = error_set(err, ERR_INVALID, "'%s' is no plain file", name);
    } else if ((uint64_t)info->st_size > bytes_max) {
        status = error_set(err, ERR_TOO_LARGE, "'%s' has over %zu bytes", name, bytes_max);
    }
    if (status != OK) {
        close(opened);
        return status;
    }
    *fd = opened;
    return OK;
}

enum status collect_file(int directory, const char *name, size_t bytes_max, int *fd,
                         struct error *err)
{
    struct stat info = {0};
    int from = -1, made = -1;

    enum status status = open_plain(directory, name, bytes_max, &from, &info, err);
    if (status != OK) {
        return status;
    }
    made = memfd_create("pkb-collected", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0) {
        status = error_set(err, ERR_IO, "cannot make a memory file: %m");
    }
    /* So many bytes and no more, whatever the file has grown to. */
    for (off_t at = 0; status == OK && at < info.st_size;) {
        ssize_t size = sendfile(made, from, &at, (size_t)(info.st_size - at));
        if (size <= 0) {
            status = error_set(err, ERR_IO, "cannot copy '%s': %m", name);
        }
    }
    if (status == OK) {
        status = seal(made, err);
    }
    close(from);
    if (status != OK) {
        if (made >= 0) {
            close(made);
        }
        return status;
    }
    *fd = made;
    return OK;
}

enum status collect_bytes(const void *data, size_t size_bytes, int *fd, struct error *err)
{
    enum status status = OK;
    int made = memfd_create("pkb-file", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (made < 0) {
        return error_set(err, ERR_IO, "cannot make a memory file: %m");
    }
    for (size_t done = 0; done < size_bytes && status == OK;) {
        ssize_t wrote = write(made, (const char *)data + done, size_bytes - done);
        if (wrote > 0) {
            done += (size_t)wrote;
        } else if (errno != EINTR) {
            status = error_set(err, ERR_IO, "cannot write a memory file: %m");
        }
    }
    if (status == OK) {
        status = seal(made, err);
    }
    if (status != OK) {
        close(made);
        return status;
    }
    *fd = made;
    return OK;
}
