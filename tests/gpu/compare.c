/*
 * compare.c — holds two output files of one kernel of the differential test against each other.
 *
 *     compare A B
 *
 * Prints one line an output: name, elements, largest difference over its bound. Exits 0 when every
 * exact output has equal bits and every bounded one keeps |a - b| <= bound (both bounds must be
 * equal, as they come from the same inputs; a NaN only meets a NaN).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 128, ELEMENTS_MAX = 1 << 26 };

struct output {
    char name[NAME_MAX_BYTES];
    int is_exact;
    size_t count, size_bytes;
    void *data;
};

/* Reads the next output: 1, 0 at the end, -1 where the file is broken. */
static int read_output(FILE *file, struct output *output)
{
    char line[2 * NAME_MAX_BYTES];

    if (fgets(line, sizeof line, file) == NULL) {
        return 0;
    }
    /* NAME may hold spaces: the last three words are kind, count and size. */
    char *words[3];
    for (int i = 0; i < 3; i++) {
        char *space = strrchr(line, ' ');
        if (space == NULL) {
            return -1;
        }
        words[i] = space + 1;
        *space = 0;
    }
    size_t length = strlen(line);
    if (length >= sizeof output->name) {
        return -1;
    }
    memcpy(output->name, line, length + 1);
    output->is_exact = strcmp(words[2], "exact") == 0;
    output->count = strtoull(words[1], NULL, 10);
    output->size_bytes = strtoull(words[0], NULL, 10);
    if (output->count > ELEMENTS_MAX || output->size_bytes > 16) {
        return -1;
    }
    size_t bytes = output->count * output->size_bytes * (output->is_exact ? 1 : 2);
    output->data = malloc(bytes + 1);
    if (output->data == NULL || fread(output->data, 1, bytes, file) != bytes) {
        return -1;
    }
    return 1;
}

static size_t count_unequal(const struct output *a, const struct output *b)
{
    size_t unequal = 0;

    for (size_t i = 0; i < a->count; i++) {
        size_t at = i * a->size_bytes;
        const char *left = (const char *)a->data + at, *right = (const char *)b->data + at;
        if (memcmp(left, right, a->size_bytes) != 0) {
            if (unequal++ < 3) {
                unsigned long long x = 0, y = 0;
                memcpy(&x, left, a->size_bytes < 8 ? a->size_bytes : 8);
                memcpy(&y, right, a->size_bytes < 8 ? a->size_bytes : 8);
                printf("    [%zu] %llx, other %llx\n", i, x, y);
            }
        }
    }
    return unequal;
}

static size_t count_beyond(const struct output *a, const struct output *b, double *largest)
{
    const double *x = a->data, *y = b->data;
    const double *bound = x + a->count;
    size_t beyond = 0;

    for (size_t i = 0; i < a->count; i++) {
        double difference = fabs(x[i] - y[i]);
        if (isnan(x[i]) && isnan(y[i])) {
            continue;
        }
        if (x[i] != y[i]) {
            *largest = fmax(*largest, difference / bound[i]);
        }
        if (x[i] != y[i] && !(difference <= bound[i])) {
            if (beyond++ < 3) {
                printf("    [%zu] %.9g, other %.9g, bound %.3g\n", i, x[i], y[i], bound[i]);
            }
        }
    }
    return beyond;
}

/* Prints how one pair compares; 1 where it is wrong. */
static int compare_outputs(const struct output *a, const struct output *b)
{
    if (strcmp(a->name, b->name) != 0 || a->is_exact != b->is_exact || a->count != b->count ||
        a->size_bytes != b->size_bytes) {
        printf("  '%s' and '%s' are not the same output\n", a->name, b->name);
        return 1;
    }
    double largest = 0;
    size_t bad = a->is_exact ? count_unequal(a, b) : count_beyond(a, b, &largest);
    printf("  %-20s %8zu %s %zu wrong", a->name, a->count, a->is_exact ? "exact" : "bounded", bad);
    if (!a->is_exact) {
        printf(", %.3f of the bound", largest);
    }
    printf("\n");
    return bad > 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fprintf(stderr, "usage: compare A B\n");
        return 2;
    }
    FILE *files[2] = {fopen(argv[1], "rb"), fopen(argv[2], "rb")};
    if (files[0] == NULL || files[1] == NULL) {
        perror(files[0] == NULL ? argv[1] : argv[2]);
        return 2;
    }
    int wrong = 0, outputs = 0;
    for (;; outputs++) {
        struct output a = {0}, b = {0};
        int more = read_output(files[0], &a), other = read_output(files[1], &b);
        if (more <= 0 || other <= 0) {
            wrong += more != other || more < 0;
            free(a.data);
            free(b.data);
            break;
        }
        wrong += compare_outputs(&a, &b);
        free(a.data);
        free(b.data);
    }
    (void)fclose(files[0]);
    (void)fclose(files[1]);
    return wrong > 0 || outputs == 0;
}
