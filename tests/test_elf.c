#include "worker/elf.h"

#include "common/mem.h"

#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define RUN "int pkb_run(void) { return 0; }\n"

static char directory[] = P_tmpdir "/pkb-test-elf-XXXXXX";

struct library {
    uint8_t *data;
    size_t size_bytes;
};

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* Compiles C to a shared library, with up to three more arguments for the compiler. */
static struct library compile(const char *source, const char *first, const char *second,
                              const char *third)
{
    char *in = xasprintf("%s/x.c", directory);
    char *out = xasprintf("%s/x.so", directory);
    char *argv[] = {
        (char *)"gcc", (char *)"-shared", (char *)"-fPIC", in,  (char *)"-o", out, (char *)"-w",
        (char *)first, (char *)second,    (char *)third,   NULL};
    struct stat info = {0};
    int wait_status = 0;
    pid_t pid = 0;

    write_text(in, source);
    assert_int_equal(posix_spawnp(&pid, "gcc", NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_int_equal(wait_status, 0);
    int fd = open(out, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &info), 0);
    struct library library = {xmalloc((size_t)info.st_size), (size_t)info.st_size};
    assert_int_equal(read(fd, library.data, library.size_bytes), info.st_size);
    close(fd);
    unlink(in);
    unlink(out);
    free(in);
    free(out);
    return library;
}

static void refuse(struct library library, const char *message)
{
    struct elf_facts facts = {0};
    struct error err = {0};

    assert_int_equal(elf_scan(library.data, library.size_bytes, &facts, &err), ERR_INVALID);
    if (strstr(err.message, message) == NULL) {
        fail_msg("'%s' does not say '%s'", err.message, message);
    }
    free(library.data);
}

static void test_a_library_with_pkb_run_passes(void **state)
{
    struct library library = compile(RUN, "-lm", NULL, NULL);
    struct elf_facts facts = {0};
    struct error err = {0};

    (void)state;
    assert_int_equal(elf_scan(library.data, library.size_bytes, &facts, &err), OK);
    free(library.data);
}

static void test_a_library_without_pkb_run_is_refused(void **state)
{
    (void)state;
    refuse(compile("int other;", NULL, NULL, NULL), "'pkb_run' is missing");
    refuse(compile("static " RUN, NULL, NULL, NULL), "'pkb_run' is missing");
    refuse(compile("int pkb_run;", NULL, NULL, NULL), "'pkb_run' is not a function");
    refuse(compile("int _Z7pkb_runi(int x) { return x; }", NULL, NULL, NULL),
           "'pkb_run' has the wrong signature");
}

static void test_an_entry_that_would_be_passed_over_is_refused(void **state)
{
    (void)state;
    refuse(compile(RUN "int _Z9pkb_setupv(void) { return 0; }", NULL, NULL, NULL),
           "'pkb_setup' has the wrong signature");
    refuse(compile(RUN "void _Z12pkb_teardownv(void) {}", NULL, NULL, NULL),
           "'pkb_teardown' has the wrong signature");
    refuse(compile(RUN "int pkb_setup = 1;", NULL, NULL, NULL), "'pkb_setup' is not a function");
}

static void test_a_library_outside_of_the_list_is_refused(void **state)
{
    (void)state;
    refuse(compile(RUN, "-Wl,--no-as-needed", "-lutil", "-lresolv"), "the library needs '");
}

static void test_search_paths_filters_and_auditors_are_refused(void **state)
{
    (void)state;
    refuse(compile(RUN, "-Wl,-rpath,/tmp", NULL, NULL), "search paths");
    refuse(compile(RUN, "-Wl,-rpath,/tmp", "-Wl,--disable-new-dtags", NULL), "search paths");
    refuse(compile(RUN, "-Wl,--filter,libevil.so", NULL, NULL), "filters");
    refuse(compile(RUN, "-Wl,--auxiliary,libevil.so", NULL, NULL), "filters");
    refuse(compile(RUN, "-Wl,--audit,libevil.so", NULL, NULL), "auditors");
}

static void test_an_undefined_symbol_is_refused_by_name(void **state)
{
    (void)state;
    refuse(compile("int nowhere(void); int pkb_run(void) { return nowhere(); }", NULL, NULL, NULL),
           "undefined symbol 'nowhere'");
}

static void test_device_code_needs_the_shared_runtime(void **state)
{
    (void)state;
    refuse(
        compile(RUN "__attribute__((section(\".nv_fatbin\"))) long fatbin = 1;", NULL, NULL, NULL),
        "libcudart.so.13");
}

static void test_relocatable_device_code_is_refused(void **state)
{
    (void)state;
    refuse(compile(RUN "__attribute__((section(\".nvFatBinSegment\"))) struct { unsigned magic, "
                       "version; void *data, *more; } wrapper = {0x466243b1, 2};",
                   NULL, NULL, NULL),
           "-rdc");
}

static void test_what_is_no_library_is_refused(void **state)
{
    struct library library = compile(RUN, NULL, NULL, NULL);
    struct library copy = {xmalloc(library.size_bytes), library.size_bytes};

    (void)state;
    memcpy(copy.data, library.data, library.size_bytes);
    copy.data[EI_CLASS] = ELFCLASS32;
    refuse(copy, "not an ELF64");
    copy.data = xmalloc(library.size_bytes);
    memcpy(copy.data, library.data, library.size_bytes);
    ((Elf64_Ehdr *)copy.data)->e_type = ET_EXEC;
    refuse(copy, "not an ELF64");
    refuse((struct library){xcalloc(1, 1), 0}, "no header");
    refuse((struct library){xcalloc(1, 64), 64}, "not an ELF64");
    refuse((struct library){xcalloc(1, 1), (size_t)ELF_BYTES_MAX + 1}, "at most");
    free(library.data);
}

/* Every prefix, and every byte of the headers and of the dynamic parts changed: never a crash. */
static void test_broken_libraries_never_make_the_scan_read_outside(void **state)
{
    struct library library = compile(RUN, NULL, NULL, NULL);
    struct elf_facts facts = {0};
    struct error err = {0};

    (void)state;
    for (size_t size_bytes = 0; size_bytes < library.size_bytes; size_bytes += 7) {
        uint8_t *exact = xmalloc(size_bytes + 1);
        memcpy(exact, library.data, size_bytes);
        (void)!elf_scan(exact, size_bytes, &facts, &err);
        free(exact);
    }
    for (size_t at = 0; at < library.size_bytes; at++) {
        static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
        uint8_t before = library.data[at];
        for (size_t i = 0; i < sizeof values; i++) {
            library.data[at] = values[i];
            (void)!elf_scan(library.data, library.size_bytes, &facts, &err);
        }
        library.data[at] = before;
    }
    assert_int_equal(elf_scan(library.data, library.size_bytes, &facts, &err), OK);
    free(library.data);
}

/* What a loader finds behind the segment would be read as more of it. */
static void test_a_dynamic_segment_without_an_end_is_refused(void **state)
{
    struct library library = compile(RUN, NULL, NULL, NULL);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)library.data;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(library.data + header->e_phoff);
    uint64_t at = 0;

    (void)state;
    for (int i = 0; i < header->e_phnum; i++) {
        at = segments[i].p_type == PT_DYNAMIC ? segments[i].p_offset : at;
    }
    assert_true(at > 0);
    for (; at + sizeof(Elf64_Dyn) <= library.size_bytes; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn *entry = (Elf64_Dyn *)(library.data + at);
        entry->d_tag = entry->d_tag == DT_NULL ? DT_DEBUG : entry->d_tag;
    }
    refuse(library, "a dynamic segment without an end");
}

/* A library of the largest size: one name that fills half of it, which all symbols of the other
 * half have. */
static struct library make_long_names(void)
{
    enum { HALF = ELF_BYTES_MAX / 2, SECTIONS = 3, DYNAMIC = 1024, TABLE = 2048, SYMBOLS = 4096 };
    struct library library = {xcalloc(1, ELF_BYTES_MAX), ELF_BYTES_MAX};
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
                         .e_type = ET_DYN,
                         .e_machine = EM_X86_64,
                         .e_phoff = sizeof header,
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 2,
                         .e_shoff = TABLE,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = SECTIONS};
    Elf64_Phdr segments[] = {{.p_type = PT_LOAD, .p_filesz = ELF_BYTES_MAX},
                             {.p_type = PT_DYNAMIC, .p_vaddr = DYNAMIC}};
    Elf64_Dyn dynamic[] = {{.d_tag = DT_STRTAB, .d_un.d_ptr = HALF},
                           {.d_tag = DT_STRSZ, .d_un.d_val = HALF},
                           {.d_tag = DT_NULL}};
    Elf64_Shdr sections[SECTIONS] = {
        {.sh_offset = ELF_BYTES_MAX - 1, .sh_size = 1},
        {.sh_type = SHT_DYNSYM, .sh_offset = SYMBOLS, .sh_size = HALF - SYMBOLS},
        {.sh_type = SHT_SYMTAB, .sh_offset = SYMBOLS, .sh_size = HALF - SYMBOLS}};

    memcpy(library.data, &header, sizeof header);
    memcpy(library.data + sizeof header, segments, sizeof segments);
    memcpy(library.data + DYNAMIC, dynamic, sizeof dynamic);
    memcpy(library.data + TABLE, sections, sizeof sections);
    memset(library.data + HALF, 'a', HALF - 1);
    return library;
}

static void test_the_time_grows_with_the_size_and_not_faster(void **state)
{
    struct library library = make_long_names();
    clock_t start = clock();

    (void)state;
    refuse(library, "'pkb_run' is missing");
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_library_with_pkb_run_passes),
        cmocka_unit_test(test_a_library_without_pkb_run_is_refused),
        cmocka_unit_test(test_an_entry_that_would_be_passed_over_is_refused),
        cmocka_unit_test(test_a_library_outside_of_the_list_is_refused),
        cmocka_unit_test(test_search_paths_filters_and_auditors_are_refused),
        cmocka_unit_test(test_an_undefined_symbol_is_refused_by_name),
        cmocka_unit_test(test_device_code_needs_the_shared_runtime),
        cmocka_unit_test(test_relocatable_device_code_is_refused),
        cmocka_unit_test(test_what_is_no_library_is_refused),
        cmocka_unit_test(test_broken_libraries_never_make_the_scan_read_outside),
        cmocka_unit_test(test_a_dynamic_segment_without_an_end_is_refused),
        cmocka_unit_test(test_the_time_grows_with_the_size_and_not_faster),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
