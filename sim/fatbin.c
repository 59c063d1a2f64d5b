#include "sim/code.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/mem.h"

enum {
    FATBINS_MAX = 64,         /* of a file: each may take a second or two */
    KEPT_BYTES_MAX = 1 << 30, /* of what the images of a file become */
    ENTRIES_MAX = 1024,       /* of a fatbin */
    SECTIONS_MAX = 1 << 16,
    REGISTERS_MAX = 255,
    ATTRIBUTE_REGISTERS = 0x2f,
    FORMAT_SIZED = 4, /* of an attribute: a size and as many bytes follow */
};

static const uint32_t fatbin_magic = 0xba55ed50;
static const uint64_t flag_zstd = 0x8000;
static const uint64_t flag_lz4 = 0x2000;

struct bytes {
    const uint8_t *data;
    size_t size_bytes;
};

struct fatbin_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t size_bytes; /* behind the header */
};

enum entry_kind { ENTRY_PTX = 1, ENTRY_ELF = 2 };

/* The first 64 bytes of an entry's header. */
struct entry_header {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t payload_bytes;
    uint32_t compressed_bytes, options;
    uint16_t minor, major;
    uint32_t architecture;
    uint32_t name_offset, name_bytes;
    uint64_t flags, zero, plain_bytes;
};

static bool read_at(struct bytes bytes, uint64_t at, void *to, size_t size_bytes)
{
    if (at > bytes.size_bytes || bytes.size_bytes - at < size_bytes) {
        return false;
    }
    memcpy(to, bytes.data + at, size_bytes);
    return true;
}

/* A part; empty where it is not inside. */
static struct bytes part(struct bytes bytes, uint64_t at, uint64_t size_bytes)
{
    if (bytes.data == NULL || at > bytes.size_bytes || bytes.size_bytes - at < size_bytes) {
        return (struct bytes){NULL, 0};
    }
    return (struct bytes){bytes.data + at, size_bytes};
}

uint64_t fatbin_hash(const void *fatbin, size_t size_bytes)
{
    const uint8_t *bytes = fatbin;
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < size_bytes; i++) {
        hash = (hash ^ bytes[i]) * 1099511628211u;
    }
    return hash;
}

/* Sections of an ELF file of 64 bits; none where it is not one. */
static uint32_t section_count(struct bytes elf, Elf64_Ehdr *header)
{
    *header = (Elf64_Ehdr){0};
    if (!read_at(elf, 0, header, sizeof *header) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_shentsize != sizeof(Elf64_Shdr)) {
        return 0;
    }
    return header->e_shnum;
}

static bool read_section(struct bytes elf, const Elf64_Ehdr *header, uint32_t index,
                         Elf64_Shdr *section)
{
    return index < header->e_shnum && header->e_shoff <= elf.size_bytes &&
           read_at(elf, header->e_shoff + (uint64_t)index * sizeof *section, section,
                   sizeof *section);
}

/* The text at `offset`, which ends inside, or "". */
static const char *text_at(struct bytes strings, uint64_t offset)
{
    struct bytes text =
        part(strings, offset,
             strings.size_bytes - (offset < strings.size_bytes ? offset : strings.size_bytes));

    if (text.data == NULL || text.size_bytes == 0 ||
        memchr(text.data, 0, text.size_bytes) == NULL) {
        return "";
    }
    return (const char *)text.data;
}

static struct bytes find_section(struct bytes elf, const char *name, Elf64_Shdr *found)
{
    Elf64_Ehdr header;
    Elf64_Shdr names;
    uint32_t count = section_count(elf, &header);

    if (!read_section(elf, &header, count > 0 ? header.e_shstrndx : UINT32_MAX, &names)) {
        return (struct bytes){NULL, 0};
    }
    struct bytes strings = part(elf, names.sh_offset, names.sh_size);
    for (uint32_t i = 0; i < count; i++) {
        if (read_section(elf, &header, i, found) && found->sh_type != SHT_NOBITS &&
            strcmp(text_at(strings, found->sh_name), name) == 0) {
            return part(elf, found->sh_offset, found->sh_size);
        }
    }
    return (struct bytes){NULL, 0};
}

static void set_registers(struct image *image, const char *name, uint32_t registers)
{
    for (uint32_t i = 0; i < image->kernel_count; i++) {
        if (strcmp(image->kernels[i].name, name) == 0 && registers <= REGISTERS_MAX) {
            image->kernels[i].registers = registers;
        }
    }
}

/* Registers per thread, from a cubin's .nv.info: (symbol, count) pairs. */
static void read_registers(struct image *image, struct bytes cubin)
{
    Elf64_Shdr info_section, symbol_section, string_section;
    Elf64_Ehdr header;
    struct bytes info = find_section(cubin, ".nv.info", &info_section);
    struct bytes symbols = find_section(cubin, ".symtab", &symbol_section);
    struct bytes strings;
    uint64_t at = 0;
    struct {
        uint8_t format, attribute;
        uint16_t size_bytes;
    } record;

    if (info.size_bytes == 0 || symbols.size_bytes == 0 || section_count(cubin, &header) == 0 ||
        !read_section(cubin, &header, symbol_section.sh_link, &string_section)) {
        return;
    }
    strings = part(cubin, string_section.sh_offset, string_section.sh_size);
    while (read_at(info, at, &record, sizeof record)) {
        uint32_t pair[2];
        Elf64_Sym symbol;
        at += sizeof record;
        if (record.format != FORMAT_SIZED) {
            continue;
        }
        if (record.attribute == ATTRIBUTE_REGISTERS && record.size_bytes == sizeof pair &&
            read_at(info, at, pair, sizeof pair) &&
            read_at(symbols, (uint64_t)pair[0] * sizeof symbol, &symbol, sizeof symbol)) {
            set_registers(image, text_at(strings, symbol.st_name), pair[1]);
        }
        at += record.size_bytes;
    }
}

struct entry {
    struct entry_header header;
    struct bytes payload;
};

/* The entry's bytes, unpacked; free() them. NULL where they are not what they should be. */
static uint8_t *unpack(const struct entry *entry, size_t *size_bytes)
{
    const struct entry_header *header = &entry->header;
    uint8_t *plain;
    size_t packed = header->compressed_bytes, got;

    if ((header->flags & flag_lz4) != 0) {
        return NULL;
    }
    if ((header->flags & flag_zstd) == 0) {
        plain = xmalloc(entry->payload.size_bytes);
        memcpy(plain, entry->payload.data, entry->payload.size_bytes);
        *size_bytes = entry->payload.size_bytes;
        return plain;
    }
    if (packed > entry->payload.size_bytes || header->plain_bytes > IMAGE_BYTES_MAX) {
        return NULL;
    }
    plain = xmalloc(header->plain_bytes);
    got = ZSTD_decompress(plain, header->plain_bytes, entry->payload.data, packed);
    if (ZSTD_isError(got)) {
        free(plain);
        return NULL;
    }
    *size_bytes = got;
    return plain;
}

/* The entry at `*at`, which moves behind it; false at the end and where nothing sane follows. */
static bool next_entry(struct bytes fatbin, uint64_t *at, struct entry *entry)
{
    if (!read_at(fatbin, *at, &entry->header, sizeof entry->header) ||
        entry->header.header_bytes < sizeof entry->header ||
        entry->header.payload_bytes > fatbin.size_bytes ||
        entry->header.payload_bytes > IMAGE_BYTES_MAX) {
        return false;
    }
    entry->payload = part(fatbin, *at + entry->header.header_bytes, entry->header.payload_bytes);
    *at += entry->header.header_bytes + entry->header.payload_bytes;
    return entry->payload.data != NULL;
}

/* The image of one fatbin; *image stays NULL where it holds no PTX. */
static enum status read_fatbin(struct image **image, struct bytes fatbin, uint64_t entries_at,
                               struct error *err)
{
    struct entry entry, best = {0};
    uint64_t at = entries_at;
    enum status status;
    uint8_t *plain;
    size_t size_bytes;

    for (int i = 0; i < ENTRIES_MAX && next_entry(fatbin, &at, &entry); i++) {
        if (entry.header.kind == ENTRY_PTX &&
            (best.payload.data == NULL || entry.header.architecture > best.header.architecture)) {
            best = entry;
        }
    }
    if (best.payload.data == NULL) {
        return OK;
    }
    plain = unpack(&best, &size_bytes);
    if (plain == NULL) {
        return error_set(err, ERR_INVALID, "the ptx in a fatbin cannot be unpacked");
    }
    status = image_parse(image, (const char *)plain, size_bytes, err);
    free(plain);
    if (status != OK) {
        return status;
    }
    (*image)->hash = fatbin_hash(fatbin.data, fatbin.size_bytes);
    at = entries_at;
    for (int i = 0; i < ENTRIES_MAX && next_entry(fatbin, &at, &entry); i++) {
        if (entry.header.kind != ENTRY_ELF ||
            entry.header.architecture != best.header.architecture) {
            continue;
        }
        plain = unpack(&entry, &size_bytes);
        if (plain != NULL) {
            read_registers(*image, (struct bytes){plain, size_bytes});
            free(plain);
        }
    }
    return OK;
}

/* What an image keeps: a few lines of text can make much of it. */
static uint64_t kept_bytes(const struct image *image)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < image->kernel_count; i++) {
        const struct kernel *kernel = &image->kernels[i];
        bytes += (uint64_t)kernel->insn_count * sizeof *kernel->insns +
                 (uint64_t)kernel->arg_count * sizeof *kernel->args +
                 (uint64_t)kernel->constant_count * sizeof *kernel->constants +
                 (uint64_t)kernel->target_count * sizeof *kernel->targets;
    }
    for (uint32_t i = 0; i < image->symbol_count; i++) {
        bytes += image->symbols[i].initial != NULL ? image->symbols[i].size_bytes : 0;
    }
    return bytes;
}

enum status image_set_read(struct image_set *set, const void *elf, size_t size_bytes,
                           struct error *err)
{
    Elf64_Shdr section;
    struct bytes fatbins = find_section((struct bytes){elf, size_bytes}, ".nv_fatbin", &section);
    struct image_set made = {0};
    struct fatbin_header header;
    uint64_t at = 0, kept = 0;
    enum status status = OK;

    made.images = xcalloc(FATBINS_MAX, sizeof(struct image *));
    while (status == OK && read_at(fatbins, at, &header, sizeof header) &&
           header.magic == fatbin_magic) {
        struct bytes fatbin = part(fatbins, at, 0);
        if (header.header_bytes < sizeof header || header.size_bytes > fatbins.size_bytes - at ||
            header.header_bytes > fatbins.size_bytes - at - header.size_bytes) {
            status = error_set(err, ERR_INVALID, "a fatbin is longer than its section");
            break;
        }
        if (made.count == FATBINS_MAX) {
            status = error_set(err, ERR_TOO_LARGE, "more than %d fatbins", FATBINS_MAX);
            break;
        }
        fatbin.size_bytes = header.header_bytes + header.size_bytes;
        status = read_fatbin(&made.images[made.count], fatbin, header.header_bytes, err);
        if (made.images[made.count] != NULL) {
            kept += kept_bytes(made.images[made.count++]);
        }
        if (status == OK && kept > KEPT_BYTES_MAX) {
            status =
                error_set(err, ERR_TOO_LARGE, "its images take more than %d bytes", KEPT_BYTES_MAX);
        }
        at += (fatbin.size_bytes + 7) / 8 * 8;
    }
    if (status == OK) {
        *set = made;
    } else {
        image_set_release(&made);
    }
    return status;
}

void image_set_release(struct image_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        image_close(set->images[i]);
    }
    free(set->images);
    *set = (struct image_set){0};
}
