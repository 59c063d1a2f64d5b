#include "worker/xid.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct xid_cause causes[] = {
    {8, XID_OF_SUBMISSION, XID_CONTINUE, "the GPU stopped in the middle of a channel's work"},
    {11, XID_OF_SUBMISSION, XID_CONTINUE, "a channel sent commands that make no sense"},
    {13, XID_OF_SUBMISSION, XID_CONTINUE, "a kernel did what the GPU cannot do"},
    {31, XID_OF_SUBMISSION, XID_CONTINUE, "a kernel reached for memory that is not mapped"},
    {32, XID_OF_NODE, XID_RETRY, "commands were damaged on their way to the GPU"},
    {37, XID_OF_NODE, XID_RETRY, "the driver's firmware made an error"},
    {38, XID_OF_NODE, XID_RETRY, "the driver's firmware made an error"},
    {39, XID_OF_NODE, XID_RETRY, "a copy engine failed"},
    {43, XID_OF_SUBMISSION, XID_CONTINUE, "a channel was ended after an error of its program"},
    {44, XID_OF_NODE, XID_RETRY, "the GPU failed at a switch between contexts"},
    {45, XID_OF_SUBMISSION, XID_CONTINUE, "a channel was cleaned up: its program was ended"},
    {46, XID_OF_HARDWARE, XID_RESET, "the GPU stopped and did not go on"},
    {48, XID_OF_HARDWARE, XID_RESET, "two bits of memory were wrong (ECC), beyond correction"},
    {61, XID_OF_HARDWARE, XID_RESET, "the GPU's own controller halted at an error"},
    {62, XID_OF_HARDWARE, XID_RESET, "the GPU's own controller halted"},
    {63, XID_OF_HARDWARE, XID_FINISH, "memory is to be remapped at the next reset"},
    {64, XID_OF_HARDWARE, XID_FINISH, "memory could not be remapped"},
    {66, XID_OF_NODE, XID_RETRY, "the driver reached for an address that it may not use"},
    {68, XID_OF_NODE, XID_RETRY, "the video decoder failed"},
    {69, XID_OF_SUBMISSION, XID_CONTINUE, "a kernel's state was set in a way that the GPU refuses"},
    {72, XID_OF_NODE, XID_RETRY, "a copy engine failed"},
    {74, XID_OF_HARDWARE, XID_RESET, "a link to another GPU failed (NVLink)"},
    {79, XID_OF_HARDWARE, XID_RESET, "the GPU has left the bus"},
    {80, XID_OF_HARDWARE, XID_RESET, "data to the GPU arrived damaged"},
    {92, XID_OF_HARDWARE, XID_FINISH, "memory has to be corrected too often"},
    {94, XID_OF_HARDWARE, XID_RETRY, "memory was wrong (ECC), and only this program saw it"},
    {95, XID_OF_HARDWARE, XID_RESET, "memory was wrong (ECC), and any program may have seen it"},
    {109, XID_OF_NODE, XID_RETRY, "a switch between contexts took too long"},
    {110, XID_OF_HARDWARE, XID_RESET, "the GPU's guard against tampering tripped"},
    {119, XID_OF_HARDWARE, XID_RESET, "the GPU's system processor does not answer"},
    {120, XID_OF_HARDWARE, XID_RESET, "the GPU's system processor failed"},
    {121, XID_OF_HARDWARE, XID_CONTINUE, "an error between chips was corrected"},
    {122, XID_OF_HARDWARE, XID_FINISH, "the GPU's flash memory cannot be read"},
    {123, XID_OF_HARDWARE, XID_FINISH, "the GPU's flash memory cannot be written"},
    {136, XID_OF_HARDWARE, XID_RESET, "training a link to another GPU failed (NVLink)"},
    {137, XID_OF_SUBMISSION, XID_CONTINUE,
     "a kernel reached for another GPU's memory in a way "
     "that the links refuse"},
    {140, XID_OF_HARDWARE, XID_RESET, "memory was wrong (ECC) and could not be repaired"},
    {143, XID_OF_HARDWARE, XID_RESET, "the GPU could not be set up"},
    {144, XID_OF_HARDWARE, XID_RESET, "a link to another GPU failed (NVLink)"},
    {145, XID_OF_HARDWARE, XID_RESET, "a link to another GPU failed (NVLink)"},
    {146, XID_OF_HARDWARE, XID_RESET, "a link to another GPU failed (NVLink)"},
    {147, XID_OF_HARDWARE, XID_RESET, "a link to another GPU failed (NVLink)"},
    {148, XID_OF_HARDWARE, XID_RESET, "a link to another GPU failed (NVLink)"},
    {149, XID_OF_HARDWARE, XID_RESET, "a link to another GPU failed (NVLink)"},
    {150, XID_OF_HARDWARE, XID_RESET, "a link to another GPU failed (NVLink)"},
    {154, XID_OF_HARDWARE, XID_FINISH, "the driver asks for a reset of the GPU or the machine"},
    {155, XID_OF_NODE, XID_RETRY, "the driver took a link to another GPU down (NVLink)"},
    {156, XID_OF_HARDWARE, XID_FINISH, "a part of the GPU is to be retired at the next reset"},
    {157, XID_OF_HARDWARE, XID_FINISH, "a part of the GPU could not be retired"},
    {158, XID_OF_HARDWARE, XID_RESET, "the GPU did not answer in time"},
    {160, XID_OF_HARDWARE, XID_FINISH, "a channel of memory is to be retired at the next reset"},
    {161, XID_OF_HARDWARE, XID_FINISH, "a channel of memory could not be retired"},
    {171, XID_OF_HARDWARE, XID_RESET, "memory of the GPU was wrong, beyond correction"},
    {172, XID_OF_HARDWARE, XID_RESET, "memory inside the GPU was wrong, beyond correction"},
};

/* Nobody knows whether the GPU is sound, so the job's answer is not taken; the gate decides. */
static const struct xid_cause unknown = {0, XID_OF_UNKNOWN, XID_RETRY,
                                         "an error that this program does not know"};

const char *xid_fault_name(enum xid_fault fault)
{
    static const char *const names[XID_FAULTS] = {"submission", "node", "hardware", "unknown"};

    return names[fault];
}

const char *xid_action_name(enum xid_action action)
{
    static const char *const names[XID_ACTIONS] = {"continue", "retry", "finish", "reset"};

    return names[action];
}

const struct xid_cause *xid_table(size_t *count)
{
    *count = sizeof causes / sizeof *causes;
    return causes;
}

const struct xid_cause *xid_cause(int number)
{
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        if (causes[i].number == number) {
            return &causes[i];
        }
    }
    return &unknown;
}

/* Hexadecimal digits, `min` to `max` of them, and nothing else before them. */
static bool read_hex(unsigned *value, const char **text, int min, int max)
{
    char digits[16] = "";
    int count = 0;

    while (count < max && isxdigit((unsigned char)(*text)[count])) {
        digits[count] = (*text)[count];
        count++;
    }
    *value = (unsigned)strtoul(digits, NULL, 16);
    *text += count;
    return count >= min;
}

bool pci_address_read(struct pci_address *address, const char *text, const char **end)
{
    struct pci_address read = {0};
    unsigned function = 0;

    if (!read_hex(&read.domain, &text, 4, 8) || *text++ != ':' ||
        !read_hex(&read.bus, &text, 2, 2) || *text++ != ':' ||
        !read_hex(&read.device, &text, 2, 2)) {
        return false;
    }
    if (*text == '.') {
        text++;
        if (!read_hex(&function, &text, 1, 1)) {
            return false;
        }
    }
    *address = read;
    *end = text;
    return true;
}

void pci_address_write(const struct pci_address *address, char text[static PCI_TEXT_MAX])
{
    (void)snprintf(text, PCI_TEXT_MAX, "%04x:%02x:%02x", address->domain, address->bus,
                   address->device);
}

bool pci_address_equals(const struct pci_address *address, const struct pci_address *other)
{
    return address->domain == other->domain && address->bus == other->bus &&
           address->device == other->device;
}

bool xid_read(struct xid *xid, const char *message)
{
    static const char start[] = "NVRM: Xid (";
    static const char bus[] = "PCI:";
    struct xid read = {0};
    const char *at = message + strlen(start);
    char *end = NULL;

    if (strncmp(message, start, strlen(start)) != 0) {
        return false;
    }
    at += strncmp(at, bus, strlen(bus)) == 0 ? strlen(bus) : 0;
    if (!pci_address_read(&read.gpu, at, &at)) {
        return false;
    }
    at += *at == ' ' ? strcspn(at, ")") : 0; /* " GPU-I:05": a part of the GPU */
    if (strncmp(at, "): ", 3) != 0 || !isdigit((unsigned char)at[3])) {
        return false;
    }
    unsigned long number = strtoul(at + 3, &end, 10);
    if (number == 0 || number > XID_MAX || (*end != ',' && *end != 0)) {
        return false;
    }
    read.number = (int)number;
    *xid = read;
    return true;
}

bool xid_read_record(struct xid *xid, const char *record)
{
    const char *text = strchr(record, ';');
    char *end = NULL;

    if (text == NULL || !isdigit((unsigned char)record[0])) {
        return false;
    }
    unsigned long priority = strtoul(record, &end, 10);
    /* The lowest three bits are the level; above them is who writes, and 0 is the kernel. */
    return *end == ',' && priority >> 3 == 0 && xid_read(xid, text + 1);
}
