#include "worker/elf.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

enum { FATBIN_WRAPPER_BYTES = 24, NAME_SHOWN_MAX = 200 };

#define FATBIN_WRAPPER_MAGIC 0x466243b1u
#define FATBIN_WRAPPER_RELOCATABLE 2u

static const char *const libraries_allowed[] = {
    "libcudart.so.13",      "libcuda.so.1",    "libcublas.so.13", "libcublasLt.so.13",
    "libnccl.so.2",         "libc.so.6",       "libm.so.6",       "libstdc++.so.6",
    "libgcc_s.so.1",        "libpthread.so.0", "libdl.so.2",      "librt.so.1",
    "ld-linux-x86-64.so.2",
};

/* A part of the file whose bounds have been checked. */
struct span {
    const uint8_t *data;
    size_t size_bytes;
};

struct file {
    struct span all;
    Elf64_Ehdr header;
    struct span dynamic, dynamic_text, dynamic_symbols, versions, symbols, symbol_text;
    struct span fatbins, fatbin_wrappers;
    bool has_cudart, has_nccl;
};

static bool span_of(struct span all, uint64_t offset, uint64_t size_bytes, struct span *span)
{
    if (offset > all.size_bytes || size_bytes > all.size_bytes - offset) {
        return false;
    }
    *span = (struct span){all.data + offset, (size_t)size_bytes};
    return true;
}

/* The text at `offset`, or NULL where the texts do not end. The last byte tells that for all of
 * them: to look for the end of each would take a time that is quadratic in the file's size. */
static const char *text_at(struct span texts, uint64_t offset)
{
    if (offset >= texts.size_bytes || texts.data[texts.size_bytes - 1] != 0) {
        return NULL;
    }
    return (const char *)texts.data + offset;
}

static enum status malformed(struct error *err, const char *what)
{
    return error_set(err, ERR_INVALID, "the library that the build made is malformed: %s", what);
}

static enum status read_header(struct file *file, struct error *err)
{
    struct span span = {0};

    if (!span_of(file->all, 0, sizeof file->header, &span)) {
        return malformed(err, "no header");
    }
    memcpy(&file->header, span.data, sizeof file->header);
    const Elf64_Ehdr *header = &file->header;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_machine != EM_X86_64 ||
        header->e_type != ET_DYN) {
        return malformed(err, "not an ELF64 shared library for x86-64");
    }
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_shentsize != sizeof(Elf64_Shdr)) {
        return malformed(err, "headers of an unknown size");
    }
    return OK;
}

/* File bytes of a virtual address, to the end of its segment. */
static bool span_of_address(const struct file *file, struct span segments, uint64_t address,
                            struct span *span)
{
    Elf64_Phdr segment;

    for (size_t at = 0; at + sizeof segment <= segments.size_bytes; at += sizeof segment) {
        memcpy(&segment, segments.data + at, sizeof segment);
        if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
            address - segment.p_vaddr < segment.p_filesz) {
            uint64_t within = address - segment.p_vaddr;
            return segment.p_offset + within >= segment.p_offset &&
                   span_of(file->all, segment.p_offset + within, segment.p_filesz - within, span);
        }
    }
    return false;
}

/* No compiler leaves memory that is code and can be written. */
static enum status check_access(const Elf64_Phdr *segment, struct error *err)
{
    if (segment->p_type == PT_GNU_STACK && (segment->p_flags & PF_X) != 0) {
        return error_set(err, ERR_INVALID, "the library wants a stack that can be executed");
    }
    if (segment->p_type == PT_LOAD && (segment->p_flags & (PF_W | PF_X)) == (PF_W | PF_X)) {
        return error_set(err, ERR_INVALID, "the library has code that can be written");
    }
    return OK;
}

static enum status read_dynamic(struct file *file, struct error *err)
{
    struct span segments = {0};
    uint64_t text_address = 0;
    uint64_t text_size = 0;
    int found = 0;
    bool has_end = false;

    if (!span_of(file->all, file->header.e_phoff,
                 (uint64_t)file->header.e_phnum * sizeof(Elf64_Phdr), &segments)) {
        return malformed(err, "segments outside of the file");
    }
    for (int i = 0; i < file->header.e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, segments.data + (size_t)i * sizeof segment, sizeof segment);
        enum status status = check_access(&segment, err);
        if (status != OK) {
            return status;
        }
        if (segment.p_type == PT_DYNAMIC) {
            found++;
            if (!span_of_address(file, segments, segment.p_vaddr, &file->dynamic)) {
                return malformed(err, "a dynamic segment outside of the file");
            }
        }
    }
    if (found != 1) {
        return malformed(err, "not exactly one dynamic segment");
    }
    for (size_t at = 0; !has_end && at + sizeof(Elf64_Dyn) <= file->dynamic.size_bytes;
         at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, file->dynamic.data + at, sizeof entry);
        if (entry.d_tag == DT_NULL) {
            file->dynamic.size_bytes = at;
            has_end = true;
        }
        text_address = entry.d_tag == DT_STRTAB ? entry.d_un.d_ptr : text_address;
        text_size = entry.d_tag == DT_STRSZ ? entry.d_un.d_val : text_size;
    }
    if (!has_end) { /* a loader would read on */
        return malformed(err, "a dynamic segment without an end");
    }
    if (!span_of_address(file, segments, text_address, &file->dynamic_text) ||
        text_size > file->dynamic_text.size_bytes) {
        return malformed(err, "names outside of the file");
    }
    file->dynamic_text.size_bytes = (size_t)text_size;
    return OK;
}

static bool is_allowed(const char *library)
{
    for (size_t i = 0; i < sizeof libraries_allowed / sizeof *libraries_allowed; i++) {
        if (strcmp(libraries_allowed[i], library) == 0) {
            return true;
        }
    }
    return false;
}

static enum status check_needed(struct file *file, uint64_t offset, struct error *err)
{
    const char *library = text_at(file->dynamic_text, offset);

    if (library == NULL) {
        return malformed(err, "a needed library without a name");
    }
    if (!is_allowed(library)) {
        return error_set(err, ERR_INVALID,
                         "the library needs '%.*s'; allowed are the CUDA runtime and driver, "
                         "cuBLAS, NCCL and the C and C++ libraries",
                         NAME_SHOWN_MAX, library);
    }
    file->has_cudart |= strcmp(library, "libcudart.so.13") == 0;
    file->has_nccl |= strcmp(library, "libnccl.so.2") == 0;
    return OK;
}

static enum status check_dynamic(struct file *file, struct error *err)
{
    enum status status = OK;

    for (size_t at = 0; at < file->dynamic.size_bytes && status == OK; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, file->dynamic.data + at, sizeof entry);
        switch (entry.d_tag) {
        case DT_NEEDED:
            status = check_needed(file, entry.d_un.d_val, err);
            break;
        case DT_FLAGS:
            if ((entry.d_un.d_val & DF_TEXTREL) == 0) {
                break;
            }
            [[fallthrough]];
        case DT_TEXTREL:
            status = error_set(err, ERR_INVALID, "the library changes its code when it is loaded");
            break;
        case DT_RPATH:
        case DT_RUNPATH:
        case DT_AUDIT:
        case DT_DEPAUDIT:
        case DT_CONFIG:
        case DT_FILTER:
        case DT_AUXILIARY:
            status = error_set(err, ERR_INVALID,
                               "the library names where or what to load (dynamic tag 0x%llx): "
                               "search paths, filters and auditors are not allowed",
                               (unsigned long long)entry.d_tag);
            break;
        default:
            break;
        }
    }
    return status;
}

static enum status read_section(struct file *file, struct span names, const Elf64_Shdr *section,
                                struct error *err)
{
    struct span span = {0};
    const char *name = text_at(names, section->sh_name);

    if (section->sh_type == SHT_NOBITS || section->sh_type == SHT_NULL) {
        return OK;
    }
    if (name == NULL || !span_of(file->all, section->sh_offset, section->sh_size, &span)) {
        return malformed(err, "a section outside of the file");
    }
    if (section->sh_type == SHT_DYNSYM) {
        file->dynamic_symbols = span;
    } else if (section->sh_type == SHT_GNU_versym) {
        file->versions = span;
    } else if (section->sh_type == SHT_SYMTAB) {
        file->symbols = span;
    } else if (strcmp(name, ".strtab") == 0) {
        file->symbol_text = span;
    } else if (strcmp(name, ".nv_fatbin") == 0) {
        file->fatbins = span;
    } else if (strcmp(name, ".nvFatBinSegment") == 0) {
        file->fatbin_wrappers = span;
    }
    return OK;
}

static enum status read_sections(struct file *file, struct error *err)
{
    struct span table = {0};
    struct span names = {0};
    Elf64_Shdr section;
    enum status status = OK;

    if (!span_of(file->all, file->header.e_shoff, (uint64_t)file->header.e_shnum * sizeof section,
                 &table) ||
        file->header.e_shstrndx >= file->header.e_shnum) {
        return malformed(err, "sections outside of the file");
    }
    memcpy(&section, table.data + (size_t)file->header.e_shstrndx * sizeof section, sizeof section);
    if (!span_of(file->all, section.sh_offset, section.sh_size, &names)) {
        return malformed(err, "names of sections outside of the file");
    }
    for (int i = 0; i < file->header.e_shnum && status == OK; i++) {
        memcpy(&section, table.data + (size_t)i * sizeof section, sizeof section);
        status = read_section(file, names, &section, err);
    }
    return status;
}

static bool symbol_at(struct span symbols, size_t index, Elf64_Sym *symbol)
{
    if ((index + 1) * sizeof *symbol > symbols.size_bytes) {
        return false;
    }
    memcpy(symbol, symbols.data + index * sizeof *symbol, sizeof *symbol);
    return true;
}

/* Libraries of NVIDIA whose symbols have no version; all others of the list have one. */
static bool may_be_unversioned(const char *name)
{
    return strncmp(name, "cu", 2) == 0 || strncmp(name, "nccl", 4) == 0;
}

static bool has_version(const struct file *file, size_t index)
{
    uint16_t version = 0;

    if ((index + 1) * sizeof version > file->versions.size_bytes) {
        return false;
    }
    memcpy(&version, file->versions.data + index * sizeof version, sizeof version);
    return (version & 0x7fff) > 1;
}

/* Is there a C++ function of that name, which takes other arguments than the header says? */
static bool has_cplusplus(const struct file *file, const char *mangled)
{
    Elf64_Sym symbol;

    for (size_t i = 0; symbol_at(file->symbols, i, &symbol); i++) {
        const char *name = text_at(file->symbol_text, symbol.st_name);
        if (name != NULL && symbol.st_shndx != SHN_UNDEF &&
            ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
            strncmp(name, mangled, strlen(mangled)) == 0) {
            return true;
        }
    }
    return false;
}

struct entry {
    const char *name, *mangled, *declaration;
    bool is_required;
};

static enum status check_entry(const struct file *file, const struct entry *entry,
                               struct error *err)
{
    Elf64_Sym symbol;

    for (size_t i = 1; symbol_at(file->dynamic_symbols, i, &symbol); i++) {
        const char *name = text_at(file->dynamic_text, symbol.st_name);
        if (name == NULL || strcmp(name, entry->name) != 0 || symbol.st_shndx == SHN_UNDEF) {
            continue;
        }
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) {
            return error_set(err, ERR_INVALID, "'%s' is not a function; it has to be: %s",
                             entry->name, entry->declaration);
        }
        return OK;
    }
    if (has_cplusplus(file, entry->mangled)) {
        return error_set(err, ERR_INVALID,
                         "'%s' has the wrong signature; include \"pkb_task.h\" and define: %s",
                         entry->name, entry->declaration);
    }
    if (entry->is_required) {
        return error_set(err, ERR_INVALID, "'%s' is missing; include \"pkb_task.h\" and define: %s",
                         entry->name, entry->declaration);
    }
    return OK;
}

static enum status check_symbols(const struct file *file, struct error *err)
{
    static const struct entry entries[] = {
        {"pkb_run", "_Z7pkb_run", ELF_PKB_RUN, true},
        {"pkb_setup", "_Z9pkb_setup", ELF_PKB_SETUP, false},
        {"pkb_teardown", "_Z12pkb_teardown", ELF_PKB_TEARDOWN, false},
    };
    enum status status = OK;
    Elf64_Sym symbol;

    for (size_t i = 0; i < sizeof entries / sizeof *entries && status == OK; i++) {
        status = check_entry(file, &entries[i], err);
    }
    for (size_t i = 1; status == OK && symbol_at(file->dynamic_symbols, i, &symbol); i++) {
        const char *name = text_at(file->dynamic_text, symbol.st_name);
        if (name == NULL) {
            status = malformed(err, "a symbol without a name");
        } else if (symbol.st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL &&
                   !has_version(file, i) && !may_be_unversioned(name)) {
            status = error_set(err, ERR_INVALID, "undefined symbol '%.*s'", NAME_SHOWN_MAX, name);
        }
    }
    return status;
}

static enum status check_device_code(const struct file *file, struct error *err)
{
    if (file->fatbins.size_bytes > 0 && !file->has_cudart) {
        return error_set(err, ERR_INVALID,
                         "the library has device code but not the shared CUDA runtime "
                         "(libcudart.so.13)");
    }
    for (size_t at = 0; at + FATBIN_WRAPPER_BYTES <= file->fatbin_wrappers.size_bytes;
         at += FATBIN_WRAPPER_BYTES) {
        uint32_t words[2];
        memcpy(words, file->fatbin_wrappers.data + at, sizeof words);
        if (words[0] == FATBIN_WRAPPER_MAGIC && words[1] == FATBIN_WRAPPER_RELOCATABLE) {
            return error_set(err, ERR_INVALID,
                             "the library has relocatable device code (-rdc), which is not "
                             "supported");
        }
    }
    return OK;
}

enum status elf_scan(const void *data, size_t size_bytes, struct elf_facts *facts,
                     struct error *err)
{
    struct file file = {.all = {data, size_bytes}};
    enum status status = OK;

    if (size_bytes > ELF_BYTES_MAX) {
        return error_set(err, ERR_INVALID,
                         "the library that the build made has %zu bytes; at most %d", size_bytes,
                         ELF_BYTES_MAX);
    }
    status = read_header(&file, err);
    if (status == OK) {
        status = read_dynamic(&file, err);
    }
    if (status == OK) {
        status = check_dynamic(&file, err);
    }
    if (status == OK) {
        status = read_sections(&file, err);
    }
    if (status == OK) {
        status = check_symbols(&file, err);
    }
    if (status == OK) {
        status = check_device_code(&file, err);
    }
    if (status == OK) {
        facts->uses_nccl = file.has_nccl;
    }
    return status;
}
