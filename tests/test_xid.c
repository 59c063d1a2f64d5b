/* The driver's errors: what is read from the kernel's log, and what each means. */
#include "worker/kernel_log.h"
#include "worker/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { FOUND_MAX = 64 };

static char folder[] = "/tmp/test_xid.XXXXXX";
static char fifo[64];
static struct xid found[FOUND_MAX];
static int found_count, lost_count, ended_count, fail_with;

/* The kernel gives EPIPE where it has overwritten what was to be read next. */
ssize_t __real_read(int fd, void *to, size_t size_bytes);
ssize_t __wrap_read(int fd, void *to, size_t size_bytes);
ssize_t __wrap_read(int fd, void *to, size_t size_bytes)
{
    if (fail_with != 0) {
        errno = fail_with;
        fail_with = 0;
        return -1;
    }
    return __real_read(fd, to, size_bytes);
}

static void on_found(void *context, const struct xid *xid)
{
    (void)context;
    assert_in_range(found_count, 0, FOUND_MAX - 1);
    found[found_count++] = *xid;
    if (xid->number == 999) {
        loop_stop();
    }
}

static void on_lost(void *context, bool has_ended)
{
    (void)context;
    lost_count++;
    ended_count += has_ended;
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(fifo, sizeof fifo, "%s/kmsg", folder);
    return mkfifo(fifo, 0600);
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(fifo);
    return rmdir(folder);
}

static struct kernel_log *open_log(void)
{
    struct kernel_log_options options = {.path = fifo, .found = on_found, .lost = on_lost};
    struct kernel_log *log = NULL;
    struct error err = {0};

    found_count = lost_count = ended_count = 0;
    assert_int_equal(kernel_log_open(&log, &options, &err), OK);
    return log;
}

static void feed(const char *text)
{
    int fd = open(fifo, O_WRONLY | O_CLOEXEC);

    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void test_an_xid_is_read_from_a_message(void **state)
{
    static const struct {
        const char *message;
        int number;
        unsigned domain, bus, device;
    } rows[] = {
        {"NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, GPU has fallen off the bus.", 79, 0, 0x1b, 0},
        {"NVRM: Xid (PCI:0000:1b:00): 31, pid='<unknown>', name=<unknown>, Ch 0", 31, 0, 0x1b, 0},
        {"NVRM: Xid (0000:03:00): 13, Graphics Exception", 13, 0, 3, 0},
        {"NVRM: Xid (PCI:0001:CA:1f.0): 94", 94, 1, 0xca, 0x1f},
        {"NVRM: Xid (PCI:0000:90:00 GPU-I:05): 95, Uncontained", 95, 0, 0x90, 0},
        {"NVRM: Xid (PCI:0000:90:00): 9999, what is to come", 9999, 0, 0x90, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct xid xid = {0};
        assert_true(xid_read(&xid, rows[i].message));
        assert_int_equal(xid.number, rows[i].number);
        assert_int_equal(xid.gpu.domain, rows[i].domain);
        assert_int_equal(xid.gpu.bus, rows[i].bus);
        assert_int_equal(xid.gpu.device, rows[i].device);
    }
}

static void test_what_is_no_xid_is_not_taken_for_one(void **state)
{
    static const char *const messages[] = {
        "",
        "NVRM: Xid",
        "NVRM: Xid (",
        "NVRM: Xid (PCI:",
        "NVRM: Xid (PCI:0000:1b:00)",
        "NVRM: Xid (PCI:0000:1b:00): ",
        "NVRM: Xid (PCI:0000:1b:00): x",
        "NVRM: Xid (PCI:0000:1b:00): -79, x",
        "NVRM: Xid (PCI:0000:1b:00): 0, x",
        "NVRM: Xid (PCI:0000:1b:00): 79x",
        "NVRM: Xid (PCI:0000:1b:00): 99999999999999999999, x",
        "NVRM: Xid (PCI:1b:00): 79, x",
        "NVRM: Xid (PCI:0000:1b:0): 79, x",
        "NVRM: Xid (PCI:0000:1b:00.): 79, x",
        "NVRM: Xid (PCI:0000:1b:00 GPU-I:05",
        "NVRM: GPU at PCI:0000:1b:00: GPU-b850f46d",
        "nvidia: NVRM: Xid (PCI:0000:1b:00): 79, x",
        "NVRM: Xid (PCI:[17]: segfault at 0 ip 0", /* the name of a program, of 15 bytes */
        "x[3]: NVRM: Xid (PCI:0000:1b:00): 79, x",
    };

    (void)state;
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        struct xid xid = {0};
        if (xid_read(&xid, messages[i])) {
            fail_msg("'%s' was taken", messages[i]);
        }
    }
}

static void test_only_records_of_the_kernel_itself_count(void **state)
{
    struct xid xid = {0};

    (void)state;
    assert_true(xid_read_record(&xid, "3,1,2,-;NVRM: Xid (PCI:0000:1b:00): 79, x"));
    assert_true(xid_read_record(&xid, "6,1,2,-,caller=T9;NVRM: Xid (PCI:0000:1b:00): 79, x"));
    assert_false(xid_read_record(&xid, "11,1,2,-;NVRM: Xid (PCI:0000:1b:00): 79, x"));
    assert_false(xid_read_record(&xid, "3;NVRM: Xid (PCI:0000:1b:00): 79, x"));
    assert_false(xid_read_record(&xid, "-3,1,2,-;NVRM: Xid (PCI:0000:1b:00): 79, x"));
    assert_false(xid_read_record(&xid, "NVRM: Xid (PCI:0000:1b:00): 79, x"));
    assert_false(xid_read_record(&xid, " SUBSYSTEM=pci;NVRM: Xid (PCI:0000:1b:00): 79, x"));
}

static void test_the_table_says_whose_fault_it_is_and_what_follows(void **state)
{
    static const struct {
        int number;
        enum xid_fault fault;
        enum xid_action action;
    } rows[] = {
        {13, XID_OF_SUBMISSION, XID_CONTINUE}, {31, XID_OF_SUBMISSION, XID_CONTINUE},
        {43, XID_OF_SUBMISSION, XID_CONTINUE}, {48, XID_OF_HARDWARE, XID_RESET},
        {63, XID_OF_HARDWARE, XID_FINISH},     {64, XID_OF_HARDWARE, XID_FINISH},
        {79, XID_OF_HARDWARE, XID_RESET},      {94, XID_OF_HARDWARE, XID_RETRY},
        {95, XID_OF_HARDWARE, XID_RESET},      {119, XID_OF_HARDWARE, XID_RESET},
        {120, XID_OF_HARDWARE, XID_RESET},     {7777, XID_OF_UNKNOWN, XID_RETRY},
    };
    size_t count = 0;
    const struct xid_cause *table = xid_table(&count);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(xid_cause(rows[i].number)->fault, rows[i].fault);
        assert_int_equal(xid_cause(rows[i].number)->action, rows[i].action);
    }
    for (size_t i = 1; i < count; i++) {
        assert_true(table[i].number > table[i - 1].number);
    }
    assert_string_equal(xid_fault_name(XID_OF_UNKNOWN), "unknown");
    assert_string_equal(xid_action_name(XID_RESET), "reset");
}

static void test_the_page_on_nodes_has_every_row_of_the_table(void **state)
{
    FILE *page = fopen("docs/nodes.md", "r");
    size_t count = 0;
    const struct xid_cause *table = xid_table(&count);
    char text[32768];
    char row[256];

    (void)state;
    assert_non_null(page);
    size_t size = fread(text, 1, sizeof text - 1, page);
    text[size] = 0;
    assert_int_equal(fclose(page), 0);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(row, sizeof row, "| %d | %s | %s | %s |\n", table[i].number, table[i].text,
                       xid_fault_name(table[i].fault), xid_action_name(table[i].action));
        if (strstr(text, row) == NULL) {
            fail_msg("docs/nodes.md lacks the line %s", row);
        }
    }
}

static void test_addresses_are_compared_as_numbers(void **state)
{
    struct pci_address cuda = {0};
    struct pci_address kernel = {0};
    char text[PCI_TEXT_MAX];
    const char *end = NULL;

    (void)state;
    assert_true(pci_address_read(&cuda, "00000000:1B:00.0 rest", &end));
    assert_string_equal(end, " rest");
    assert_true(pci_address_read(&kernel, "0000:1b:00", &end));
    assert_true(pci_address_equals(&cuda, &kernel));
    pci_address_write(&cuda, text);
    assert_string_equal(text, "0000:1b:00");
    assert_true(pci_address_read(&kernel, "0000:1c:00", &end));
    assert_false(pci_address_equals(&cuda, &kernel));
}

static void test_the_log_is_watched_for_what_comes(void **state)
{
    struct kernel_log *log = open_log();

    (void)state;
    feed("6,1,2,-;usb 1-1: new device\n SUBSYSTEM=usb\n DEVICE=+usb:1-1\n"
         "3,2,3,-;NVRM: Xid (PCI:0000:1b:00): 31, pid=1, x\n"
         "\n;\n,,,;;\n\xff\xfe garbage\n3,3,4,-;NVRM: Xid (PCI:0000:1b:00): oops\n"
         "3,4,5,-;NVRM: Xid (PCI:0000:1c:00): 79, gone\n");
    feed("3,5,6,-;NVRM: Xid (PCI:0000"); /* one record in two reads */
    kernel_log_read(log);
    feed(":1d:00): 999, x\n");
    loop_run();
    assert_int_equal(found_count, 3);
    assert_int_equal(found[0].number, 31);
    assert_int_equal(found[1].gpu.bus, 0x1c);
    assert_int_equal(found[2].gpu.bus, 0x1d);
    assert_int_equal(lost_count, 0);
    kernel_log_close(log);
}

static void test_a_line_without_end_is_passed_over(void **state)
{
    struct kernel_log *log = open_log();
    char *line = malloc(40001);

    (void)state;
    assert_non_null(line);
    memset(line, 'x', 40000);
    line[40000] = 0;
    memcpy(line, "3,1,2,-;", 8);
    feed(line);
    kernel_log_read(log);
    feed("3,1,2,-;NVRM: Xid (PCI:0000:1b:00): 48, still of that line\n"
         "3,5,6,-;NVRM: Xid (PCI:0000:1b:00): 79, x\n");
    kernel_log_read(log);
    assert_int_equal(found_count, 1);
    assert_int_equal(found[0].number, 79);
    kernel_log_close(log);
    free(line);
}

static void test_an_overrun_is_said_and_the_watch_goes_on(void **state)
{
    struct kernel_log *log = open_log();

    (void)state;
    feed("3,5,6,-;NVRM: Xid (PCI:0000:1b:00): 79, x\n");
    fail_with = EPIPE;
    kernel_log_read(log);
    assert_int_equal(lost_count, 1);
    assert_int_equal(ended_count, 0);
    assert_int_equal(found_count, 1);
    fail_with = EINTR;
    feed("3,5,6,-;NVRM: Xid (PCI:0000:1b:00): 48, x\n");
    kernel_log_read(log);
    assert_int_equal(found_count, 2);
    assert_int_equal(lost_count, 1);
    kernel_log_close(log);
}

static void test_a_log_that_breaks_is_said(void **state)
{
    struct kernel_log *log = open_log();

    (void)state;
    fail_with = EIO;
    kernel_log_read(log);
    assert_int_equal(ended_count, 1);
    kernel_log_read(log);
    assert_int_equal(lost_count, 1);
    kernel_log_close(log);
    kernel_log_close(NULL);
}

static void test_what_is_no_log_is_refused(void **state)
{
    struct kernel_log_options options = {
        .path = "/nonexistent", .found = on_found, .lost = on_lost};
    struct kernel_log *log = NULL;
    struct error err = {0};

    (void)state;
    assert_int_equal(kernel_log_open(&log, &options, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "CAP_SYSLOG"));
    options.path = folder;
    assert_int_equal(kernel_log_open(&log, &options, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "is no log"));
    assert_string_equal(err.field, "kmsg");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_xid_is_read_from_a_message),
        cmocka_unit_test(test_what_is_no_xid_is_not_taken_for_one),
        cmocka_unit_test(test_only_records_of_the_kernel_itself_count),
        cmocka_unit_test(test_the_table_says_whose_fault_it_is_and_what_follows),
        cmocka_unit_test(test_the_page_on_nodes_has_every_row_of_the_table),
        cmocka_unit_test(test_addresses_are_compared_as_numbers),
        cmocka_unit_test(test_the_log_is_watched_for_what_comes),
        cmocka_unit_test(test_a_line_without_end_is_passed_over),
        cmocka_unit_test(test_an_overrun_is_said_and_the_watch_goes_on),
        cmocka_unit_test(test_a_log_that_breaks_is_said),
        cmocka_unit_test(test_what_is_no_log_is_refused),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
