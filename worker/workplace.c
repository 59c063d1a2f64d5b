#include "worker/workplace.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int remove_below(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    if (where->level > 0) {
        (void)remove(path);
    }
    return 0;
}

static enum status make_named(struct workplace *workplace, struct error *err)
{
    if (mkdir(workplace->path, 0700) != 0 && errno != EEXIST) {
        return error_set(err, ERR_IO, "cannot make '%s': %m", workplace->path);
    }
    int lock = open(workplace->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock < 0) {
        return error_set(err, ERR_IO, "cannot open '%s': %m", workplace->path);
    }
    if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        close(lock);
        return error_set(err, ERR_CONFLICT, "another worker uses '%s'", workplace->path);
    }
    (void)nftw(workplace->path, remove_below, 16, FTW_DEPTH | FTW_PHYS);
    workplace->lock = lock;
    return OK;
}

enum status workplace_init(struct workplace *workplace, const char *parent, const char *name,
                           struct error *err)
{
    struct workplace made = {.lock = -1};

    int length = snprintf(made.path, sizeof made.path, "%s/pkb-%s", parent,
                          name == NULL ? "once-XXXXXX" : name);
    if (length < 0 || length >= (int)sizeof made.path) {
        return error_set(err, ERR_TOO_LARGE, "the path of the work directory is too long");
    }
    if (name == NULL && mkdtemp(made.path) == NULL) {
        return error_set(err, ERR_IO, "cannot make a directory in '%s': %m", parent);
    }
    enum status status = name == NULL ? OK : make_named(&made, err);
    /* Users of slots reach what is theirs below, and see nothing else. */
    if (status == OK && chmod(made.path, 0711) != 0) {
        status = error_set(err, ERR_IO, "cannot let others into '%s': %m", made.path);
    }
    if (status == OK) {
        *workplace = made;
    }
    return status;
}

void workplace_release(struct workplace *workplace)
{
    if (workplace->lock >= 0) {
        close(workplace->lock);
    } else if (workplace->path[0] != 0) {
        (void)nftw(workplace->path, remove_below, 16, FTW_DEPTH | FTW_PHYS);
        (void)rmdir(workplace->path);
    }
    *workplace = (struct workplace){.lock = -1};
}

enum status workplace_make_private(const char *directory, struct error *err)
{
    struct stat found;

    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        return error_set(err, ERR_IO, "cannot make '%s': %m", directory);
    }
    if (lstat(directory, &found) != 0) {
        return error_set(err, ERR_IO, "cannot use '%s': %m", directory);
    }
    if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & 022) != 0) {
        return error_set(err, ERR_DENIED, "'%s' is no directory that only this user writes to",
                         directory);
    }
    return OK;
}
