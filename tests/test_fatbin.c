#include "sim/code.h"

#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buffer.h"
#include "common/mem.h"

enum { MUTATIONS = 300, FATBINS_MAX = 64 };

struct file {
    uint8_t *data;
    size_t size_bytes;
};

static struct error err;

static struct file read_file(const char *name)
{
    const char *build = getenv("BUILD");
    char *path = xasprintf("%s/tests/%s", build != NULL ? build : "build", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info = {0};
    struct file file = {0};

    assert_true(fd >= 0 && fstat(fd, &info) == 0);
    file = (struct file){xmalloc((size_t)info.st_size), (size_t)info.st_size};
    assert_int_equal(read(fd, file.data, file.size_bytes), info.st_size);
    close(fd);
    free(path);
    return file;
}

static struct image_set read_set(struct file file)
{
    struct image_set set = {0};

    if (image_set_read(&set, file.data, file.size_bytes, &err) != OK) {
        fail_msg("%s", err.message);
    }
    return set;
}

static void test_a_compiled_file_has_its_kernels_and_their_registers(void **state)
{
    struct file file = read_file("samples.o");
    struct image_set set = read_set(file);

    (void)state;
    assert_int_equal(set.count, 1);
    assert_int_equal(set.images[0]->kernel_count, 12);
    for (uint32_t i = 0; i < 12; i++) {
        assert_true(set.images[0]->kernels[i].registers >= 8);
        assert_true(set.images[0]->kernels[i].registers <= 255);
    }
    image_set_release(&set);
    assert_int_equal(set.count, 0);
    free(file.data);
}

static void test_packed_text_is_the_same_text(void **state)
{
    struct file plain = read_file("samples.o"), packed = read_file("samples_packed.o");
    struct image_set a = read_set(plain), b = read_set(packed);

    (void)state;
    assert_true(packed.size_bytes < plain.size_bytes);
    assert_int_equal(b.count, 1);
    assert_true(a.images[0]->hash != b.images[0]->hash);
    assert_int_equal(a.images[0]->kernel_count, b.images[0]->kernel_count);
    for (uint32_t i = 0; i < a.images[0]->kernel_count; i++) {
        const struct kernel *one = &a.images[0]->kernels[i], *other = &b.images[0]->kernels[i];
        assert_string_equal(one->name, other->name);
        assert_int_equal(one->insn_count, other->insn_count);
        assert_int_equal(one->registers, other->registers);
    }
    image_set_release(&a);
    image_set_release(&b);
    free(plain.data);
    free(packed.data);
}

/* An ELF file whose only named sections are the names and .nv_fatbin. */
static struct file make_elf(const void *fatbins, size_t size_bytes)
{
    static const char names[] = "\0.shstrtab\0.nv_fatbin";
    Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
                         .e_shoff = sizeof header,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = 3,
                         .e_shstrndx = 1};
    uint64_t names_at = sizeof header + 3 * sizeof(Elf64_Shdr);
    Elf64_Shdr sections[3] = {
        {0},
        {.sh_name = 1, .sh_type = SHT_STRTAB, .sh_offset = names_at, .sh_size = sizeof names},
        {.sh_name = 11,
         .sh_type = SHT_PROGBITS,
         .sh_offset = names_at + sizeof names,
         .sh_size = size_bytes}};
    struct buffer file = {0};

    buffer_append(&file, &header, sizeof header);
    buffer_append(&file, sections, sizeof sections);
    buffer_append(&file, names, sizeof names);
    buffer_append(&file, fatbins, size_bytes);
    return (struct file){(uint8_t *)file.data, file.size_bytes};
}

struct part {
    uint16_t kind;
    uint32_t architecture;
    uint64_t flags;
    const char *text;
};

static void add_number(struct buffer *buffer, uint64_t number, size_t size_bytes)
{
    buffer_append(buffer, &number, size_bytes);
}

static void add_fatbin(struct buffer *out, const struct part *parts, size_t count)
{
    struct buffer entries = {0};

    for (size_t i = 0; i < count; i++) {
        size_t size_bytes = strlen(parts[i].text);
        add_number(&entries, parts[i].kind, 2);
        add_number(&entries, 0x101, 2);
        add_number(&entries, 64, 4);
        add_number(&entries, size_bytes, 8);
        add_number(&entries, size_bytes, 8);
        add_number(&entries, 0, 4);
        add_number(&entries, parts[i].architecture, 4);
        add_number(&entries, 0, 8);
        add_number(&entries, parts[i].flags, 8);
        add_number(&entries, 0, 8);
        add_number(&entries, size_bytes, 8);
        buffer_append(&entries, parts[i].text, size_bytes);
    }
    add_number(out, 0xba55ed50, 4);
    add_number(out, 1, 2);
    add_number(out, 16, 2);
    add_number(out, entries.size_bytes, 8);
    if (entries.size_bytes > 0) {
        buffer_append(out, entries.data, entries.size_bytes);
    }
    while (out->size_bytes % 8 != 0) {
        add_number(out, 0, 1);
    }
    buffer_release(&entries);
}

#define HEADER ".version 9.0\n.target sm_90\n.address_size 64\n"
#define KERNEL(name) HEADER ".entry " name "() { ret; }\n"

static void test_the_highest_architecture_of_each_fatbin_is_taken(void **state)
{
    static const struct part first[] = {
        {1, 80, 0x11, KERNEL("old")}, {1, 90, 0x11, KERNEL("new")}, {2, 100, 0x11, "no elf"}};
    static const struct part second[] = {{2, 90, 0x11, "no elf"}};
    static const struct part third[] = {{1, 80, 0x11, KERNEL("only")}};
    struct buffer fatbins = {0};
    size_t third_at;

    (void)state;
    add_fatbin(&fatbins, first, 3);
    add_fatbin(&fatbins, second, 1);
    third_at = fatbins.size_bytes;
    add_fatbin(&fatbins, third, 1);
    struct file file = make_elf(fatbins.data, fatbins.size_bytes);
    struct image_set set = read_set(file);
    assert_int_equal(set.count, 2);
    assert_string_equal(set.images[0]->kernels[0].name, "new");
    assert_string_equal(set.images[1]->kernels[0].name, "only");
    uint64_t size_bytes;
    memcpy(&size_bytes, fatbins.data + third_at + 8, sizeof size_bytes);
    assert_true(set.images[1]->hash == fatbin_hash(fatbins.data + third_at, 16 + size_bytes));
    image_set_release(&set);
    free(file.data);
    buffer_release(&fatbins);
}

static void test_what_cannot_be_unpacked_is_refused(void **state)
{
    static const struct part parts[] = {{1, 90, 0x8011, "neither zstd nor anything else"},
                                        {1, 90, 0x2011, "lz4"},
                                        {1, 90, 0x11, "no ptx"}};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct image_set set = {0};
        struct buffer fatbins = {0};
        add_fatbin(&fatbins, &parts[i], 1);
        struct file file = make_elf(fatbins.data, fatbins.size_bytes);
        assert_int_equal(image_set_read(&set, file.data, file.size_bytes, &err), ERR_INVALID);
        assert_null(set.images);
        free(file.data);
        buffer_release(&fatbins);
    }
}

static void test_a_fatbin_beyond_its_section_is_refused(void **state)
{
    static const struct part part = {1, 90, 0x11, KERNEL("k")};
    static const uint64_t sizes[] = {4096, UINT64_MAX, UINT64_MAX - 15, INT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct image_set set = {0};
        struct buffer fatbins = {0};
        add_fatbin(&fatbins, &part, 1);
        memcpy(fatbins.data + 8, &sizes[i], sizeof sizes[i]);
        struct file file = make_elf(fatbins.data, fatbins.size_bytes);
        assert_int_equal(image_set_read(&set, file.data, file.size_bytes, &err), ERR_INVALID);
        free(file.data);
        buffer_release(&fatbins);
    }
}

static void test_fatbins_beyond_the_limit_are_refused(void **state)
{
    static const struct part part = {1, 90, 0x11, KERNEL("k")};
    struct image_set set = {0};
    struct buffer fatbins = {0};

    (void)state;
    for (int i = 0; i <= FATBINS_MAX; i++) {
        add_fatbin(&fatbins, &part, 1);
    }
    struct file file = make_elf(fatbins.data, fatbins.size_bytes);
    assert_int_equal(image_set_read(&set, file.data, file.size_bytes, &err), ERR_TOO_LARGE);
    free(file.data);
    buffer_release(&fatbins);
}

/* A few lines of text in each, which become a quarter of a gibibyte. */
static void test_images_that_take_too_much_memory_are_refused(void **state)
{
    static const struct part part = {
        1, 90, 0x11,
        ".version 8.0\n.target sm_90a\n.address_size 64\n.global .u8 g[200000000] = {1};\n"};
    struct image_set set = {0};
    struct buffer fatbins = {0};

    (void)state;
    for (int i = 0; i < 6; i++) {
        add_fatbin(&fatbins, &part, 1);
    }
    struct file file = make_elf(fatbins.data, fatbins.size_bytes);
    assert_int_equal(image_set_read(&set, file.data, file.size_bytes, &err), ERR_TOO_LARGE);
    free(file.data);
    buffer_release(&fatbins);
}

static void test_files_without_fatbins_have_no_images(void **state)
{
    static const char text[] = "not an ELF file, but longer than the header of one, which has 64";
    struct file texts[] = {{(uint8_t *)text, sizeof text}, {(uint8_t *)text, 0}, make_elf("", 0)};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct image_set set = read_set(texts[i]);
        assert_int_equal(set.count, 0);
        image_set_release(&set);
    }
    free(texts[2].data);
}

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* Breaks bytes near the headers, where they matter: of the file, its sections, the fatbin, cubin.
 */
static void test_broken_files_never_harm_the_reader(void **state)
{
    struct file file = read_file("samples_packed.o");
    const uint8_t *magic = memmem(file.data, file.size_bytes, "\x50\xed\x55\xba", 4);
    Elf64_Ehdr header;

    (void)state;
    assert_non_null(magic);
    memcpy(&header, file.data, sizeof header);
    const size_t places[] = {0, header.e_shoff, (size_t)(magic - file.data)};
    for (uint64_t i = 0; i < MUTATIONS; i++) {
        uint64_t seed = i;
        struct image_set set = {0};
        size_t size_bytes =
            i % 4 == 0 ? next_random(&seed) % (file.size_bytes + 1) : file.size_bytes;
        uint8_t *copy = xmalloc(size_bytes);
        memcpy(copy, file.data, size_bytes);
        for (int count = 0; count < 4; count++) {
            size_t at = places[next_random(&seed) % 3] + next_random(&seed) % 256;
            if (at < size_bytes) {
                copy[at] = (uint8_t)next_random(&seed);
            }
        }
        if (image_set_read(&set, copy, size_bytes, &err) == OK) {
            image_set_release(&set);
        }
        free(copy);
    }
    free(file.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_compiled_file_has_its_kernels_and_their_registers),
        cmocka_unit_test(test_packed_text_is_the_same_text),
        cmocka_unit_test(test_the_highest_architecture_of_each_fatbin_is_taken),
        cmocka_unit_test(test_what_cannot_be_unpacked_is_refused),
        cmocka_unit_test(test_a_fatbin_beyond_its_section_is_refused),
        cmocka_unit_test(test_fatbins_beyond_the_limit_are_refused),
        cmocka_unit_test(test_images_that_take_too_much_memory_are_refused),
        cmocka_unit_test(test_files_without_fatbins_have_no_images),
        cmocka_unit_test(test_broken_files_never_harm_the_reader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
